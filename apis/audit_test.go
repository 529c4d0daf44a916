package apis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit/witness"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// watch has a function asked before each run of a fixture's sessions that open from now on.
func watch(f *resttest.Fixture, admit func(*sandbox.Run) error) {
	config := f.Deps.Manager.Config()
	config.Admit = func(_ context.Context, run *sandbox.Run) error { return admit(run) }
	f.Deps.Manager.Reconfigure(config)
}

// Routes that are no tools run code of the server's own: it is told of as all code is, and refused as all code is.
func TestNoRouteRunsCodeUnseen(t *testing.T) {
	t.Parallel()
	f := start(t, nil, sandbox.Python, sandbox.Bash)
	var refuse error
	told := 0
	watch(f, func(*sandbox.Run) error { told++; return refuse })
	requests := [][3]string{
		{"POST", "/sessions", `{"execution_options": {"environment_variables": {"A": "b"}}}`},
	}
	for n, r := range requests {
		f.Want(200, r[0], r[1], r[2])
		should.Hold(t, told == n+1, "%s %s: told of %d runs, not %d", r[0], r[1], told, n+1)
	}
	refuse = errors.New("no")
	for _, r := range requests {
		status, text := f.Do(r[0], r[1], r[2])
		should.Hold(t, status >= 400, "%s %s: %d %s", r[0], r[1], status, text)
	}
}

// lines has what is done told to an audit log, and returns what it says.
func lines(t *testing.T, do func(f *resttest.Fixture, deps *tools.Deps)) (list []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log := must.Get(audit.Open(audit.Options{Path: path}))(t)
	of := witness.New(log).For(principal.Principal{Name: "ann"}, nil)
	var own *tools.Deps
	f := start(t, func(d *tools.Deps) { d.Called, own = of.Calls(d.SessionOf), d }, sandbox.Python, sandbox.Bash)
	config := f.Deps.Manager.Config()
	config.Observer, config.Admit = of, of.Admit
	f.Deps.Manager.Reconfigure(config)
	do(f, own)
	must.OK(t, log.Close(context.Background()))
	text := must.Get(os.ReadFile(path))(t)
	must.OK(t, audit.Read(bytes.NewReader(text), func(_ []byte, l *audit.Line) error {
		delete(l.Detail, "ms")
		rest, _ := json.Marshal(l.Detail)
		list = append(list, strings.Join([]string{l.Kind, l.Action, l.Outcome, l.Session, l.Tool, l.CodeHash, string(rest)}, "|"))
		return nil
	}))
	return list
}

func TestACallHasTheSameLinesByMCPAndByREST(t *testing.T) {
	t.Parallel()
	long := "select '" + strings.Repeat("x", 100_000) + "' ;;"
	for _, call := range []struct {
		tool, method, path string
		given              map[string]any
	}{
		{"exec_sql", "POST", "/v1/sessions/one/sql", map[string]any{"connection": "none", "query": "select 1", "session_id": "one"}},
		{"exec_sql", "POST", "/v1/sessions/one/sql", map[string]any{"connection": "none", "query": long, "session_id": "one"}},
		{"close_session", "DELETE", "/v1/sessions/one", map[string]any{"session_id": "one"}},
		{"close_session", "DELETE", "/sessions/one", map[string]any{"session_id": "one"}},
	} {
		body, _ := json.Marshal(call.given)
		byREST := lines(t, func(f *resttest.Fixture, _ *tools.Deps) { f.Do(call.method, call.path, string(body)) })
		byMCP := lines(t, func(_ *resttest.Fixture, d *tools.Deps) {
			for _, tool := range tools.ForPrograms(d) {
				if tool.Tool.Name == call.tool {
					_, _ = tool.Handler(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: call.tool, Arguments: call.given}})
				}
			}
		})
		if !slices.Equal(byREST, byMCP) || len(byMCP) == 0 || !strings.Contains(byMCP[0], "|one|") || call.tool == "exec_sql" && len(byMCP) != 2 {
			t.Errorf("%s: by REST\n%s\nand by MCP\n%s", call.tool, strings.Join(byREST, "\n"), strings.Join(byMCP, "\n"))
		}
	}
}
