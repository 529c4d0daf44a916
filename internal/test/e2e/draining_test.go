//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
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
		if a, status := run(s, session, code, 120); status != "200" || a.Result != result {
			t.Errorf("%s: %s %+v, want %s", code, status, a, result)
		}
	}
	const short, long = "e2e-rolling-short", "e2e-rolling-long"
	want(first, short, "x = 1\nx", "1")
	begun, status := run(first, long, "import os, time\nwhile not os.path.exists('go'): time.sleep(.05)\ny = 42\n'over'", 0)
	if status != "202" {
		t.Fatalf("%s %+v", status, begun)
	}
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
	if !first.endsIn(endTime) {
		t.Fatal("the server does not end")
	}
	want(next, long, "y", "42")
	mustShell(t, dir, "drain")
	mustShell(t, dir, "drain", "--undo")
	eventually(t, "it is ready again", func() (bool, string) {
		body, status := next.curl("/readyz")
		return status == "200", string(body)
	})
}
