//go:build unix

package e2e

import (
	"cmp"
	"maps"
	"strings"
	"testing"
)

// step is one run and what must come of it. Empty fields are not looked at.
type step struct {
	code   string
	args   object // besides the code
	status string // empty: completed
	result string // the last expression's value
	none   bool   // there is no value
	stdout string // all of it
	err    string // the error's name
	text   []string
	absent []string // not in anything that the answer says
}

// play runs the steps one after the other on one server, in one session: each builds on those before it.
func play(t *testing.T, s *server, tool string, steps []step) {
	t.Helper()
	for _, step := range steps {
		step.play(t, s, tool)
	}
}

func (step step) play(t *testing.T, s *server, tool string) {
	t.Helper()
	arguments := object{"code": step.code}
	maps.Copy(arguments, step.args)
	res := s.call(tool, arguments)
	run := res.Meta.Run
	if run == nil {
		t.Errorf("%s: refused:\n%s", step.code, res.text())
		return
	}
	must := func(ok bool, what string, got, want any) {
		t.Helper()
		if !ok {
			t.Errorf("%s: %s is %q, want %q\n%s", step.code, what, got, want, tail(res.text()))
		}
	}
	status := cmp.Or(step.status, "completed")
	must(run.Status == status, "status", run.Status, status)
	must(status != "failed" || run.ExitCode != nil && *run.ExitCode == 1, "exit code", sprint(run.ExitCode), 1)
	must(step.result == "" || run.value() == step.result, "the value", run.value(), step.result)
	must(!step.none || run.Result == nil, "the value", run.value(), "nothing")
	must(step.stdout == "" || run.Stdout == step.stdout, "stdout", run.Stdout, step.stdout)
	must(step.err == "" || run.Error != nil && run.Error.Name == step.err && strings.HasPrefix(res.text(), step.err), "the error", sprint(run.Error), step.err)
	must(step.err != "" || run.Error == nil || status != "completed", "the error", sprint(run.Error), "none")
	res.wantText(t, step.text...)
	for _, part := range step.absent {
		must(!strings.Contains(string(res.line), part), "what must not be there", part, "")
	}
}
