//go:build unix

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// removals are the ways in which a container goes that nobody asked the server for. Each finds out what
// it needs to know first. What is gone already by then is no error.
var removals = map[string]func(t *testing.T, container string) (remove func()){
	"process 1 is killed": func(t *testing.T, c string) func() {
		pid := inspectPID(t, c, "Pid")
		return func() { _ = syscall.Kill(pid, syscall.SIGKILL) }
	},
	"conmon is killed": func(t *testing.T, c string) func() {
		pid := inspectPID(t, c, "ConmonPid")
		return func() { _ = syscall.Kill(pid, syscall.SIGKILL) }
	},
	"it is removed": func(_ *testing.T, c string) func() {
		return func() { _, _ = podman("rm", "--force", "--time", "0", c) }
	},
	"its volume is removed": func(t *testing.T, c string) func() {
		volume := inspect(t, c, `{{range .Mounts}}{{if eq .Destination "/mnt/data"}}{{.Name}}{{end}}{{end}}`)
		return func() { _, _ = podman("volume", "rm", "--force", volume) }
	},
}

// bystander makes a session that must not notice what happens to others. The test calls what is given
// back in the end.
func (s *server) bystander() (unharmed func()) {
	s.t.Helper()
	id := "e2e-bystander-" + strings.ToLower(filepath.Base(filepath.Dir(s.stateDir)))
	id = id[:min(len(id), 60)]
	args := func(code string) object { return object{"session_id": id, "code": code} }
	s.complete(python, args("mine = 41"))
	s.complete(javascript, args("const mine = 41"))
	return func() {
		s.t.Helper()
		for _, tool := range []string{python, javascript} {
			should.Equal(s.t, s.complete(tool, args("mine + 1")).Meta.Run.value(), "42", "another session's %s", tool)
		}
		s.call("close_session", object{"session_id": id})
	}
}

// busy begins code that does not end, and waits until it runs.
func (s *server) busy(tool string, more object) *request {
	s.t.Helper()
	s.lastID++
	token := fmt.Sprintf("busy-%d", s.lastID)
	arguments := object{"code": map[string]string{
		python: "print('busy', flush=True)\nwhile True: pass", javascript: "console.log('busy'); while (true) {}",
	}[tool]}
	for name, value := range more {
		arguments[name] = value
	}
	r := s.beginTracked(tool, arguments, token)
	s.waitFor("the code runs", func(all []message) bool {
		return slices.ContainsFunc(progressOf(all, token), func(p progress) bool { return strings.Contains(p.Message, "busy") })
	})
	return r
}

// loses holds the call after a loss against what it has to say: it works without the variables, or
// says that the container ended under it.
func (s *server) loses(tool string) {
	s.t.Helper()
	absent := map[string]string{python: "'kept' in globals()", javascript: "typeof kept !== 'undefined'"}[tool]
	res := s.call(tool, object{"code": absent})
	if res.Meta.Run != nil && res.Meta.Run.Status == "killed" { // it came before the server knew
		res.wantText(s.t, "variables are gone")
		res = s.call(tool, object{"code": absent})
	}
	res.wantStatus(s.t, "completed")
	should.Equal(s.t, strings.ToLower(res.Meta.Run.value()), "false", "the variable is there")
}

func TestAContainerThatGoesIsReplaced(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	unharmed := s.bystander()
	for n, how := range slices.Sorted(maps.Keys(removals)) {
		id := s.py("kept = 7").Meta.Run.SessionID
		removals[how](t, s.containerOf(id, python))()
		s.loses(python)

		s.js("kept = 7")
		running := s.busy(javascript, nil)
		removals[how](t, s.containerOf(id, javascript))()
		res := running.result()
		res.wantStatus(t, "killed")
		res.wantText(t, "variables are gone")
		s.loses(javascript)
		s.call("upload_file", object{"filename": fmt.Sprintf("%d.txt", n), "text": "x"}).wantDone(t)
	}
	unharmed()
}

// In a pipe nothing else shows that one of its programs was ended.
func TestAProgramThatTheMemoryLimitEndedIsTold(t *testing.T) {
	t.Parallel()
	// The program is by far the largest, and nothing else takes memory that the system could end next.
	s := start(t, setup{args: []string{"--memory-limit", "256m"}})
	id := s.complete("run_bash", object{"code": ":"}).Meta.Run.SessionID
	container := s.containerOf(id, "run_bash")
	process1 := inspectPID(t, container, "Pid")
	t.Cleanup(func() { _ = syscall.Kill(process1, syscall.SIGCONT) })
	within := func(file string) {
		for {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/mnt/data/%s", process1, file)); err == nil {
				return
			}
			must.OK(t, t.Context().Err(), "there is no file %s", file)
		}
	}
	// The guard of process 1 would be there first.
	running := s.beginCall("run_bash", object{"code": `touch begun; until grep -q 'State:.T' /proc/1/status; do sleep 0.02; done; tail /dev/zero | wc -c; touch over`})
	within("begun")
	_ = syscall.Kill(process1, syscall.SIGSTOP)
	within("over")
	_ = syscall.Kill(process1, syscall.SIGCONT)
	running.result().wantText(t, "note: programs that the memory limit ended during the run: ")
}
