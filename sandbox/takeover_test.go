package sandbox

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// lasting plays a supervisor that waits for another server when its own is gone.
type lasting struct {
	token string
	// ready is what it says to the server that takes it over. Nil: it refuses every server.
	ready map[string]any
	end   context.Context
}

func (l *lasting) supervise(s *fakeSupervisor) {
	m, _ := s.next()
	l.token = m.Token
	s.ready()
	s.obey()
	if m.OnEOF == "wait" {
		<-l.end.Done()
	}
}

// relay plays the relay and what the supervisor says through it.
func (l *lasting) relay(command []string, in io.Reader, out io.Writer) {
	s := &fakeSupervisor{in: in, out: out}
	m, _ := s.next()
	if !slices.Equal(command, []string{"python3", "-I", "-c", "relay"}) || m.Type != "attach" || m.Token != l.token || l.ready == nil {
		return
	}
	s.send(l.ready)
	s.obey()
}

func lastingEngine(t *testing.T) (*fakeEngine, *lasting) {
	l := &lasting{end: t.Context(), ready: map[string]any{"type": "ready", "protocol": 1, "language": "python", "version": "3.kept"}}
	return &fakeEngine{supervise: l.supervise, program: l.relay}, l
}

func TestALaterServerTakesTheKernelOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := lastingEngine(t)
		config := testConfig(t, e)
		first := NewManager(config)
		mustRun(t, first, RunOptions{Code: "1", SessionID: "mine"})
		first.Close(t.Context())

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

func TestAKernelThatCannotBeTakenOverIsReplaced(t *testing.T) {
	for name, change := range map[string]func(*Config, *lasting){
		"other limits":              func(c *Config, _ *lasting) { c.Limits.MemoryBytes++ },
		"other secrets":             func(c *Config, _ *lasting) { c.Env = map[string]string{"KEY": "new"} },
		"a supervisor that refuses": func(_ *Config, l *lasting) { l.ready = nil },
		"another token":             func(_ *Config, l *lasting) { l.token = "forged" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, l := lastingEngine(t)
				config := testConfig(t, e)
				first := NewManager(config)
				mustRun(t, first, RunOptions{Code: "1", SessionID: "mine"})
				first.Close(t.Context())

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
		config := testConfig(t, e)
		first := NewManager(config)
		mustRun(t, first, RunOptions{Code: "1", SessionID: "mine"})
		first.Close(t.Context())
		want := []string{"csm-host-mine-python", "volume csm-host-mine"}
		if swept, err := Sweep(t.Context(), e, config.StateDir, config.Host, config.IdleTimeout); err != nil || len(swept) != 0 {
			t.Errorf("swept %q, %v", swept, err)
		}
		if got := e.holds(); !slices.Equal(got, want) {
			t.Errorf("engine holds %q", got)
		}
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
		config := testConfig(t, e)
		first := NewManager(config)
		for _, id := range []string{"a", "b", "c"} {
			mustRun(t, first, RunOptions{Code: "1", SessionID: id})
		}
		first.Close(t.Context())
		later := newTestManager(t, config)
		_, err := finish(later, RunOptions{Code: "1", SessionID: "d"})
		if f := wantCode(t, err, "max_sessions"); !strings.Contains(f.Hint, "b (idle") {
			t.Errorf("the hint is %q", f.Hint)
		}
		mustRun(t, later, RunOptions{Code: "1", SessionID: "b"})
	})
}
