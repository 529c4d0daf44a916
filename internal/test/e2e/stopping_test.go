//go:build unix

package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// Code is stopped before its kernel is killed, if the machine lets that look in time; a killed kernel of Python leaves a copy.
// Either way the answer says why, as far as the system has left a supervisor to know that, and whether the variables are there.
func TestKernelsThatEatMemory(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--memory-limit", "300m"}})
	for _, test := range []struct{ tool, code, again, kept, gone string }{
		{python, "data = []\nwhile True: data.append(bytearray(b'x') * 10_000_000)", "'kept' in globals(), open('kept.txt').read()",
			"(True, 'file')", "(False, 'file')"},
		{javascript, "const data = []; while (true) data.push(Buffer.alloc(10_000_000, 1))",
			"[typeof kept, require('fs').readFileSync('kept.txt', 'utf8')]", "[ 'number', 'file' ]", "[ 'undefined', 'file' ]"},
	} {
		s.py("open('kept.txt', 'w').write('file')")
		s.complete(test.tool, object{"code": "kept = 7"})
		text, want := s.call(test.tool, object{"code": test.code}).text(), test.kept
		switch {
		case !strings.HasPrefix(text, "MemoryError: ") && !killedForMemory.MatchString(text):
			t.Errorf("%s: %s", test.tool, text)
		case strings.Contains(text, "variables are gone"):
			want = test.gone
		}
		if got := s.complete(test.tool, object{"code": test.again}).Meta.Run.value(); got != want {
			t.Errorf("%s: afterwards %s, but was told: %s", test.tool, got, text)
		}
	}
}

var killedForMemory = regexp.MustCompile(`^killed after .*(memory|the container ended)`)

func TestALongRunIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--soft-wait", "500ms"}})
	res := s.run(python, object{"code": "import os, time\nprint('so far', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('the end')"}, "running")
	run := res.Meta.Run
	if res.IsError || run.ExitCode != nil || !strings.Contains(res.text(), run.RunID) || !strings.Contains(res.text(), "wait_for_run") {
		t.Errorf("running: %s", res.text())
	}
	eventually(t, "the output so far is told", func() (bool, string) {
		again := s.call("wait_for_run", object{"run_id": run.RunID, "timeout_seconds": 0.1})
		again.wantStatus(t, "running")
		return strings.Contains(again.text(), "so far"), again.text()
	})
	s.js("require('fs').writeFileSync('go', '')")
	for range 2 { // and again
		end := s.wait(run.RunID)
		end.wantStatus(t, "completed")
		if end.Meta.Run.Stdout != "so far\nthe end\n" || end.Meta.Run.RunID != run.RunID {
			t.Errorf("the end: %s", sprint(end.Meta.Run))
		}
	}
}

// wait asks for a run until it is over.
func (s *server) wait(id string) toolResult {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		res := s.call("wait_for_run", object{"run_id": id})
		if res.Meta.Run == nil || res.Meta.Run.Status != "running" || time.Now().After(deadline) {
			return res
		}
	}
}

func TestALongRunIsCancelled(t *testing.T) {
	t.Parallel()
	s := start(t, setup{args: []string{"--soft-wait", "500ms"}})
	s.py("kept = 1") // half a second is not enough everywhere to come to a second line
	run := s.run(python, object{"code": "while True: pass"}, "running").Meta.Run
	res := s.call("wait_for_run", object{"run_id": run.RunID, "cancel": true})
	if res.Meta.Run.Status == "running" {
		res = s.wait(run.RunID)
	}
	res.wantStatus(t, "cancelled")
	res.wantText(t, "variables are kept")
	if got := s.py("kept").Meta.Run.value(); got != "1" {
		t.Errorf("got %s", got)
	}
}
