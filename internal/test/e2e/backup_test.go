//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// script runs one of those that come with the documentation.
func script(t *testing.T, name, stateDir, filter string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("../../../docs/deploy/backup", name), args...)
	cmd.Env = append(os.Environ(), "SANDBOX_STATE_DIR="+stateDir, "FILTER="+filter)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// volumesOf names the volumes of a state folder's sessions, by a label that they have and no other folder's.
func volumesOf(t *testing.T, session string) (filter string, names func() []string) {
	t.Helper()
	podman := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "podman", args...).Output()
		must.OK(t, err, "podman %q", args)
		return strings.TrimSpace(string(out))
	}
	name := podman("volume", "ls", "--quiet", "--filter", "label=code-sandbox-mcp.session="+session)
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
		if !s.endsIn(endTime) {
			t.Fatal("the server does not end")
		}
		for _, left := range leftSessions(t, dir) { // as docs/deployment.md has it
			mustShell(t, dir, "sessions", "close", "--keep-files", "--principal", left.Principal, left.SessionID)
		}
	}
	stop()
	filter, volumes := volumesOf(t, id)
	t.Cleanup(func() { closeAll(t, dir) })
	script(t, "backup.sh", dir, filter, backup)
	for _, name := range volumes() {
		if out, err := exec.CommandContext(t.Context(), "podman", "volume", "rm", name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	must.OK(t, os.RemoveAll(dir))
	script(t, "restore.sh", dir, filter, backup)
	s = startHTTPWith(t, setup{program: serverProgram, stateDir: dir})
	hers := *s
	hers.token = alice.token
	const all = "(x, open('output/f.txt').read())"
	if r := run(s, all); r.Result != "(41, 'text')" {
		t.Errorf("the user's: %+v", r)
	}
	if r := run(&hers, all); r.Result != "(51, 'text')" {
		t.Errorf("alice's: %+v", r)
	}
	var history struct{ Runs []struct{ Status string } }
	if hers.ask(&history, "/v1/sessions/"+id+"/runs"); len(history.Runs) != 2 {
		t.Errorf("her history: %+v", history)
	}
	stop()
}
