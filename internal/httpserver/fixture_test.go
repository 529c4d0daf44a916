package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const token = "a-token-that-nobody-guesses"

// largeAnswer is the length of what the tool large returns.
const largeAnswer = 6 << 20

type clientKey struct{}

// fixture is a server with tools for tests.
type fixture struct {
	t       *testing.T
	mcp     *server.MCPServer
	server  *Server
	dial    func() (net.Conn, error)
	client  *http.Client
	address string
	stop    context.CancelFunc
	stopped chan error

	began chan struct{} // a token for each call of wait and work
	goOn  chan struct{} // one for each call of work to end
	ended chan error    // why calls of wait have ended
	gone  chan string   // clients that have ended their sessions
}

func newFixture(t *testing.T, o Options) *fixture {
	f := &fixture{
		t: t, stopped: make(chan error, 1),
		began: make(chan struct{}, 100), goOn: make(chan struct{}), ended: make(chan error, 100), gone: make(chan string, 100),
	}
	f.mcp = server.NewMCPServer("fixture", "1", server.WithToolCapabilities(true))
	f.mcp.AddTool(mcp.NewTool("echo"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	f.mcp.AddTool(mcp.NewTool("size"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(fmt.Sprint(len(r.Params.RawArguments))), nil
	})
	f.mcp.AddTool(mcp.NewTool("large"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", largeAnswer)), nil
	})
	f.mcp.AddTool(mcp.NewTool("who"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(ctx.Value(clientKey{}).(string)), nil
	})
	f.mcp.AddTool(mcp.NewTool("count"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range r.GetInt("n", 0) {
			rpc.NotifyProgress(ctx, float64(i+1), 0, "")
		}
		return mcp.NewToolResultText("counted"), nil
	})
	f.mcp.AddTool(mcp.NewTool("wait"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		f.began <- struct{}{}
		<-ctx.Done()
		f.ended <- context.Cause(ctx)
		return mcp.NewToolResultText("waited"), nil
	})
	f.mcp.AddTool(mcp.NewTool("work"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		rpc.Begin(ctx)
		f.began <- struct{}{}
		<-f.goOn
		return mcp.NewToolResultText("worked"), nil
	})
	f.mcp.AddTool(mcp.NewTool("ask"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer := server.ElicitationResponse(r.Params.InputResponses, "q"); answer != nil {
			return mcp.NewToolResultText(string(answer.Action) + " " + r.Params.RequestState), nil
		}
		if !rpc.CanElicit(ctx) {
			return mcp.NewToolResultText("nobody can be asked"), nil
		}
		return server.NewInputRequestBuilder("state").Elicit("q", mcp.ElicitationParams{Message: "Well?", RequestedSchema: map[string]any{"type": "object"}}).ToolResult(), nil
	})
	o.MCP = f.mcp
	o.Ended = func(client string) { f.gone <- client }
	o.Context = func(ctx context.Context, client string, _ bool, _ *http.Request) context.Context {
		return context.WithValue(ctx, clientKey{}, client)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	f.server = New(o)
	return f
}

// serve serves on a loopback address.
func serve(t *testing.T, o Options) *fixture {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	f := newFixture(t, o)
	f.address = l.Addr().String()
	f.dial = func() (net.Conn, error) { return net.Dial("tcp", f.address) }
	f.start(l)
	return f
}

func (f *fixture) start(l net.Listener) {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return f.dial() }}}
	go func() { f.stopped <- f.server.Serve(ctx, l) }()
	f.t.Cleanup(f.close)
}

func (f *fixture) close() {
	f.stop()
	should.OK(f.t, <-f.stopped, "Serve")
	f.stopped <- nil // for another close
	f.client.CloseIdleConnections()
}

// pipes is a listener without an operating system, whose connections know only the time of a synctest bubble.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipes() *pipes {
	return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.accepted <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// serveInBubble serves on pipes, for tests in a synctest bubble.
func serveInBubble(t *testing.T, o Options) *fixture {
	f := newFixture(t, o)
	p := newPipes()
	f.address, f.dial = "pipe", p.dial
	f.start(p)
	return f
}

// headers of a request, by name; an empty value takes one away.
type headers map[string]string

// request makes a request with the headers that clients send.
func (f *fixture) request(method, path, body string, h headers) *http.Request {
	f.t.Helper()
	r := must.Get(http.NewRequestWithContext(f.t.Context(), method, "http://"+f.address+path, strings.NewReader(body)))(f.t)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	for name, value := range h {
		switch {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

func (f *fixture) do(r *http.Request) answer {
	f.t.Helper()
	response := must.Get(f.client.Do(r))(f.t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(f.t)
	return answer{response.StatusCode, response.Header, string(body)}
}

func (f *fixture) post(body string, h headers) answer {
	f.t.Helper()
	return f.do(f.request(http.MethodPost, Path, body, h))
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// begin begins a session and returns the headers of its requests.
func (f *fixture) begin() headers {
	f.t.Helper()
	a := f.post(initialize, nil)
	h := headers{headerSession: a.header.Get(headerSession), mcp.HeaderProtocolVersion: "2025-11-25"}
	must.Hold(f.t, a.status == http.StatusOK && h[headerSession] != "", "initialize: %+v", a)
	a = f.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, h)
	must.Hold(f.t, a.status == http.StatusAccepted, "initialized: %+v", a)
	return h
}

// call is a tools/call of a session.
func call(id int, tool, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q%s}}`, id, tool, params)
}

const modern = "2026-07-28"

// modernCall is a tools/call of a client that has no session, and its headers.
func modernCall(id int, client, tool string) (string, headers) {
	return call(id, tool, fmt.Sprintf(`,"_meta":{%q:%q,%q:{"name":%q,"version":"1"},%q:{}}`, mcp.MetaKeyProtocolVersion, modern,
			mcp.MetaKeyClientInfo, client, mcp.MetaKeyClientCapabilities)),
		headers{mcp.HeaderProtocolVersion: modern, mcp.HeaderMethod: "tools/call", mcp.HeaderName: tool}
}

// text is the text of a tool's answer.
func (a answer) text(t *testing.T) string {
	t.Helper()
	var message struct {
		Result struct{ Content []struct{ Text string } }
	}
	err := json.Unmarshal([]byte(a.body), &message)
	must.Hold(t, err == nil && len(message.Result.Content) == 1, "%+v: %v", a, err)
	return message.Result.Content[0].Text
}

// code is the code of the error in an answer, 0 for none.
func (a answer) code() int {
	var message struct{ Error struct{ Code int } }
	_ = json.Unmarshal([]byte(a.body), &message)
	return message.Error.Code
}

// raw sends bytes on a connection of its own, and returns what comes back until its end.
func (f *fixture) raw(text string) string {
	f.t.Helper()
	conn := must.Get(f.dial())(f.t)
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }()
	got, _ := io.ReadAll(conn)
	return string(got)
}

// events reads the messages of an event stream, one for each call.
func events(body io.Reader) func() (string, error) {
	lines := bufio.NewReader(body)
	return func() (string, error) {
		for {
			line, err := lines.ReadBytes('\n')
			if data, is := bytes.CutPrefix(line, []byte("data: ")); is || err != nil {
				return string(bytes.TrimSpace(data)), err
			}
		}
	}
}
