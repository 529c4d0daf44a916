//go:build unix

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
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
	if res.StructuredContent != nil {
		decode(r.server.t, res.StructuredContent, &res.Meta.Run)
	}
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

// wantDone checks that a call was not refused.
func (r toolResult) wantDone(t *testing.T) {
	t.Helper()
	if r.IsError {
		t.Fatalf("refused:\n%s", r.text())
	}
}

// progress is the params of a progress notification.
type progress struct {
	ProgressToken string
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
