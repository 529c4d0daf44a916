//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/cluster"
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
		host := must.Get(os.ReadFile("/proc/version"))(t)
		got := first.complete(test.tool, object{"session_id": id, "code": test.kernel}).Meta.Run.value()
		should.Hold(t, !strings.Contains(got, strings.Fields(string(host))[2]), "the kernel is the host's: %s", got)
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
	got := second.complete(python, object{"session_id": id, "code": "'kept' in globals()"}).Meta.Run.value()
	should.Hold(t, got == want, "afterwards there is %s, but was told: %s", got, text)
	second.call("close_session", object{"session_id": id})
}

// The tests of this file are those that make test-kubernetes runs. All of their names begin with TestPods.

// inPods are the settings of a server whose sessions are in pods of a cluster, with claims for their files.
func inPods(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	image := containers.ImageRef("python")
	c.Load(t, image)
	return []string{
		"--engine=kubernetes", "--kubeconfig", c.Kubeconfig, "--runtime-class", c.RuntimeClass, "--storage-class", c.StorageClass,
		"--python-image", image, "--js-image", image, "--bash-image=off",
	}
}

// begun starts a run that lasts, and waits until it prints.
func (s *server) begun(session string) *request {
	s.t.Helper()
	r := s.beginTracked(python, object{"code": "import time\nprint('begun', flush=True)\ntime.sleep(300)", "session_id": session, "timeout_seconds": 400}, "begun-"+session)
	eventually(s.t, "the run begins", func() (bool, string) {
		info := s.call("session_info", object{"session_id": session}).text()
		return strings.Contains(info, `"run_id"`), info
	})
	return r
}

// A pod that is told to go in the middle of a run freezes the variables, and the next call has them in another.
func TestPodsThatGoInTheMiddleOfARun(t *testing.T) {
	c := cluster.Need(t)
	s := start(t, setup{args: inPods(t, c)})
	const name = "drained"
	s.complete(python, object{"code": "x = 41; open('kept', 'w').write('text')", "session_id": name})
	run := s.begun(name)
	node := strings.TrimSpace(c.Kubectl(t, "get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}"))
	defer c.Kubectl(t, "uncordon", node)
	c.Kubectl(t, "drain", node, "--force", "--delete-emptydir-data", "--timeout=60s", "--pod-selector=app.kubernetes.io/component=sandbox")
	lost := run.result()
	should.Hold(t, lost.Meta.Run != nil && lost.Meta.Run.Status != "completed", "the run came to: %s", lost.text())
	c.Kubectl(t, "uncordon", node)
	s.complete(python, object{"code": "x + 1, open('kept').read()", "session_id": name}).wantText(t, "(42, 'text')")
	s.call("close_session", object{"session_id": name})
}
