//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// inGVisor are the arguments of a server whose containers have gVisor's kernel. An ordinary user may be
// without: then the answer must say so, and the test ends.
func inGVisor(t *testing.T) []string {
	t.Helper()
	args := []string{"--oci-runtime", "runsc"}
	if runtime.GOOS != "linux" {
		t.Skip("the engine is in a virtual machine, whose runtime a server does not choose")
	}
	must.OK(t, should.ErrOf(exec.LookPath("runsc")), "gVisor's runsc is not installed: scripts/install-deps test")
	if os.Getuid() == 0 {
		return args
	}
	s := start(t, setup{args: args})
	res := s.call(python, object{"code": "1"})
	s.end()
	if res.IsError {
		res.wantCode(t, "engine_unavailable")
		res.wantText(t, `"runsc"`, "run this program as root")
		t.Skip("runsc does not start a container for this user, and the answer says so: " + res.text())
	}
	return args
}

// A session under gVisor is what it is elsewhere, in both languages.
func TestGVisor(t *testing.T) {
	t.Parallel()
	args := append(inGVisor(t), "--memory-limit", "400m")
	dir := t.TempDir()
	const id = "e2e-gvisor"
	first := start(t, setup{stateDir: dir, args: args})
	for _, test := range []struct{ tool, keep, kernel, busy, child string }{
		{python, "kept = 7", "open('/proc/version').read()", "while True: pass",
			"import subprocess; subprocess.getoutput('echo out')"},
		{javascript, "const kept = 7", "require('fs').readFileSync('/proc/version', 'utf8')", "while (true) {}",
			"require('child_process').execSync('echo out').toString().trim()"},
	} {
		first.complete(test.tool, object{"session_id": id, "code": test.keep})
		res := first.run(test.tool, object{"session_id": id, "code": test.busy, "timeout_seconds": 1}, "timed_out")
		res.wantText(t, "variables are kept")
		should.Equal(t, first.complete(test.tool, object{"session_id": id, "code": test.child}).Meta.Run.value(), "'out'", "a child says")
		host, err := os.ReadFile("/proc/version")
		must.OK(t, err)
		if got := first.complete(test.tool, object{"session_id": id, "code": test.kernel}).Meta.Run.value(); strings.Contains(got, strings.Fields(string(host))[2]) {
			t.Errorf("the kernel is the host's: %s", got)
		}
	}
	first.end()
	second := start(t, setup{stateDir: dir, args: args})
	should.Equal(t, second.complete(javascript, object{"session_id": id, "code": "kept"}).Meta.Run.value(), "7", "the next server")
	text := second.call(python, object{"session_id": id, "code": "held = []\nwhile True: held.append(bytearray(b'x') * (16 << 20))"}).text()
	want := "True"
	if strings.HasPrefix(text, "killed after") { // the whole of gVisor is: it was quicker than the look at its memory
		want = "False"
	} else if !strings.HasPrefix(text, "MemoryError: ") {
		t.Errorf("memory without end: %s", text)
	}
	if got := second.complete(python, object{"session_id": id, "code": "'kept' in globals()"}).Meta.Run.value(); got != want {
		t.Errorf("afterwards there is %s, but was told: %s", got, text)
	}
	second.call("close_session", object{"session_id": id})
}
