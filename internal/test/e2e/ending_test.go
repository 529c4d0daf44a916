//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// endTime is how long a server may take to end before the tests call it hung. An orderly end may take
// 1.5 s; what it took is in the test's log.
const endTime = 20 * time.Second

// end closes the server's input and waits for its end, after which nothing of it may be left.
func (s *server) end() {
	s.t.Helper()
	s.endBy("end of input", func() { _ = s.stdin.Close() })
}

// endBy ends the server by what act does. It must come to its end in order, with exit status 0.
func (s *server) endBy(how string, act func()) {
	s.t.Helper()
	ids := s.sessionIDs()
	began := time.Now()
	act()
	must.Hold(s.t, s.endsIn(endTime), "the server does not end by %s", how)
	s.t.Logf("ended by %s in %v", how, time.Since(began).Round(time.Millisecond))
	code := s.cmd.ProcessState.ExitCode()
	should.Hold(s.t, code == 0, "ended by %s with %v", how, s.cmd.ProcessState)
	wantNothingLeft(s.t, ids)
}

func (s *server) endsIn(limit time.Duration) bool {
	select {
	case <-s.exited:
		return true
	case <-time.After(limit):
		return false
	}
}

// kill ends the server as the kernel would for want of memory.
func (s *server) kill() {
	s.t.Helper()
	s.killed = true
	must.OK(s.t, s.cmd.Process.Kill())
	<-s.exited
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	must.OK(s.t, s.cmd.Process.Signal(sig))
}

// sessionIDs are the sessions that this server has or had: those that its answers named, and those
// that it keeps a lock for, when it alone uses the state directory.
func (s *server) sessionIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shared {
		for _, id := range lockedSessions(s.stateDir) {
			s.sessions[id] = true
		}
	}
	ids := make([]string, 0, len(s.sessions))
	for id := range s.sessions {
		ids = append(ids, id)
	}
	return ids
}

func lockedSessions(stateDir string) (ids []string) {
	locks, _ := filepath.Glob(filepath.Join(stateDir, "sessions*", "*.lock"))
	for _, path := range locks {
		ids = append(ids, strings.TrimSuffix(filepath.Base(path), ".lock"))
	}
	return ids
}

// cleanUp is every test's end: a server that still runs ends in order, and what a failed test may
// have left is removed.
func (s *server) cleanUp() {
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the server's log:\n%s", tail(s.stderr.String()))
		}
	}()
	ids := s.sessionIDs()
	_ = s.stdin.Close()
	if !s.endsIn(endTime) {
		s.t.Error("the server does not end when its input does")
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines are then in the log
		if !s.endsIn(endTime) {
			_ = s.cmd.Process.Kill()
			<-s.exited
		}
	}
	if !s.t.Failed() && !s.killed {
		wantNothingLeft(s.t, ids)
	}
	removeAll(s.t, ids)
	if s.killed { // what clears up after it has nothing to do any more, and no folder
		for _, pid := range keepers(s.stateDir) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	_ = s.stdout.Close()
}

// endings are the ways in which clients end a server.
var endings = map[string]func(*server){
	"end of input":  func(s *server) { _ = s.stdin.Close() },
	"SIGTERM":       func(s *server) { s.signal(syscall.SIGTERM) },
	"SIGINT":        func(s *server) { s.signal(syscall.SIGINT) },
	"SIGHUP":        func(s *server) { s.signal(syscall.SIGHUP) },
	"closed stdout": func(s *server) { _ = s.stdout.Close(); s.line(`{"jsonrpc":"2.0","id":"unread","method":"tools/list"}`) },
}

func TestEndsInOrderWhileCodeRuns(t *testing.T) {
	t.Parallel()
	for how, act := range endings {
		t.Run(how, func(t *testing.T) {
			s := start(t, setup{})
			runs := []*request{
				s.beginTracked(python, object{"code": "print('busy', flush=True)\nwhile True: pass"}, "py"),
				s.beginTracked(javascript, object{"code": "console.log('busy'); while (true) {}"}, "js"),
			}
			for _, token := range []string{"py", "js"} {
				s.waitFor("the code runs", func(all []message) bool { return len(progressOf(all, token)) > 0 })
			}
			s.endBy(how, func() { act(s) })
			for _, r := range runs {
				should.Hold(t, r.pending() || r.wait().Result == nil || r.result().IsError,
					"code that ran at the end is said to have completed")
			}
		})
	}
}

// quickEnds are the ways of clients that do not wait for a server's end.
var quickEnds = map[string]func(*server){
	"asked, and killed 50 ms later": func(s *server) {
		s.signal(syscall.SIGTERM)
		_ = s.stdin.Close()
		time.Sleep(50 * time.Millisecond)
	},
	"killed behind all that descends from it": func(s *server) {
		for _, pid := range descendants(s.cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(2500 * time.Microsecond)
	},
	"killed": func(*server) {},
}

// ownService finds the folders of a server's own Podman services in its log.
var ownService = regexp.MustCompile(`address=unix://(\S+)/s own_service=true`)

// No other server ever comes to clear up.
func TestAQuickEndLeavesNothing(t *testing.T) {
	t.Parallel()
	moments := map[string]func(*server){
		"idle": func(s *server) {
			s.py("x = 1")
			s.js("const x = 1")
		},
		"while code runs": func(s *server) {
			s.beginTracked(python, object{"code": "print('busy', flush=True)\nwhile True: pass"}, "py")
			s.waitFor("the code runs", func(all []message) bool { return len(progressOf(all, "py")) > 0 })
		},
		"while a container starts": func(s *server) {
			s.beginCall(python, object{"code": "1"})
			eventually(s.t, "something is on the engine", func() (bool, string) { return !mustHold(s.t, s.sessionIDs()).empty(), "" })
		},
	}
	for how, end := range quickEnds {
		for when, reach := range moments {
			if how != "killed" && when != "while code runs" {
				continue
			}
			t.Run(how+", "+when, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				s := start(t, setup{stateDir: dir})
				s.shared = false
				reach(s)
				ids := s.sessionIDs()
				end(s)
				s.kill()
				wantNothingLeft(t, ids)
				eventually(t, "what cleared up has ended", func() (bool, string) { k := keepers(dir); return len(k) == 0, fmt.Sprint(k) })
				for _, service := range ownService.FindAllStringSubmatch(s.stderr.String(), -1) {
					if _, err := os.Stat(service[1]); err == nil {
						t.Errorf("the folder of its Podman service is there: %s", service[1])
					}
				}
			})
		}
	}
}

// keepers are the processes that wait for the end of a server with this state directory, or clear up after it.
func keepers(stateDir string) (pids []int) {
	for _, p := range processes() {
		if slices.Contains(p.args, "--after-parent") && slices.Contains(p.args, "--state-dir="+stateDir) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// descendants are the processes below one, by what they say their parents are.
func descendants(of int) (pids []int) {
	list := processes()
	pids = []int{of}
	for i := 0; i < len(pids); i++ {
		for _, p := range list {
			if p.parent == pids[i] {
				pids = append(pids, p.pid)
			}
		}
	}
	return pids[1:]
}
