//go:build unix

package artifactstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/stores"
)

// session is the files of a session, by their paths.
type session map[string]string

func (s session) open(_ context.Context, path string) (io.ReadCloser, int64, error) {
	content, ok := s[path]
	if !ok {
		return nil, 0, fault.New(fault.NotFound, "", "There is no file %q.", path)
	}
	// Nothing that seeks: a session's files do not.
	return io.NopCloser(io.MultiReader(strings.NewReader(content))), int64(len(content)), nil
}

func (s session) list() (files []artifactstore.File) {
	for path, content := range s {
		files = append(files, artifactstore.File{Path: path, SizeBytes: int64(len(content)), MIMEType: "text/plain; charset=utf-8"})
	}
	return files
}

type environment map[string]string

func (e environment) lookup(name string) (string, bool) { value, ok := e[name]; return value, ok }

// with is the environment with other values.
func (e environment) with(other environment) environment {
	all := maps.Clone(e)
	maps.Copy(all, other)
	return all
}

func open(t *testing.T, address string, env environment, change func(*artifactstore.Options)) *artifactstore.Store {
	t.Helper()
	parsed := must.Get(artifactstore.Parse(address))(t)
	o := artifactstore.Options{LinkLifetime: time.Hour, FileBytes: 1 << 20, Lookup: env.lookup, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	return artifactstore.Open(parsed, o)
}

func s3Env(secret string) environment {
	return environment{"AWS_ACCESS_KEY_ID": stores.Key, "AWS_SECRET_ACCESS_KEY": secret}
}

// place is a running store.
type place struct {
	address string // of a bucket that is not there yet
	options string
	env     environment
	// wrong is the environment with a secret that does not open it.
	wrong environment
	// down is the environment, and the options, with an address where nothing listens.
	down        environment
	downOptions string
}

func places(t *testing.T) map[string]place {
	azure, s3 := stores.Azure(t), stores.S3(t)
	const nobody = "http://127.0.0.1:1"
	connection := environment{"AZURE_STORAGE_CONNECTION_STRING": azure}
	gs := environment{"GS_ACCESS_KEY_ID": stores.Key, "GS_SECRET_ACCESS_KEY": stores.Secret}
	return map[string]place{
		"Azure": {
			address: "azblob://artifacts/some/prefix", env: connection,
			wrong: environment{"AZURE_STORAGE_CONNECTION_STRING": strings.Replace(azure, stores.Secret, "d3Jvbmcta2V5LXdyb25nLWtleQ==", 1)},
			down:  environment{"AZURE_STORAGE_CONNECTION_STRING": strings.Replace(azure, blobHost(azure), "127.0.0.1:1", 1)},
		},
		"S3": {
			address: "s3://artifacts/some/prefix", options: "?endpoint=" + s3, env: s3Env(stores.Secret), wrong: s3Env("wrong-secret"),
			down: s3Env(stores.Secret), downOptions: "?endpoint=" + nobody,
		},
		"S3 by a file": {
			address: "s3://artifacts-of-a-file", options: "?endpoint=" + s3, env: profile(t, stores.Secret), wrong: profile(t, "wrong-secret"),
			down: profile(t, stores.Secret), downOptions: "?endpoint=" + nobody,
		},
		"Google": { // takes what S3 does; the server above knows no such keys
			address: "gs://artifacts-of-gs", options: "?endpoint=" + s3, env: gs, wrong: gs.with(environment{"GS_SECRET_ACCESS_KEY": "wrong-secret"}),
			down: gs, downOptions: "?endpoint=" + nobody,
		},
	}
}

// profile is an environment with credentials in a file.
func profile(t *testing.T, secret string) environment {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id = other\naws_secret_access_key = other\n[work]\naws_access_key_id = %s\naws_secret_access_key = %s\n", stores.Key, secret)
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return environment{"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "work"}
}

func blobHost(connection string) string {
	_, rest, _ := strings.Cut(connection, "BlobEndpoint=http://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// hostile are names that mean something in an address, or are seldom seen.
var hostile = []string{
	"output/plain.txt", "a b+c.txt", "what?.txt", "part#1.txt", "100%.txt", "%2e%2e%2fetc", "a&b=c;d.txt", "'quotes' \"double\".txt",
	"ünïcödé/日本語.csv", "emoji-🎉.txt", "cafe\u0301.txt", "a:b@c|d.txt", "$(id)`id`.txt", "<script>.html", "[1]{2}~!^*(),.txt", ".hidden/.dot", "...",
	strings.Repeat("long/", 100) + strings.Repeat("x", 200) + ".txt",
}

func TestFilesAreReadByTheirAddresses(t *testing.T) {
	for name, p := range places(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, p.address+p.options, p.env, nil)
			files := session{"empty": "", "large.bin": strings.Repeat("0123456789abcdef", 64<<10)}
			for _, path := range hostile {
				files[path] = "content of " + path
			}
			for _, round := range []string{"", "changed "} { // the second replaces what the first made
				files["again.txt"] = round
				got := s.Upload(t.Context(), artifactstore.Batch{Session: "my-session", Files: files.list(), Open: files.open})
				must.Hold(t, got.Note == "" && len(got.Links) == len(files),
					"%d of %d files have an address: %s", len(got.Links), len(files), got.Note)
				for path, content := range files {
					status, mime, body := get(t, http.MethodGet, got.Links[path])
					if status != http.StatusOK || body != content || mime != "text/plain; charset=utf-8" {
						t.Errorf("%q: %d %s, %.100q at %s", path, status, mime, body, got.Links[path])
					}
				}
			}
			other := s.Upload(t.Context(), artifactstore.Batch{Session: "other", Files: session{"again.txt": "of another"}.list(), Open: session{"again.txt": "of another"}.open})
			_, _, body := get(t, http.MethodGet, other.Links["again.txt"])
			should.Hold(t, body == "of another", "the other session's file is %q", body)
			should.Equal(t, s.String(), p.address, "the store")
			refused(t, other.Links["again.txt"])
		})
	}
}

// refused tries what an address is not for.
func refused(t *testing.T, link string) {
	t.Helper()
	u := must.Get(url.Parse(link))(t)
	bare, elsewhere := *u, *u
	bare.RawQuery = ""
	elsewhere.Path, elsewhere.RawPath = strings.Replace(u.Path, "/other/", "/my-session/", 1), ""
	for what, try := range map[string]struct{ method, address string }{
		"writing":               {http.MethodPut, link},
		"removing":              {http.MethodDelete, link},
		"reading another file":  {http.MethodGet, elsewhere.String()},
		"reading without leave": {http.MethodGet, bare.String()},
		"a changed lifetime": {http.MethodGet, strings.NewReplacer("X-Amz-Expires=3600", "X-Amz-Expires=7200", "se=20", "se=21").
			Replace(link)},
	} {
		status, _, body := get(t, try.method, try.address)
		should.Hold(t, status >= 400, "%s: %d %.200s", what, status, body)
	}
}

func get(t *testing.T, method, address string) (status int, mime, body string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, address, nil))(t)
	if method == http.MethodPut {
		request.Header.Set("x-ms-blob-type", "BlockBlob")
	}
	answer := must.Get(http.DefaultClient.Do(request))(t)
	defer answer.Body.Close()
	content := must.Get(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, answer.Header.Get("Content-Type"), string(content)
}

func TestALogHasNoSignature(t *testing.T) {
	var log bytes.Buffer
	env := environment{"AZURE_STORAGE_CONNECTION_STRING": "BlobEndpoint=http://127.0.0.1:1/a;SharedAccessSignature=sv=2024-11-04&ss=b&sig=hunter22"}
	s := open(t, "azblob://artifacts", env, func(o *artifactstore.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	got := s.Upload(t.Context(), artifactstore.Batch{Session: "s", Files: session{"a.txt": "a"}.list(), Open: session{"a.txt": "a"}.open})
	text := got.Note + log.String()
	should.Hold(t, !strings.Contains(text, "hunter22") && strings.Contains(text, "refused"), "it says %s", text)
}

func TestAStoreThatCannotBeUsedIsANote(t *testing.T) {
	files := session{"a.txt": "a", "b.txt": "b"}
	for name, p := range places(t) {
		for what, test := range map[string]struct {
			options string
			env     environment
			want    string
		}{
			"wrong credentials": {p.options, p.wrong, ": the store refuses the credentials (403 "},
			"no credentials":    {p.options, environment{"AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}, ": there are no credentials; "},
			"down":              {p.downOptions, p.down, ": the store cannot be reached."},
		} {
			if test.env == nil {
				continue
			}
			t.Run(name+" "+what, func(t *testing.T) {
				var log bytes.Buffer
				s := open(t, p.address+test.options, test.env, func(o *artifactstore.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				got := s.Upload(t.Context(), artifactstore.Batch{Session: "s", Files: files.list(), Open: files.open})
				want := "2 of 2 files not uploaded to " + p.address + test.want
				should.Hold(t, len(got.Links) == 0 && strings.HasPrefix(got.Note, want), "%v\n%s\nwant %s", got.Links, got.Note, want)
				for variable, value := range test.env {
					if strings.Contains(variable, "SECRET") && strings.Contains(got.Note+log.String(), value) || strings.Contains(got.Note+log.String(), "AccountKey=") {
						t.Errorf("a secret is in %s\n%s", got.Note, log.String())
					}
				}
			})
		}
	}
}

// answers is an S3 that answers each request with the next of its answers, and then always the last.
func answers(t *testing.T, list ...string) (endpoint string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		next := list[min(int(requests.Add(1)), len(list))-1]
		var status int
		var code string
		_, _ = fmt.Sscan(next, &status, &code)
		w.WriteHeader(status)
		if code != "" {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>hunter22 of the store</Message></Error>", code)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func TestErrorsOfTheStore(t *testing.T) {
	for name, test := range map[string]struct {
		answers  []string
		want     string // of the note, behind the store; empty: it works in the end
		requests int32
	}{
		"works at once":                {[]string{"200"}, "", 1},
		"works the third time":         {[]string{"503 SlowDown", "500 InternalError", "200"}, "", 3},
		"never works":                  {[]string{"503 SlowDown"}, "the store has a problem (503 SlowDown)", 3},
		"makes the bucket":             {[]string{"404 NoSuchBucket", "200", "200"}, "", 3},
		"somebody else makes it":       {[]string{"404 NoSuchBucket", "409 BucketAlreadyOwnedByYou", "200"}, "", 3},
		"may not make the bucket":      {[]string{"404 NoSuchBucket", "403 AccessDenied"}, "the bucket is not there and could not be made: the store refuses the credentials (403 AccessDenied)", 2},
		"cannot make the bucket":       {[]string{"404 NoSuchBucket", "400 InvalidBucketName"}, "the bucket is not there and could not be made: the store refuses it (400 InvalidBucketName)", 2},
		"refuses":                      {[]string{"403 SignatureDoesNotMatch"}, "the store refuses the credentials (403 SignatureDoesNotMatch)", 1},
		"refuses with a code of words": {[]string{"400 hunter22/of/the/store"}, "the store refuses it (400)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint, requests := answers(t, test.answers...)
			s := open(t, "s3://bucket?region=here&endpoint="+endpoint, s3Env("secret"), nil)
			files := session{"a.txt": "content"}
			got := s.Upload(t.Context(), artifactstore.Batch{Session: "s", Files: files.list(), Open: files.open})
			want := ""
			if test.want != "" {
				want = "1 of 1 files not uploaded to s3://bucket: " + test.want + "."
			}
			should.Hold(t, got.Note == want && (got.Links["a.txt"] != "") == (want == ""),
				"got %q, %v; want %q", got.Note, got.Links, want)
			should.Equal(t, requests.Load(), test.requests)
		})
	}
}

func TestFilesThatAreNotUploaded(t *testing.T) {
	endpoint, _ := answers(t, "200")
	s := open(t, "s3://bucket?region=here&endpoint="+endpoint, s3Env("secret"), func(o *artifactstore.Options) { o.FileBytes = 10 })
	content := session{"good": "0123456789", "large": "0123456789x", strings.Repeat("k/", 511) + "k": ""}
	files := append(content.list(), artifactstore.File{Path: "gone"}, artifactstore.File{Path: "broken"}, artifactstore.File{Path: "shorter"})
	got := s.Upload(t.Context(), artifactstore.Batch{Session: "s", Files: files, Open: func(ctx context.Context, path string) (io.ReadCloser, int64, error) {
		switch path {
		case "broken":
			return io.NopCloser(io.MultiReader(strings.NewReader("ab"), broken{})), 5, nil
		case "shorter":
			return io.NopCloser(io.MultiReader(strings.NewReader("ab"))), 5, nil
		}
		return content.open(ctx, path)
	}})
	want := "5 of 6 files not uploaded to s3://bucket: " + strings.Join([]string{
		`larger than 10 B, the most that is uploaded (large)`,
		`the file could not be read: The sandbox is gone. (broken)`,
		`the file could not be read: There is no file "gone". (gone)`,
		`the file was changed while it was uploaded (shorter)`,
		`the path is too long for the store, which takes 1024 bytes with the prefix and the session (` + strings.Repeat("k/", 40) + "…)",
	}, "; ") + "."
	should.Hold(t, got.Note == want && len(got.Links) == 1 && got.Links["good"] != "", "got  %s\nwant %s\n%v", got.Note, want, got.Links)
}

type broken struct{}

func (broken) Read([]byte) (int, error) {
	return 0, fault.New(fault.EngineError, "", "The sandbox is gone.")
}

func TestAStoreThatDoesNotAnswer(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	files := session{"a": "a"}
	var mu sync.Mutex
	now := time.Now()
	s := open(t, "s3://bucket?region=here&endpoint=http://"+silent.Addr().String(), s3Env("secret"), func(o *artifactstore.Options) {
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got := s.Upload(ctx, artifactstore.Batch{Session: "s", Files: files.list(), Open: files.open})
	should.Equal(t, got.Note, "1 of 1 files not uploaded to s3://bucket: the store does not answer.")
	// It is left alone for a while, which costs the next run no time and reads no file of it.
	opened := errors.New("opened")
	untouched := func(context.Context, string) (io.ReadCloser, int64, error) { return nil, 0, opened }
	got = s.Upload(t.Context(), artifactstore.Batch{Session: "s", Files: files.list(), Open: untouched})
	should.Equal(t, got.Note, "1 of 1 files not uploaded to s3://bucket: the store does not answer; the next try is in 30s.")
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	got = s.Upload(t.Context(), artifactstore.Batch{Session: "s", Files: files.list(), Open: untouched})
	should.Contain(t, got.Note, "the file could not be read")
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"azblob://artifacts": "", "azblob://artifacts/a/b/": "", "s3://b.u-cket/p?region=eu-west-1&endpoint=localhost:9000": "", "gs://bucket_1": "",
		"":                             "the address of a store begins with azblob://, s3:// or gs://",
		"artifacts":                    "the address of a store begins with azblob://, s3:// or gs://",
		"ftp://bucket":                 "the address of a store begins with azblob://, s3:// or gs://",
		"s3://":                        "s3:// names no bucket",
		"s3:///prefix":                 "s3:///prefix names no bucket",
		"s3://UPPER":                   `"UPPER" cannot be the name of a bucket: it has 3 to 63 small letters, digits, dots and dashes`,
		"s3://ab":                      `"ab" cannot be the name of a bucket: it has 3 to 63 small letters, digits, dots and dashes`,
		"s3://key:hunter22@bucket":     "credentials do not belong into the address of a store: it is shown; they come from the environment",
		"s3://bucket:hunter22/a":       "what follows s3:// is not the name of a bucket, a prefix and options",
		"s3://bucket/a//b":             `"a//b" cannot be a prefix: it is names with one slash between them`,
		"s3://bucket/../b":             `"../b" cannot be a prefix: it is names with one slash between them`,
		"s3://bucket/a#b":              `"a" cannot be a prefix: it is names with one slash between them`,
		"s3://bucket?secret=hunter22":  `s3:// has no option "secret"; there are region and endpoint`,
		"azblob://bucket?region=x":     `azblob:// has no option "region"`,
		"gs://bucket?region=x":         `gs:// has no option "region"; there are endpoint`,
		"s3://bucket?endpoint=ftp://x": "an endpoint is http:// or https:// and a host, with nothing behind it",
		"s3://bucket?endpoint=https://u:hunter22@x": "an endpoint is http:// or https:// and a host, with nothing behind it",
		"s3://bucket/" + strings.Repeat("x", 513):   "the prefix is too long; 512 bytes are the most",
	} {
		_, err := artifactstore.Parse(address)
		got := fmt.Sprint(err)
		should.Hold(t, (err != nil || want == "") && (err == nil || got == want), "%.80s: %v, want %s", address, err, want)
	}
}

func TestCredentialsThatAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		address string
		env     environment
		want    string
	}{
		"Azure, nonsense":     {"azblob://artifacts", environment{"AZURE_STORAGE_CONNECTION_STRING": "hunter22"}, "the connection string is malformed"},
		"Azure, a cut key":    {"azblob://artifacts", environment{"AZURE_STORAGE_CONNECTION_STRING": "AccountName=a;AccountKey=hunter22!;EndpointSuffix=x"}, "the connection string is malformed"},
		"Azure, no base64":    {"azblob://artifacts", environment{"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_KEY": "hunter22!"}, "AZURE_STORAGE_KEY is no key of a storage account"},
		"Azure, half of it":   {"azblob://artifacts", environment{"AZURE_STORAGE_ACCOUNT": "a"}, "there are no credentials"},
		"Google, half of it":  {"gs://artifacts", environment{"GS_ACCESS_KEY_ID": "hunter22"}, "there are no credentials"},
		"S3, an odd endpoint": {"s3://artifacts", environment{"AWS_ENDPOINT_URL": "ftp://hunter22"}, "AWS_ENDPOINT_URL is malformed"},
	} {
		s := open(t, test.address, test.env, nil)
		got := s.Upload(t.Context(), artifactstore.Batch{Session: "s", Files: session{"a": ""}.list()}).Note
		should.Hold(t, strings.Contains(got, test.want) && !strings.Contains(got, "hunter22") && s.Problem() != nil, "%s: %s", name, got)
	}
}

func expiry(t *testing.T, link string) time.Time {
	t.Helper()
	u := must.Get(url.Parse(link))(t)
	end := must.Get(time.Parse(time.RFC3339, u.Query().Get("se")))(t)
	return end
}

// A client's store is opened by its connection string alone, whatever the environment has.
func TestAStoreByItsConnectionStringAlone(t *testing.T) {
	connection := stores.Azure(t)
	files := session{"a.txt": "a"}
	options := artifactstore.Options{LinkLifetime: 10 * time.Hour, FileBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler), Shared: semaphore.NewWeighted(1)}
	options.Lookup = environment{"AZURE_BLOB_CONNECTION_STRING": connection, "AZURE_STORAGE_ACCOUNT": stores.Key, "AZURE_STORAGE_KEY": stores.Secret}.lookup
	s := artifactstore.OpenAzure(connection, "of-a-client", options)
	defer s.Close()
	for asked, want := range map[time.Duration]time.Duration{0: 10 * time.Hour, 2 * time.Hour: 2 * time.Hour, 20 * time.Hour: 10 * time.Hour} {
		before := time.Now().Truncate(time.Second)
		got := s.Upload(t.Context(), artifactstore.Batch{Session: "s", Files: files.list(), Open: files.open, LinkLifetime: asked})
		must.Hold(t, got.Note == "" && strings.Contains(got.Links["a.txt"], "/of-a-client/s%2Fa.txt?"), "%+v", got)
		end := expiry(t, got.Links["a.txt"])
		should.Hold(t, !end.Before(before.Add(want)) && !end.After(time.Now().Add(want)), "asked for %v, it is good until %v", asked, end)
	}
	for name, test := range map[string]struct{ connection, container, want string }{
		"no connection string": {"hunter22", "of-a-client", "azblob://of-a-client: the connection string is malformed"},
		"none at all":          {"", "of-a-client", "there are no credentials"},
		"no address":           {"BlobEndpoint=%zz;AccountName=a;AccountKey=aHVudGVyMjI=", "of-a-client", "the "},
		"no container":         {connection, "../other", `"../other" cannot be the name of a bucket`},
		"a long one":           {connection, strings.Repeat("x", 10_000), `x…" cannot be the name of a bucket`},
		"a key that is wrong":  {strings.Replace(connection, stores.Secret, "aHVudGVyMjI=", 1), "of-a-client", "the store refuses the credentials (403 "},
	} {
		got := artifactstore.OpenAzure(test.connection, test.container, options).Upload(t.Context(), artifactstore.Batch{Session: "s", Files: files.list(), Open: files.open})
		if len(got.Links) > 0 || !strings.Contains(got.Note, test.want) || strings.Contains(got.Note, "hunter22") || strings.Contains(got.Note, "aHVudGVyMjI=") || len(got.Note) > 500 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What a store answers without end is not read without end.
func TestAnAnswerWithoutEnd(t *testing.T) {
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(endless.Close)
	files := session{"a.txt": "a"}
	s := artifactstore.OpenAzure("AccountName=a;AccountKey=aHVudGVyMjI=;BlobEndpoint="+endless.URL, "bucket", artifactstore.Options{
		LinkLifetime: time.Hour, FileBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler),
	})
	got := s.Upload(t.Context(), artifactstore.Batch{Session: "s", Files: files.list(), Open: files.open})
	should.Hold(t, strings.Contains(got.Note, "the store refuses the credentials (403)"), "%+v", got)
}

func TestSecretsAreThoseThatOpenTheStore(t *testing.T) {
	env := environment{
		"AZURE_BLOB_CONNECTION_STRING": "AccountName=a;AccountKey=c2VjcmV0;EndpointSuffix=x", "AZURE_STORAGE_KEY": "key",
		"AWS_SECRET_ACCESS_KEY": "aws", "AWS_ACCESS_KEY_ID": "id", "GS_SECRET_ACCESS_KEY": "gs",
	}
	for address, want := range map[string]environment{
		"azblob://artifacts": {
			"AZURE_BLOB_CONNECTION_STRING": env["AZURE_BLOB_CONNECTION_STRING"], "AZURE_BLOB_CONNECTION_STRING.AccountKey": "c2VjcmV0",
			"AZURE_STORAGE_KEY": "key",
		},
		"s3://artifacts": {"AWS_SECRET_ACCESS_KEY": "aws"},
		"gs://artifacts": {"GS_SECRET_ACCESS_KEY": "gs"},
	} {
		a, err := artifactstore.Parse(address)
		got := a.Secrets(env.lookup)
		should.Hold(t, err == nil && maps.Equal(got, want), "%s: %v, %v", address, got, err)
	}
}
