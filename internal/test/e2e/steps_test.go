//go:build unix

package e2e

import (
	"maps"
	"strings"
	"testing"
)

// step is one run and what must come of it. Empty fields are not looked at.
type step struct {
	name   string
	code   string
	args   object // besides the code
	status string // empty: completed
	exit   int    // of a run that failed; 0: 1
	result string // the last expression's value
	none   bool   // there is no value
	stdout string // all of it
	stderr string // a part of it
	err    string // the error's name
	text   []string
	absent []string // not in anything that the answer says
}

// play runs the steps one after the other on one server, in one session.
func play(t *testing.T, s *server, tool string, steps []step) {
	t.Helper()
	for _, step := range steps {
		name := step.name
		if name == "" {
			name = step.code
		}
		// Not subtests: each builds on those before it.
		step.play(t, s, tool, name)
	}
}

func (step step) play(t *testing.T, s *server, tool, name string) {
	t.Helper()
	arguments := object{"code": step.code}
	maps.Copy(arguments, step.args)
	res := s.call(tool, arguments)
	run := res.Meta.Run
	if run == nil {
		t.Errorf("%s: refused:\n%s", name, res.text())
		return
	}
	wrong := func(what string, got, want any) {
		t.Helper()
		t.Errorf("%s: %s is %q, want %q\n%s", name, what, got, want, tail(res.text()))
	}
	status := step.status
	if status == "" {
		status = "completed"
	}
	if run.Status != status {
		wrong("status", run.Status, status)
	}
	if exit := max(step.exit, 1); status == "failed" && (run.ExitCode == nil || *run.ExitCode != exit) {
		wrong("exit code", sprint(run.ExitCode), exit)
	}
	if step.result != "" && run.value() != step.result {
		wrong("the value", run.value(), step.result)
	}
	if step.none && run.Result != nil {
		wrong("the value", run.value(), "nothing")
	}
	if step.stdout != "" && run.Stdout != step.stdout {
		wrong("stdout", run.Stdout, step.stdout)
	}
	if !strings.Contains(run.Stderr, step.stderr) {
		wrong("stderr", run.Stderr, step.stderr)
	}
	if step.err != "" && (run.Error == nil || run.Error.Name != step.err || !strings.HasPrefix(res.text(), step.err)) {
		wrong("the error", sprint(run.Error), step.err)
	}
	if step.err == "" && run.Error != nil && status == "completed" {
		wrong("the error", sprint(run.Error), "none")
	}
	res.wantText(t, step.text...)
	for _, part := range step.absent {
		if strings.Contains(string(res.line), part) {
			wrong("what must not be there", part, "")
		}
	}
}
