//go:build unix

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"
)

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
