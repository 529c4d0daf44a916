//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// closeAll closes the sessions that servers of a state folder have left, of all principals.
func closeAll(t *testing.T, stateDir string) {
	t.Helper()
	for _, s := range leftSessions(t, stateDir) {
		mustShell(t, stateDir, "sessions", "close", "--principal", s.Principal, s.SessionID)
	}
}

func leftSessions(t *testing.T, stateDir string) []shellSession {
	t.Helper()
	var list struct{ Sessions []shellSession }
	decode(t, []byte(mustShell(t, stateDir, "sessions", "list", "--json")), &list)
	return list.Sessions
}

// One server takes the place of another: no variable is lost, and code that runs goes on until it is over.
func TestARollingRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { closeAll(t, dir) })
	first := startHTTPWith(t, setup{stateDir: dir})
	type answer struct {
		RunID                string `json:"run_id"`
		Status, Result, Code string
	}
	run := func(s *httpServer, session, code string, wait int) (a answer, status string) {
		t.Helper()
		body, status := s.curl(fmt.Sprintf("/v1/sessions/%s/runs?wait_seconds=%d", session, wait), post(object{"code": code})...)
		decode(t, body, &a)
		return a, status
	}
	want := func(s *httpServer, session, code, result string) {
		t.Helper()
		a, status := run(s, session, code, 120)
		should.Hold(t, status == "200" && a.Result == result, "%s: %s %+v, want %s", code, status, a, result)
	}
	const short, long = "e2e-rolling-short", "e2e-rolling-long"
	want(first, short, "x = 1\nx", "1")
	begun, status := run(first, long, "import os, time\nwhile not os.path.exists('go'): time.sleep(.05)\ny = 42\n'over'", 0)
	must.Hold(t, status == "202", "%s %+v", status, begun)
	next := startHTTPWith(t, setup{stateDir: dir})
	addressOf := func(s *httpServer) string { return strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp") }
	must.Soon(t, "the next server is known", func() bool { return strings.Contains(shell(t, dir, "drain", "nobody").stderr, addressOf(next)) })
	shell(t, dir, "drain").wantFault(t, "invalid_argument") // which of the two
	address := addressOf(first)
	mustShell(t, dir, "drain", address)
	if body, status := first.curl("/readyz"); status != "503" || string(body) != "draining\n" {
		t.Errorf("the server that drains: %s %q", status, body)
	}
	if a, status := run(first, "e2e-rolling-new", "1", 60); status != "503" || a.Code != "server_draining" {
		t.Errorf("a new session: %s %+v", status, a)
	}
	want(first, short, "x += 1\nx", "2")
	want(next, short, "x += 1\nx", "3")
	waited := shell(t, dir, "drain", address, "--wait", "--timeout", "1s")
	waited.stdout = ""
	waited.wantFault(t, "session_busy")
	if body, status := first.curl("/v1/sessions/"+long+"/files/go?overwrite=true", "-d", "x", "-X", "PUT"); status != "201" {
		t.Errorf("the file that it waits for: %s %s", status, body)
	}
	var over answer
	if next.ask(&over, "/v1/runs/"+begun.RunID+"?wait_seconds=120"); over.Status != "completed" || over.Result != "'over'" {
		t.Errorf("the run that was begun before: %+v", over)
	}
	mustShell(t, dir, "drain", address, "--wait")
	first.signal(syscall.SIGTERM)
	must.Hold(t, first.endsIn(endTime), "the server does not end")
	want(next, long, "y", "42")
	mustShell(t, dir, "drain")
	mustShell(t, dir, "drain", "--undo")
	eventually(t, "it is ready again", func() (bool, string) {
		body, status := next.curl("/readyz")
		return status == "200", string(body)
	})
}

// script runs one of those that come with the documentation.
func script(t *testing.T, name, stateDir, filter string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("../../../docs/deploy/backup", name), args...)
	cmd.Env = append(os.Environ(), "SANDBOX_STATE_DIR="+stateDir, "FILTER="+filter)
	out, err := cmd.CombinedOutput()
	must.Hold(t, err == nil, "%s: %v\n%s", name, err, out)
}

// volumesOf names the volumes of a state folder's sessions, by a label that they have and no other folder's.
func volumesOf(t *testing.T, session string) (filter string, names func() []string) {
	t.Helper()
	podman := func(args ...string) string {
		out := must.Get(exec.CommandContext(t.Context(), "podman", args...).Output())(t, "podman %q", args)
		return strings.TrimSpace(string(out))
	}
	name, _, _ := strings.Cut(podman("volume", "ls", "--quiet", "--filter", "label=code-sandbox-mcp.session="+session), "\n")
	filter = "label=code-sandbox-mcp.host=" + podman("volume", "inspect", "--format", `{{index .Labels "code-sandbox-mcp.host"}}`, name)
	return filter, func() []string { return strings.Fields(podman("volume", "ls", "--quiet", "--filter", filter)) }
}

// What is backed up comes back where all is lost.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq, which the script wants, is not installed")
	}
	root := t.TempDir()
	dir, backup := filepath.Join(root, "state"), filepath.Join(root, "backup")
	const id = "e2e-backup"
	s := startHTTPWith(t, setup{program: serverProgram, stateDir: dir})
	alice := s.as("alice")
	run := func(s *httpServer, code string) (r struct{ Status, Result string }) {
		t.Helper()
		s.ask(&r, "/v1/sessions/"+id+"/runs?wait_seconds=120", post(object{"code": code})...)
		return r
	}
	const begin = "open('output/f.txt', 'w').write('text')\nx = "
	run(s, begin+"41")
	run(alice, begin+"51")
	stop := func() {
		t.Helper()
		s.signal(syscall.SIGTERM)
		must.Hold(t, s.endsIn(endTime), "the server does not end")
		for _, left := range leftSessions(t, dir) { // as docs/deployment.md has it
			mustShell(t, dir, "sessions", "close", "--keep-files", "--principal", left.Principal, left.SessionID)
		}
	}
	stop()
	filter, volumes := volumesOf(t, id)
	t.Cleanup(func() { closeAll(t, dir) })
	script(t, "backup.sh", dir, filter, backup)
	for _, name := range volumes() {
		out, err := exec.CommandContext(t.Context(), "podman", "volume", "rm", name).CombinedOutput()
		must.Hold(t, err == nil, "%v: %s", err, out)
	}
	must.OK(t, os.RemoveAll(dir))
	script(t, "restore.sh", dir, filter, backup)
	s = startHTTPWith(t, setup{program: serverProgram, stateDir: dir})
	hers := *s
	hers.token = alice.token
	const all = "(x, open('output/f.txt').read())"
	r := run(s, all)
	should.Hold(t, r.Result == "(41, 'text')", "the user's: %+v", r)
	if r := run(&hers, all); r.Result != "(51, 'text')" {
		t.Errorf("alice's: %+v", r)
	}
	var history struct{ Runs []struct{ Status string } }
	if hers.ask(&history, "/v1/sessions/"+id+"/runs"); len(history.Runs) != 2 {
		t.Errorf("her history: %+v", history)
	}
	stop()
}
