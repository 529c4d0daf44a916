//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// progress is the params of a progress notification.
type progress struct {
	ProgressToken string
	Progress      float64
	Total         float64
	Message       string
}

// progressOf gives the notifications with a token, in the order of their coming.
func progressOf(messages []message, token string) (list []progress) {
	for _, m := range messages {
		if m.Method != "notifications/progress" {
			continue
		}
		var p progress
		if json.Unmarshal(m.Params, &p) == nil && p.ProgressToken == token {
			list = append(list, p)
		}
	}
	return list
}

func TestPingIsAnsweredWhileCodeRuns(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	r := s.beginTracked(python, object{"code": "print('busy', flush=True)\nwhile True: pass"}, "busy")
	s.waitFor("the code runs", func(all []message) bool { return len(progressOf(all, "busy")) > 0 })
	for range 20 {
		s.ping()
		lists(s)
	}
	if !r.pending() {
		t.Error("the run is over")
	}
	r.cancel()
}

func TestCancelInterruptsAndKeepsVariables(t *testing.T) {
	t.Parallel()
	for _, e := range []era{legacy, modern} {
		t.Run(string(e), func(t *testing.T) {
			s := start(t, setup{era: e})
			for tool, code := range map[string]string{
				python:     "print('on', flush=True)\nwhile True: pass",
				javascript: "console.log('on'); while (true) {}",
			} {
				s.complete(tool, object{"code": "kept = 5"})
				r := s.beginTracked(tool, object{"code": code}, tool)
				s.waitFor("the code runs", func(all []message) bool { return len(progressOf(all, tool)) > 0 })
				r.cancel()
				res := s.complete(tool, object{"code": "kept"})
				if got := res.Meta.Run.value(); got != "5" {
					t.Errorf("%s: got %q", tool, got)
				}
			}
		})
	}
}

// More calls than the server works on at a time: some wait in the kernel's line, some before it. A
// cancelled one must never run, wherever it waits.
func TestCancelReachesCallsThatWait(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py("ran = []")
	first := s.beginTracked(python, object{"code": "print('on', flush=True)\nwhile True: pass", "timeout_seconds": 600}, "first")
	s.waitFor("the first runs", func(all []message) bool { return len(progressOf(all, "first")) > 0 })
	var waiting []*request
	var want []string
	for i := range 40 {
		waiting = append(waiting, s.beginCall(python, object{"code": fmt.Sprintf("ran.append(%d)", i), "timeout_seconds": 600}))
		if i%2 == 0 {
			want = append(want, fmt.Sprint(i))
		}
	}
	for i, r := range waiting {
		if i%2 == 1 {
			r.cancel()
		}
	}
	s.ping()
	first.cancel()
	for i, r := range waiting {
		if i%2 == 0 {
			r.result().wantStatus(t, "completed")
		}
	}
	got := strings.Split(strings.Trim(s.py("sorted(ran)").Meta.Run.value(), "[]"), ", ")
	if !slices.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
}

func TestCancelOfWhatIsNotThereIsIgnored(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for _, id := range []any{99, "99", nil, object{}, 1.5} {
		s.notify("notifications/cancelled", object{"requestId": id})
	}
	s.notify("notifications/cancelled", nil)
	s.ping()
}

func TestProgressComesInOrderAndBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{python, javascript} {
		t.Run(tool, func(t *testing.T) {
			s := start(t, setup{})
			code := "import time\nfor i in range(4):\n  print('step', i, flush=True)\n  time.sleep(1.1)"
			if tool == javascript {
				code = "for (let i = 0; i < 4; i++) { console.log('step', i); await new Promise(r => setTimeout(r, 1100)) }"
			}
			r := s.beginTracked(tool, object{"code": code}, "steps")
			r.result().wantStatus(t, "completed")
			s.ping()
			s.mu.Lock()
			all := slices.Clone(s.messages)
			s.mu.Unlock()
			answered := slices.IndexFunc(all, func(m message) bool { return string(m.ID) == r.id })
			before, after := progressOf(all[:answered], "steps"), progressOf(all[answered:], "steps")
			if len(before) < 2 || len(after) > 0 {
				t.Errorf("%d notifications before the answer and %d behind it", len(before), len(after))
			}
			wantSeconds(t, before)
			if last := before[len(before)-1]; !strings.HasPrefix(last.Message, "step ") {
				t.Errorf("says %q", last.Message)
			}
		})
	}
}

// wantSeconds checks that progress is told in whole seconds, each once, of no total, and in words.
func wantSeconds(t *testing.T, told []progress) {
	t.Helper()
	for i, p := range told {
		if p.Progress != math.Trunc(p.Progress) || i > 0 && p.Progress <= told[i-1].Progress || p.Total != 0 || p.Message == "" {
			t.Errorf("progress %d: %s", i, sprint(told))
		}
	}
}

func TestProgressOfCodeThatSaysNothing(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.beginTracked(python, object{"code": "import time; time.sleep(5.5)"}, "quiet").result().wantStatus(t, "completed")
	s.mu.Lock()
	told := progressOf(s.messages, "quiet")
	s.mu.Unlock()
	wantSeconds(t, told)
	if len(told) == 0 || !strings.HasPrefix(told[len(told)-1].Message, "running for ") {
		t.Errorf("told: %s", sprint(told))
	}
}

func TestProgressOfACallThatWaits(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	holds := s.begin("tools/call", object{"name": python, "arguments": object{"code": "# holds it\nimport time; time.sleep(7)"}})
	s.beginTracked(python, object{"code": "1"}, "waits").result().wantStatus(t, "completed")
	holds.result().wantStatus(t, "completed")
	s.mu.Lock()
	told := progressOf(s.messages, "waits")
	s.mu.Unlock()
	wantSeconds(t, told)
	if len(told) == 0 || !strings.HasPrefix(told[0].Message, "waits for run-") || !strings.Contains(told[0].Message, "# holds it") {
		t.Errorf("told: %s", sprint(told))
	}
}

func TestNoProgressForACallThatDidNotAsk(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py("import time\nfor i in range(2):\n  print(i, flush=True)\n  time.sleep(1.1)")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if m.Method == "notifications/progress" {
			t.Errorf("unasked: %s", m.line)
		}
	}
}
