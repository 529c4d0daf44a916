package httpserver

import (
	"context"
	"encoding/json"
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
			should.Hold(t, a.status == test.status && strings.Contains(a.body, test.says), "%+v", a)
			should.Hold(t, (a.status == 405) == (a.header.Get("Allow") != ""), "%d, allowed %q", a.status, a.header.Get("Allow"))
		})
	}
}

func TestSessions(t *testing.T) {
	f := serve(t, Options{Token: token})
	first, second := f.begin(), f.begin()
	who := func(h headers) string { return f.post(call(1, "who", ""), h).text(t) }
	a, b := who(first), who(second)
	should.Hold(t, a != b && a == who(first), "%s and %s", a, b)
	should.Hold(t, !f.server.Gone(who(first), 0), "a client is gone that has just called")
	if a := f.do(f.request(http.MethodDelete, Path, "", first)); a.status != http.StatusNoContent {
		t.Errorf("%+v", a)
	}
	name := <-f.gone
	should.Hold(t, name == first[headerSession] && f.server.Gone(name, 0), "%s is gone", name)
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
	should.Hold(t, a.code() != 0 && a.header.Get(headerSession) == "", "%+v", a)
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
		should.Hold(t, !seen[client], "%s: it is known", what)
		seen[client] = true
		return given
	}
	mine := anew("a program", nil)
	anew("another of its name", nil)
	anew("what is no cookie of the server's", headers{"Cookie": clientCookie + "=x"})
	known, given := who(mine)
	again, _ := who(mine)
	should.Hold(t, again == known && seen[known] && given["Cookie"] == "", "%s comes again as %s, with %v", known, again, given)
	anew("the cookie with another token", headers{"Cookie": mine["Cookie"], "Authorization": "Bearer other"})
	a := f.post(call(1, "who", ""), nil)
	should.Hold(t, !seen[a.text(t)], "without a name: %+v", a)
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
	a := f.post(call(7, "echo", ""), sessions[0])
	should.Hold(t, a.status == http.StatusBadRequest && strings.Contains(a.body, "in flight"), "%+v", a)
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
	should.Hold(t, a.header.Get("Content-Type") == web.TypeEvents && a.header.Get("X-Accel-Buffering") == "no", "%v", a.header)
	next := events(strings.NewReader(a.body))
	for i := range n {
		line, err := next()
		must.Hold(t, err == nil && strings.Contains(line, fmt.Sprintf(`"progress":%d}`, i+1)), "%d: %s, %v", i, line, err)
	}
	line, err := next()
	should.Hold(t, err == nil && strings.Contains(line, "counted"), "%s, %v", line, err)
	line, err = next()
	should.Hold(t, errors.Is(err, io.EOF), "%s comes behind the answer", line)
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

// A call learns whether its answer was written, and of a client that gave up before it read it.
func TestACallLearnsWhatBecomesOfItsAnswer(t *testing.T) {
	f := serve(t, Options{Token: token})
	told := make(chan error, 10)
	f.mcp.AddTool(mcp.NewTool("ask"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		rpc.OnAnswered(ctx, func(lost error) { told <- lost })
		return mcp.NewToolResultText("asked"), nil
	})
	h := f.begin()
	should.Equal(t, f.post(call(1, "ask", ""), h).text(t), "asked")
	should.OK(t, <-told)
	f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"timed out after 0.001s"}}`, h)
	var gaveUp *rpc.GaveUpError
	lost := <-told
	should.Hold(t, errors.As(lost, &gaveUp), "lost by %v", lost)
}

// A client hears of a call at once when a handler is at work, though its answer comes later.
func TestAnAnswerBeginsWithTheWork(t *testing.T) {
	f := serve(t, Options{Token: token})
	body, h := modernCall(1, "a", "work")
	response := must.Get(f.client.Do(f.request(http.MethodPost, Path, body, h)))(t)
	defer response.Body.Close()
	should.Equal(t, response.Header.Get("Content-Type"), web.TypeEvents)
	<-f.began
	f.goOn <- struct{}{}
	message, err := events(response.Body)()
	should.Hold(t, err == nil && strings.Contains(message, "worked"), "%q, %v", message, err)
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
		a := <-got
		should.Hold(t, a.status == want.status && strings.TrimPrefix(a.body, ": keep-alive\n\n") == "", "%s: %+v", accept, a)
		a = f.post(call(5, "echo", `,"arguments":{"text":"again"}`), h)
		should.Hold(t, a.text(t) == "again", "%+v", a)
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
		err := <-f.ended
		should.Hold(t, errors.As(err, &gaveUp) && gaveUp.After == 2*time.Second, "ended because %v", err)
	})
}

func TestStreamOfASession(t *testing.T) {
	f := serve(t, Options{Token: token})
	h := f.begin()
	response, err := f.client.Do(f.request(http.MethodGet, Path, "", h))
	must.Hold(t, err == nil && response.StatusCode == http.StatusOK && response.Header.Get("X-Accel-Buffering") == "no",
		"%v, %v", response, err)
	defer response.Body.Close()
	next := events(response.Body)
	f.mcp.AddTool(mcp.NewTool("another"), nil)
	should.Give(next())(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	f.do(f.request(http.MethodDelete, Path, "", h))
	line, err := next()
	should.Hold(t, errors.Is(err, io.EOF), "%s, %v after the session's end", line, err)
}

func TestSubscription(t *testing.T) {
	f := serve(t, Options{Token: token})
	body, h := modernCall(9, "test", "tools")
	body = strings.Replace(body, `"tools/call","params":{"name":"tools"`, `"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}`, 1)
	h[mcp.HeaderMethod], h[mcp.HeaderName] = "subscriptions/listen", ""
	response, err := f.client.Do(f.request(http.MethodPost, Path, body, h))
	must.Hold(t, err == nil && response.StatusCode == http.StatusOK, "%v, %v", response, err)
	defer response.Body.Close()
	next := events(response.Body)
	line, err := next()
	must.Hold(t, err == nil && strings.Contains(line, "subscriptions/acknowledged"), "%s, %v", line, err)
	f.mcp.AddTool(mcp.NewTool("another"), nil)
	if line, err := next(); err != nil || !strings.Contains(line, "tools/list_changed") || !strings.Contains(line, `subscriptionId":9`) {
		t.Errorf("%s, %v", line, err)
	}
	f.close()
	line, err = next()
	should.Hold(t, errors.Is(err, io.EOF), "%s, %v after the server's end", line, err)
}

// What runs at the server's end is told so; the end waits for nobody.
func TestShutdown(t *testing.T) {
	f := serve(t, Options{Token: token})
	h := f.begin()
	stream := must.Get(f.client.Do(f.request(http.MethodGet, Path, "", h)))(t)
	defer stream.Body.Close()
	got := make(chan answer)
	go func() { got <- f.post(call(1, "wait", ""), h) }()
	<-f.began
	f.close()
	should.Be(t, <-f.ended, rpc.ErrShutdown, "ended because")
	a := <-got
	should.Hold(t, a.text(t) == "waited", "%+v", a)
	rest, err := io.ReadAll(stream.Body)
	should.Hold(t, err == nil && string(rest) == ": keep-alive\n\n", "the stream ended with %q, %v", rest, err)
}

// Large arguments go round mcp-go.
func TestLargeArguments(t *testing.T) {
	f := serve(t, Options{Token: token})
	content := strings.Repeat("x", 3<<20)
	body := call(1, "size", `,"arguments":{"text":"`+content+`"}`)
	want := fmt.Sprint(len(`{"text":""}`) + len(content))
	a := f.post(body, nil)
	should.Hold(t, a.text(t) == want, "%+v", a)
	r := f.request(http.MethodPost, Path, "", nil)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
	a = f.do(r)
	should.Hold(t, a.text(t) == want, "in chunks: %+v", a)
	should.Hold(t, f.server.memory.IsFree(), "not all memory was given back")
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

// Dify makes a session for each call, in the first version of the protocol over streamable HTTP and with no header that says so, and
// ends it then. It takes an answer of the same version alone, and events that have no name.
func TestAsDifyAsks(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			f := serve(t, Options{Token: token})
			a := f.post(`{"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{"sampling":{},"roots":{"listChanged":true}},"clientInfo":{"name":"Dify","version":"1.9.0"}},"jsonrpc":"2.0","id":0}`, nil)
			must.Hold(t, a.status == http.StatusOK && strings.Contains(a.body, `"protocolVersion":"`+version+`"`), "initialize: %+v", a)
			h := headers{"Mcp-Session-Id": a.header.Get("mcp-session-id")}
			a = f.post(`{"method":"notifications/initialized","jsonrpc":"2.0"}`, h)
			should.Hold(t, a.status == http.StatusAccepted, "initialized: %+v", a)
			for request, want := range map[string]string{
				`{"method":"tools/list","jsonrpc":"2.0","id":1}`:                                                                           `"name":"echo"`,
				`{"method":"tools/call","params":{"name":"echo","arguments":{"text":"it is there"}},"jsonrpc":"2.0","id":2}`:               `"text":"it is there"`,
				`{"method":"tools/call","params":{"name":"count","arguments":{"n":2},"_meta":{"x":1}},"jsonrpc":"2.0","id":3}`:             `"text":"counted"`,
				`{"method":"tools/call","params":{"name":"count","arguments":{"n":2},"_meta":{"progressToken":4}},"jsonrpc":"2.0","id":4}`: `"text":"counted"`,
			} {
				a := f.post(request, h)
				should.Hold(t, a.status == http.StatusOK && strings.Contains(a.body, want), "%s: %+v", request, a)
				for line := range strings.Lines(a.body) {
					name, is := strings.CutPrefix(line, "event:")
					should.Hold(t, !is || strings.TrimSpace(name) == "message", "%s: an event of the name %q", request, name)
				}
			}
			a = f.do(f.request(http.MethodDelete, Path, "", h))
			should.Hold(t, a.status == http.StatusOK || a.status == http.StatusNoContent, "the end: %+v", a)
			a = f.post(`{"method":"tools/list","jsonrpc":"2.0","id":5}`, h)
			should.Hold(t, a.status == http.StatusNotFound, "after the end: %+v", a)
		})
	}
}

// A client of a session is asked on the stream of its call, and answers by another message of that session.
func TestAClientIsAsked(t *testing.T) {
	f := serve(t, Options{Token: token})
	able := headers{mcp.HeaderProtocolVersion: "2025-11-25"}
	able[headerSession] = f.post(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1), nil).header.Get(headerSession)
	f.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, able)
	other := f.begin()
	for name, test := range map[string]struct {
		answer string
		want   string
	}{
		"accepted": {`"result":{"action":"accept","content":{}}`, "accept state"},
		"declined": {`"result":{"action":"decline"}`, "decline state"},
		"an error": {`"error":{"code":-32601,"message":"no such method"}`, "cancel state"},
		"no sense": {`"result":[1]`, "cancel state"},
	} {
		response := must.Get(f.client.Do(f.request(http.MethodPost, Path, call(1, "ask", ""), able)))(t)
		next := events(response.Body)
		text, err := next()
		var question struct {
			ID, Method string
			Params     struct{ Message string }
		}
		if json.Unmarshal([]byte(text), &question) != nil || err != nil || question.Method != "elicitation/create" || question.Params.Message != "Well?" {
			t.Fatalf("%s: %s, %v", name, text, err)
		}
		answer := func(h headers, said string) {
			a := f.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,%s}`, question.ID, said), h)
			should.Hold(t, a.status == http.StatusAccepted, "%s: %+v", name, a)
		}
		answer(other, `"result":{"action":"accept","content":{"forged":1}}`) // of another session, which knows the id
		answer(able, test.answer)
		answer(able, `"result":{"action":"accept"}`) // too late
		text, err = next()
		should.Hold(t, err == nil && strings.Contains(text, `"text":"`+test.want+`"`), "%s: %s, %v", name, text, err)
		_, _ = io.Copy(io.Discard, response.Body) // to its end, before which the id is in use
		response.Body.Close()
	}
	a := f.post(call(2, "ask", ""), other)
	should.Hold(t, a.text(t) == "nobody can be asked", "a client that cannot ask: %+v", a)
	a = f.post(call(2, "ask", ""), headers{"Accept": "application/json", headerSession: able[headerSession], mcp.HeaderProtocolVersion: "2025-11-25"})
	should.Hold(t, a.text(t) == "nobody can be asked", "one that takes no stream: %+v", a)
	body, h := modernCall(3, "modern", "ask")
	a = f.post(body, h)
	should.Hold(t, a.text(t) == "nobody can be asked", "a stateless one that cannot ask: %+v", a)
	body = strings.Replace(body, `:{}}}}`, `:{"elicitation":{}}}}}`, 1)
	if a := f.post(body, h); !strings.Contains(a.body, `"resultType":"input_required"`) || !strings.Contains(a.body, `"requestState":"state"`) {
		t.Errorf("a stateless one: %+v", a)
	}
}
