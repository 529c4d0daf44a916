package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const most = 8

// pipes is a listener whose connections know only the time of a synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// An answer that has no room until it is read is refused, and takes none of what was taken for its making.
func TestAnAnswerWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := room.New()
		other, giveBack := m.Serve(t.Context(), "192.0.2.1")
		defer giveBack()
		must.OK(t, should.ErrOf(room.Take(other, room.Each-4<<20)))
		ask := func(bytes int) *httptest.ResponseRecorder {
			ctx, giveBack := m.Serve(t.Context(), "192.0.2.1")
			defer giveBack()
			must.OK(t, should.ErrOf(room.Take(ctx, 3<<20)))
			w := httptest.NewRecorder()
			JSON(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), http.StatusOK, strings.Repeat("x", bytes))
			return w
		}
		should.Equal(t, ask(1<<20).Code, http.StatusOK, "one that has room")
		w := ask(9 << 20)
		should.Equal(t, w.Code, http.StatusServiceUnavailable, "a longer one")
		should.Equal(t, strings.Contains(w.Body.String(), `"server_busy"`), true, "%.200s", w.Body)
	})
}

// serve serves requests for /kept, which are kept and wait until release is closed, for /refused, which are refused, and for /read, whose bodies
// are read, in a bubble. dial begins a connection that sends a text.
func serve(t *testing.T, test func(t *testing.T, dial func(text string) net.Conn, release chan struct{})) {
	synctest.Test(t, func(t *testing.T) {
		p, release := make(pipes), make(chan struct{})
		mux := http.NewServeMux()
		mux.HandleFunc("/kept", func(_ http.ResponseWriter, r *http.Request) {
			Keep(r.Context(), "")
			<-release
		})
		mux.HandleFunc("/refused", func(w http.ResponseWriter, _ *http.Request) {
			Refuse(w)
			http.Error(w, "no", http.StatusUnauthorized)
		})
		mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
		server := Server(mux, most, slog.New(slog.DiscardHandler))
		ended := make(chan error)
		go func() { ended <- server.Serve(p) }()
		var all []net.Conn
		test(t, func(text string) net.Conn {
			ours, theirs := net.Pipe()
			all = append(all, ours)
			p <- theirs
			go func() { _, _ = io.WriteString(ours, text) }()
			return ours
		}, release)
		for _, conn := range all {
			_ = conn.Close()
		}
		close(p)
		<-ended
		_ = server.Shutdown(context.Background())
	})
}

func request(method, path, more string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more
}

// stalled is what a client sends before it says nothing more, by the phase in which a request is then.
var stalled = map[string]string{
	"silent":                        "",
	"headers without an end":        request("POST", "/read", "X-Long: "),
	"a body that is refused":        request("POST", "/refused", "Content-Length: 1000\r\n\r\n"),
	"a long body that is refused":   request("POST", "/refused", "Content-Length: 1000000\r\n\r\n"),
	"chunks that are refused":       request("POST", "/refused", "Transfer-Encoding: chunked\r\n\r\n"),
	"a body that is not read":       request("POST", "/no-such", "Content-Length: 1000\r\n\r\n"),
	"a body that is read":           request("POST", "/read", "Content-Length: 1000\r\n\r\nbegins"),
	"chunks that are read":          request("POST", "/read", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"),
	"an answer that is not read":    request("GET", "/long", "\r\n"),
	"one request and no other":      request("GET", "/read", "\r\n"),
	"one request and half of other": request("GET", "/read", "\r\n") + request("GET", "/read", ""),
}

// However many connections stand still in whatever phase, a request is served, and one that was kept goes on.
func TestStalledConnectionsMakeRoom(t *testing.T) {
	for phase, text := range stalled {
		t.Run(phase, func(t *testing.T) {
			serve(t, func(t *testing.T, dial func(string) net.Conn, release chan struct{}) {
				kept := dial(request("GET", "/kept", "Connection: close\r\n\r\n"))
				synctest.Wait()
				for range 2 * most {
					dial(text)
					synctest.Wait()
				}
				began := time.Now()
				got, err := io.ReadAll(dial(request("GET", "/read", "Connection: close\r\n\r\n")))
				should.Hold(t, strings.HasPrefix(string(got), "HTTP/1.1 200") && err == nil && time.Since(began) <= 0,
					"%q, %v, after %v", got, err, time.Since(began))
				close(release)
				got, err = io.ReadAll(kept)
				should.Hold(t, strings.HasPrefix(string(got), "HTTP/1.1 200") && err == nil, "the one that was kept: %q, %v", got, err)
			})
		})
	}
}

// A connection that stands still is closed after the time of its phase.
func TestPhasesHaveDeadlines(t *testing.T) {
	for phase, text := range stalled {
		t.Run(phase, func(t *testing.T) {
			serve(t, func(t *testing.T, dial func(string) net.Conn, _ chan struct{}) {
				began := time.Now()
				conn := dial(text)
				if phase == "an answer that is not read" {
					time.Sleep(WriteTime + time.Second)
				}
				_, _ = io.Copy(io.Discard, conn)
				if took := time.Since(began); took > IdleTime {
					t.Errorf("it was closed after %v", took)
				} else if strings.Contains(phase, "refused") && took > refusedTime+time.Second {
					t.Errorf("it was refused, and closed after %v", took)
				}
			})
		})
	}
}

// A client whose body is still on the way reads why it was refused.
func TestRefusedClientsReadWhy(t *testing.T) {
	server := Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Refuse(w)
		http.Error(w, "no", http.StatusUnauthorized)
	}), most, slog.New(slog.DiscardHandler))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	for _, size := range []int{1, 100, 100_000, 10_000_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			response := must.Get(http.Post("http://"+l.Addr().String(), "text/plain", strings.NewReader(strings.Repeat("x", size))))(t)
			defer response.Body.Close()
			should.Hold(t, response.StatusCode == http.StatusUnauthorized && response.Close, "%v", response)
		})
	}
}

// Who has no request that is kept gives way, in the order in which they last did something.
func TestWhichConnectionGivesWay(t *testing.T) {
	c := newConnections(2)
	c.spare = 0
	kept, idle, fresh := &net.TCPConn{}, &net.UnixConn{}, &net.UDPConn{}
	c.note(kept, http.StateNew)
	c.note(kept, http.StateActive)
	c.keep(kept, "")
	c.note(idle, http.StateNew)
	c.note(idle, http.StateActive)
	extra := c.note(fresh, http.StateNew)
	should.Hold(t, extra == net.Conn(idle), "%T was closed", extra)
	c.note(idle, http.StateIdle) // which it was, just before it was closed
	c.note(fresh, http.StateActive)
	c.keep(fresh, "")
	extra = c.note(idle, http.StateNew)
	should.Hold(t, extra == net.Conn(idle), "%T was closed", extra)
	c.note(kept, http.StateClosed)
	extra = c.note(idle, http.StateNew)
	should.Hold(t, extra == nil, "%T was closed", extra)
	c.note(fresh, http.StateIdle)
	extra = c.note(kept, http.StateNew)
	should.Hold(t, extra == net.Conn(idle), "%T was closed", extra)
}

// Whoever has requests kept, and however many: what comes after them is let in and stays until it is known, the user's is kept then, and who has
// kept a quarter drives nobody out but itself.
func TestNobodyKeepsAllConnections(t *testing.T) {
	const most = 64
	c := newConnections(most)
	closed := make(map[net.Conn]bool)
	come := func() net.Conn {
		conn := &net.TCPConn{}
		for _, state := range []http.ConnState{http.StateNew, http.StateActive} {
			if extra := c.note(conn, state); extra != nil {
				closed[extra] = true
			}
		}
		return conn
	}
	flood := func(name string) {
		for range 2 * most {
			c.keep(come(), name)
		}
	}
	flood("bob")
	should.Hold(t, len(c.kept) == most/4, "one has kept %d of %d", len(c.kept), most)
	stays := come()
	flood("bob")
	c.keep(stays, "alice")
	should.Hold(t, !closed[stays] && c.kept[stays] == "alice", "another's was closed, or is not kept")
	for _, name := range []string{"carol", "dave", "eve"} {
		flood(name)
	}
	named := len(c.kept)
	own := come()
	c.keep(own, "")
	should.Hold(t, named != len(c.kept), "the user's is not kept, where others have kept %d of %d", named, most)
	flood("")
	flood("bob")
	should.Hold(t, !closed[own] && len(c.kept) < most, "%d of %d are kept", len(c.kept), most)
	for conn := range c.kept {
		should.Hold(t, !closed[conn], "one that was kept was closed")
		c.note(conn, http.StateIdle)
	}
	should.Hold(t, len(c.kept) == 0 && len(c.held) == 0, "after the requests, %d are kept, by %v", len(c.kept), c.held)
}

// Heads that are nobody's yet have so much for all together: the one that has been there for longest gives way, but none that is kept, and what
// was read of one counts for less than what is being read.
func TestHeadsGiveWay(t *testing.T) {
	c := newConnections(8)
	c.mostHeads = 100
	dial := func() net.Conn {
		conn, other := net.Pipe()
		t.Cleanup(func() { other.Close() })
		c.note(conn, http.StateNew)
		return conn
	}
	kept, silent, first, second, third := dial(), dial(), dial(), dial(), dial()
	c.takesHead(kept, 60)
	should.Hold(t, c.heads[kept] == 60, "a head is not counted")
	c.note(kept, http.StateActive)
	c.keep(kept, "alice")
	for _, conn := range []net.Conn{first, second, third} {
		should.Hold(t, c.takesHead(conn, 50), "there was no room for a head")
	}
	for conn, there := range map[net.Conn]bool{kept: true, silent: true, first: false, second: true, third: true} {
		_, is := c.all[conn]
		should.Hold(t, is == there, "of %d bytes, it is there: %v", c.heads[conn], is)
	}
	should.Hold(t, !c.takesHead(first, 1) && !c.takesHead(third, 101), "there was room for one that gave way, or is too long by itself")
	c.note(third, http.StateActive)
	c.readHead(third)
	should.Hold(t, c.heads[third] < 50, "a head that was read takes %d", c.heads[third])
	for _, conn := range []net.Conn{kept, silent, first, second, third} {
		c.note(conn, http.StateClosed)
	}
	should.Hold(t, c.inHeads == 0 && len(c.heads) == 0, "%d bytes are left of %d", c.inHeads, len(c.heads))
}

func TestHeadsAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		more string
		want int
	}{
		"many fields":     {strings.Repeat("a: b\r\n", maxFields-1), http.StatusOK},
		"too many fields": {strings.Repeat("a: b\r\n", maxFields+1), http.StatusRequestHeaderFieldsTooLarge},
		"a long field":    {"a: " + strings.Repeat("b", 8<<10) + "\r\n", http.StatusOK},
		"too long a one":  {"a: " + strings.Repeat("b", 16<<10) + "\r\n", http.StatusRequestHeaderFieldsTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, func(t *testing.T, dial func(string) net.Conn, _ chan struct{}) {
				answer := must.Get(http.ReadResponse(bufio.NewReader(dial(request("GET", "/read", test.more+"\r\n"))), nil))(t)
				defer func() { _ = answer.Body.Close() }()
				should.Equal(t, answer.StatusCode, test.want, "%v", answer)
			})
		})
	}
}

// A connection of HTTP/2 has few requests at once, and those that are nobody's yet count as such.
func TestRequestsByHTTP2(t *testing.T) {
	at, goOn := make(chan struct{}), make(chan struct{})
	server := Server(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			Keep(r.Context(), "alice")
		}
		at <- struct{}{}
		<-goOn
	}), most, slog.New(slog.DiscardHandler))
	server.of.mostHeads = 3 * streamBytes
	tested := httptest.NewUnstartedServer(nil)
	tested.Config, tested.EnableHTTP2 = server.Server, true
	tested.Listener = accepting{tested.Listener, server.of}
	tested.StartTLS()
	defer tested.Close()
	answers := make(chan int, 4)
	ask := func(path string) {
		r, err := tested.Client().Get(tested.URL + path)
		if err != nil {
			t.Error(err)
			answers <- 0
			return
		}
		r.Body.Close()
		answers <- r.StatusCode
	}
	for _, path := range []string{"/known", "/", "/"} {
		go ask(path)
		<-at
	}
	go ask("/")
	should.Equal(t, <-answers, http.StatusServiceUnavailable, "one too many is answered")
	close(goOn)
	for range 3 {
		should.Equal(t, <-answers, http.StatusOK, "answered")
	}
	should.Equal(t, server.HTTP2.MaxConcurrentStreams, maxStreams, "at once")
}
