package sandbox

import (
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

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
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newTestManager(t, testConfig(t, completingEngine(t)))
				began := time.Now()
				mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("a"), Times: test.times})
				mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("other")})
				if test.used {
					for time.Since(began) < test.ends-5*time.Minute {
						time.Sleep(4 * time.Minute)
						if res := mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("a"), Times: test.times}); len(res.Notes) > 0 {
							t.Fatalf("after %s: %q", time.Since(began), res.Notes)
						}
					}
				} else {
					time.Sleep(test.ends - time.Minute)
				}
				if info, _ := m.Session(t.Context(), DefaultOf("a")); info.ID == "" {
					t.Errorf("it has ended after %s", time.Since(began))
				}
				time.Sleep(time.Until(began.Add(test.ends + time.Minute)))
				if info, _ := m.Session(t.Context(), DefaultOf("a")); info.ID != "" {
					t.Errorf("it is there after %s", time.Since(began))
				}
			})
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
		if info, err := m.Session(t.Context(), "s"); err != nil || info.Times.IdleTimeout != first.IdleTimeout {
			t.Errorf("%+v, %v", info.Times, err)
		}
		m.Close(t.Context())
		m = newTestManager(t, config)
	}
	if info, err := m.Session(t.Context(), "s"); err != nil || info.Times.IdleTimeout != first.IdleTimeout {
		t.Errorf("before it is opened: %+v, %v", info.Times, err)
	}
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
		_, err := m.OpenFile(t.Context(), DefaultOf("a"), "x", ReadOptions{})
		must.Code(t, err, fault.SessionNotFound)
	})
}
