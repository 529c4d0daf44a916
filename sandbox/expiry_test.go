package sandbox

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// completingEngine is one for tests of what happens long afterwards.
func completingEngine(t *testing.T) *testEngine {
	e := newEngine(t)
	e.play(completing)
	return e
}

func TestIdleSessionsEndAndUsedOnesDoNot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		m := newTestManager(t, testConfig(t, e))
		mustRun(t, m, RunOptions{Code: "1", SessionID: "idle"})
		for range 4 {
			mustRun(t, m, RunOptions{Code: "1", SessionID: "used"})
			time.Sleep(10 * time.Minute)
		}
		should.EqualSlice(t, e.holds(t), []string{"csm-host-used-python", "volume csm-host-used"}, "engine holds")
		_, err := m.Session(t.Context(), "idle")
		must.Code(t, err, fault.SessionNotFound)
	})
}

func TestASessionThatFollowsAnExpiredOneSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		config := testConfig(t, completingEngine(t))
		m := newTestManager(t, config)
		const said = "The session before this one has ended, as nobody had used it for 30m0s: its variables and files are gone."
		for _, id := range []string{"", "mine"} {
			for i, want := range [][]string{nil, {said}, nil} {
				if i == 1 {
					time.Sleep(config.IdleTimeout + time.Minute)
				}
				res := mustRun(t, m, RunOptions{Code: "1", SessionID: id})
				if !slices.Equal(res.Notes, want) {
					t.Errorf("run %d of %q has the notes %q", i+1, id, res.Notes)
				}
			}
		}
		// By the id that the default session had, too; closing one is no expiry.
		first := mustRun(t, m, RunOptions{Code: "1"}).SessionID
		time.Sleep(config.IdleTimeout + time.Minute)
		should.EqualSlice(t, mustRun(t, m, RunOptions{Code: "1", SessionID: first}).Notes, []string{said}, "by its id")
		must.OK(t, should.ErrOf(m.CloseSession(t.Context(), first, false)))
		if res := mustRun(t, m, RunOptions{Code: "1", SessionID: first}); res.Notes != nil {
			t.Errorf("after closing: %q", res.Notes)
		}
		// A container that is kept ready does not swallow it.
		config = testConfig(t, completingEngine(t))
		config.Prewarm = []Language{Python}
		m = newTestManager(t, config)
		mustRun(t, m, RunOptions{Code: "1"})
		time.Sleep(config.IdleTimeout + time.Minute)
		should.EqualSlice(t, mustRun(t, m, RunOptions{Code: "1"}).Notes, []string{said}, "with a container kept ready")
	})
}

func TestALifetimeThatIsOverIsSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		config := testConfig(t, completingEngine(t))
		config.Lifetime = time.Hour
		m := newTestManager(t, config)
		for range 3 {
			mustRun(t, m, RunOptions{Code: "1"})
			time.Sleep(config.Lifetime/3 + time.Minute)
		}
		res := mustRun(t, m, RunOptions{Code: "1"})
		if len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "1h0m0s old") {
			t.Errorf("notes are %q", res.Notes)
		}
	})
}

// onLog is told what is logged.
type onLog func(message string)

func (f onLog) Enabled(context.Context, slog.Level) bool { return true }
func (f onLog) Handle(_ context.Context, r slog.Record) error {
	f(r.Message)
	return nil
}
func (f onLog) WithAttrs([]slog.Attr) slog.Handler { return f }
func (f onLog) WithGroup(string) slog.Handler      { return f }

func TestARunThatComesAsItsSessionExpiresBeginsTheNext(t *testing.T) {
	for name, id := range map[string]string{"by its name": "mine", "the default one": ""} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var m *Manager
				config := testConfig(t, completingEngine(t))
				met := make(chan *Result, 1)
				config.Logger = slog.New(onLog(func(message string) {
					if message != "session expired" {
						return
					}
					go func() {
						res, err := finish(m, RunOptions{Code: "2", SessionID: id})
						should.OK(t, err)
						met <- res
					}()
					synctest.Wait() // until it waits for the session's end, which has begun and goes on after this line
				}))
				m = newTestManager(t, config)
				before := mustRun(t, m, RunOptions{Code: "1", SessionID: id})
				time.Sleep(config.IdleTimeout + time.Minute)
				res := <-met
				if res == nil || len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "nobody had used it") {
					t.Fatalf("the next session's first run gave %+v", res)
				}
				should.Equal(t, res.SessionID == before.SessionID, id != "", "%q was followed by %q", before.SessionID, res.SessionID)
			})
		})
	}
}

func TestARunIsNotHeldUpByASessionThatDoesNotEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m *Manager
		late := make(chan error, 1)
		config := testConfig(t, completingEngine(t))
		config.Logger = slog.New(onLog(func(message string) {
			if message != "session expired" {
				return
			}
			_, err := finish(m, RunOptions{Code: "2", SessionID: "mine"})
			late <- err
		}))
		m = newTestManager(t, config)
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		time.Sleep(config.IdleTimeout + time.Minute)
		must.Code(t, <-late, fault.SessionBusy)
		mustRun(t, m, RunOptions{Code: "3", SessionID: "mine"})
	})
}
