//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// shellResult is what a command said and how it ended.
type shellResult struct {
	stdout, stderr string
	code           int
}

// shell runs the program as a person does.
func shell(t *testing.T, stateDir string, args ...string) shellResult {
	t.Helper()
	cmd := exec.Command(programFor(args), append(args, "--state-dir", stateDir)...)
	cmd.Env = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	return shellResult{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func mustShell(t *testing.T, stateDir string, args ...string) string {
	t.Helper()
	r := shell(t, stateDir, args...)
	if r.code != 0 {
		t.Fatalf("%s: exit status %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// wantFault holds a failed command against the form in which it says why.
func (r shellResult) wantFault(t *testing.T, code string) {
	t.Helper()
	if form := regexp.MustCompile(`(?m)^` + code + `: .+\nHint: .+\n`); r.code != 1 || !form.MatchString(r.stderr) || r.stdout != "" {
		t.Errorf("exit status %d, want %s:\n%s%s", r.code, code, r.stdout, r.stderr)
	}
}

// shellSession is a session as sessions list and show tell of it.
type shellSession struct {
	SessionID string `json:"session_id"`
	Principal string
	State     string
	Owner     string
	Named     bool
	Kernels   []struct{ Language, State string }
	Age       *int `json:"age_seconds"`
	Runs      int
	LastRuns  []struct{ Status, Code, Language string } `json:"last_runs"`
}

func shellSessions(t *testing.T, stateDir string) map[string]shellSession {
	t.Helper()
	var list struct{ Sessions []shellSession }
	decode(t, json.RawMessage(mustShell(t, stateDir, "sessions", "list", "--json")), &list)
	found := make(map[string]shellSession)
	for _, s := range list.Sessions {
		found[s.SessionID] = s
	}
	return found
}

func TestSessionsFromAShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-shell"
	s := start(t, setup{stateDir: dir})
	s.complete(python, object{"session_id": id, "code": "x = 41"})
	s.run(python, object{"session_id": id, "code": "1/0"}, "failed")
	unnamed := s.py("1").Meta.Run.SessionID

	found := shellSessions(t, dir)
	if f := found[id]; len(found) != 2 || f.Owner != "another server" || !f.Named || f.Age == nil || found[unnamed].Named {
		t.Errorf("list: %s", sprint(found))
	}
	var shown shellSession
	eventually(t, "the history has both runs", func() (bool, string) {
		text := mustShell(t, dir, "sessions", "show", id, "--json")
		decode(t, json.RawMessage(text), &shown)
		return shown.Runs == 2 && shown.LastRuns[1].Status == "failed", text
	})
	if shown.LastRuns[0].Code != "x = 41" || shown.LastRuns[0].Status != "completed" || shown.LastRuns[1].Code != "1/0" {
		t.Errorf("show: %s", sprint(shown))
	}
	// What is open in a live server is not touched, and goes on.
	shell(t, dir, "sessions", "close", id).wantFault(t, "session_busy")
	shell(t, dir, "sessions", "export", id, filepath.Join(t.TempDir(), "x.tar.zst")).wantFault(t, "session_busy")
	should.Equal(t, s.complete(python, object{"session_id": id, "code": "x + 1"}).Meta.Run.value(), "42", "the live session")
	s.end()
	if f := shellSessions(t, dir)[id]; f.Owner != "none" || len(f.Kernels) != 1 || f.Kernels[0].State != "kept" {
		t.Errorf("afterwards: %s", sprint(f))
	}
	should.Contain(t, mustShell(t, dir, "sessions", "close", id, "--keep-files"), "kept", "close")
	if h := mustHold(t, []string{id}); len(h.Containers) != 0 || len(h.Volumes) != 1 {
		t.Errorf("with --keep-files: %s", sprint(h))
	}
	mustShell(t, dir, "sessions", "close", id)
	if h := mustHold(t, []string{id}); !h.empty() {
		t.Errorf("a closed session still has %s", sprint(h))
	}
	shell(t, dir, "sessions", "show", id).wantFault(t, "session_not_found")
}
