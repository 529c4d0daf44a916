//go:build unix

package sandbox

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

func TestARunIsNamedByItsFirstLineAndItsAge(t *testing.T) {
	const secret = "correct-horse-battery"
	run := runs.NewRun(t.Context(), &Config{Mask: secrets.New(map[string]string{"KEY": secret})}, "run-1", "s", RunOptions{
		Language: Python, Code: "\n  hang(" + strings.Repeat("x", runs.FirstLineLength-20) + secret + ")\nsecond line",
	})
	run.Created = time.Now().Add(-time.Minute)
	got := run.Info()
	if got.RunID != "run-1" || got.AgeSeconds != 60 || !strings.HasPrefix(got.FirstLine, "hang(xxx") ||
		strings.Contains(got.FirstLine, secret[:5]) || strings.Contains(got.FirstLine, "second") {
		t.Errorf("it is %+v", got)
	}
}

// Whoever wants a kernel that is busy hears of the run that has it, from every server.
func TestTheRunThatHasAKernelIsNamed(t *testing.T) {
	const line = "import time"
	looks := func(t *testing.T, m *Manager, state, id string) {
		t.Helper()
		info, err := m.Session(t.Context(), "mine")
		must.OK(t, err)
		for where, kernels := range map[string][]KernelInfo{"Session": info.Kernels, "Sessions": listed(t, m)[0].Kernels} {
			if len(kernels) != 1 || kernels[0].State != state || kernels[0].Run == nil || kernels[0].Run.RunID != id || kernels[0].Run.FirstLine != line {
				t.Fatalf("%s: the kernels are %+v", where, kernels)
			}
		}
	}
	busy := func(t *testing.T, m *Manager, id string) {
		t.Helper()
		waits, err := m.Run(RunOptions{Code: "1", SessionID: "mine", Language: Python, Timeout: time.Second})
		must.OK(t, err)
		var told []string
		must.Soon(t, "the run that waits says what for, or is over", func() bool {
			told = waits.SoFar(t.Context()).Notes
			return waits.Over() || slices.ContainsFunc(told, func(note string) bool { return strings.Contains(note, id) })
		})
		if notes := strings.Join(told, " "); !strings.Contains(notes, id) || !strings.Contains(notes, "cancel: true") {
			t.Errorf("the run that waits says %q", notes)
		}
		<-waits.Done()
		_, err = waits.Result()
		must.Code(t, err, fault.SessionBusy)
		var f *fault.Error
		if errors.As(err, &f); !strings.Contains(f.Message, id) || !strings.Contains(f.Message, line) || !strings.Contains(f.Hint, "run_id "+id) || f.Fields["run_id"] != id {
			t.Errorf("refused with %+v", f)
		}
	}
	config := testConfig(t, newEngine(t))
	killed := config
	killed.Visit = true // it lets go of the session as a server does that is killed
	first, other := NewManager(killed), newTestManager(t, config)
	run := mustHang(t, first, RunOptions{SessionID: "mine", Timeout: 10 * time.Minute})
	looks(t, first, "running", run.ID)
	looks(t, other, "running", run.ID)
	should.Fail(t, should.ErrOf(finish(other, RunOptions{Code: "1", SessionID: "mine"})), run.ID, "a session that is open elsewhere")
	busy(t, first, run.ID)
	first.Close(t.Context())
	next := newTestManager(t, config)
	looks(t, next, "kept", run.ID)
	busy(t, next, run.ID)
	looks(t, next, "running", run.ID)
	found, err := next.FindRun(run.ID)
	must.OK(t, err)
	mustCancel(t, found)
	if info, _ := next.Session(t.Context(), "mine"); info.Kernels[0].State != "idle" || info.Kernels[0].Run != nil {
		t.Errorf("when it is over: %+v", info)
	}
}
