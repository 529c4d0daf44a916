//go:build unix

package sandbox

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/stay"
)

// freezer plays supervisors that write their variables in a second before they end, and find them again.
type freezer struct {
	mu     sync.Mutex
	asked  []string // the names of the containers that were asked to write
	frozen map[string]bool
	why    string        // nothing is written
	never  bool          // they do not end when they are asked to
	ends   time.Duration // how long that takes then
}

func (f *freezer) play(spec engine.Spec) func(io.ReadWriteCloser) {
	return played(func(p peer) {
		p.ready(nil)
		origin := map[string]any{}
		for first := true; ; {
			body, err := p.Receive()
			if err != nil {
				return
			}
			var m heard
			_ = json.Unmarshal(body, &m)
			switch m.Type {
			case "run":
				f.mu.Lock()
				if first && f.frozen[spec.Name] {
					origin["origin"] = map[string]any{"from": "frozen", "variables": 3, "at_ms": time.Now().UnixMilli()}
				}
				f.mu.Unlock()
				p.done(m.ID, origin)
				origin, first = map[string]any{}, false
			case "stop", "freeze":
				time.Sleep(time.Second)
				f.mu.Lock()
				f.asked, f.frozen[spec.Name] = append(f.asked, spec.Name), true
				f.mu.Unlock()
				if m.Type == "freeze" {
					p.say(map[string]any{"type": "frozen", "id": "freeze-other"})
					p.say(map[string]any{"type": "frozen", "id": m.ID, "variables": 3, "error": f.why})
				} else if !f.never {
					time.Sleep(f.ends)
					return
				}
			}
		}
	})
}

func (f *freezer) wasAsked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// freezing returns an engine of such supervisors, and settings by which named sessions sleep.
func freezing(t *testing.T) (*testEngine, *freezer, Config) {
	e, f := newEngine(t), &freezer{frozen: make(map[string]bool)}
	e.Play = f.play
	config := testConfig(t, e)
	config.FreezeBytes, config.FreezeTime, config.Keep = 1<<20, 20*time.Second, 30*24*time.Hour
	return e, f, config
}

const (
	mine  = "csm-host-mine-python"
	woken = "3 variables are back as they were "
)

func TestASessionThatNobodyUsesSleeps(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config, *freezer)
		end    func(*testing.T, *Manager, Config) *Manager
		note   string
	}{
		"after its idle time": {nil, func(t *testing.T, m *Manager, c Config) *Manager {
			time.Sleep(c.IdleTimeout + time.Minute)
			return m
		}, woken},
		"in use, after its lifetime": {func(c *Config, _ *freezer) { c.Lifetime = 3 * time.Minute }, func(t *testing.T, m *Manager, _ Config) *Manager {
			for len(m.conf().Engine.(*testEngine).holds(t)) > 1 {
				wantNote(t, mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}), "")
				time.Sleep(25*time.Second + time.Millisecond)
			}
			return m
		}, woken},
		"for another server": {nil, func(t *testing.T, m *Manager, c Config) *Manager {
			time.Sleep(c.IdleTimeout + time.Minute)
			m.Close(t.Context())
			return newTestManager(t, c)
		}, woken},
		"when it is closed": {nil, func(t *testing.T, m *Manager, _ Config) *Manager {
			should.OK(t, should.ErrOf(m.CloseSession(t.Context(), "mine", true)))
			return m
		}, woken},
		"and does not end when it is asked to": {func(_ *Config, f *freezer) { f.never = true }, func(t *testing.T, m *Manager, c Config) *Manager {
			time.Sleep(c.IdleTimeout + 2*time.Minute)
			return m
		}, woken},
		"without its variables": {func(c *Config, _ *freezer) { c.FreezeBytes = 0 }, func(t *testing.T, m *Manager, c Config) *Manager {
			if _, err := m.Freeze(t.Context(), "mine", false); err != nil { // which is no use that goes on
				t.Error(err)
			}
			time.Sleep(c.IdleTimeout + time.Minute)
			return m
		}, "as nobody had used it for 30m0s: its variables are gone, the files are there"},
		"without them, for another server": {func(c *Config, _ *freezer) { c.FreezeBytes = 0 }, func(t *testing.T, m *Manager, c Config) *Manager {
			time.Sleep(c.IdleTimeout + time.Minute)
			m.Close(t.Context())
			return newTestManager(t, c)
		}, "the variables of its python kernel are gone"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, f, config := freezing(t)
				if test.change != nil {
					test.change(&config, f)
				}
				m := newTestManager(t, config)
				wantNote(t, mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"}), "")
				created := state.LoadRecord(config.StateDir, "mine").Created
				m = test.end(t, m, config)
				should.EqualSlice(t, e.holds(t), []string{"volume csm-host-mine"}, "engine holds")
				asked := f.wasAsked()
				should.Hold(t, config.Freezes() == slices.Equal(asked, []string{mine}), "%q were asked to write their variables", asked)
				for _, want := range []string{test.note, ""} {
					wantNote(t, mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}), want)
					time.Sleep(time.Minute) // it does not go to sleep at once again
				}
				r := state.LoadRecord(config.StateDir, "mine")
				should.Hold(t, r.Created.Equal(created), "it began at %v, and now at %v", created, r.Created)
			})
		})
	}
}

func TestACallWaitsForItsSessionToFallAsleep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, f, config := freezing(t)
		f.never = true // for as long as it may take
		m := newTestManager(t, config)
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		for began := time.Now(); len(f.wasAsked()) == 0 && time.Since(began) < time.Hour; {
			time.Sleep(time.Second)
		}
		should.OK(t, should.ErrOf(m.Freeze(t.Context(), "mine", false)), "what does not run code came to")
		wantNote(t, mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}), woken)
	})
}

// asLeft returns settings for the next server, after one whose kernel still runs, unused for a time.
func asLeft(t *testing.T, e *testEngine, f *freezer, config Config, unused time.Duration) Config {
	t.Helper()
	first := NewManager(config)
	mustRun(t, first, RunOptions{Code: "1", SessionID: "mine"})
	first.Close(t.Context())
	e.fails(faults{exec: func(name string) (engine.Process, error) { return engineProcess(f, name), nil }})
	time.Sleep(unused)
	return config
}

func TestACallWaitsForASweepThatPutsItsSessionToSleep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, f, config := freezing(t)
		f.ends = 10 * time.Second
		e.Play = func(spec engine.Spec) func(io.ReadWriteCloser) {
			return func(stdio io.ReadWriteCloser) {
				f.play(spec)(stdio)
				for len(f.wasAsked()) == 0 { // it goes on without its server
					time.Sleep(time.Second)
				}
			}
		}
		m := newTestManager(t, asLeft(t, e, f, config, config.IdleTimeout+config.RetireTime()))
		go m.pool.sweeper.sweep()
		must.Soon(t, "it is asked to write its variables", func() bool { return len(f.wasAsked()) > 0 })
		wantNote(t, mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}), woken)
	})
}

func TestTheAgeOfKernelsThatHaveEndedDoesNotCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, f, config := freezing(t)
		m := newTestManager(t, asLeft(t, e, f, config, config.Lifetime+time.Hour))
		must.OK(t, should.ErrOf(m.Lease("mine", false)))
		time.Sleep(2 * checkInterval)
		should.Len(t, m.Known(), 1, "are open")
	})
}

func TestWhatAnotherServerHasWokenIsNotSaidToBeGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, f, config := freezing(t)
		config.FreezeBytes = 0
		m := newTestManager(t, config)
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		time.Sleep(config.IdleTimeout + time.Minute)
		asLeft(t, e, f, config, time.Minute)
		wantNote(t, mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}), "")
	})
}

func TestASessionMoreFreezesTheLongestIdleOne(t *testing.T) {
	use := func(t *testing.T, m *Manager, ids ...string) {
		for _, id := range ids {
			mustRun(t, m, RunOptions{Code: "1", SessionID: id})
			time.Sleep(time.Second)
		}
	}
	wantAsked := func(t *testing.T, f *freezer, ids ...string) {
		t.Helper()
		time.Sleep(5 * time.Second)
		for i, id := range ids {
			ids[i] = "csm-host-" + id + "-python"
		}
		should.EqualSlice(t, f.wasAsked(), ids, "have written their variables")
	}
	t.Run("of this server", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			_, f, config := freezing(t)
			m := newQuietManager(t, config)
			use(t, m, "a", "b", "c", "a")
			began := time.Now()
			use(t, m, "d")
			waited := time.Since(began)
			should.Hold(t, waited <= time.Second, "it waited for %v", waited)
			wantAsked(t, f, "b")
			wantNote(t, mustRun(t, m, RunOptions{Code: "2", SessionID: "b"}), woken)
			wantAsked(t, f, "b", "c")
		})
	})
	t.Run("of an earlier server", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e, f, config := freezing(t)
			first := NewManager(config)
			use(t, first, "a", "b", "c")
			first.Close(t.Context())
			time.Sleep(time.Second)
			e.fails(faults{exec: func(name string) (engine.Process, error) {
				return nil, engine.ErrContainerGone // the played ones have ended with their server
			}})
			used, _ := state.LastUsed(config.StateDir, "a")
			m := newQuietManager(t, config)
			use(t, m, "d")
			wantAsked(t, f)
			again, err := state.LastUsed(config.StateDir, "a")
			should.Hold(t, err == nil && again.Equal(used), "it was last used at %v, and now at %v, %v", used, again, err)
			r := state.LoadRecord(config.StateDir, "a")
			should.Hold(t, !r.HasKernels(), "it has kernels")
			use(t, m, "a")
		})
	})
	t.Run("but none that is busy, or has no name", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := newEngine(t)
			_, _, config := freezing(t)
			config.Engine = e
			e.play(func(p peer) {
				p.ready(nil)
				if run, ok := p.hear("run"); ok && run.Code != "hang" {
					p.done(run.ID, nil)
				}
				p.stay()
			})
			m := newQuietManager(t, config)
			use(t, m, "")
			for _, id := range []string{"a", "b"} {
				must.OK(t, should.ErrOf(m.Run(RunOptions{Code: "hang", SessionID: id, Language: Python})))
			}
			time.Sleep(time.Second)
			_, err := finish(m, RunOptions{Code: "1", SessionID: "c"})
			must.Code(t, err, fault.MaxSessions)
		})
	})
}

func TestAKernelOfOtherSettingsWritesItsVariables(t *testing.T) {
	for name, change := range map[string]func(*Config, *testEngine){
		"the server's": func(c *Config, _ *testEngine) { c.Env = map[string]string{"KEY": "new"} },
		"the engine's": func(_ *Config, e *testEngine) { e.Made = "otherwise" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, f, config := freezing(t)
				first := NewManager(config)
				mustRun(t, first, RunOptions{Code: "1", SessionID: "mine"})
				first.Close(t.Context())
				e.fails(faults{exec: func(name string) (engine.Process, error) { return engineProcess(f, name), nil }})
				change(&config, e)
				m := newTestManager(t, config)
				wantNote(t, mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}), woken)
				should.EqualSlice(t, f.wasAsked(), []string{mine}, "were asked to write their variables")
			})
		})
	}
}

// However a session's kernel has come up, the session ends after the times that it was given, and its runs after theirs.
func TestLimitsHoldHoweverASessionBegan(t *testing.T) {
	const lifetime, idle = 20 * time.Minute, 5 * time.Minute
	use := func(t *testing.T, m *Manager, session string) string {
		t.Helper()
		return strings.Join(mustRun(t, m, RunOptions{
			Code: "1", SessionID: session, Times: Times{Lifetime: lifetime, IdleTimeout: idle},
			Limits: SessionLimits{RunTimeout: 10 * time.Second}, Timeout: 30 * time.Second,
		}).Notes, " ")
	}
	for name, test := range map[string]struct {
		session string
		spares  int
		begin   func(*testing.T, *Manager, Config) *Manager
	}{
		"cold":                {"mine", 0, nil},
		"cold, without":       {"", 0, nil},
		"of a spare":          {"mine", 1, nil},
		"of a spare, without": {"", 1, nil},
		"taken over": {"mine", 0, func(t *testing.T, m *Manager, c Config) *Manager {
			m.Close(t.Context())
			return newTestManager(t, c)
		}},
		"of a spare, taken over": {"mine", 1, func(t *testing.T, m *Manager, c Config) *Manager {
			m.Close(t.Context())
			return newTestManager(t, c)
		}},
		"woken": {"mine", 0, func(t *testing.T, m *Manager, _ Config) *Manager {
			time.Sleep(idle + time.Minute)
			return m
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, f, config := freezing(t)
				e.fails(faults{exec: func(name string) (engine.Process, error) { return engineProcess(f, name), nil }})
				if test.spares > 0 {
					config.Prewarm = []Language{Python}
				}
				m := newTestManager(t, config)
				m.pool.prewarm()
				time.Sleep(time.Minute + time.Millisecond) // what is kept ready comes up
				use(t, m, test.session)
				should.Equal(t, placeOf(config, m.Known()[0].ID) != "", test.spares > 0, "it took a spare")
				if test.begin != nil {
					m = test.begin(t, m, config)
				}
				ends := 0
				for range int(lifetime/(2*time.Minute)) + 2 {
					notes := use(t, m, test.session)
					should.Contain(t, notes, "The timeout was lowered from 30s to 10s", "the notes")
					if strings.Contains(notes, "20m0s old") || strings.Contains(notes, woken) {
						ends++
					}
					time.Sleep(2*time.Minute + time.Second) // between two looks at what has expired
				}
				if test.begin != nil && name == "woken" {
					ends-- // it was asleep before
				}
				should.Equal(t, ends, 1, "its lifetime has ended it")
				time.Sleep(idle + time.Minute)
				if notes := use(t, m, test.session); !strings.Contains(notes, "as nobody had used it for 5m0s") && !strings.Contains(notes, woken) {
					t.Errorf("after its idle time: %q", notes)
				}
			})
		})
	}
}

func TestFreezeWritesTheVariablesAndGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, f, config := freezing(t)
		m := newTestManager(t, config)
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		if problems, err := m.Freeze(t.Context(), "mine", false); err != nil || len(problems) > 0 || len(f.wasAsked()) != 1 {
			t.Errorf("%q, %v, asked %q", problems, err, f.wasAsked())
		}
		wantNote(t, mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}), "")
		for why, want := range map[string][2]int{"the work directory is full": {1, 1}, frozenBusy: {1, 0}, frozenNone: {0, 0}} {
			f.why = why
			for i, ends := range []bool{false, true} {
				problems, err := m.Freeze(t.Context(), "mine", ends)
				should.Hold(t, err == nil && len(problems) == want[i], "%s, ends %t: %q, %v", why, ends, problems, err)
			}
		}
		_, err := m.Freeze(t.Context(), "nobody", false)
		must.Code(t, err, fault.SessionNotFound)
	})
}

func TestWhatSleepsIsKept(t *testing.T) {
	const day = 24 * time.Hour
	type slept struct {
		unused time.Duration
		size   int64
		pinned bool
	}
	for name, test := range map[string]struct {
		change func(*Config)
		left   map[string]slept
		gone   map[string]string
	}{
		"for its time": {nil, map[string]slept{"a": {unused: 29 * day}, "b": {unused: 31 * day}, "c": {unused: 31 * day, pinned: true}},
			map[string]string{"b": "nobody had used it for 30 days"}},
		"as long as its kernels": {func(c *Config) { c.Keep = 0 }, map[string]slept{"a": {unused: time.Minute}, "b": {unused: time.Hour}},
			map[string]string{"b": "nobody had used it for 30m0s"}},
		"within the limit": {func(c *Config) { c.KeepLimit = 3*stay.NameBytes + 60 },
			map[string]slept{"a": {9 * day, 60, true}, "b": {8 * day, 30, false}, "c": {7 * day, 0, false}, "d": {6 * day, 30, false}, "e": {time.Hour, 10, false}},
			map[string]string{"b": "sleeping sessions took more than 48 KiB"}},
		"the last one alone":         {func(c *Config) { c.KeepLimit = 5 }, map[string]slept{"a": {day, 10, false}}, nil},
		"though the clock went back": {nil, map[string]slept{"a": {unused: -400 * day}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, _, config := freezing(t)
				if test.change != nil {
					test.change(&config)
				}
				config.MaxSessions = 10
				m := NewManager(config)
				for id, s := range test.left {
					mustRun(t, m, RunOptions{Code: "1", SessionID: id})
					_, err := m.CloseSession(t.Context(), id, true)
					r := state.LoadRecord(config.StateDir, id)
					r.SizeBytes, r.HistoryBytes = s.size/2, s.size/2
					err = errors.Join(err, r.Save(config.StateDir, id), state.Pin(config.StateDir, id, s.pinned))
					must.Hold(t, err == nil, "%v", err)
				}
				m.Close(t.Context())
				config.KeepLimit = 0 // that of their own server counts
				for id, s := range test.left {
					lastUsedAt(t, config, id, time.Now().Add(-s.unused))
				}
				swept, err := Sweep(t.Context(), &config)
				should.Hold(t, err == nil && len(swept) == len(test.gone), "swept %q, %v", swept, err)
				for _, s := range swept {
					should.Hold(t, test.gone[s.ID] == s.Why, "%s is gone: %s", s.ID, s.Why)
				}
				got := e.holds(t)
				should.Hold(t, len(got) == len(test.left)-len(test.gone), "engine holds %q", got)
				for id, s := range test.left {
					if used, err := state.LastUsed(config.StateDir, id); test.gone[id] == "" && (err != nil || time.Since(used).Round(time.Hour) != s.unused.Round(time.Hour)) {
						t.Errorf("%s was last used %v, %v", id, used, err)
					}
				}
			})
		})
	}
}

func TestAPinnedSessionSleepsThoughNoneIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, config := freezing(t)
		config.Keep = 0
		m := newQuietManager(t, config)
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		must.OK(t, state.Pin(config.StateDir, "mine", true))
		time.Sleep(config.IdleTimeout + time.Minute)
		r := state.LoadRecord(config.StateDir, "mine")
		should.Hold(t, r != nil && !r.HasKernels() && state.IsKept(config.StateDir, "mine"), "its record is %+v", r)
	})
}

// engineProcess is what joins the supervisor in a container.
func engineProcess(f *freezer, name string) engine.Process {
	return enginetest.Play(f.play(engine.Spec{Name: name}))
}
