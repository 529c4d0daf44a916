package httpserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

func rawPing(more string) string {
	return "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + more +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(ping), ping)
}

func TestOddHTTP(t *testing.T) {
	f := serve(t, Options{})
	for name, test := range map[string]struct {
		sent string
		want []string // beginnings of the lines of what comes back that are statuses
	}{
		"HTTP/1.0":                   {strings.Replace(rawPing(""), "HTTP/1.1", "HTTP/1.0", 1), []string{"HTTP/1.0 200"}},
		"HTTP/1.0 without a host":    {strings.Replace(strings.Replace(rawPing(""), "HTTP/1.1", "HTTP/1.0", 1), "Host: localhost\r\n", "", 1), []string{"HTTP/1.0 403"}},
		"HTTP/0.9":                   {"GET /mcp\r\n\r\n", []string{"HTTP/1.1 400"}},
		"HTTP/2 that was not asked":  {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []string{"HTTP/1.1 403"}},
		"no host":                    {strings.Replace(rawPing("Connection: close\r\n"), "Host: localhost\r\n", "", 1), []string{"HTTP/1.1 400"}},
		"two hosts":                  {rawPing("Host: evil.example\r\n"), []string{"HTTP/1.1 400"}},
		"two lengths":                {rawPing("Content-Length: 3\r\n"), []string{"HTTP/1.1 400"}},
		"a pipelined request":        {rawPing("") + rawPing("Connection: close\r\n"), []string{"HTTP/1.1 200", "HTTP/1.1 200"}},
		"no HTTP":                    {ping + "\n", []string{"HTTP/1.1 400"}},
		"headers without end":        {"POST /mcp HTTP/1.1\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 200), []string{"HTTP/1.1 431"}},
		"an encoding that is not":    {rawPing("Transfer-Encoding: gzip\r\n"), []string{"HTTP/1.1 501"}},
		"a body longer than allowed": {fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", rpc.MaxMessageBytes+1), []string{"HTTP/1.1 413"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(f.raw(test.sent)) {
				// An answer's JSON has no end of line before the next status.
				if i := strings.Index(line, "HTTP/1."); i >= 0 && !strings.Contains(line, "malformed") {
					got = append(got, line[i:i+len("HTTP/1.1 200")])
				}
			}
			should.Hold(t, fmt.Sprint(got) == fmt.Sprint(test.want), "got %q, want %q", got, test.want)
		})
	}
	a := f.post(ping, nil)
	should.Hold(t, a.status == http.StatusOK, "%+v", a)
}

// A body that does not end is read no further than the longest message goes.
func TestBodyWithoutEnd(t *testing.T) {
	f := serve(t, Options{})
	r := f.request(http.MethodPost, Path, "", nil)
	endless := &endless{}
	r.Body, r.ContentLength = io.NopCloser(endless), -1
	response, err := f.client.Do(r)
	if err == nil { // or the connection was closed before it could be read
		response.Body.Close()
		should.Equal(t, response.StatusCode, http.StatusRequestEntityTooLarge, "%v", response)
	}
	if most := int64(2 * rpc.MaxMessageBytes); endless.sent.Load() > most {
		t.Errorf("%d bytes were taken", endless.sent.Load())
	}
	should.Hold(t, f.server.memory.IsFree(), "not all memory was given back")
}

type endless struct{ sent atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.sent.Add(int64(len(b)))
	return len(b), nil
}

// inBubble runs a test in fake time, against a server on pipes.
func inBubble(t *testing.T, test func(t *testing.T, f *fixture)) {
	synctest.Test(t, func(t *testing.T) { test(t, serveInBubble(t, Options{})) })
}

func (f *fixture) conn(t *testing.T) net.Conn {
	t.Helper()
	conn := must.Get(f.dial())(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// drip sends a byte every few seconds, and returns when the server has closed the connection.
func drip(conn net.Conn, text string) {
	for i := 0; ; i++ {
		if _, err := conn.Write([]byte{text[i%len(text)]}); err != nil {
			return
		}
		time.Sleep(3 * time.Second)
	}
}

func TestSlowClients(t *testing.T) {
	for name, first := range map[string]string{
		"headers": "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: ",
		"a body":  "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n",
		"chunks":  "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n \r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fixture) {
				conn := f.conn(t)
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				_, _ = io.WriteString(conn, first)
				drip(conn, "1\r\n \r\n")
				should.Hold(t, f.server.requests.all.TryAcquire(maxRequests), "a request has not ended")
			})
		})
	}
}

// A client that does not read its stream keeps no handler waiting, and is cut off.
func TestClientsThatDoNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		conn := f.conn(t)
		body := call(1, "count", `,"arguments":{"n":5000},"_meta":{"progressToken":1}`)
		_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		time.Sleep(2 * web.WriteTime)
		should.Hold(t, f.server.requests.all.TryAcquire(maxRequests), "the request has not ended")
	})
}

// A stream that has nothing to say says that it is alive, also where the answer to a call takes long.
func TestKeepAlive(t *testing.T) {
	for name, request := range map[string]func(f *fixture) *http.Request{
		"of a session": func(f *fixture) *http.Request { return f.request(http.MethodGet, Path, "", f.begin()) },
		"of a call":    func(f *fixture) *http.Request { return f.request(http.MethodPost, Path, call(1, "wait", ""), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fixture) {
				response := must.Get(f.client.Do(request(f)))(t)
				defer response.Body.Close()
				lines := bufio.NewReader(response.Body)
				for range 3 {
					should.Give(lines.ReadString('\n'))(t, ": keep-alive\n")
					_, _ = lines.ReadString('\n')
				}
			})
		})
	}
}

// However many streams are open, calls go on beside them.
func TestStreamsHaveAShareOfTheirOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		h, refused := f.begin(), 0
		for range maxStreams + 50 {
			response := must.Get(f.client.Do(f.request(http.MethodGet, Path, "", h)))(t)
			defer response.Body.Close()
			if response.StatusCode == http.StatusServiceUnavailable {
				refused++
			}
		}
		should.Equal(t, refused, 50, "streams are refused")
		began := time.Now()
		should.Equal(t, f.post(ping, h).status, http.StatusOK, "a call beside them")
		should.Equal(t, time.Since(began), 0, "it waited")
	})
}

// anyRequest is one of the user's whose server it is.
func anyRequest(ended func(string)) *http.Request {
	return enter(httptest.NewRequest(http.MethodPost, Path, nil), principal.Principal{}, &Site{Ended: ended})
}

// Who closes its stream and says no more is gone soon, and who goes on without one is not.
func TestClientsThatHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := newClients(), anyRequest(nil)
		open := func() *client {
			n := c.begin(r)
			c.leave(n)
			return c.enter(r, n.name)
		}
		ended, again, calls, busy := open(), open(), open(), open()
		c.enter(r, busy.name) // a call, which goes on
		for _, n := range []*client{ended, again, calls, busy} {
			c.hangUp(n)
		}
		time.Sleep(hungUpTime / 2)
		c.enter(r, again.name)
		c.leave(c.enter(r, calls.name))
		should.Hold(t, !c.gone(ended.name, 0), "one is gone whose stream may have broken")
		time.Sleep(quietTime / 2)
		c.leave(busy)
		for name, n := range map[string]*client{"streams": again, "calls": calls, "has called": busy} {
			should.Hold(t, !c.gone(n.name, 0), "one is gone that %s", name)
		}
		should.Hold(t, c.gone(ended.name, 0), "one is not gone that has hung up")
		time.Sleep(quietTime + time.Second)
		should.Hold(t, !c.gone(again.name, 0) && c.gone(calls.name, 0) && c.gone(busy.name, 0),
			"who says no more is not gone, or who has a stream is")
		if unlisted := statelessName + "x"; c.gone(unlisted, quietTime) || !c.gone(unlisted, quietTime+time.Second) {
			t.Error("one without a cookie is not gone after as long as others")
		}
	})
}

// Who begins a session and says no more does not stay.
func TestClientsThatOnlyBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := newClients(), anyRequest(nil)
		used := c.begin(r)
		c.leave(used)
		c.leave(c.enter(r, used.name))
		c.leave(c.begin(r))
		time.Sleep(quietTime + time.Second)
		c.mu.Lock()
		defer c.mu.Unlock()
		should.Hold(t, len(c.list) == 1 && c.list[used.name] != nil, "%d are left", len(c.list))
	})
}

// Clients are forgotten after long, or where there are too many: the one first that was not heard of for longest.
func TestClientsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan string, maxClients)
		c, r := newClients(), anyRequest(func(name string) { ended <- name })
		first := c.begin(r)
		c.leave(first)
		kept := c.begin(r) // is in use
		time.Sleep(quietTime + time.Second)
		should.Hold(t, c.gone(first.name, 0) && !c.gone(kept.name, 0), "the wrong one is gone")
		for range maxClients - 1 {
			c.leave(c.begin(r))
		}
		should.Equal(t, <-ended, first.name, "was forgotten")
		time.Sleep(clientTime + time.Second)
		c.leave(c.begin(r))
		should.Hold(t, c.enter(r, kept.name) != nil && len(c.list) == 2, "%d are left", len(c.list))
		synctest.Wait()
	})
}

// One principal's many clients drive its own out, and nobody else's.
func TestClientsOfOneDriveNobodyElsesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, quiet := newClients(), anyRequest(nil)
		noisy := enter(httptest.NewRequest(http.MethodPost, Path, nil), principal.Principal{Name: "noisy"}, &Site{})
		old := c.begin(quiet)
		c.leave(old)
		for range 2 * maxClients {
			time.Sleep(time.Millisecond)
			c.leave(c.begin(noisy))
		}
		should.Hold(t, c.enter(quiet, old.name) != nil && len(c.list) == maxClients,
			"another's is gone, or there are too many: %d", len(c.list))
		synctest.Wait()
	})
}

// A client that sends beginnings of messages waits for itself alone, and its share comes back.
func TestMemoryIsSharedByClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serveInBubble(t, Options{})
		const begun = 100
		head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
		answers := make(chan string, begun)
		for range begun {
			conn := f.conn(t)
			go func() { _, _ = io.WriteString(conn, head+"{") }()
			go func() {
				got, _ := io.ReadAll(conn)
				answers <- string(got[:min(len(got), len("HTTP/1.1 503"))])
			}()
		}
		synctest.Wait()
		share := messageBounds.memory(1_000_000)
		other := f.server.memory.Share("another")
		should.Hold(t, other.Resize(t.Context(), room.Each), "another client waits")
		other.GiveBack()
		counts := make(map[string]int64)
		for range begun {
			counts[<-answers]++
		}
		want := map[string]int64{"HTTP/1.1 503": begun - room.Each/share, "HTTP/1.1 408": room.Each / share}
		should.Hold(t, fmt.Sprint(counts) == fmt.Sprint(want), "got %v, want %v", counts, want)
		a := f.post(ping, nil)
		should.Hold(t, a.status == http.StatusOK, "afterwards: %+v", a)
		synctest.Wait()
		should.Hold(t, f.server.memory.IsFree(), "not all memory was given back")
		time.Sleep(web.IdleTime)
	})
}

// Answers that their client does not read take of its share, and those that find no room are not kept for it.
func TestMemoryOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serveInBubble(t, Options{})
		const asked, fit = 20, room.Each / largeAnswer
		body := call(1, "large", "")
		var conns []net.Conn
		for range asked {
			conn := f.conn(t)
			conns = append(conns, conn)
			go func() {
				_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}()
		}
		time.Sleep(slotTime + time.Second)
		whole, refused := 0, 0
		for _, conn := range conns {
			switch got, _ := io.ReadAll(conn); {
			case len(got) > largeAnswer:
				whole++
			case strings.Contains(string(got), "was carried out, but there is no room"):
				refused++
			}
		}
		should.Hold(t, whole >= fit-1 && whole <= fit && whole+refused == asked, "%d are whole, and %d refused", whole, refused)
		synctest.Wait()
		should.Hold(t, f.server.memory.IsFree(), "not all memory was given back")
	})
}

// A message in chunks takes what it has once it is whole, and waits for room where it is long.
func TestMemoryOfChunks(t *testing.T) {
	f := serve(t, Options{})
	for _, length := range []int{10, firstRoom - len(call(1, "size", `,"arguments":{"text":""}`)), firstRoom, 5 * firstRoom} {
		body := call(1, "size", `,"arguments":{"text":"`+strings.Repeat("x", length)+`"}`)
		r := f.request(http.MethodPost, Path, "", nil)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		a := f.do(r)
		should.Hold(t, a.status == http.StatusOK, "%d bytes: %+v", length, a)
	}
}
