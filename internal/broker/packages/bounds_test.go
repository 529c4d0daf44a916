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
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/heap"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
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
	h, err := packages.New(options)
	must.OK(t, err)
	h.SetPageTime(time.Hour) // a busy machine may take minutes where the race detector slows it down
	by := caller.Caller{Session: "s", Memory: caller.NewBudget()}
	server := httptest.NewUnstartedServer(h)
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
				fmt.Fprintf(conn, "GET /npm/big%d HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n", i)
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

func TestAPackumentComesWholeWhereItIsRead(t *testing.T) {
	big := packument(12_000, 0) // more than a request usually has room for
	here := serveFor(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(big) }))
	a := get(t, here+"/npm/big")
	if got := strings.Count(a.body, here+"/npm/big/-/big-1.0."); got != 12_000 || !strings.HasSuffix(a.body, "}}}}") {
		t.Errorf("got %d tarballs of this server, and %q in the end", got, a.body[max(0, len(a.body)-100):])
	}
	expect(t, get(t, here+"/npm/big/1.0.11999").body, `"version":"1.0.11999"`)
}

// An index's page may be made so that it takes a hundred times what it is long.
func TestPagesAreBoundedInMemory(t *testing.T) {
	const files, versions = "/pypi/simple/demo/", "/npm/demo"
	for name, c := range map[string]struct {
		path               string
		begin, record, end string
		says               string
	}{
		"no files":      {files, `{"meta":{"api-version":"1.0"},"files":[{}`, `,{}`, `]}`, "424 download_failed: HOST: its page has more than 100000 entries"},
		"long names":    {files, `{"meta":{"api-version":"1.0"},"files":[{}`, `,{"filename":"demo-1-py3-none-any.whl","url":"RANDOM"}`, `]}`, "424 download_failed: HOST: its page has more than 100000 entries"},
		"other members": {files, `{"meta":{"api-version":"1.0"},"files":[]`, `,"x":1`, `}`, "424 download_failed: HOST: its page has more than 100000 entries"},
		"one member":    {files, `{"files":[],"x":[0`, `,0`, `]}`, "424 download_failed: HOST: its page has a value of more than 2 MiB"},
		"numbers":       {versions, `{"versions":{"1.0.0":[0`, `,0`, `]}}`, "424"},
		"too long":      {files, `{"meta":{"api-version":"1.0"},"files":[]`, `,"x":"` + strings.Repeat("x", 1<<20) + `"`, `}`, "424 download_failed: HOST: its page has more than 64 MiB"},
		"fields":        {versions, `{"name":"demo"`, `,"RANDOM":"` + strings.Repeat("x", 200) + `"`, `}`, "424"},
	} {
		t.Run(name, func(t *testing.T) {
			host := make(chan string, 10)
			here := serveFor(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				host <- r.Host
				w.Header().Set("Content-Type", simpleJSON)
				w.Header().Set("Content-Encoding", "gzip")
				z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
				defer z.Close()
				_, err := io.WriteString(z, c.begin)
				for sent := 0; sent < 65<<20 && err == nil; {
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
				if says := strings.ReplaceAll(c.says, "HOST", <-host); !strings.Contains(a.reason+a.body, says) && !strings.HasPrefix(a.reason, says) {
					t.Errorf("got %.500v", a)
				}
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
		request, err := http.NewRequestWithContext(ctx, http.MethodHead, here+"/pypi/files/demo/demo-1.0-py3-none-any.whl", nil)
		must.OK(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
			}
		}()
		return func() { cancel(); <-done }
	}
	first := ask()
	<-e.began
	second := ask() // shares it
	first()
	second()
	<-e.ended
	third := ask() // begins a new one
	<-e.began
	third()
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
	const file = "/pypi/files/demo/demo-1.0-py3-none-any.whl"
	want := "403 package_denied: " + over.Error()
	if a := get(t, w.here+file); a.reason != want {
		t.Errorf("got %+v", a)
	}
	if a := get(t, w.here+file); a.reason != want {
		t.Errorf("got %+v", a)
	}
}

// What two sessions wait for ends for the one alone whose limit it exceeds.
func TestASessionsLimitIsNotAnothersError(t *testing.T) {
	w := &world{pypi: pypi.Start(t), cache: t.TempDir()}
	w.pypi.Add(pypi.Package{Name: "demo", Version: "1.0", Padding: 100_000})
	joined := make(chan struct{})
	h, err := packages.New(packages.Options{
		Policy: policy(t, packages.Rules{}), CacheFolder: w.cache, PyPI: w.pypi.URL,
		Received: func(session string, bytes int) error {
			if session != "poor" {
				return nil
			}
			<-joined
			return errors.New("no more")
		},
	})
	must.OK(t, err)
	status := func(session string) int {
		recorder := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(caller.With(t.Context(), caller.Caller{Session: session}), http.MethodGet, "/pypi/simple/demo/", nil)
		h.ServeHTTP(recorder, r)
		return recorder.Code
	}
	wait := func(n int) {
		for h.Waiting() < n {
			runtime.Gosched()
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		should.Equal(t, status("poor"), http.StatusForbidden, "poor")
	})
	wait(1)
	both.Go(func() {
		should.Equal(t, status("rich"), http.StatusOK, "rich")
	})
	wait(2)
	close(joined)
	both.Wait()
}

// A request that joins the work of an earlier one has its own time all the same.
func TestAnEarlierRequestsTimeIsNotAnothersError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := packages.New(packages.Options{Policy: policy(t, packages.Rules{}), CacheFolder: t.TempDir()})
		must.OK(t, err)
		asked := 0
		ask := func(session string) (any, error) {
			return h.Wait(t.Context(), session, time.Minute, func(ctx context.Context) (any, error) {
				if asked++; asked > 1 {
					return "page", nil
				}
				<-ctx.Done()
				return nil, packages.Fail(ctx, ctx.Err())
			})
		}
		go func() {
			if value, err := ask("first"); err == nil || !strings.Contains(err.Error(), "it took too long (--package-timeout)") {
				t.Errorf("first got %v, %v", value, err)
			}
		}()
		time.Sleep(59 * time.Second)
		if value, err := ask("second"); err != nil || value != "page" {
			t.Errorf("second got %v, %v", value, err)
		}
		synctest.Wait()
	})
}

// Without a hash the answer's headers identify a version, if they can.
func TestAFileWithoutAHashThatIsPublishedAgainIsSeen(t *testing.T) {
	for name, tagged := range map[string]bool{"tagged": true, "untagged": false} {
		t.Run(name, func(t *testing.T) {
			var edition, tag atomic.Int64
			here := serveFor(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/simple/") {
					w.Header().Set("Content-Type", "text/html")
					fmt.Fprint(w, `<a href="/files/demo-1.0-py3-none-any.whl">demo</a>`)
					return
				}
				if tagged {
					w.Header().Set("ETag", fmt.Sprintf(`"%d"`, tag.Load()))
				}
				fmt.Fprintf(w, "edition %d", edition.Load())
			}))
			for i, c := range []struct {
				edition, tag int64
				want         string
			}{{1, 1, "edition 1"}, {2, 1, map[bool]string{true: "edition 1", false: "edition 2"}[tagged]}, {3, 2, "edition 3"}} {
				edition.Store(c.edition)
				tag.Store(c.tag)
				if a := get(t, here+"/pypi/files/demo/demo-1.0-py3-none-any.whl"); a.body != c.want {
					t.Errorf("%d: got %+v, want %s", i, a, c.want)
				}
			}
		})
	}
}
