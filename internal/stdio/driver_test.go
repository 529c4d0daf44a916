package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// driver is a client that speaks raw lines to a Serve. Its pipes have no buffer, so what it
// does not read is not written, and it runs in a synctest bubble: time is fake, settle knows
// when the server has nothing left to do, and a goroutine left behind fails the test.
type driver struct {
	t        *testing.T
	fixture  *fixture
	in       *io.PipeWriter
	out      *bufio.Reader
	outPipe  *io.PipeReader
	stop     context.CancelCauseFunc
	finished chan error
}

// drive runs test against a server with the fixture's tools.
func drive(t *testing.T, opts Options, test func(d *driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(start(t, opts)) })
}

// driveOf does the same as a part of a test.
func driveOf(t *testing.T, name string, opts Options, test func(t *testing.T, d *driver)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, start(t, opts)) })
	})
}

func start(t *testing.T, opts Options) *driver {
	inReader, in := io.Pipe()
	outReader, out := io.Pipe()
	ctx, stop := context.WithCancelCause(t.Context())
	d := &driver{
		t: t, fixture: newFixture(), in: in, out: bufio.NewReader(outReader), outPipe: outReader,
		stop: stop, finished: make(chan error, 1),
	}
	go func() {
		err := Serve(ctx, d.fixture.server, inReader, out, opts)
		_ = inReader.Close()
		_ = out.Close()
		d.finished <- err
	}()
	t.Cleanup(func() {
		d.fixture.releaseAll()
		stop(nil)
		_ = in.Close()
		_ = outReader.Close()
	})
	return d
}

// send writes lines, each with its end.
func (d *driver) send(lines ...string) {
	d.t.Helper()
	for _, line := range lines {
		must.OK(d.t, should.ErrOf(io.WriteString(d.in, line+"\n")), "send")
	}
}

// call sends a tools/call with arguments and _meta as JSON.
func (d *driver) call(id, tool, arguments string) {
	d.t.Helper()
	d.send(toolCall(id, tool, arguments, "{}"))
}

func toolCall(id, tool, arguments, meta string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":%s}}`,
		id, tool, arguments, meta)
}

// cancel returns when the server has acted on it.
func (d *driver) cancel(id string) {
	d.t.Helper()
	d.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	d.settle()
}

func (d *driver) settle() { synctest.Wait() }

// reply is a line from the server.
type reply struct {
	line   string
	ID     json.RawMessage
	Method string
	Params struct {
		ProgressToken json.RawMessage
		Progress      float64
		Total         float64
		Message       string
	}
	Result *struct {
		Content    []struct{ Text string }
		IsError    bool
		ResultType string
		Meta       map[string]any `json:"_meta"`
	}
	Error *struct {
		Code    int
		Message string
	}
}

// text is the answer's only text.
func (r reply) text() string {
	if r.Result == nil || len(r.Result.Content) != 1 {
		return "not one content: " + r.line
	}
	return r.Result.Content[0].Text
}

// next reads one line.
func (d *driver) next() reply {
	d.t.Helper()
	line := must.Get(d.out.ReadString('\n'))(d.t)
	return parseReply(d.t, line)
}

func parseReply(t *testing.T, line string) reply {
	t.Helper()
	r := reply{line: line}
	must.Hold(t, strings.HasSuffix(line, "\n") && strings.Count(line, "\n") == 1, "not one line: %q", line)
	must.OK(t, json.Unmarshal([]byte(line), &r), "not JSON: %.300s", line)
	return r
}

// expectID reads one line, which must be the answer to id.
func (d *driver) expectID(id string) reply {
	d.t.Helper()
	r := d.next()
	must.Hold(d.t, string(r.ID) == id, "got an answer to %s, want %s: %.300s", r.ID, id, r.line)
	return r
}

// expectError reads one line, which must refuse id with code.
func (d *driver) expectError(id string, code int) reply {
	d.t.Helper()
	r := d.expectID(id)
	must.Hold(d.t, r.Error != nil && r.Error.Code == code, "want error %d: %.300s", code, r.line)
	return r
}

// ping proves that the server is there and has nothing else to say.
func (d *driver) ping() {
	d.t.Helper()
	d.send(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	r := d.expectID(`"ping"`)
	must.Hold(d.t, r.Error == nil, "ping: %s", r.line)
}

// end closes the input and returns what the server still says, and what Serve returns.
func (d *driver) end() (rest []reply, err error) {
	d.t.Helper()
	_ = d.in.Close()
	return d.rest()
}

// rest reads until Serve has returned.
func (d *driver) rest() (rest []reply, err error) {
	for {
		line, readErr := d.out.ReadString('\n')
		if readErr != nil {
			return rest, <-d.finished
		}
		rest = append(rest, parseReply(d.t, line))
	}
}

// fixture is a server with tools that do what tests need.
type fixture struct {
	server  *server.MCPServer
	started chan string              // names of "block" and "stubborn" calls that began
	ended   chan error               // causes of the contexts of those that ended
	release map[string]chan struct{} // lets a "block" call of that name answer
}

var fixtureNames = []string{"", "a", "b", "c", "d"}

func newFixture() *fixture {
	f := &fixture{
		server: server.NewMCPServer("fixture", "1", server.WithToolCapabilities(false),
			server.WithResourceCapabilities(false, false), server.WithLogging()),
		started: make(chan string, 1000),
		ended:   make(chan error, 1000),
		release: make(map[string]chan struct{}),
	}
	for _, name := range fixtureNames {
		f.release[name] = make(chan struct{})
	}
	f.tool("echo", f.echo)
	f.tool("block", f.block)
	f.tool("place", f.place)
	f.tool("stubborn", f.stubborn)
	f.tool("count", f.count)
	f.tool("log", f.log)
	f.tool("large", f.large)
	f.tool("size", f.size)
	f.tool("who", f.who)
	f.tool("panic", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("secret") })
	f.tool("unencodable", f.unencodable)
	f.tool("explosive", f.explosive)
	f.server.AddResource(mcp.NewResource("test://block", "block"), f.resource)
	f.server.AddResource(mcp.NewResource("test://gone", "gone"), func(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		rpc.SetErrorCode(ctx, mcp.RESOURCE_NOT_FOUND)
		return nil, errors.New("it has gone")
	})
	return f
}

func (f *fixture) tool(name string, handler server.ToolHandlerFunc) {
	f.server.AddTool(mcp.NewTool(name), handler)
}

func (f *fixture) releaseAll() {
	for _, c := range f.release {
		select {
		case <-c:
		default:
			close(c)
		}
	}
}

func (f *fixture) echo(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(r.GetString("text", "")), nil
}

// block waits for its release or the end of its context.
func (f *fixture) block(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	f.started <- r.GetString("name", "")
	return f.hold(ctx, r)
}

func (f *fixture) hold(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name := r.GetString("name", "")
	select {
	case <-f.release[name]:
		return mcp.NewToolResultText("released " + name), nil
	case <-ctx.Done():
		rpc.NotifyProgress(ctx, 99, 0, "after the end")
		f.ended <- context.Cause(ctx)
		return mcp.NewToolResultText("ended " + name), nil
	}
}

// place takes its place in the order of calls and then does what block does.
func (f *fixture) place(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	f.started <- r.GetString("name", "") // before the next call may start
	rpc.Settled(ctx)
	return f.hold(ctx, r)
}

// stubborn waits for its release, whatever its context says.
func (f *fixture) stubborn(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name := r.GetString("name", "")
	f.started <- name
	<-f.release[name]
	f.ended <- context.Cause(ctx)
	return mcp.NewToolResultText("stubborn " + name), nil
}

// count reports progress n times.
func (f *fixture) count(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	n := r.GetInt("n", 0)
	for i := range n {
		rpc.NotifyProgress(ctx, float64(i+1), float64(n), r.GetString("text", ""))
	}
	return mcp.NewToolResultText("counted"), nil
}

// who is what its session knows of the client.
func (f *fixture) who(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	client := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
	capabilities := client.GetClientCapabilities()
	return mcp.NewToolResultText(fmt.Sprintf("%s, elicitation %v, version %q", client.GetClientInfo().Name,
		capabilities.Elicitation != nil, server.RequestProtocolVersion(ctx))), nil
}

// log sends n notifications the way mcp-go has it.
func (f *fixture) log(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for i := range r.GetInt("n", 0) {
		params := map[string]any{"progress": i + 1, "data": strings.Repeat("x", r.GetInt("size", 0))}
		err := f.server.SendNotificationToClient(ctx, "notifications/message", params)
		if err != nil {
			return nil, err
		}
	}
	return mcp.NewToolResultText("logged"), nil
}

func (f *fixture) large(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(strings.Repeat("x", r.GetInt("n", 0))), nil
}

func (f *fixture) size(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var arguments struct{ Content string }
	if err := r.BindArguments(&arguments); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(fmt.Sprint(len(arguments.Content))), nil
}

func (f *fixture) unencodable(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{StructuredContent: func() {}}, nil
}

func (f *fixture) resource(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	f.started <- "resource"
	<-ctx.Done()
	f.ended <- context.Cause(ctx)
	return nil, ctx.Err()
}

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("secret") }

func (f *fixture) explosive(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{StructuredContent: explosive{}}, nil
}
