package artifactstore

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3 is a bucket of anything that speaks S3's protocol.
type s3 struct {
	client      *minio.Client
	credentials *credentials.Credentials
	bucket      string
	region      string
	howToGive   string // the credentials
}

const (
	dialTime   = 5 * time.Second // to reach a store
	answerTime = time.Minute     // for its answer to a whole request
	// maxAnswerBytes bounds the part of an answer that is read.
	maxAnswerBytes = 64 << 10
	// metadataTime is the time in which the machine's own metadata service must identify itself.
	metadataTime = 2 * time.Second
)

func openS3(a Address, client *http.Client, lookup func(string) (string, bool)) (bucket, error) {
	get := func(name string) string { value, _ := lookup(name); return value }
	if endpoint := cmp.Or(get("AWS_ENDPOINT_URL_S3"), get("AWS_ENDPOINT_URL")); a.endpoint == nil && endpoint != "" {
		var err error
		if a.endpoint, err = parseEndpoint(endpoint); err != nil {
			return nil, &known{words: "AWS_ENDPOINT_URL is malformed: " + err.Error()}
		}
	}
	a.region = cmp.Or(a.region, get("AWS_REGION"), get("AWS_DEFAULT_REGION"))
	var sources []credentials.Provider
	if id, secret := get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY"); id != "" && secret != "" {
		sources = append(sources, &credentials.Static{Value: credentials.Value{
			AccessKeyID: id, SecretAccessKey: secret, SessionToken: get("AWS_SESSION_TOKEN"), SignerType: credentials.SignatureV4,
		}})
	}
	sources = append(sources, &credentials.FileAWSCredentials{Filename: get("AWS_SHARED_CREDENTIALS_FILE"), Profile: get("AWS_PROFILE")})
	if a.endpoint == nil && !strings.EqualFold(get("AWS_EC2_METADATA_DISABLED"), "true") {
		sources = append(sources, &credentials.IAM{})
	}
	if a.endpoint == nil {
		a.endpoint = &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	}
	return newS3(a, client, credentials.NewChainCredentials(sources), "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
}

// openGoogle opens a bucket of Google Cloud Storage by its interface that takes S3's protocol, with an HMAC key.
func openGoogle(a Address, client *http.Client, lookup func(string) (string, bool)) (bucket, error) {
	id, _ := lookup("GS_ACCESS_KEY_ID")
	secret, _ := lookup("GS_SECRET_ACCESS_KEY")
	if id == "" || secret == "" {
		return nil, &known{words: "there are no credentials; set GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY to an HMAC key of a service account"}
	}
	if a.endpoint == nil {
		a.endpoint = &url.URL{Scheme: "https", Host: "storage.googleapis.com"}
	}
	a.region = "us-east-1" // by which Google puts a new bucket where it does by default, and signatures are as good as any
	return newS3(a, client, credentials.NewStaticV4(id, secret, ""), "")
}

func newS3(a Address, via *http.Client, c *credentials.Credentials, howToGive string) (bucket, error) {
	client, err := minio.New(a.endpoint.Host, &minio.Options{
		Creds: c, Secure: a.endpoint.Scheme == "https", Region: a.region, Transport: via.Transport, MaxRetries: 1,
	})
	if err != nil {
		return nil, &known{words: "the endpoint is malformed"}
	}
	return &s3{client, c, a.bucket, a.region, howToGive}, nil
}

// transport is that of http, with a shorter patience.
type transport struct{ *http.Transport }

func newTransport() transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	t.DialContext = (&net.Dialer{Timeout: dialTime}).DialContext
	t.ResponseHeaderTimeout = answerTime
	t.MaxIdleConnsPerHost = atOnce
	t.DisableCompression = true
	return transport{t}
}

// RoundTrip implements http.RoundTripper. Answers of a store are short, and its libraries would read any of an error whole.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := t.Transport.RoundTrip(request)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswerBytes), answer.Body}
	}
	return answer, err
}

func (b *s3) put(ctx context.Context, key, mime string, size int64, content io.Reader) error {
	if value, err := b.credentials.GetWithContext(&credentials.CredContext{Client: &http.Client{Timeout: metadataTime}}); err != nil || value.AccessKeyID == "" {
		return &known{words: "there are no credentials; " + b.howToGive}
	}
	// In one request: parts would be held in memory, and an upload that is broken off would leave some behind.
	_, err := b.client.PutObject(ctx, b.bucket, key, content, size, minio.PutObjectOptions{ContentType: mime, DisableMultipart: true})
	return err
}

func (b *s3) create(ctx context.Context) error {
	err := b.client.MakeBucket(ctx, b.bucket, minio.MakeBucketOptions{Region: b.region})
	if code := minio.ToErrorResponse(err).Code; code == "BucketAlreadyOwnedByYou" || code == "BucketAlreadyExists" {
		return nil
	}
	return err
}

func (b *s3) link(ctx context.Context, key string, lifetime time.Duration) (string, error) {
	u, err := b.client.PresignedGetObject(ctx, b.bucket, key, lifetime, nil)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}
