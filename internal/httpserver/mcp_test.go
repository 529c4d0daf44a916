package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

func TestMessagesThatAreRefused(t *testing.T) {
	f := serve(t, Options{Token: token})
	session := f.begin()
	for name, test := range map[string]struct {
		method, path, body string
		h                  headers
		status             int
		says               string
	}{
		"another path":              {"POST", "/", ping, nil, 404, "/mcp"},
		"a slash too many":          {"POST", "/mcp/", ping, nil, 200, ""},
		"no content":                {"POST", Path, "", nil, 400, "Parse error"},
		"no JSON":                   {"POST", Path, "hello", nil, 400, "Parse error"},
		"a batch":                   {"POST", Path, "[" + ping + "]", nil, 400, "batches"},
		"two messages":              {"POST", Path, ping + ping, nil, 400, "more than one"},
		"another type":              {"POST", Path, ping, headers{"Content-Type": "text/plain"}, 415, "application/json"},
		"no type":                   {"POST", Path, ping, headers{"Content-Type": ""}, 415, "application/json"},
		"an unknown method":         {"POST", Path, `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, nil, 200, "-32601"},
		"an unknown version":        {"POST", Path, ping, headers{mcp.HeaderProtocolVersion: "1999-01-01"}, 400, "1999-01-01"},
		"a session that is not":     {"POST", Path, ping, headers{headerSession: "nope"}, 404, "initialize"},
		"a name of many":            {"POST", Path, ping, headers{headerSession: "stateless-0"}, 404, "initialize"},
		"an answer":                 {"POST", Path, `{"jsonrpc":"2.0","id":1,"result":{}}`, session, 202, ""},
		"a stream of no session":    {"GET", Path, "", nil, 405, "POST"},
		"a stream of another one":   {"GET", Path, "", headers{headerSession: "nope"}, 404, "initialize"},
		"a stream that is not read": {"GET", Path, "", headers{"Accept": "application/json"}, 406, "text/event-stream"},
		"a stream, in the new era":  {"GET", Path, "", headers{mcp.HeaderProtocolVersion: modern}, 405, "POST"},
		"the end, in the new era":   {"DELETE", Path, "", headers{mcp.HeaderProtocolVersion: modern}, 405, "POST"},
		"the end of no session":     {"DELETE", Path, "", nil, 404, "initialize"},
		"a page":                    {"PUT", Path, "", nil, 405, "GET, POST, DELETE"},
	} {
		t.Run(name, func(t *testing.T) {
			a := f.do(f.request(test.method, test.path, test.body, test.h))
			if a.status != test.status || !strings.Contains(a.body, test.says) {
				t.Errorf("%+v", a)
			}
			if (a.status == 405) != (a.header.Get("Allow") != "") {
				t.Errorf("%d, allowed %q", a.status, a.header.Get("Allow"))
			}
		})
	}
}

func TestSessions(t *testing.T) {
	f := serve(t, Options{Token: token})
	first, second := f.begin(), f.begin()
	who := func(h headers) string { return f.post(call(1, "who", ""), h).text(t) }
	if a, b := who(first), who(second); a == b || a != who(first) {
		t.Errorf("%s and %s", a, b)
	}
	if f.server.Gone(who(first), 0) {
		t.Error("a client is gone that has just called")
	}
	if a := f.do(f.request(http.MethodDelete, Path, "", first)); a.status != http.StatusNoContent {
		t.Errorf("%+v", a)
	}
	if name := <-f.gone; name != first[headerSession] || !f.server.Gone(name, 0) {
		t.Errorf("%s is gone", name)
	}
	if a := f.post(ping, first); a.status != http.StatusNotFound {
		t.Errorf("%+v", a)
	}
	if a := f.post(ping, second); a.status != http.StatusOK {
		t.Errorf("%+v", a)
	}
}

// A handshake that fails begins nothing.
func TestHandshakeThatFails(t *testing.T) {
	f := serve(t, Options{Token: token})
	a := f.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":[]}`, nil)
	if a.code() == 0 || a.header.Get(headerSession) != "" {
		t.Errorf("%+v", a)
	}
	<-f.gone
}

// Programs have their name, address and token in common: requests without a session are of one client only where they say so.
func TestClientsWithoutSession(t *testing.T) {
	f := serve(t, Options{})
	seen := make(map[string]bool)
	who := func(h headers) (string, headers) {
		body, more := modernCall(1, "mcp", "who")
		maps.Copy(more, h)
		a := f.post(body, more)
		cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
		return a.text(t), headers{"Cookie": cookie}
	}
	anew := func(what string, h headers) headers {
		t.Helper()
		client, given := who(h)
		if seen[client] {
			t.Errorf("%s: it is known", what)
		}
		seen[client] = true
		return given
	}
	mine := anew("a program", nil)
	anew("another of its name", nil)
	anew("what is no cookie of the server's", headers{"Cookie": clientCookie + "=x"})
	known, given := who(mine)
	if again, _ := who(mine); again != known || !seen[known] || given["Cookie"] != "" {
		t.Errorf("%s comes again as %s, with %v", known, again, given)
	}
	anew("the cookie with another token", headers{"Cookie": mine["Cookie"], "Authorization": "Bearer other"})
	if a := f.post(call(1, "who", ""), nil); seen[a.text(t)] {
		t.Errorf("without a name: %+v", a)
	}
}

// Clients may use the same ids at the same time, and one session may not.
func TestIdsInFlight(t *testing.T) {
	f := serve(t, Options{Token: token})
	var waiting sync.WaitGroup
	sessions := []headers{f.begin(), f.begin()}
	for _, h := range sessions {
		waiting.Go(func() { f.post(call(7, "wait", ""), h) })
		<-f.began
	}
	if a := f.post(call(7, "echo", ""), sessions[0]); a.status != http.StatusBadRequest || !strings.Contains(a.body, "in flight") {
		t.Errorf("%+v", a)
	}
	for _, h := range sessions {
		f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, h)
		<-f.ended
	}
	waiting.Wait()
}

func TestProgressComesBeforeTheAnswer(t *testing.T) {
	f := serve(t, Options{Token: token})
	h := f.begin()
	const n = 200
	body := call(1, "count", fmt.Sprintf(`,"arguments":{"n":%d},"_meta":{"progressToken":"p"}`, n))
	a := f.post(body, h)
	if a.header.Get("Content-Type") != web.TypeEvents || a.header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%v", a.header)
	}
	next := events(strings.NewReader(a.body))
	for i := range n {
		if line, err := next(); err != nil || !strings.Contains(line, fmt.Sprintf(`"progress":%d}`, i+1)) {
			t.Fatalf("%d: %s, %v", i, line, err)
		}
	}
	if line, err := next(); err != nil || !strings.Contains(line, "counted") {
		t.Errorf("%s, %v", line, err)
	}
	if line, err := next(); !errors.Is(err, io.EOF) {
		t.Errorf("%s comes behind the answer", line)
	}
	h["Accept"] = "application/json"
	if a := f.post(body, h); a.header.Get("Content-Type") != "application/json" || a.text(t) != "counted" {
		t.Errorf("a client that takes no stream: %+v", a)
	}
}

// What it means that a client closes the connection is another thing in each era.
func TestClientsThatCloseTheConnection(t *testing.T) {
	const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	for name, test := range map[string]struct {
		modern, session bool
		after           string // what the client says then
		want            error
	}{
		"in the new era":            {modern: true, want: rpc.ErrCancelledByClient},
		"without a session":         {want: rpc.ErrCancelledByClient},
		"in a session":              {session: true, want: errDisconnected},
		"in a session, as a cancel": {session: true, after: cancelled, want: rpc.ErrCancelledByClient},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fixture) {
				body, h := call(1, "wait", ""), headers(nil)
				switch {
				case test.modern:
					body, h = modernCall(1, "test", "wait")
				case test.session:
					h = f.begin()
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					if response, err := f.client.Do(f.request(http.MethodPost, Path, body, h).WithContext(ctx)); err == nil {
						response.Body.Close()
						t.Error("there was an answer")
					}
				}()
				<-f.began
				cancel()
				if <-done; test.after != "" {
					synctest.Wait()
					f.post(test.after, h)
				}
				should.Be(t, <-f.ended, test.want, "ended because")
			})
		})
	}
}

// A client hears of a call at once when a handler is at work, though its answer comes later.
func TestAnAnswerBeginsWithTheWork(t *testing.T) {
	f := serve(t, Options{Token: token})
	body, h := modernCall(1, "a", "work")
	response, err := f.client.Do(f.request(http.MethodPost, Path, body, h))
	must.OK(t, err)
	defer response.Body.Close()
	should.Equal(t, response.Header.Get("Content-Type"), web.TypeEvents)
	<-f.began
	f.goOn <- struct{}{}
	if message, err := events(response.Body)(); err != nil || !strings.Contains(message, "worked") {
		t.Errorf("%q, %v", message, err)
	}
}

// A call that its client cancels stops, and has no answer.
func TestCancelledCalls(t *testing.T) {
	f := serve(t, Options{Token: token})
	for accept, want := range map[string]answer{
		"application/json, text/event-stream": {status: http.StatusOK},
		"application/json":                    {status: http.StatusAccepted},
	} {
		h := f.begin()
		h["Accept"] = accept
		got := make(chan answer)
		go func() { got <- f.post(call(5, "wait", ""), h) }()
		<-f.began
		f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`, h)
		f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, f.begin())
		f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, h)
		should.Be(t, <-f.ended, rpc.ErrCancelledByClient, "ended because")
		if a := <-got; a.status != want.status || strings.TrimPrefix(a.body, ": keep-alive\n\n") != "" {
			t.Errorf("%s: %+v", accept, a)
		}
		if a := f.post(call(5, "echo", `,"arguments":{"text":"again"}`), h); a.text(t) != "again" {
			t.Errorf("%+v", a)
		}
	}
}

// A client that closes its connection at a usual limit has given up, and one that says so; others cancel.
func TestClientsGiveUp(t *testing.T) {
	for after, limit := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, 7 * time.Second: 0} {
		inBubble(t, func(t *testing.T, f *fixture) {
			body, h := modernCall(1, "a", "wait")
			ctx, hangUp := context.WithTimeout(t.Context(), after)
			defer hangUp()
			if response, err := f.client.Do(f.request(http.MethodPost, Path, body, h).WithContext(ctx)); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			var gaveUp *rpc.GaveUpError
			if err := <-f.ended; !errors.Is(err, rpc.ErrCancelledByClient) || errors.As(err, &gaveUp) != (limit > 0) || gaveUp != nil && gaveUp.After != limit {
				t.Errorf("after %v: %v", after, err)
			}
		})
	}
	inBubble(t, func(t *testing.T, f *fixture) {
		h := f.begin()
		go func() { // no answer comes to a cancelled call
			if response, err := f.client.Do(f.request(http.MethodPost, Path, call(5, "wait", ""), h)); err == nil {
				_ = response.Body.Close()
			}
		}()
		<-f.began
		time.Sleep(3 * time.Second)
		f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"timed out after 2s"}}`, h)
		var gaveUp *rpc.GaveUpError
		if err := <-f.ended; !errors.As(err, &gaveUp) || gaveUp.After != 2*time.Second {
			t.Errorf("ended because %v", err)
		}
	})
}

func TestStreamOfASession(t *testing.T) {
	f := serve(t, Options{Token: token})
	h := f.begin()
	response, err := f.client.Do(f.request(http.MethodGet, Path, "", h))
	if err != nil || response.StatusCode != http.StatusOK || response.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%v, %v", response, err)
	}
	defer response.Body.Close()
	next := events(response.Body)
	f.mcp.AddTool(mcp.NewTool("another"), nil)
	if line, err := next(); err != nil || line != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("%s, %v", line, err)
	}
	f.do(f.request(http.MethodDelete, Path, "", h))
	if line, err := next(); !errors.Is(err, io.EOF) {
		t.Errorf("%s, %v after the session's end", line, err)
	}
}

func TestSubscription(t *testing.T) {
	f := serve(t, Options{Token: token})
	body, h := modernCall(9, "test", "tools")
	body = strings.Replace(body, `"tools/call","params":{"name":"tools"`, `"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}`, 1)
	h[mcp.HeaderMethod], h[mcp.HeaderName] = "subscriptions/listen", ""
	response, err := f.client.Do(f.request(http.MethodPost, Path, body, h))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", response, err)
	}
	defer response.Body.Close()
	next := events(response.Body)
	if line, err := next(); err != nil || !strings.Contains(line, "subscriptions/acknowledged") {
		t.Fatalf("%s, %v", line, err)
	}
	f.mcp.AddTool(mcp.NewTool("another"), nil)
	if line, err := next(); err != nil || !strings.Contains(line, "tools/list_changed") || !strings.Contains(line, `subscriptionId":9`) {
		t.Errorf("%s, %v", line, err)
	}
	f.close()
	if line, err := next(); !errors.Is(err, io.EOF) {
		t.Errorf("%s, %v after the server's end", line, err)
	}
}

// What runs at the server's end is told so; the end waits for nobody.
func TestShutdown(t *testing.T) {
	f := serve(t, Options{Token: token})
	h := f.begin()
	stream, err := f.client.Do(f.request(http.MethodGet, Path, "", h))
	must.OK(t, err)
	defer stream.Body.Close()
	got := make(chan answer)
	go func() { got <- f.post(call(1, "wait", ""), h) }()
	<-f.began
	f.close()
	should.Be(t, <-f.ended, rpc.ErrShutdown, "ended because")
	if a := <-got; a.text(t) != "waited" {
		t.Errorf("%+v", a)
	}
	if rest, err := io.ReadAll(stream.Body); err != nil || string(rest) != ": keep-alive\n\n" {
		t.Errorf("the stream ended with %q, %v", rest, err)
	}
}

// Large arguments go round mcp-go.
func TestLargeArguments(t *testing.T) {
	f := serve(t, Options{Token: token})
	content := strings.Repeat("x", 3<<20)
	body := call(1, "size", `,"arguments":{"text":"`+content+`"}`)
	want := fmt.Sprint(len(`{"text":""}`) + len(content))
	if a := f.post(body, nil); a.text(t) != want {
		t.Errorf("%+v", a)
	}
	r := f.request(http.MethodPost, Path, "", nil)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
	if a := f.do(r); a.text(t) != want {
		t.Errorf("in chunks: %+v", a)
	}
	if !f.server.memory.IsFree() {
		t.Error("not all memory was given back")
	}
}

func TestAcceptedTypes(t *testing.T) {
	for header, want := range map[string]bool{
		"":                                   false,
		"application/json":                   false,
		"text/event-stream":                  true,
		"application/json,text/event-stream": true,
		"TEXT/Event-Stream; q=0.5":           true,
		"text/event-stream;q=0":              false,
		"text/*":                             false,
		"*/*":                                false,
	} {
		r := &http.Request{Header: http.Header{"Accept": {header}}}
		should.Equal(t, accepts(r, web.TypeEvents), want, "%q", header)
	}
}
