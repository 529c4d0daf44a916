//go:build unix

package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// impatient is a client of tools on a manager whose containers are processes.
type impatient struct {
	t       *testing.T
	d       *Deps
	session *rpc.Session
	loses   error // why it does not read an answer; nil: it reads
}

func newImpatient(t *testing.T, more ...sandbox.Language) *impatient {
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir, config.Host = enginetest.New(t), t.TempDir(), "host"
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{}
	for _, l := range append(more, sandbox.Bash) {
		config.Kernels[l] = sandbox.KernelConfig{Image: enginetest.Image, Interpreter: l.Info().Interpreter, Join: containers.Join()}
	}
	d := wrapDeps(t)
	d.Manager, d.SoftWait = sandbox.NewManager(config), time.Minute
	t.Cleanup(func() { d.Manager.Close(context.Background()) })
	return &impatient{t: t, d: d, session: rpc.NewSession("client", nil)}
}

// begin begins a call, and returns what ends it and where its text comes; it has none where it was ended.
func (c *impatient) begin(t tool, arguments map[string]any) (end context.CancelCauseFunc, text <-chan string) {
	call := rpc.NewCall(&rpc.Envelope{}, rpc.NullID)
	ctx, end := context.WithCancelCause(rpc.WithCall(c.t.Context(), &call))
	got := make(chan string, 1)
	go func() {
		res, err := c.d.wrap(t)(server.NewMCPServer("t", "1").WithContext(ctx, c.session.Call(nil)), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: arguments}})
		if err != nil {
			close(got)
			return
		}
		var all strings.Builder
		for _, part := range res.Content {
			all.WriteString(part.(mcp.TextContent).Text + "\n")
		}
		call.Answered(c.loses)
		got <- all.String()
	}()
	return end, got
}

// What a client gives up on goes on. The next answer names it, and a call that repeats it has its result, once.
func TestARunOutlivesItsClientsPatience(t *testing.T) {
	c := newImpatient(t)
	folder := t.TempDir()
	count, began, goOn := filepath.Join(folder, "count"), filepath.Join(folder, "began"), filepath.Join(folder, "go-on")
	for _, pipe := range []string{began, goOn} {
		must.OK(t, syscall.Mkfifo(pipe, 0o600))
	}
	waits := map[string]any{"code": fmt.Sprintf("echo x >>%s; echo >%s; read x <%s; echo over", count, began, goOn)}
	runBash := c.d.runCode(sandbox.Bash.Info())
	open := func(pipe string) {
		must.OK(t, os.WriteFile(pipe, []byte("\n"), 0))
	}

	end, text := c.begin(runBash, waits)
	must.OK(t, should.ErrOf(os.ReadFile(began)))
	end(&rpc.GaveUpError{After: time.Hour})
	said, answered := <-text
	must.Hold(t, !answered, "a call that nobody waits for has an answer: %s", said)
	other := map[string]any{}
	_, text = c.begin(c.d.listSessions(), other)
	if said := <-text; !strings.Contains(said, "Note: the run with run_id run-") || !strings.Contains(said, "goes on; wait_for_run") {
		t.Errorf("the next answer is %q", said)
	}
	_, text = c.begin(c.d.listSessions(), other)
	said = <-text
	should.Hold(t, !strings.Contains(said, "Note: "), "the answer after it is %q", said)
	_, text = c.begin(runBash, waits)
	open(goOn)
	said = <-text
	should.Hold(t, strings.Contains(said, "over") && strings.Contains(said, "not run twice"), "the call again has %q", said)
	ran, _ := os.ReadFile(count)
	should.Hold(t, string(ran) == "x\n", "the code has run %q", ran)

	end, text = c.begin(runBash, waits) // it was answered, so this is another one
	must.OK(t, should.ErrOf(os.ReadFile(began)))
	end(rpc.ErrCancelledByClient)
	<-text
	p := patienceOf(server.NewMCPServer("t", "1").WithContext(t.Context(), c.session.Call(nil)))
	should.Hold(t, len(p.runs) == 0, "a call that was cancelled can be repeated: %+v", p.runs)
	_, text = c.begin(runBash, map[string]any{"code": "cat " + count})
	if said := <-text; !strings.Contains(said, "x\nx") || strings.Contains(said, "Note: the run") {
		t.Errorf("after a call that was cancelled: %q", said)
	}
}

// An answer that its client gave up just before it was written is told of by the next answer that is read, and the client's limit is known.
func TestAnAnswerThatCameTooLateIsNotLost(t *testing.T) {
	c := newImpatient(t)
	runBash, code := c.d.runCode(sandbox.Bash.Info()), map[string]any{"code": "echo over"}
	say := func(tool tool, arguments map[string]any, loses error) string {
		c.loses = loses
		_, text := c.begin(tool, arguments)
		return <-text
	}
	const note = "has ended; wait_for_run gives its result"
	gaveUp := &rpc.GaveUpError{After: 5 * time.Second}
	say(runBash, code, gaveUp)
	should.Equal(t, waitLimit(server.NewMCPServer("t", "1").WithContext(t.Context(), c.session.Call(nil))), 5*time.Second)
	for _, loses := range []error{gaveUp, nil} {
		should.Contain(t, say(c.d.listSessions(), map[string]any{}, loses), note, "the next answer, lost by %v", loses)
	}
	if said := say(runBash, code, nil); !strings.Contains(said, "over") || !strings.Contains(said, "not run twice") {
		t.Errorf("the call again has %q", said)
	}
	if said := say(runBash, code, rpc.ErrCancelledByClient); strings.Contains(said, "Note: ") {
		t.Errorf("a call after it has %q", said)
	}
	said := say(runBash, code, nil)
	should.Hold(t, !strings.Contains(said, "not run twice") && strings.Contains(said, note), "the call again after a cancel has %q", said)
	id := regexp.MustCompile(`run_id (run-\w+), which`).FindStringSubmatch(said)[1]
	said = say(c.d.waitForRun(), map[string]any{"run_id": id}, nil) + say(c.d.listSessions(), map[string]any{}, nil)
	should.Hold(t, strings.Contains(said, "over") && !strings.Contains(said, "Note: the run"), "waiting for it has %q", said)
}

// A client that says nothing when it gives up is known by what it repeats.
func TestARepeatedCallTellsAClientsLimit(t *testing.T) {
	ctx, run := t.Context(), new(sandbox.Run)
	begin := func(sandbox.RunOptions) (*sandbox.Run, error) { return new(sandbox.Run), nil }
	for name, test := range map[string]struct {
		after   []float64 // seconds from one call to the next
		repeats bool
		limit   time.Duration
	}{
		"at once":             {[]float64{0.1}, false, 0},
		"an early one":        {[]float64{3}, true, 0},
		"one of five seconds": {[]float64{8}, true, 5 * time.Second},
		"one of thirty":       {[]float64{31}, true, 30 * time.Second},
		"one that thinks":     {[]float64{12, 12}, true, 5 * time.Second},
	} {
		p := new(patience)
		o := sandbox.RunOptions{Language: sandbox.Bash, Code: "x"}
		given := map[string]any{"code": "x"}
		u := p.add(run, keyOf(o, given), time.Now())
		for _, seconds := range test.after {
			u.came = time.Now().Add(-time.Duration(seconds * float64(time.Second)))
			given["timeout_seconds"] = seconds // whatever it allows
			got, repeats, _ := p.run(ctx, o, given, begin)
			should.Hold(t, repeats == test.repeats && test.repeats == (got == run), "%s: repeats: %v", name, repeats)
		}
		should.Equal(t, p.limit, test.limit, "%s: a limit of", name)
	}
}

// A call that waits for long, as for packages, keeps those behind it for its own session waiting, and no other.
func TestACallHoldsUpItsOwnSessionAlone(t *testing.T) {
	c := newImpatient(t)
	began, goOn := make(chan string, 10), make(chan struct{})
	long := tool{definition: mcp.NewTool("long", sessionParam()), ordered: true, handle: func(ctx context.Context, p *params) (*render.Answer, error) {
		began <- "long"
		rpc.Settled(ctx)
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		settled(ctx)
		return render.Text("", nil), nil
	}}
	after := tool{definition: mcp.NewTool("after", sessionParam()), handle: func(_ context.Context, p *params) (*render.Answer, error) {
		began <- p.session()
		return render.Text("", nil), nil
	}}
	// call begins a call when the one before lets it, as the loop over stdio does.
	before := make(chan struct{})
	close(before)
	call := func(t tool, session string) (end context.CancelCauseFunc, over <-chan struct{}) {
		<-before
		own, done := make(chan struct{}), make(chan struct{})
		before = own
		call := rpc.NewCall(&rpc.Envelope{}, rpc.NullID)
		let := make(chan struct{}, 10)
		call.Settle = func() { let <- struct{}{} }
		go func() { <-let; close(own) }()
		ctx, end := context.WithCancelCause(rpc.WithCall(c.t.Context(), &call))
		go func() {
			defer close(done)
			defer call.Settle()
			_, _ = c.d.wrap(t)(server.NewMCPServer("t", "1").WithContext(ctx, c.session.Call(nil)), mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: map[string]any{"session_id": session}}})
		}()
		return end, done
	}
	_, _ = call(long, "a")
	should.Equal(t, <-began, "long")
	end, ended := call(after, "a")
	_, third := call(after, "a")
	_, other := call(after, "b")
	<-other
	should.Equal(t, <-began, "b")
	_, listed := call(c.d.listSessions(), "")
	<-listed
	end(rpc.ErrCancelledByClient)
	<-ended
	should.Equal(t, len(began), 0, "those behind it have begun")
	close(goOn)
	<-third
	should.Equal(t, <-began, "a")
	lanes := lanesOf(rpc.WithCall(server.NewMCPServer("t", "1").WithContext(t.Context(), c.session.Call(nil)), &rpc.Call{Settle: func() {}}))
	should.Hold(t, len(lanes.last) == 0, "%d places are left", len(lanes.last))
}

// A session is the same one by its name and as the client's own, and that of a run that is named alone.
func TestTheSessionOfACallIsKnown(t *testing.T) {
	c := newImpatient(t)
	run := must.Get(c.d.Manager.Run(sandbox.RunOptions{Language: sandbox.Bash, Code: "true"}))(t)
	<-run.Done()
	for _, given := range []map[string]any{{}, {"session_id": run.SessionID}, {"run_id": run.ID}} {
		should.Equal(t, c.d.sessionOfCall(&params{given: given}), "", "%v", given)
	}
	should.Equal(t, c.d.sessionOfCall(&params{given: map[string]any{"session_id": "own", "run_id": run.ID}}), "own")
}
