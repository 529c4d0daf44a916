package sandbox

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// Whoever wants a kernel that is busy hears of the run that has it, from every server.
func TestTheRunThatHasAKernelIsNamed(t *testing.T) {
	const secret = "correct-horse-battery"
	code := "\n  hang(" + strings.Repeat("x", firstLineBytes-20) + secret + ")\nsecond line"
	named := func(t *testing.T, where string, got *RunInfo, id string) {
		t.Helper()
		if got == nil || got.RunID != id || got.AgeSeconds != 60 || !strings.HasPrefix(got.FirstLine, "hang(xxx") ||
			strings.Contains(got.FirstLine, secret[:5]) || strings.Contains(got.FirstLine, "second") {
			t.Errorf("%s tells of %+v", where, got)
		}
	}
	looks := func(t *testing.T, m *Manager, state, id string) {
		t.Helper()
		info, err := m.Session(t.Context(), "mine")
		if err != nil {
			t.Fatal(err)
		}
		for where, kernels := range map[string][]KernelInfo{"Session": info.Kernels, "Sessions": listed(t, m)[0].Kernels} {
			if len(kernels) != 1 || kernels[0].State != state {
				t.Fatalf("%s: the kernels are %+v", where, kernels)
			}
			named(t, where, kernels[0].Run, id)
		}
	}
	busy := func(t *testing.T, m *Manager, id string) {
		t.Helper()
		waits, err := m.Run(RunOptions{Code: "1", SessionID: "mine", Language: Python, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if notes := strings.Join(waits.SoFar(t.Context()).Notes, " "); !strings.Contains(notes, id) || !strings.Contains(notes, "cancel: true") {
			t.Errorf("the run that waits says %q", notes)
		}
		<-waits.Done()
		_, err = waits.Result()
		wantCode(t, err, fault.SessionBusy)
		var f *fault.Error
		if errors.As(err, &f); !strings.Contains(f.Message, id) || !strings.Contains(f.Message, "hang(") || !strings.Contains(f.Hint, "run_id "+id) || f.Fields["run_id"] != id {
			t.Errorf("refused with %+v", f)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		e, l := lastingEngine(t)
		config := testConfig(t, e)
		config.Mask = hide(secret)
		killed := config
		killed.Visit = true // it lets go of the session as a server does that is killed
		first, other := NewManager(killed), newTestManager(t, config)
		run, err := first.Run(RunOptions{Code: code, SessionID: "mine", Language: Python, Timeout: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		looks(t, first, "running", run.ID)
		looks(t, other, "running", run.ID)
		if _, err := other.Run(RunOptions{Code: "1", SessionID: "mine", Language: Python}); err == nil || !strings.Contains(err.Error(), run.ID) {
			t.Errorf("a session that is open elsewhere: %v", err)
		}
		busy(t, first, run.ID)
		first.Close(t.Context())
		l.ready["run"] = run.ID
		next := newTestManager(t, config)
		if info, err := next.Session(t.Context(), "mine"); err != nil || info.Kernels[0].State != "kept" || info.Kernels[0].Run == nil || info.Kernels[0].Run.RunID != run.ID {
			t.Errorf("before it is taken over: %+v, %v", info, err)
		}
		busy(t, next, run.ID)
		if info, _ := next.Session(t.Context(), "mine"); info.Kernels[0].State != "running" || info.Kernels[0].Run.RunID != run.ID {
			t.Errorf("taken over: %+v", info)
		}
		found, err := next.FindRun(run.ID)
		if err != nil {
			t.Fatal(err)
		}
		found.Interrupt()
		<-found.Done()
		if info, _ := next.Session(t.Context(), "mine"); info.Kernels[0].State != "idle" || info.Kernels[0].Run != nil {
			t.Errorf("when it is over: %+v", info)
		}
	})
}
