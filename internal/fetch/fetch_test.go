package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// fetcher makes one for which files.example is the handler, and every other host what it is.
func fetcher(t *testing.T, options Options, handler http.HandlerFunc) *Fetcher {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	real := New(options)
	return newFetcher(real.options, func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, _ := net.SplitHostPort(address); strings.HasSuffix(host, ".example") {
			address = server.Listener.Addr().String()
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return netguard.Dial(netguard.WebPorts()...)(ctx, network, address)
	})
}

// download reads a whole body.
func download(t *testing.T, f *Fetcher, address string) (*Download, []byte, error) {
	t.Helper()
	d, err := f.Open(t.Context(), address)
	if err != nil {
		return nil, nil, err
	}
	defer d.Body.Close()
	content, err := io.ReadAll(d.Body)
	return d, content, err
}

func wantFault(t *testing.T, err error, code fault.Code, words string) *fault.Error {
	t.Helper()
	var f *fault.Error
	must.Hold(t, errors.As(err, &f) && f.Code == code && strings.Contains(f.Message, words) && f.Hint != "",
		"got %v, want %s: … %s …", err, code, words)
	return f
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content)
	must.OK(t, w.Close())
	return b.Bytes()
}

func TestADownload(t *testing.T) {
	zipped := gzipped(t, []byte("a,b\n1,2\n"))
	answer := func(content []byte, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			_, _ = w.Write(content)
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		url     string
		content string
		size    int64
		name    string
	}{
		"plain":          {answer([]byte("hello")), "http://files.example/a/b.txt?token=1", "hello", 5, "b.txt"},
		"empty":          {answer(nil), "http://files.example/", "", 0, ""},
		"with a port":    {answer([]byte("x")), "http://files.example:8080/x", "x", 1, "x"},
		"named":          {answer([]byte("x"), "Content-Disposition", `attachment; filename="../../r\u00e9sum\\\u00e9.csv"`), "http://files.example/q", "x", 1, "u00e9.csv"},
		"named in UTF-8": {answer([]byte("x"), "Content-Disposition", `attachment; filename*=UTF-8''na%C3%AFve.csv`), "http://files.example/q", "x", 1, "naïve.csv"},
		"decompressed":   {answer(zipped, "Content-Encoding", "gzip"), "http://files.example/t.csv", "a,b\n1,2\n", -1, "t.csv"},
		"stays gzip":     {answer(zipped, "Content-Encoding", "x-gzip"), "http://files.example/t.csv.gz", string(zipped), int64(len(zipped)), "t.csv.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			d, content, err := download(t, fetcher(t, Options{}, test.handler), test.url)
			must.OK(t, err)
			should.Hold(t, string(content) == test.content && d.Size == test.size && d.Name == test.name,
				"got %q, %d bytes, named %q", content, d.Size, d.Name)
		})
	}
}

func TestAddressesThatAreNeverConnectedTo(t *testing.T) {
	for _, host := range []string{
		"127.0.0.1", "127.8.9.1", "0.0.0.0", "localhost", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
		"100.64.0.1", "100.100.100.200", "192.0.0.192", "168.63.129.16", "198.18.0.1", "224.0.0.1", "255.255.255.255",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::127.0.0.1]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]",
		"[64:ff9b::a00:1]", "[64:ff9b:1::a00:1]", "[2002:7f00:1::]", "[2001::1]", "[ff02::1]",
	} {
		t.Run(host, func(t *testing.T) {
			_, _, err := download(t, New(Options{}), "http://"+host+"/latest?token=s3cret")
			f := wantFault(t, err, fault.DownloadFailed, "only hosts on the open internet")
			should.Hold(t, !strings.Contains(f.Message, "s3cret"), "%v", f.Message)
		})
		t.Run("redirected to "+host, func(t *testing.T) {
			f := fetcher(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://"+host+"/latest", http.StatusFound)
			})
			_, _, err := download(t, f, "http://files.example/")
			wantFault(t, err, fault.DownloadFailed, "only hosts on the open internet")
		})
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	for address, words := range map[string]string{
		"file:///etc/passwd":                                  `begins with "file"`,
		"ftp://files.example/x":                               `begins with "ftp"`,
		"files.example/x":                                     `begins with ""`,
		"http:///x":                                           "names no host",
		"http://me:s3cret@files.example/x":                    "user name or password",
		"http://files.example:22/x":                           "has the port 22",
		"http://files.example:99999/x":                        "has the port 99999",
		"http://[::1/s3cret":                                  "cannot be read",
		"https://x.example/" + strings.Repeat("s3cret", 2000): "12018 bytes",
	} {
		f := wantFault(t, should.ErrOf(New(Options{}).Open(t.Context(), address)), fault.InvalidArgument, words)
		should.Hold(t, !strings.Contains(f.Message, "s3cret"), "the message tells a secret: %s", f.Message)
	}
}

func TestRedirects(t *testing.T) {
	for name, test := range map[string]struct {
		to   string
		want string // empty: followed
	}{
		"elsewhere":       {"http://other.example/end", ""},
		"to a file":       {"file:///etc/passwd", `begins with "file"`},
		"with a password": {"http://me:s3cret@other.example/end", "user name or password"},
		"to another port": {"http://other.example:6379/end", "has the port 6379"},
		"for ever":        {"http://files.example/again?token=s3cret", "more than 5 times"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fetcher(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				should.Equal(t, r.Referer(), "", "%s is told of", r.Host)
				if r.URL.Path == "/end" {
					_, _ = io.WriteString(w, "arrived")
					return
				}
				http.Redirect(w, r, test.to, http.StatusFound)
			})
			_, content, err := download(t, f, "http://files.example/?token=s3cret")
			if test.want == "" {
				should.Hold(t, err == nil && string(content) == "arrived", "got %q, %v", content, err)
				return
			}
			if f := wantFault(t, err, fault.DownloadFailed, test.want); strings.Contains(f.Message, "s3cret") {
				t.Errorf("the message tells a secret: %s", f.Message)
			}
		})
	}
}

func TestHTTPSIsNotLeftForHTTP(t *testing.T) {
	from, _ := http.NewRequest(http.MethodGet, "https://files.example/", nil)
	to, _ := http.NewRequest(http.MethodGet, "http://files.example/", nil)
	err := checkRedirect(to, []*http.Request{from})
	should.Hold(t, err != nil, "followed")
}

func TestDownloadsThatFail(t *testing.T) {
	zeros := bytes.Repeat([]byte{0}, 100_000)
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		code    fault.Code
		want    string
	}{
		"not there": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, fault.DownloadFailed, "files.example failed: it answered 404 Not Found"},
		"too large by its header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1001")
			w.WriteHeader(http.StatusOK)
		}, fault.UploadTooLarge, "more than 1.0 kB"},
		"too large without one": {func(w http.ResponseWriter, _ *http.Request) {
			for range 20 {
				_, _ = w.Write(zeros[:100])
				w.(http.Flusher).Flush()
			}
		}, fault.UploadTooLarge, "more than 1.0 kB"},
		"too large when decompressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gzipped(t, zeros))
		}, fault.UploadTooLarge, "more than 1.0 kB"},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			_, _ = w.Write(zeros[:10])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, fault.DownloadFailed, "ended before the file did"},
		"no gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("not compressed at all"))
		}, fault.DownloadFailed, "not the compressed file"},
		"another encoding": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte("x"))
		}, fault.DownloadFailed, `the encoding "br"`},
		"endless headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Much", strings.Repeat("x", 200_000))
		}, fault.DownloadFailed, "the connection failed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := download(t, fetcher(t, Options{MaxBytes: 1000}, test.handler), "http://files.example/x?token=s3cret")
			if f := wantFault(t, err, test.code, test.want); strings.Contains(f.Message+strings.Join([]string{errText(f.Unwrap())}, ""), "s3cret") {
				t.Errorf("a secret is told: %v", f)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestExactlyTheLimitIsTaken(t *testing.T) {
	f := fetcher(t, Options{MaxBytes: 1000}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 1000))
		w.(http.Flusher).Flush()
	})
	_, content, err := download(t, f, "http://files.example/x")
	should.Hold(t, err == nil && len(content) == 1000, "got %d bytes, %v", len(content), err)
}

func TestTimeEndsADownload(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"before its headers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in its body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(10))
			_, _ = w.Write([]byte("12345"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := download(t, fetcher(t, Options{Timeout: 100 * time.Millisecond}, handler), "http://files.example/x")
			wantFault(t, err, fault.DownloadFailed, "longer than 100ms")
		})
	}
}

func TestACallersCancelIsNoFault(t *testing.T) {
	cause := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	f := fetcher(t, Options{}, func(_ http.ResponseWriter, r *http.Request) {
		cancel(cause)
		<-r.Context().Done()
	})
	should.Be(t, should.ErrOf(f.Open(ctx, "http://files.example/x")), cause)
}

func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	f := fetcher(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "direct") })
	_, content, err := download(t, f, "http://files.example/x")
	should.Hold(t, err == nil && string(content) == "direct", "got %q, %v", content, err)
}

func FuzzSegment(f *testing.F) {
	f.Add("../../etc/passwd")
	f.Add(strings.Repeat("é", 300) + ".csv")
	f.Fuzz(func(t *testing.T, name string) {
		got := segment(name)
		should.Hold(t, len(got) <= maxName && !strings.ContainsAny(got, "/\\\x00\n") && got != "." && got != "..",
			"%q became %q", name, got)
	})
}

// Bounds of one caller lower those of the fetcher, and never raise them.
func TestBoundsOfACaller(t *testing.T) {
	f := fetcher(t, Options{MaxBytes: 1000, Timeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/never" {
			<-r.Context().Done()
			return
		}
		_, _ = w.Write(make([]byte, 500))
	})
	for most, refused := range map[int64]bool{0: false, 500: false, 499: true, 1 << 40: false} {
		_, content, err := download(t, f.Within(Options{MaxBytes: most}), "http://files.example/500")
		if refused {
			wantFault(t, err, fault.UploadTooLarge, "more than 499 B")
		} else if err != nil || len(content) != 500 {
			t.Errorf("at most %d: %d bytes, %v", most, len(content), err)
		}
	}
	_, _, err := download(t, f.Within(Options{Timeout: 50 * time.Millisecond}), "http://files.example/never")
	wantFault(t, err, fault.DownloadFailed, "it took longer than 50ms")
	should.Equal(t, f.Within(Options{MaxBytes: 1 << 40, Timeout: time.Hour}).options, f.options)
}
