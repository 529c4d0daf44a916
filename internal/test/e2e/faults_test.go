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
			if got := s.complete(tool, args("mine + 1")).Meta.Run.value(); got != "42" {
				s.t.Errorf("another session's %s has %s", tool, got)
			}
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
	if got := strings.ToLower(res.Meta.Run.value()); got != "false" {
		s.t.Errorf("the variable is there: %s", got)
	}
}

func TestAContainerThatGoesIsReplaced(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	unharmed := s.bystander()
	var files int
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
		s.call("upload_file", object{"filename": fmt.Sprintf("%d.txt", n), "text": "x"}).fields(t)
		if n == 0 {
			files = s.openFiles()
		}
	}
	if now := s.openFiles(); now > files+4 {
		t.Errorf("%d open files became %d", files, now)
	}
	unharmed()
}

// A container that goes before it has come up.
func TestAContainerThatGoesWhileItStarts(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	unharmed := s.bystander()
	call := s.beginCall(python, object{"code": "kept = 7"})
	var container string
	eventually(t, "the container runs", func() (bool, string) {
		out, err := podman("ps", "--filter", "label=code-sandbox-mcp.session", "--format", "{{.Names}}")
		for _, name := range strings.Fields(out) {
			for _, id := range unnamed(s.sessionIDs()) {
				if strings.Contains(name, id) {
					container = name
				}
			}
		}
		return container != "", fmt.Sprint(out, err)
	})
	_, _ = podman("kill", container)
	if res := call.result(); res.Meta.Error != nil {
		res.wantCode(t, "execution_failed")
	}
	s.loses(python)
	unharmed()
}

// Calls of every other kind meet a container that is gone, is being removed, or goes meanwhile.
func TestOtherCallsMeetAContainerThatGoes(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	unharmed := s.bystander()
	for _, call := range []struct {
		tool      string
		arguments object
		codes     []string
	}{
		{"session_info", nil, nil},
		{"list_sessions", nil, nil},
		{"list_artifacts", nil, []string{"engine_error"}},
		{"read_artifact", object{"path": "a.txt"}, []string{"engine_error", "not_found"}},
		{"upload_file", object{"filename": "b.txt", "text": "b"}, []string{"engine_error"}},
		{"close_session", nil, nil},
	} {
		for _, how := range []string{"process 1 is killed", "its volume is removed"} {
			remove := removals[how]
			id := s.py("kept = 7; open('a.txt', 'w').write('a')").Meta.Run.SessionID
			act := remove(t, s.containerOf(id, python))
			begun := make(chan struct{})
			go func() {
				defer close(begun)
				act()
			}()
			if res := s.call(call.tool, call.arguments); res.Meta.Error != nil && !slices.Contains(call.codes, res.Meta.Error.Code) {
				t.Errorf("%s while %s: %s", call.tool, how, res.text())
			}
			<-begun
			if call.tool != "close_session" {
				s.loses(python)
				if res := s.call(call.tool, call.arguments); res.Meta.Error != nil && res.Meta.Error.Code != "not_found" && res.Meta.Error.Code != "file_exists" {
					t.Errorf("%s after %s: %s", call.tool, how, res.text())
				}
			}
			s.call("close_session", nil)
		}
	}
	unharmed()
}

// In a pipe nothing else shows that one of its programs was ended.
func TestAProgramThatTheMemoryLimitEndedIsTold(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--memory-limit", "128m"}})
	id := s.complete(python, object{"code": "import os"}).Meta.Run.SessionID
	container := s.containerOf(id, python)
	process1 := inspectPID(t, container, "Pid")
	t.Cleanup(func() { _ = syscall.Kill(process1, syscall.SIGCONT) })
	within := func(file string) {
		for {
			if _, err := podman("exec", container, "test", "-e", "/mnt/data/"+file); err == nil {
				return
			}
			if t.Context().Err() != nil {
				t.Fatalf("there is no file %s", file)
			}
		}
	}
	// The guard of process 1 would be there first.
	running := s.beginCall(python, object{"code": `os.system("touch begun; until grep -q 'State:.T' /proc/1/status; do sleep 0.02; done; tail /dev/zero | wc -c; touch over")`})
	within("begun")
	_ = syscall.Kill(process1, syscall.SIGSTOP)
	within("over")
	_ = syscall.Kill(process1, syscall.SIGCONT)
	running.result().wantText(t, "note: programs that the memory limit ended during the run: 1")
}

// freezer gives what stops everything in a container, as a pause does, and what lets it go on.
func freezer(t *testing.T, container string) (freeze, thaw func()) {
	t.Helper()
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", inspectPID(t, container, "Pid")))
	if err != nil {
		t.Fatal(err)
	}
	send := func(sig syscall.Signal) {
		for _, p := range processes() {
			if p.namespace == namespace {
				_ = syscall.Kill(p.pid, sig) // it may have ended by itself
			}
		}
	}
	return func() { send(syscall.SIGSTOP) }, func() { send(syscall.SIGCONT) }
}

func TestAContainerThatDoesNotGoOn(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	unharmed := s.bystander()
	freeze, _ := freezer(t, s.containerOf(s.js("kept = 7").Meta.Run.SessionID, javascript))
	running := s.busy(javascript, object{"timeout_seconds": 3})
	freeze()
	s.listed()
	s.call("session_info", nil)
	res := running.result()
	res.wantStatus(t, "timed_out")
	res.wantText(t, "variables are gone")
	s.loses(javascript)
	// A freeze that is over in time costs nothing.
	id := s.py("kept = 7; open('a.txt', 'w').write('a')").Meta.Run.SessionID
	s.call("read_artifact", object{"path": "a.txt"}).wantText(t, "a")
	freeze, thaw := freezer(t, s.containerOf(id, python))
	freeze()
	reading := s.beginCall("read_artifact", object{"path": "a.txt"})
	code := s.beginCall(python, object{"code": "kept"})
	s.listed()
	if !reading.pending() || !code.pending() {
		t.Error("a frozen container answers")
	}
	thaw()
	reading.result().wantText(t, "a")
	if got := code.result().Meta.Run.value(); got != "7" {
		t.Errorf("after the freeze: %s", got)
	}
	freeze()
	s.call("close_session", nil).wantText(t, "closed")
	unharmed()
}

// The container that a next server takes up goes at that very moment.
func TestAContainerThatGoesWhileItIsTakenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, setup{stateDir: dir})
	idOf := func(how string) string { return "e2e-fault-take-" + strings.ReplaceAll(how, " ", "-") }
	for how := range removals {
		first.complete(python, object{"session_id": idOf(how), "code": "kept = 7"})
	}
	first.end()
	second := start(t, setup{stateDir: dir})
	for how, remove := range removals {
		id := idOf(how)
		act := remove(t, second.containerOf(id, python))
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			act()
		}()
		code := object{"session_id": id, "code": "'kept' in globals()"}
		res := second.call(python, code)
		<-gone
		if res.Meta.Error != nil { // a volume can go between being made and being used
			res.wantCode(t, "engine_error")
		}
		if res = second.call(python, code); res.Meta.Run != nil && res.Meta.Run.Status == "killed" {
			res = second.call(python, code)
		}
		res.wantStatus(t, "completed")
		second.call("close_session", object{"session_id": id})
	}
}
