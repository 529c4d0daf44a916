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
