//go:build unix

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The runtime that services of the tests start containers with: it works on every host.
const anyRuntime = "runc"

// serve starts a Podman service that ends with the test, and gives its socket.
func serve(t *testing.T, socket string) *exec.Cmd {
	t.Helper()
	cmd, err := beginService(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endService(cmd) })
	eventually(t, "the service listens", func() (bool, string) {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return false, err.Error()
		}
		return conn.Close() == nil, ""
	})
	return cmd
}

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

// socketPath is one that is short enough for every system.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "csm-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// survives holds a server whose connections to the engine were lost against what it has to do: the next
// call works, whether the variables are there or not.
func (s *server) survives() {
	s.t.Helper()
	for _, tool := range []string{python, javascript} {
		res := s.call(tool, object{"code": "1 + 1"})
		if res.Meta.Run != nil && res.Meta.Run.Status == "killed" {
			res = s.call(tool, object{"code": "1 + 1"})
		}
		res.wantStatus(s.t, "completed")
	}
	s.call("upload_file", object{"filename": "x.txt", "text": "x", "overwrite": true}).fields(s.t)
	s.listed()
}

func TestTheServersOwnServiceIsKilled(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--oci-runtime", anyRuntime}})
	other := start(t, setup{})
	other.py("mine = 41")
	s.py("kept = 7")
	signal(t, s.ownService(), syscall.SIGKILL)
	s.survives()
	for _, tool := range []string{python, javascript} {
		running := s.busy(tool, nil)
		signal(t, s.ownService(), syscall.SIGKILL)
		running.result().wantStatus(t, "killed")
		s.survives()
	}
	starting := s.beginCall(python, object{"session_id": "e2e-service-killed", "code": "1"})
	signal(t, s.ownService(), syscall.SIGKILL)
	if res := starting.result(); res.Meta.Error == nil && res.Meta.Run.Status != "killed" {
		res.wantStatus(t, "completed")
	}
	if res := s.call(python, object{"session_id": "e2e-service-killed", "code": "1"}); res.Meta.Run == nil || res.Meta.Run.Status != "killed" {
		res.wantStatus(t, "completed")
	}
	s.call("close_session", object{"session_id": "e2e-service-killed"})
	signal(t, s.ownService(), syscall.SIGKILL)
	s.call("close_session", nil).wantText(t, "closed")
	if got := other.py("mine + 1").Meta.Run.value(); got != "42" {
		t.Errorf("another server's session has %s", got)
	}
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
	s.call("upload_file", object{"session_id": id, "filename": "x.txt", "text": "x"}).fields(t)
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

func TestAGivenServiceIsKilled(t *testing.T) {
	t.Parallel()
	socket := socketPath(t)
	service := serve(t, socket)
	s := start(t, setup{args: []string{"--engine-url", "unix://" + socket, "--start-timeout", "20s"}})
	s.py("kept = 7")
	running := s.busy(python, nil)
	_ = syscall.Kill(-service.Process.Pid, syscall.SIGKILL)
	running.result().wantStatus(t, "killed")
	res := s.call(python, object{"code": "1"})
	res.wantCode(t, "engine_unavailable")
	res.wantText(t, "--engine-url")
	s.listed()
	_ = os.Remove(socket)
	serve(t, socket)
	s.survives()
	s.end() // before the second service
}
