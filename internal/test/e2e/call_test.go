//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// The tools that run code.
const (
	python     = "run_python_code"
	javascript = "run_js_code"
)

// beginCall calls a tool and does not wait for its answer.
func (s *server) beginCall(tool string, arguments object) *request {
	s.t.Helper()
	r := s.begin("tools/call", object{"name": tool, "arguments": arguments})
	r.tool = tool
	return r
}

// beginTracked is beginCall for a client that wants to hear of the call's progress.
func (s *server) beginTracked(tool string, arguments object, token string) *request {
	s.t.Helper()
	return s.begin("tools/call", object{
		"name": tool, "arguments": arguments, "_meta": object{"progressToken": token},
	})
}

// call calls a tool.
func (s *server) call(tool string, arguments object) toolResult {
	s.t.Helper()
	return s.beginCall(tool, arguments).result()
}

// result is the answer to tools/call, which must not be a protocol error.
func (r *request) result() toolResult {
	r.server.t.Helper()
	m := r.wait()
	if m.Error != nil {
		r.server.t.Fatalf("%s: error %d: %s", r.method, m.Error.Code, m.Error.Message)
	}
	res := toolResult{line: m.line}
	decode(r.server.t, m.Result, &res)
	res.checkMeta(r.server.t)
	if res.StructuredContent != nil {
		decode(r.server.t, res.StructuredContent, &res.Meta.Run)
	}
	res.check(r.server.t)
	if r.server.era == modern && res.ResultType != "complete" {
		r.server.t.Errorf("resultType is %q", res.ResultType)
	}
	if run := res.Meta.Run; run != nil && run.SessionID != "" {
		r.server.mu.Lock()
		r.server.sessions[run.SessionID] = true
		r.server.mu.Unlock()
	}
	return res
}

// checkMeta checks that programs find ids and figures behind the content, and nothing else that a model would read twice.
func (r toolResult) checkMeta(t *testing.T) {
	t.Helper()
	line := string(r.line)
	at := strings.LastIndex(line, `"_meta":`)
	if at < strings.Index(line, `"content":[`) {
		t.Fatalf("_meta is not behind the content: %.300s", line)
	}
	for _, field := range []string{"stdout", "stderr", "result", "traceback", "content", "rows", "columns", "packages", "limits"} {
		if r.Meta.Error == nil && strings.Contains(line[at:], `"`+field+`":`) {
			t.Errorf("_meta has %s: %.600s", field, line[at:])
		}
	}
}

// check holds an answer of a tool against what is promised of all of them.
func (r toolResult) check(t *testing.T) {
	t.Helper()
	const largestAnswer = 1 << 20
	text := 0
	for _, c := range r.Content {
		text += len(c.Text)
	}
	if text == 0 || text > largestAnswer {
		t.Errorf("an answer with %d bytes of text", text)
	}
	if f := r.Meta.Error; f != nil {
		want := f.Code + ": " + f.Message + "\nHint: " + f.Hint + "\n"
		isTold := r.text() == want || r.Meta.Run != nil && strings.HasPrefix(r.text(), want) // a run has more to tell
		if !r.IsError || f.Code == "" || f.Message == "" || f.Hint == "" || !isTold {
			t.Errorf("a coded error that is not told in full: %.600s", r.line)
		}
		return
	}
	if r.Meta.Run == nil {
		t.Errorf("an answer without its fields: %.300s", r.line)
		return
	}
	if r.Meta.Run.RunID != "" {
		r.Meta.Run.check(t, r)
	}
}

// exitCodes are the exit codes that a status fixes.
var exitCodes = map[string]int{"completed": 0, "timed_out": 124, "cancelled": 130, "killed": 137}

// check holds what a run came to against what is promised of it: every field there, and true to the others.
func (r *runResult) check(t *testing.T, whole toolResult) {
	t.Helper()
	for _, field := range []string{
		"session_id", "run_id", "language", "status", "exit_code", "stdout", "stderr", "stdout_truncated",
		"stderr_truncated", "result", "error", "artifacts", "duration_ms",
	} {
		if whole.StructuredContent != nil && !strings.Contains(string(whole.line), `"`+field+`":`) {
			t.Errorf("a result without %s: %.600s", field, whole.line)
		}
	}
	if want, fixed := exitCodes[r.Status]; fixed && (r.ExitCode == nil || *r.ExitCode != want) {
		t.Errorf("%s with exit code %s", r.Status, sprint(r.ExitCode))
	}
	if isError := r.Status == "timed_out" || r.Status == "killed"; whole.IsError != isError {
		t.Errorf("%s with isError %v", r.Status, whole.IsError)
	}
	if r.DurationMS < 0 || r.SessionID == "" || !slices.Contains([]string{"python", "javascript", "bash"}, r.Language) {
		t.Errorf("odd fields: %s", sprint(r))
	}
}

// py runs Python in the default session, to its end and with no error.
func (s *server) py(code string) toolResult {
	s.t.Helper()
	return s.complete(python, object{"code": code})
}

// js runs JavaScript in the default session, to its end and with no error.
func (s *server) js(code string) toolResult {
	s.t.Helper()
	return s.complete(javascript, object{"code": code})
}

// complete calls a tool that runs code, which must complete.
func (s *server) complete(tool string, arguments object) toolResult {
	s.t.Helper()
	return s.run(tool, arguments, "completed")
}

// run calls a tool that answers with a RunResult, which must have the status. It waits for a run that
// goes on, unless that is what is wanted.
func (s *server) run(tool string, arguments object, status string) toolResult {
	s.t.Helper()
	res := s.call(tool, arguments)
	if run := res.Meta.Run; run != nil && run.Status == "running" && status != "running" {
		res = s.wait(run.RunID)
	}
	res.wantStatus(s.t, status)
	return res
}

func (r toolResult) wantStatus(t *testing.T, status string) {
	t.Helper()
	if r.Meta.Run == nil || r.Meta.Run.Status != status {
		t.Fatalf("not %s:\n%s", status, r.text())
	}
}

// wantCode checks that a call was refused with a coded error.
func (r toolResult) wantCode(t *testing.T, code string) {
	t.Helper()
	if r.Meta.Error == nil || r.Meta.Error.Code != code {
		t.Errorf("not refused with %s:\n%s", code, r.text())
	}
}

// wantText checks that a model reads all of the parts.
func (r toolResult) wantText(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(r.text(), part) {
			t.Errorf("%q is not in the text:\n%s", part, tail(r.text()))
		}
	}
}
