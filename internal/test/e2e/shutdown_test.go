//go:build unix

package e2e

import (
	"strings"
	"syscall"
	"testing"
)

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
				if !r.pending() && r.wait().Result != nil && !r.result().IsError {
					t.Error("code that ran at the end is said to have completed")
				}
			}
		})
	}
}

func TestTheNextServerClearsWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const named = "e2e-orphan"
	killed := start(t, setup{stateDir: dir})
	killed.py("open('x.txt', 'w').write('1')")
	killed.js("while (false) {}")
	killed.complete(python, object{"session_id": named, "code": "open('x.txt', 'w').write('kept')"})
	left := killed.sessionIDs()
	killed.kill()
	next := start(t, setup{stateDir: dir})
	next.py("1")
	// But for the named session's, which can be taken over.
	eventually(t, "the killed server's containers and volumes are removed", func() (bool, string) {
		h := mustHold(t, left)
		return len(h.Containers) == 1 && strings.HasSuffix(h.Containers[0], named+"-python") &&
			len(h.Volumes) == 1 && strings.HasSuffix(h.Volumes[0], "-"+named), sprint(h)
	})
	res := next.complete(python, object{"session_id": named, "code": "open('x.txt').read()"})
	if got := res.Meta.Run.value(); got != "'kept'" {
		t.Errorf("a named session's file: %s", got)
	}
}
