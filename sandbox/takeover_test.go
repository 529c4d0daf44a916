package sandbox

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// lasting plays a supervisor that waits for another server when its own is gone.
type lasting struct {
	token atomic.Value // text
	// ready is what it says to the server that takes it over. Nil: it refuses every server.
	ready  map[string]any
	silent bool // it lets the relay in and says nothing
	// relayed is its end of the last relay.
	relayed *fakeSupervisor
	end     context.Context
}

func (l *lasting) supervise(s *fakeSupervisor) {
	m, _ := s.next()
	l.token.Store(m.Token)
	s.ready()
	s.obey()
	if m.OnEOF == "wait" {
		<-l.end.Done()
	}
}

// relay plays the relay and what the supervisor says through it.
func (l *lasting) relay(command []string, in io.Reader, out io.Writer) {
	s := &fakeSupervisor{in: in, out: out}
	l.relayed = s
	m, _ := s.next()
	if !slices.Equal(command, []string{"python3", "-I", "-c", "relay"}) || m.Type != "attach" || m.Token != l.token.Load() || l.ready == nil {
		return
	}
	if l.silent {
		s.next()
		return
	}
	s.send(l.ready)
	s.obey()
}

func lastingEngine(t *testing.T) (*fakeEngine, *lasting) {
	l := &lasting{end: t.Context(), ready: map[string]any{"type": "ready", "protocol": 1, "language": "python", "version": "3.kept"}}
	return &fakeEngine{supervise: l.supervise, program: l.relay}, l
}

// leaveSessions has a server run code in named sessions and end. It gives the settings for the next one.
func leaveSessions(t *testing.T, e *fakeEngine, ids ...string) Config {
	config := testConfig(t, e)
	first := NewManager(config)
	for _, id := range ids {
		mustRun(t, first, RunOptions{Code: "1", SessionID: id})
	}
	first.Close(t.Context())
	return config
}

func TestALaterServerTakesTheKernelOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := lastingEngine(t)
		config := leaveSessions(t, e, "mine")
		later := newTestManager(t, config)
		res := mustRun(t, later, RunOptions{Code: "2", SessionID: "mine"})
		if len(e.started) != 1 || len(res.Notes) != 0 || *res.Value != "2" {
			t.Errorf("%d containers were started, notes are %q", len(e.started), res.Notes)
		}
		info, err := later.Session(t.Context(), "mine")
		if err != nil || info.Kernels[0].Version != "3.kept" {
			t.Errorf("the session is %+v, %v", info, err)
		}
	})
}

func TestAKernelThatWaitsToBeTakenOverIsToldOf(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config, *fakeEngine)
		want   string
	}{
		"its container runs":      {func(*Config, *fakeEngine) {}, "kept"},
		"its container has ended": {func(_ *Config, e *fakeEngine) { e.containers["csm-host-mine-javascript"].over.Store(true) }, "not started"},
		"its container is gone":   {func(_ *Config, e *fakeEngine) { delete(e.containers, "csm-host-mine-javascript") }, "not started"},
		"it has other settings":   {func(c *Config, _ *fakeEngine) { c.Limits.MemoryBytes++ }, "not started"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := lastingEngine(t)
				config := testConfig(t, e)
				config.Kernels[JavaScript] = config.Kernels[Python]
				first := NewManager(config)
				mustRun(t, first, RunOptions{Code: "1", SessionID: "mine"})
				mustRun(t, first, RunOptions{Code: "1", SessionID: "mine", Language: JavaScript})
				first.Close(t.Context())
				test.change(&config, e)
				later := newTestManager(t, config)
				mustRun(t, later, RunOptions{Code: "2", SessionID: "mine"})
				info, err := later.Session(t.Context(), "mine")
				list := listed(t, later)
				if err != nil || len(list) != 1 {
					t.Fatalf("told of %v, listed %+v", err, list)
				}
				for _, kernels := range [][]KernelInfo{info.Kernels, list[0].Kernels} {
					if kernels[0].State != "idle" || kernels[1].State != test.want {
						t.Errorf("the kernels are %+v", kernels)
					}
				}
			})
		})
	}
}

func TestAVisitorLeavesASessionAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := lastingEngine(t)
		config := leaveSessions(t, e, "mine")
		before := e.holds()
		visitor := config
		visitor.Visit, visitor.IdleTimeout = true, config.IdleTimeout/2
		visitor.Limits.MemoryBytes++
		e.failExec = errors.New("no such program")
		m := NewManager(visitor)
		if _, err := m.Resume(t.Context(), "mine"); err != nil {
			t.Fatal(err)
		}
		_, err := m.WalkFiles(t.Context(), "mine", true, func(Entry) error { return nil })
		wantCode(t, err, fault.EngineError)
		m.Close(t.Context())
		e.failExec = nil
		if got := e.holds(); !slices.Equal(got, before) {
			t.Errorf("the engine holds %q, held %q", got, before)
		}
		if idle := loadRecord(sessionFolder(config.StateDir, "mine")).IdleSeconds; idle != config.IdleTimeout.Seconds() {
			t.Errorf("it stays for %v s", idle)
		}
		if res := mustRun(t, newTestManager(t, config), RunOptions{Code: "2", SessionID: "mine"}); len(res.Notes) != 0 {
			t.Errorf("its server has the notes %q", res.Notes)
		}
	})
}

func TestAKernelThatCannotBeTakenOverIsReplaced(t *testing.T) {
	for name, change := range map[string]func(*Config, *lasting){
		"other limits":              func(c *Config, _ *lasting) { c.Limits.MemoryBytes++ },
		"other secrets":             func(c *Config, _ *lasting) { c.Env = map[string]string{"KEY": "new"} },
		"a supervisor that refuses": func(_ *Config, l *lasting) { l.ready = nil },
		"another token":             func(_ *Config, l *lasting) { l.token.Store("forged") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, l := lastingEngine(t)
				config := leaveSessions(t, e, "mine")
				change(&config, l)
				later := newTestManager(t, config)
				res := mustRun(t, later, RunOptions{Code: "2", SessionID: "mine"})
				if len(e.started) != 2 || len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "variables") {
					t.Errorf("%d containers were started, notes are %q", len(e.started), res.Notes)
				}
				if again := mustRun(t, later, RunOptions{Code: "3", SessionID: "mine"}); len(again.Notes) != 0 {
					t.Errorf("the next run's notes are %q", again.Notes)
				}
			})
		})
	}
}

func TestASweepLeavesWhatALaterServerCanTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := lastingEngine(t)
		config := leaveSessions(t, e, "mine")
		want := []string{"csm-host-mine-python", "volume csm-host-mine"}
		if swept, err := Sweep(t.Context(), e, config.StateDir, config.Host, config.IdleTimeout); err != nil || len(swept) != 0 {
			t.Errorf("swept %q, %v", swept, err)
		}
		if got := e.holds(); !slices.Equal(got, want) {
			t.Errorf("engine holds %q", got)
		}
		// What a sweep is told counts less than what the session's own server promised.
		if swept, err := Sweep(t.Context(), e, config.StateDir, config.Host, 0); err != nil || len(swept) != 0 {
			t.Errorf("swept %q, %v", swept, err)
		}
		time.Sleep(config.IdleTimeout)
		if swept, err := Sweep(t.Context(), e, config.StateDir, config.Host, 0); err != nil || !slices.Equal(swept, []string{"mine"}) {
			t.Errorf("swept %q, %v", swept, err)
		}
		if left := keptSessions(config.StateDir); len(e.holds()) != 0 || len(left) != 0 {
			t.Errorf("engine holds %q, and the state folder %v", e.holds(), left)
		}
	})
}

func TestSessionsThatNoServerHasCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := lastingEngine(t)
		config := leaveSessions(t, e, "a", "b", "c")
		later := newTestManager(t, config)
		_, err := finish(later, RunOptions{Code: "1", SessionID: "d"})
		if f := wantCode(t, err, "max_sessions"); !strings.Contains(f.Hint, "b (idle") {
			t.Errorf("the hint is %q", f.Hint)
		}
		mustRun(t, later, RunOptions{Code: "1", SessionID: "b"})
	})
}

func TestSessionsThatAnotherServerHasDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := lastingEngine(t)
		config := testConfig(t, e)
		other, m := newTestManager(t, config), newTestManager(t, config)
		for _, id := range []string{"a", "b", "c"} {
			mustRun(t, other, RunOptions{Code: "1", SessionID: id})
		}
		for _, id := range []string{"", "d", "e"} {
			mustRun(t, m, RunOptions{Code: "1", SessionID: id})
		}
		_, err := finish(m, RunOptions{Code: "1", SessionID: "f"})
		if f := wantCode(t, err, "max_sessions"); strings.Contains(f.Hint, " a (idle") || !strings.Contains(f.Hint, " d (idle") {
			t.Errorf("the hint is %q", f.Hint)
		}
		other.Close(t.Context())
		m.Close(t.Context())
		later := newTestManager(t, config) // more wait for it than it may have, and none of them is lost
		mustRun(t, later, RunOptions{Code: "2", SessionID: "a"})
		mustRun(t, later, RunOptions{Code: "2", SessionID: "e"})
		_, err = finish(later, RunOptions{Code: "1", SessionID: "f"})
		wantCode(t, err, "max_sessions")
	})
}

// A run goes on in a kernel that an earlier server left: what a server may say of it, and when.
func TestARunOfAnEarlierServer(t *testing.T) {
	start := func(t *testing.T, e *fakeEngine) (Config, string) {
		config := testConfig(t, e)
		config.MaxRunTimeout = time.Minute
		gone := config
		gone.Visit = true // it lets go of the session as a server does that is killed
		first := NewManager(gone)
		mustRun(t, first, RunOptions{Code: "1", SessionID: "mine"})
		run, err := first.Run(RunOptions{Code: "hang", SessionID: "mine", Language: Python})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		first.Close(t.Context())
		return config, run.ID
	}
	t.Run("is taken over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := lastingEngine(t)
			config, id := start(t, e)
			l.ready["run"] = id
			later := newTestManager(t, config)
			run, err := later.FindRun(id)
			if err != nil || run.over() {
				t.Fatalf("got %v, over %v", err, run.over())
			}
			run.Interrupt()
			<-run.Done()
			if res, err := run.Result(); err != nil || res.Status != Cancelled || res.VariablesLost {
				t.Errorf("it came to %+v, %v", res, err)
			}
		})
	})
	t.Run("is left alone by a server that has ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := lastingEngine(t)
			config, id := start(t, e)
			l.ready["run"] = id
			ended := NewManager(config)
			if _, err := ended.Resume(t.Context(), "mine"); err != nil {
				t.Fatal(err)
			}
			ended.Close(t.Context())
			_, err := ended.FindRun(id)
			wantCode(t, err, fault.EngineError)
			later := newTestManager(t, config)
			if run, err := later.FindRun(id); err != nil || run.over() {
				t.Errorf("the next server says %v, %v", run, err)
			}
		})
	})
	t.Run("is not told lost while its container may live", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := lastingEngine(t)
			config, id := start(t, e)
			other := config
			other.Limits.MemoryBytes++
			visitor := NewManager(other)
			_, err := visitor.FindRun(id)
			wantCode(t, err, fault.SessionBusy)
			visitor.Close(t.Context())
			l.ready["run"] = id
			later := newTestManager(t, config)
			if run, err := later.FindRun(id); err != nil || run.over() {
				t.Errorf("the server that could hear of it says %v, %v", run, err)
			}
		})
	})
	t.Run("ended before its server told the kernel of it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, _ := lastingEngine(t)
			config, id := start(t, e)
			later := newTestManager(t, config)
			run, err := later.FindRun(id)
			if err != nil {
				t.Fatal(err)
			}
			if res, _ := run.Result(); res == nil || res.Status != Cancelled || res.VariablesLost || len(res.Notes) != 1 {
				t.Errorf("it came to %+v", res)
			}
		})
	})
	t.Run("is lost with its container", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, _ := lastingEngine(t)
			config, id := start(t, e)
			_ = e.Remove(t.Context(), []string{"csm-host-mine-python"}, nil)
			later := newTestManager(t, config)
			run, err := later.FindRun(id)
			if err != nil {
				t.Fatal(err)
			}
			if res, _ := run.Result(); res == nil || res.Status != Killed || !res.VariablesLost {
				t.Errorf("it came to %+v", res)
			}
		})
	})
	t.Run("holds up the next one, whatever is recorded of it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := lastingEngine(t)
			config, _ := start(t, e)
			l.ready["run"] = "run-nobody-knows"
			later := newTestManager(t, config)
			next, err := later.Run(RunOptions{Code: "2", SessionID: "mine", Language: Python})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if next.over() {
				t.Fatal("two runs of one kernel at once")
			}
			busy, err := later.FindRun("run-nobody-knows")
			if err != nil {
				t.Fatal(err)
			}
			busy.Interrupt()
			<-next.Done()
			if res, err := next.Result(); err != nil || *res.Value != "2" {
				t.Errorf("the next run came to %+v, %v", res, err)
			}
		})
	})
}

func TestAKernelThatDoesNotAnswerIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := lastingEngine(t)
		relay := e.program
		config := leaveSessions(t, e, "mine")
		e.play(func(_ []string, in io.Reader, _ io.Writer) { _, _ = io.Copy(io.Discard, in) })
		later := newTestManager(t, config)
		_, err := finish(later, RunOptions{Code: "2", SessionID: "mine"})
		wantCode(t, err, fault.EngineError)
		e.play(relay)
		if res := mustRun(t, later, RunOptions{Code: "3", SessionID: "mine"}); len(e.started) != 1 || len(res.Notes) != 0 {
			t.Errorf("%d containers were started, notes are %q", len(e.started), res.Notes)
		}
	})
}

// unremoved is a manager whose session "mine" was closed while the engine removed nothing.
func unremoved(t *testing.T) (*fakeEngine, Config, *Manager) {
	t.Helper()
	e := &fakeEngine{}
	config := testConfig(t, e)
	m := newTestManager(t, config)
	mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
	synctest.Wait() // until the first sweep is over, which would lock what was closed
	e.failRemove = errors.New("the engine refuses")
	_, err := m.CloseSession(t.Context(), "mine", false)
	wantCode(t, err, fault.EngineError)
	e.failRemove = nil
	return e, config, m
}

func TestWhatACloseCouldNotRemoveIsNotTakenForTheNextSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, config, m := unremoved(t)
		res := mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"})
		if !slices.Contains(e.removed, "csm-host-mine") || len(res.Notes) != 0 {
			t.Errorf("removed %q, notes are %q", e.removed, res.Notes)
		}
		if entries, err := ReadHistory(config.StateDir, "mine"); err != nil || len(entries) > 1 {
			t.Errorf("the history is %+v, %v", entries, err)
		}
	})
}

// Podman's service ends, and with it every connection; the containers go on.
func TestAConnectionThatIsLost(t *testing.T) {
	const container = "csm-host-mine-python"
	for name, test := range map[string]struct {
		id        string
		change    func(*fakeEngine, *lasting)
		variables bool
	}{
		"leaves the variables":             {"mine", func(*fakeEngine, *lasting) {}, true},
		"leaves none without a name":       {"", func(*fakeEngine, *lasting) {}, false},
		"leaves none without a container":  {"mine", func(e *fakeEngine, _ *lasting) { e.containers[container].over.Store(true) }, false},
		"leaves none without an answer":    {"mine", func(_ *fakeEngine, l *lasting) { l.silent = true }, false},
		"leaves none to who is not let in": {"mine", func(_ *fakeEngine, l *lasting) { l.ready = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, l := lastingEngine(t)
				m := newTestManager(t, testConfig(t, e))
				mustRun(t, m, RunOptions{Code: "1", SessionID: test.id})
				e.cut(e.started[0].Name)
				synctest.Wait()
				test.change(e, l)
				res := mustRun(t, m, RunOptions{Code: "2", SessionID: test.id})
				if kept := len(e.started) == 1 && len(res.Notes) == 0; kept != test.variables || *res.Value != "2" {
					t.Errorf("%d containers were started, notes are %q", len(e.started), res.Notes)
				}
				if again := mustRun(t, m, RunOptions{Code: "3", SessionID: test.id}); len(again.Notes) != 0 {
					t.Errorf("the next run's notes are %q", again.Notes)
				}
			})
		})
	}
	for name, known := range map[string]bool{"under a run that goes on": true, "before the code has begun": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, l := lastingEngine(t)
				m := newTestManager(t, testConfig(t, e))
				mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
				run, err := m.Run(RunOptions{Code: "hang", SessionID: "mine", Language: Python})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if known {
					l.ready["run"] = run.ID
				}
				e.cut(container)
				synctest.Wait()
				if heard := slices.Contains(l.relayed.runs, run.ID); heard == known || run.over() {
					t.Errorf("asked for again: %v, over: %v", heard, run.over())
				}
				run.Interrupt()
				<-run.Done()
				if res, err := run.Result(); err != nil || res.Status != Cancelled || res.VariablesLost || len(e.started) != 1 {
					t.Errorf("it came to %+v, %v; %d containers were started", res, err, len(e.started))
				}
				if res := mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}); len(res.Notes) != 0 {
					t.Errorf("the next run's notes are %q", res.Notes)
				}
			})
		})
	}
	t.Run("waits for the engine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, _ := lastingEngine(t)
			m := newTestManager(t, testConfig(t, e))
			mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
			e.cut(container)
			synctest.Wait()
			e.failExec = ErrEngineUnavailable
			_, err := finish(m, RunOptions{Code: "2", SessionID: "mine", Language: Python})
			wantCode(t, err, fault.EngineUnavailable)
			e.failExec = nil
			if res := mustRun(t, m, RunOptions{Code: "3", SessionID: "mine"}); len(e.started) != 1 || len(res.Notes) != 0 {
				t.Errorf("%d containers were started, notes are %q", len(e.started), res.Notes)
			}
		})
	})
	t.Run("is another matter than a frame that breaks the protocol", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := lastingEngine(t)
			e.supervise = func(s *fakeSupervisor) {
				m, _ := s.next()
				l.token.Store(m.Token)
				s.ready()
				s.obeyOnce()
				_, _ = io.WriteString(s.out, "\xff\xff\xff\xff")
				<-l.end.Done()
			}
			m := newTestManager(t, testConfig(t, e))
			mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
			synctest.Wait()
			if res := mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}); len(e.started) != 2 || len(res.Notes) != 1 {
				t.Errorf("%d containers were started, notes are %q", len(e.started), res.Notes)
			}
		})
	})
}

// What is left of a session that nobody wants is not listed, and to have looked at it does not keep it.
func TestAListLeavesToTheSweepWhatACloseCouldNotRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, config, m := unremoved(t)
		if list := listed(t, m); len(list) != 0 {
			t.Errorf("listed %+v", list)
		}
		if swept, err := Sweep(t.Context(), e, config.StateDir, config.Host, config.IdleTimeout); err != nil || !slices.Equal(swept, []string{"mine"}) {
			t.Errorf("swept %q, %v", swept, err)
		}
		if len(e.holds()) != 0 {
			t.Errorf("engine holds %q", e.holds())
		}
	})
}

func TestASessionThatNeverHadAContainerCanBeSeenAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{failImage: ErrImageMissing}
		config := testConfig(t, e)
		first := NewManager(config)
		_, err := finish(first, RunOptions{Code: "1", SessionID: "ghost"})
		wantCode(t, err, fault.ImageMissing)
		first.Close(t.Context())
		later := newTestManager(t, config)
		if list := listed(t, later); len(list) != 1 || list[0].ID != "ghost" || list[0].Owner != OwnerNone {
			t.Errorf("listed %+v", list)
		}
		if _, err := later.CloseSession(t.Context(), "ghost", false); err != nil || len(keptSessions(config.StateDir)) != 0 {
			t.Errorf("closed: %v, kept %v", err, keptSessions(config.StateDir))
		}
	})
}

// Whatever comes first, the next run tells of it.
func TestThatVariablesAreGoneIsTold(t *testing.T) {
	for name, before := range map[string]func(*testing.T, *Manager, *fakeEngine){
		"after files were asked for": func(t *testing.T, m *Manager, _ *fakeEngine) {
			if _, err := m.WalkFiles(t.Context(), "mine", true, func(Entry) error { return nil }); err == nil {
				t.Error("the fake relay gave files")
			}
		},
		"after a start that failed": func(t *testing.T, m *Manager, e *fakeEngine) {
			e.failStart = errors.New("no room")
			_, err := finish(m, RunOptions{Code: "2", SessionID: "mine"})
			wantCode(t, err, fault.EngineError)
			e.failStart = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, l := lastingEngine(t)
				config := leaveSessions(t, e, "mine")
				l.ready = nil
				later := newTestManager(t, config)
				before(t, later, e)
				for i, want := range []string{"variables of its python kernel are gone", ""} {
					res := mustRun(t, later, RunOptions{Code: "3", SessionID: "mine"})
					if notes := strings.Join(res.Notes, "\n"); !strings.Contains(notes, want) || (want == "") != (notes == "") {
						t.Errorf("run %d has the notes %q, want %q", i+1, notes, want)
					}
				}
			})
		})
	}
}
