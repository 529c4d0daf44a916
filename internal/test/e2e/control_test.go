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

// A call that prints, one that waits behind it, and one in the other language that says nothing tell of their progress.
func TestProgressComesInOrderAndBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.js("1")
	calls := map[string]*request{
		"steps": s.beginTracked(python, object{"code": "# holds it\nimport time\nfor i in range(7):\n  print('step', i, flush=True)\n  time.sleep(1)"}, "steps"),
		"waits": s.beginTracked(python, object{"code": "1"}, "waits"),
		"quiet": s.beginTracked(javascript, object{"code": "await new Promise(r => setTimeout(r, 5500))"}, "quiet"),
	}
	for _, r := range calls {
		r.result().wantStatus(t, "completed")
	}
	s.ping()
	s.mu.Lock()
	all := slices.Clone(s.messages)
	s.mu.Unlock()
	for token, r := range calls {
		answered := slices.IndexFunc(all, func(m message) bool { return string(m.ID) == r.id })
		before, after := progressOf(all[:answered], token), progressOf(all[answered:], token)
		if len(before) == 0 || len(after) > 0 {
			t.Errorf("%s: %d notifications before the answer and %d behind it", token, len(before), len(after))
			continue
		}
		wantSeconds(t, before)
		said := map[string]string{"steps": "step ", "waits": "waits for run-", "quiet": "running for "}[token]
		if m := before[0].Message; token == "waits" && (!strings.HasPrefix(m, said) || !strings.Contains(m, "# holds it")) {
			t.Errorf("%s: says %q", token, m)
		}
		if m := before[len(before)-1].Message; token != "waits" && !strings.HasPrefix(m, said) {
			t.Errorf("%s: says %q", token, m)
		}
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
