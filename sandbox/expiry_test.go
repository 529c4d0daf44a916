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
		must.Code(t, should.ErrOf(m.Session(t.Context(), "idle")), fault.SessionNotFound)
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
				should.Hold(t, slices.Equal(res.Notes, want), "run %d of %q has the notes %q", i+1, id, res.Notes)
			}
		}
		// By the id that the default session had, too; closing one is no expiry.
		first := mustRun(t, m, RunOptions{Code: "1"}).SessionID
		time.Sleep(config.IdleTimeout + time.Minute)
		should.EqualSlice(t, mustRun(t, m, RunOptions{Code: "1", SessionID: first}).Notes, []string{said}, "by its id")
		must.OK(t, should.ErrOf(m.CloseSession(t.Context(), first, false)))
		res := mustRun(t, m, RunOptions{Code: "1", SessionID: first})
		should.Hold(t, res.Notes == nil, "after closing: %q", res.Notes)
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
		should.Hold(t, len(res.Notes) == 1 && strings.Contains(res.Notes[0], "1h0m0s old"), "notes are %q", res.Notes)
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
		bubbleOf(t, name, func(t *testing.T) {
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
			must.Hold(t, res != nil && len(res.Notes) == 1 && strings.Contains(res.Notes[0], "nobody had used it"),
				"the next session's first run gave %+v", res)
			should.Equal(t, res.SessionID == before.SessionID, id != "", "%q was followed by %q", before.SessionID, res.SessionID)
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

// Each of several clients has the times that it asked for, as far as the server's own allow them.
func TestSessionsHaveTimesOfTheirOwn(t *testing.T) {
	for name, test := range map[string]struct {
		times Times
		ends  time.Duration // when it has ended, where it is used every 4 minutes or not at all
		used  bool
	}{
		"none":                      {Times{}, 30 * time.Minute, false},
		"a short idle time":         {Times{IdleTimeout: 5 * time.Minute}, 5 * time.Minute, false},
		"one above the server's":    {Times{IdleTimeout: 5 * time.Hour}, 30 * time.Minute, false},
		"a short life":              {Times{Lifetime: 10 * time.Minute}, 10 * time.Minute, true},
		"both, and it is used":      {Times{IdleTimeout: 5 * time.Minute, Lifetime: time.Hour}, time.Hour, true},
		"a life above the server's": {Times{Lifetime: 1000 * time.Hour}, 24 * time.Hour, true},
	} {
		bubbleOf(t, name, func(t *testing.T) {
			m := newTestManager(t, testConfig(t, completingEngine(t)))
			began := time.Now()
			mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("a"), Times: test.times})
			mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("other")})
			if test.used {
				for time.Since(began) < test.ends-5*time.Minute {
					time.Sleep(4 * time.Minute)
					res := mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("a"), Times: test.times})
					must.Hold(t, len(res.Notes) == 0, "after %s: %q", time.Since(began), res.Notes)
				}
			} else {
				time.Sleep(test.ends - time.Minute)
			}
			info, _ := m.Session(t.Context(), DefaultOf("a"))
			should.Hold(t, info.ID != "", "it has ended after %s", time.Since(began))
			time.Sleep(time.Until(began.Add(test.ends + time.Minute)))
			info, _ = m.Session(t.Context(), DefaultOf("a"))
			should.Hold(t, info.ID == "", "it is there after %s", time.Since(began))
		})
	}
}

// The second user of a session does not shorten it, and is told so, also by a later server.
func TestASessionKeepsItsTimes(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	first, second := Times{IdleTimeout: 20 * time.Minute}, Times{IdleTimeout: 2 * time.Minute}
	m := newTestManager(t, config)
	mustRun(t, m, RunOptions{SessionID: "s", Code: "1", Times: first})
	for range 2 {
		res := mustRun(t, m, RunOptions{SessionID: "s", Code: "1", Times: second})
		wantNote(t, res, "This session keeps the times that it began with: its kernels end when nobody has used it for 20m0s, or when they are 24h0m0s old.")
		info, err := m.Session(t.Context(), "s")
		should.Hold(t, err == nil && info.Times.IdleTimeout == first.IdleTimeout, "%+v, %v", info.Times, err)
		m.Close(t.Context())
		m = newTestManager(t, config)
	}
	info, err := m.Session(t.Context(), "s")
	should.Hold(t, err == nil && info.Times.IdleTimeout == first.IdleTimeout, "before it is opened: %+v, %v", info.Times, err)
	should.Equal(t, len(e.specs()), 1, "containers were made")
}

func TestASessionThatWasKeptReadyTakesTimes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		config := testConfig(t, completingEngine(t))
		config.Prewarm = []Language{Python}
		m := newTestManager(t, config)
		m.Prewarm()
		time.Sleep(time.Second)
		mustRun(t, m, RunOptions{SessionID: DefaultOf("a"), Code: "1", Times: Times{IdleTimeout: time.Minute}})
		time.Sleep(2 * time.Minute)
		must.Code(t, should.ErrOf(m.OpenFile(t.Context(), DefaultOf("a"), "x", ReadOptions{})), fault.SessionNotFound)
	})
}
