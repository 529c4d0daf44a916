//go:build unix

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The runtime that services of the tests start containers with: it works on every host.
const anyRuntime = "runc"

// beginService starts a Podman service, which may not listen yet.
func beginService(socket string) (*exec.Cmd, error) {
	cmd := exec.Command("podman", "--runtime", anyRuntime, "system", "service", "--time=0", "unix://"+socket)
	cmd.Dir = filepath.Dir(socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, cmd.Start()
}

func endService(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
}

// A named session's containers go on without the service, and the server with them: variables are kept, and
// so is code that runs.
func TestANamedSessionOutlivesTheService(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--oci-runtime", anyRuntime}})
	const id = "e2e-service-named"
	both := []string{python, javascript}
	for _, tool := range both {
		s.complete(tool, object{"session_id": id, "code": map[string]string{python: "kept = 7", javascript: "var kept = 7"}[tool]})
	}
	signal(t, s.ownService(), syscall.SIGKILL)
	for _, tool := range both {
		if res := s.complete(tool, object{"session_id": id, "code": "kept"}); res.Meta.Run.value() != "7" || strings.Contains(res.text(), "gone") {
			t.Errorf("%s: after the service's end: %s", tool, res.text())
		}
	}
	s.call("upload_file", object{"session_id": id, "filename": "x.txt", "text": "x"}).wantDone(t)
	for n, tool := range both {
		running := s.busy(tool, object{"session_id": id, "code": map[string]string{
			python:     "import time, os\nprint('busy', flush=True)\nwhile not os.path.exists('go'): time.sleep(.02)\nos.remove('go'); print('over'); kept * 6",
			javascript: "console.log('busy'); const fs = require('fs'); while (!fs.existsSync('go')) await new Promise((r) => setTimeout(r, 20)); fs.rmSync('go'); console.log('over'); kept * 6",
		}[tool]})
		signal(t, s.ownService(), syscall.SIGKILL)
		other := both[1-n]
		s.complete(other, object{"session_id": id, "code": map[string]string{
			python: "open('go', 'w').close()", javascript: "require('fs').writeFileSync('go', '')"}[other]})
		res := running.result()
		res.wantStatus(t, "completed")
		if res.Meta.Run.value() != "42" || res.Meta.Run.Stdout != "busy\nover\n" {
			t.Errorf("%s: the run under it: %s", tool, res.text())
		}
	}
	s.call("close_session", object{"session_id": id})
	if h := mustHold(t, []string{id}); !h.empty() {
		t.Errorf("a closed session still has %s", sprint(h))
	}
}
