package artifactstore

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// google is a bucket of Google Cloud Storage that a service account's key opens. Google's own library would make the program
// half as large again, so requests are made by signed addresses, as those that are given away are.
type google struct {
	client   *http.Client
	endpoint url.URL
	bucket   string
	account  serviceAccount
	key      *rsa.PrivateKey
}

// serviceAccount is the file in which Google stores a service account's key.
type serviceAccount struct {
	Type    string `json:"type"`
	Project string `json:"project_id"`
	KeyID   string `json:"private_key_id"`
	KeyPEM  string `json:"private_key"`
	Email   string `json:"client_email"`
}

const (
	googleTime = "20060102T150405Z"
	// requestTime is the lifetime of an address for the server's own use.
	requestTime = 2 * uploadTime
)

func openGoogle(a Address, client *http.Client, lookup func(string) (string, bool)) (bucket, error) {
	get := func(name string) string { value, _ := lookup(name); return value }
	if a.endpoint == nil {
		a.endpoint = &url.URL{Scheme: "https", Host: "storage.googleapis.com"}
	}
	if id, secret := get("GS_ACCESS_KEY_ID"), get("GS_SECRET_ACCESS_KEY"); id != "" && secret != "" {
		a.region = "us-east-1" // by which Google puts a new bucket where it does by default, and signatures are as good as any
		return newS3(a, client, credentials.NewStaticV4(id, secret, ""), "")
	}
	path := get("GOOGLE_APPLICATION_CREDENTIALS")
	if path == "" {
		return nil, &known{words: "there are no credentials; set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account, or GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY to an HMAC key"}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &known{words: "the file of GOOGLE_APPLICATION_CREDENTIALS cannot be read"}
	}
	g := &google{client: client, endpoint: *a.endpoint, bucket: a.bucket}
	if err := json.Unmarshal(text, &g.account); err == nil && g.account.Type == "service_account" && g.account.Email != "" {
		g.key, err = jwt.ParseRSAPrivateKeyFromPEM([]byte(g.account.KeyPEM))
		if err == nil {
			return g, nil
		}
	}
	return nil, &known{words: "the file of GOOGLE_APPLICATION_CREDENTIALS is no key file of a service account"}
}

// sign returns an address by which anybody can do one thing with an object, as Google's V4 signing process says.
func (g *google) sign(method, key string, lifetime time.Duration, now time.Time) (string, error) {
	now = now.UTC()
	scope := now.Format("20060102") + "/auto/storage/goog4_request"
	query := escaped(url.Values{
		"X-Goog-Algorithm": {"GOOG4-RSA-SHA256"}, "X-Goog-Credential": {g.account.Email + "/" + scope},
		"X-Goog-Date": {now.Format(googleTime)}, "X-Goog-Expires": {fmt.Sprint(int64(lifetime.Seconds()))}, "X-Goog-SignedHeaders": {"host"},
	}.Encode())
	names := strings.Split(g.bucket+"/"+key, "/")
	for i, name := range names {
		names[i] = escaped(url.QueryEscape(name))
	}
	path := "/" + strings.Join(names, "/")
	request := sha256.Sum256([]byte(strings.Join([]string{method, path, query, "host:" + g.endpoint.Host, "", "host", "UNSIGNED-PAYLOAD"}, "\n")))
	text := sha256.Sum256([]byte(strings.Join([]string{"GOOG4-RSA-SHA256", now.Format(googleTime), scope, hex.EncodeToString(request[:])}, "\n")))
	signature, err := rsa.SignPKCS1v15(nil, g.key, crypto.SHA256, text[:])
	if err != nil {
		return "", err
	}
	return g.endpoint.Scheme + "://" + g.endpoint.Host + path + "?" + query + "&X-Goog-Signature=" + hex.EncodeToString(signature), nil
}

// escaped writes a space of a form as one of an address.
func escaped(form string) string { return strings.ReplaceAll(form, "+", "%20") }

func (g *google) put(ctx context.Context, key, mime string, size int64, content io.Reader) error {
	address, err := g.sign(http.MethodPut, key, requestTime, time.Now())
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, address, io.NopCloser(content))
	if err != nil {
		return err
	}
	if request.ContentLength = size; size == 0 {
		request.Body = http.NoBody
	}
	request.Header.Set("Content-Type", mime)
	return g.do(request)
}

func (g *google) create(ctx context.Context) error {
	body, err := json.Marshal(map[string]string{"name": g.bucket})
	if err != nil {
		return err
	}
	api := g.endpoint.Scheme + "://" + g.endpoint.Host
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, api+"/storage/v1/b?project="+url.QueryEscape(g.account.Project), bytes.NewReader(body))
	if err != nil {
		return err
	}
	// The account signs this token itself: nothing must be fetched first.
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": g.account.Email, "sub": g.account.Email, "aud": "https://storage.googleapis.com/",
		"iat": time.Now().Unix(), "exp": time.Now().Add(requestTime).Unix(),
	})
	token.Header["kid"] = g.account.KeyID
	signed, err := token.SignedString(g.key)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+signed)
	request.Header.Set("Content-Type", "application/json")
	err = g.do(request)
	if status, _ := answerOf(err); status == http.StatusConflict {
		return nil
	}
	return err
}

func (g *google) link(_ context.Context, key string, lifetime time.Duration) (string, error) {
	return g.sign(http.MethodGet, key, lifetime, time.Now())
}

func (g *google) do(request *http.Request) error {
	answer, err := g.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode < http.StatusMultipleChoices {
		_, err := io.Copy(io.Discard, answer.Body) // so that the connection can be used again
		return err
	}
	said := minio.ErrorResponse{}
	_ = xml.NewDecoder(answer.Body).Decode(&said) // an answer that is no XML leaves its status alone
	said.StatusCode = answer.StatusCode
	return said
}
