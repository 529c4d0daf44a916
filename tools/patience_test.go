//go:build unix

package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
)

// impatient is a client of tools on a manager whose containers are processes.
type impatient struct {
	t       *testing.T
	d       *Deps
	session *rpc.Session
}

func newImpatient(t *testing.T) *impatient {
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir, config.Host = enginetest.New(t), t.TempDir(), "host"
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{sandbox.Bash: {
		Image: enginetest.Image, Interpreter: sandbox.Bash.Info().Interpreter, Join: containers.Join(),
	}}
	d := wrapDeps(t)
	d.Manager, d.SoftWait = sandbox.NewManager(config), time.Minute
	t.Cleanup(func() { d.Manager.Close(context.Background()) })
	return &impatient{t, d, rpc.NewSession("client", nil)}
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
	if said, answered := <-text; answered {
		t.Fatalf("a call that nobody waits for has an answer: %s", said)
	}
	other := map[string]any{}
	_, text = c.begin(c.d.listSessions(), other)
	if said := <-text; !strings.Contains(said, "Note: the run with run_id run-") || !strings.Contains(said, "goes on; wait_for_run") {
		t.Errorf("the next answer is %q", said)
	}
	_, text = c.begin(c.d.listSessions(), other)
	if said := <-text; strings.Contains(said, "Note: ") {
		t.Errorf("the answer after it is %q", said)
	}
	_, text = c.begin(runBash, waits)
	open(goOn)
	if said := <-text; !strings.Contains(said, "over") || !strings.Contains(said, "not run twice") {
		t.Errorf("the call again has %q", said)
	}
	if ran, _ := os.ReadFile(count); string(ran) != "x\n" {
		t.Errorf("the code has run %q", ran)
	}

	end, text = c.begin(runBash, waits) // it was answered, so this is another one
	must.OK(t, should.ErrOf(os.ReadFile(began)))
	end(rpc.ErrCancelledByClient)
	<-text
	if p := patienceOf(server.NewMCPServer("t", "1").WithContext(t.Context(), c.session.Call(nil))); len(p.runs) > 0 {
		t.Errorf("a call that was cancelled can be repeated: %+v", p.runs)
	}
	_, text = c.begin(runBash, map[string]any{"code": "cat " + count})
	if said := <-text; !strings.Contains(said, "x\nx") || strings.Contains(said, "Note: the run") {
		t.Errorf("after a call that was cancelled: %q", said)
	}
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
			if got, repeats, _ := p.run(ctx, o, given, begin); repeats != test.repeats || repeats != (got == run) {
				t.Errorf("%s: repeats: %v", name, repeats)
			}
		}
		should.Equal(t, p.limit, test.limit, "%s: a limit of", name)
	}
}
