//go:build unix

package e2e

import (
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// goesOn begins a run that does not end soon, waits until its code has said something, and gives its id.
// The server's soft wait must be short.
func (s *server) goesOn(tool string, arguments object) string {
	s.t.Helper()
	res := s.call(tool, arguments)
	eventually(s.t, "the code has begun", func() (bool, string) {
		if res.Meta.Run == nil || res.Meta.Run.Status != "running" {
			s.t.Fatalf("the run: %s", res.text())
		}
		if res.Meta.Run.Stdout != "" {
			return true, ""
		}
		res = s.call("wait_for_run", object{"run_id": res.Meta.Run.RunID, "timeout_seconds": 0.1})
		return false, res.text()
	})
	return res.Meta.Run.RunID
}

// Code that runs when the server is killed goes on, and the next server tells its result.
func TestARunOutlivesItsServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-lasting-run"
	first := start(t, setup{stateDir: dir, args: []string{"--soft-wait", "1s"}})
	run := first.goesOn(python, object{"session_id": id, "timeout_seconds": 600,
		"code": "import time, os\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(.02)\nprint('over')\nkept = 7\nkept * 6"})
	first.kill()
	second := start(t, setup{stateDir: dir, args: []string{"--soft-wait", "1s"}})
	if res := second.call("wait_for_run", object{"run_id": run}); res.Meta.Run == nil || res.Meta.Run.Status != "running" {
		t.Fatalf("in the next server: %s", res.text())
	}
	second.kill()
	third := start(t, setup{stateDir: dir})
	// The other language's kernel shares the files and lets the run go on.
	third.complete(javascript, object{"session_id": id, "code": "require('fs').writeFileSync('go', '')"})
	over := third.call("wait_for_run", object{"run_id": run})
	if over.Meta.Run == nil || over.Meta.Run.Status != "completed" || over.Meta.Run.Stdout != "begun\nover\n" || over.Meta.Run.value() != "42" {
		t.Errorf("its end: %s", over.text())
	}
	should.Equal(t, third.complete(python, object{"session_id": id, "code": "kept"}).Meta.Run.value(), "7", "its variable")
	third.call("close_session", object{"session_id": id})
}

// goesToSleep waits until a session has no container that runs.
func goesToSleep(t *testing.T, id string) {
	t.Helper()
	eventually(t, "the container ends by itself", func() (bool, string) {
		out, err := podman("ps", "--filter", "label=code-sandbox-mcp.session="+id, "--format", "{{.Names}}")
		return err == nil && strings.TrimSpace(out) == "", out
	})
}

// However a kernel ends in order, the next one has its variables.
func TestVariablesSleepAndWake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id, woken = "e2e-lasting-sleeps", "1 variable is back as it was at "
	args := object{"session_id": id, "code": "x = x + 1 if 'x' in globals() else 40; x"}
	s := start(t, setup{stateDir: dir, args: []string{"--idle-timeout", "1s"}})
	s.complete(python, args)
	goesToSleep(t, id)
	wants := func(value string) {
		t.Helper()
		res := s.complete(python, args)
		if res.wantText(t, woken); res.Meta.Run.value() != value {
			t.Errorf("x is %s, want %s", res.Meta.Run.value(), value)
		}
	}
	wants("41")
	s.end()
	goesToSleep(t, id)

	s = start(t, setup{stateDir: dir})
	s.call("list_sessions", nil).wantText(t, id+": asleep", "kept until 20")
	wants("42")
	s.call("close_session", object{"session_id": id, "keep_files": true})
	wants("43")
	out, err := podman("ps", "--filter", "label=code-sandbox-mcp.session="+id, "--format", "{{.Names}}")
	if err == nil {
		_, err = podman("stop", strings.TrimSpace(out))
	}
	must.OK(t, err)
	wants("44")
	s.end()
	mustShell(t, dir, "sessions", "pin", id)
	should.Contain(t, mustShell(t, dir, "sessions", "close", id, "--keep-files"), "kept", "close")
	if out := mustShell(t, dir, "sessions", "list"); !strings.Contains(out, "asleep") || !strings.Contains(out, "pinned") {
		t.Errorf("list:\n%s", out)
	}
	s = start(t, setup{stateDir: dir})
	wants("45")
	s.call("close_session", object{"session_id": id})
}
