package packages_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/heap"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmregistry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// serveFor serves the requests of one session, whose memory has its bound, over indexes at one address.
func serveFor(t *testing.T, index http.Handler, change ...func(*packages.Options)) (address string) {
	t.Helper()
	behind := httptest.NewServer(index)
	t.Cleanup(behind.Close)
	options := packages.Options{Policy: policy(t, packages.Rules{}), CacheFolder: t.TempDir(), PyPI: behind.URL + "/simple/", NPM: behind.URL + "/npm/"}
	for _, c := range change {
		c(&options)
	}
	h := must.Get(packages.New(options))(t)
	by := caller.Caller{Session: "s", Memory: caller.NewBudget()}
	server := httptest.NewUnstartedServer(hosts{h})
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return caller.With(ctx, by) }
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// packument is one of so many versions, each with a text of so many bytes beside what is random.
func packument(versions, padding int) []byte {
	var out bytes.Buffer
	fmt.Fprint(&out, `{"name":"big","dist-tags":{"latest":"1.0.0"},"versions":{`)
	for i := range versions {
		if i > 0 {
			fmt.Fprint(&out, ",")
		}
		fmt.Fprintf(&out, `"1.0.%d":{"name":"big","version":"1.0.%[1]d","dependencies":{"other":"^1.0.0","more":"%s"},"dist":{"integrity":"sha512-%s","tarball":"http://x/big-1.0.%[1]d.tgz"}}`,
			i, strings.Repeat("x", padding), rand.Text()+rand.Text()+rand.Text())
	}
	fmt.Fprint(&out, "}}")
	return out.Bytes()
}

func TestAnswersThatNobodyReadsTakeLittleMemory(t *testing.T) {
	const clients = 16
	big := packument(5000, 1500) // 9 MB
	var asked atomic.Int64
	all := make(chan struct{})
	release := sync.OnceFunc(func() { close(all) }) // also where one fails: the others wait for it
	here := serveFor(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == clients {
			release()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(big)
	}))
	heap.Bound(t, func() {
		var waiting sync.WaitGroup
		for i := range clients {
			waiting.Go(func() {
				conn, err := net.Dial("tcp", strings.TrimPrefix(here, "http://"))
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, "GET /npm/npm/big%d HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n", i)
				for in := bufio.NewReader(conn); ; {
					line, err := in.ReadString('\n')
					if err != nil || strings.HasPrefix(line, "HTTP/1.1 4") {
						t.Errorf("got %q, %v", line, err)
						release()
						return
					}
					if strings.HasPrefix(line, "HTTP/1.1 200") { // and not one that says that it is worked on
						break
					}
				}
				<-all
			})
		}
		waiting.Wait()
	})
}

func TestALongPackumentComesWhole(t *testing.T) {
	big := packument(12_000, 0)
	here := serveFor(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(big) }))
	if a := get(t, here+"/npm/npm/big"); a.body != string(big) {
		t.Errorf("got %d bytes, and %q in the end", len(a.body), a.body[max(0, len(a.body)-100):])
	}
}

// An index's page may be made so that it takes a hundred times what it is long.
func TestPagesAreBoundedInMemory(t *testing.T) {
	const files, versions = "/pypi/files/demo-2-py3-none-any.whl", "/npm/npm/demo/-/demo-2.0.0.tgz"
	for name, c := range map[string]struct {
		path               string
		size               int
		begin, record, end string
		says               string
	}{
		"no files":      {files, 30 << 20, `{"meta":{"api-version":"1.0"},"files":[{}`, `,{}`, `]}`, "424 its page is not one of an index: it has more than 100000 entries"},
		"long names":    {files, 30 << 20, `{"meta":{"api-version":"1.0"},"files":[{}`, `,{"filename":"demo-1-py3-none-any.whl","url":"RANDOM"}`, `]}`, "424 its page is not one of an index: it lists more files than fit into 12 MiB"},
		"other members": {files, 30 << 20, `{"meta":{"api-version":"1.0"},"files":[]`, `,"x":1`, `}`, "424 its page is not one of an index: it has more than 100000 entries"},
		"long addresses": {files, 30 << 20, `{"files":[{}`, `,{"filename":"demo-1-py3-none-any.whl","url":"RANDOM` + strings.Repeat("x", 5000) + `"}`, `]}`,
			"424 its page is not one of an index: it lists more files than fit into 12 MiB"},
		"one member": {files, 30 << 20, `{"files":[],"x":[0`, `,0`, `]}`, "424 its page is not one of an index: unexpected EOF"},
		"numbers":    {versions, 30 << 20, `{"versions":{"1.0.0":[0`, `,0`, `]}}`, "424 unexpected EOF"},
		"too long":   {files, 65 << 20, `{"meta":{"api-version":"1.0"},"files":[]`, `,"x":"` + strings.Repeat("x", 1<<20) + `"`, `}`, "424 its page has more than 64 MiB"},
		"fields":     {versions, 30 << 20, `{"name":"demo"`, `,"RANDOM":"` + strings.Repeat("x", 200) + `"`, `}`, "424 it has more than 100000 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			here := serveFor(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", simpleJSON)
				w.Header().Set("Content-Encoding", "gzip")
				z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
				defer z.Close()
				_, err := io.WriteString(z, c.begin)
				for sent := 0; sent < c.size && err == nil; {
					var block strings.Builder
					for block.Len() < 64<<10 {
						block.WriteString(strings.ReplaceAll(c.record, "RANDOM", rand.Text()))
					}
					_, err = io.WriteString(z, block.String())
					sent += block.Len()
				}
				_, _ = io.WriteString(z, c.end)
			}))
			heap.Bound(t, func() {
				a := get(t, here+c.path)
				says, why, _ := strings.Cut(c.says, " ")
				should.Hold(t, fmt.Sprint(a.status) == says && strings.Contains(a.body, why), "got %d %.500s", a.status, a.body)
			})
		})
	}
}

// endless is an index whose file has no end; ended is called when its client has hung up.
type endless struct{ began, ended chan struct{} }

func (e *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/simple/") {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/files/demo-1.0-py3-none-any.whl">demo</a>`)
		return
	}
	e.began <- struct{}{}
	for _, err := w.Write(make([]byte, 1000)); err == nil; {
		_, err = w.Write(make([]byte, 1000))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			err = r.Context().Err()
		default:
		}
	}
	e.ended <- struct{}{}
}

func TestARequestThatIsGivenUpEndsItsFetch(t *testing.T) {
	e := &endless{make(chan struct{}, 10), make(chan struct{}, 10)}
	here := serveFor(t, e, func(o *packages.Options) {
		o.Policy = policy(t, packages.Rules{FileLimit: 1 << 40})
		o.CacheLimit = 1 << 40
	})
	ask := func() (giveUp func()) {
		ctx, cancel := context.WithCancel(t.Context())
		request := must.Get(http.NewRequestWithContext(ctx, http.MethodHead, here+"/pypi/files/demo-1.0-py3-none-any.whl", nil))(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
			}
		}()
		return func() { cancel(); <-done }
	}
	giveUp := ask()
	<-e.began
	giveUp()
	<-e.ended
}

func TestWhatIsFetchedCountsForItsSession(t *testing.T) {
	e := &endless{make(chan struct{}, 10), make(chan struct{}, 10)}
	var received sync.Map
	over := errors.New("byte_limit: a session may receive 100 kB")
	w := start(t, packages.Rules{FileLimit: 1 << 40}, func(o *packages.Options) {
		behind := httptest.NewServer(e)
		t.Cleanup(behind.Close)
		o.PyPI, o.CacheLimit = behind.URL+"/simple/", 1<<40
		o.Received = func(session string, bytes int) error {
			sum, _ := received.LoadOrStore(session, new(atomic.Int64))
			if sum.(*atomic.Int64).Add(int64(bytes)) > 100_000 {
				return over
			}
			return nil
		}
	})
	const file = "/pypi/files/demo-1.0-py3-none-any.whl"
	want := "403 package_denied: " + over.Error()
	a := get(t, w.here+file)
	should.Hold(t, a.reason == want, "got %+v", a)
	a = get(t, w.here+file)
	should.Hold(t, a.reason == want, "got %+v", a)
}

func TestAFileWithoutAHashIsAskedForEachTime(t *testing.T) {
	var edition atomic.Int64
	here := serveFor(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/simple/") {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href="/files/demo-1.0-py3-none-any.whl">demo</a>`)
			return
		}
		fmt.Fprintf(w, "edition %d", edition.Add(1))
	}))
	for _, want := range []string{"edition 1", "edition 2"} {
		a := get(t, here+"/pypi/files/demo-1.0-py3-none-any.whl")
		should.Hold(t, a.body == want, "got %+v, want %s", a, want)
	}
}

// faults are what an index may do once, before it works again.
var faults = map[string]http.HandlerFunc{
	"503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	"502": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	"520": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(520) },
	"429 that asks for a second": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	},
	"a reset": func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	},
	"an end in the middle": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", simpleJSON)
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"begun":`))
	},
	"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"silence in the middle": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", simpleJSON)
		_, _ = w.Write([]byte(`{"begun":`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	},
}

// failing serves what another handler does, with a fault in the first requests.
func failing(t *testing.T, inner http.Handler, fault http.HandlerFunc, times int32) (address string, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= times {
			fault(w, r)
		} else {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestAnIndexThatFailsForAMomentIsAskedAgain(t *testing.T) {
	t.Parallel()
	python, npm := pypi.Start(t), npmregistry.Start(t)
	python.Add(pypi.Package{Name: "demo", Version: "1.0"})
	npm.Add(npmregistry.Package{Name: "demo", Version: "1.0.0"})
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{pypi: python, npm: npm, cache: t.TempDir()}
			pythonURL, pages := failing(t, python, fault, 1)
			npmURL, _ := failing(t, npm, fault, 1)
			here := w.serve(t, packages.Rules{}, func(o *packages.Options) { o.PyPI, o.NPM = pythonURL+"/simple/", npmURL })
			w.handler.Hurry(time.Millisecond, 200*time.Millisecond)
			for _, path := range []string{"/pypi/simple/demo/", "/npm/demo"} {
				a := get(t, here+path)
				should.Hold(t, a.status == http.StatusOK, "%s: %+v", path, a)
			}
			pages.Store(0)
			if a := get(t, here+"/pypi/files/demo-1.0-py3-none-any.whl"); a.status != http.StatusOK || pages.Load() != 3 {
				t.Errorf("the file: %+v after %d requests", a.reason, pages.Load())
			}
		})
	}
}

func TestAnIndexIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	python, npm := pypi.Start(t), npmregistry.Start(t)
	for name, c := range map[string]struct {
		status int
		asked  int32
		says   string
	}{
		"one that stays down":       {http.StatusServiceUnavailable, 5, "it answered 503"},
		"one that wants a password": {http.StatusUnauthorized, 1, "it answered 401"},
		"one that has it not":       {http.StatusNotFound, 1, "does not have it"},
		"one that cannot do it":     {http.StatusNotImplemented, 1, "it answered 501"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{pypi: python, npm: npm, cache: t.TempDir()}
			address, asked := failing(t, python, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }, 1000)
			here := w.serve(t, packages.Rules{}, func(o *packages.Options) { o.PyPI = address + "/simple/" })
			w.handler.Hurry(time.Millisecond, time.Minute)
			a := get(t, here+"/pypi/simple/demo/")
			if !strings.Contains(a.body, c.says) || asked.Load() != c.asked {
				t.Errorf("%+v after %d requests", a, asked.Load())
			}
		})
	}
}
