//go:build unix

package sandbox

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

func spareConfig(t *testing.T, e *testEngine) Config {
	config := testConfig(t, e)
	config.Spares, config.MaxSessions = 1, 10
	return config
}

// withSpare returns a manager that a session has begun in, and the id of what it keeps ready since.
func withSpare(t *testing.T, session string) (*testEngine, Config, *Manager, string) {
	t.Helper()
	e := newEngine(t)
	config := spareConfig(t, e)
	m := newQuietManager(t, config)
	mustRun(t, m, RunOptions{Code: "1", SessionID: session})
	return e, config, m, readySpare(t, m)
}

// readySpare waits until a manager keeps one ready, and returns its id.
func readySpare(t *testing.T, m *Manager) (id string) {
	t.Helper()
	must.Soon(t, "a container is kept ready", func() bool {
		p := m.pool.Spares
		p.Mu.Lock()
		defer p.Mu.Unlock()
		if len(p.Ready) == 0 || p.Ready[0].Growing {
			return false
		}
		id = p.Ready[0].ID
		return true
	})
	return id
}

// placeOf is what a session has on the engine.
func placeOf(config Config, session string) string {
	if r := state.LoadRecord(config.StateDir, session); r != nil {
		return r.Place
	}
	return ""
}

// wantSwept sweeps, which ends these sessions and no others.
func wantSwept(t *testing.T, config *Config, ids ...string) {
	t.Helper()
	swept := must.Get(Sweep(t.Context(), config))(t)
	var got []string
	for _, s := range swept {
		got = append(got, s.ID)
	}
	should.EqualSlice(t, got, ids, "swept")
}

// nothingLeft waits until the engine and the state directory are empty.
func nothingLeft(t *testing.T, e *testEngine, config Config) {
	t.Helper()
	must.Soon(t, "nothing is left", func() bool { return len(e.holds(t)) == 0 && len(state.IDs(config.StateDir)) == 0 })
}

func TestANewSessionTakesASpare(t *testing.T) {
	for name, session := range map[string]string{"named": "mine", "a client's": DefaultOf("b")} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			config := spareConfig(t, e)
			config.Env = map[string]string{"KEY": "s3cret"}
			m := newQuietManager(t, config)
			time.Sleep(10 * time.Millisecond)
			should.Hold(t, len(e.specs()) == 0, "a container was made before a call")
			mustRun(t, m, RunOptions{Code: "1", SessionID: "first"})
			id := readySpare(t, m)
			should.Len(t, listed(t, m), 1, "are listed")
			_, err := m.Session(t.Context(), id)
			should.Hold(t, err != nil, "a spare is a session")
			res := mustRun(t, m, RunOptions{Code: "import os; os.environ['KEY']", SessionID: session})
			wantValue(t, res, "'s3cret'")
			if place := placeOf(config, res.SessionID); place != id || state.Waits(config.StateDir, id) {
				t.Errorf("the session is at %q, and %q was ready", place, id)
			}
			should.Hold(t, !slices.Contains(state.IDs(config.StateDir), id), "what is a session's place is still locked as a spare")
			if again := readySpare(t, m); again == id || len(e.specs()) != 3 {
				t.Errorf("%d containers were made", len(e.specs()))
			}
			should.Len(t, listed(t, m), 2, "are listed")
			for _, s := range []string{"first", session} {
				should.OK(t, should.ErrOf(m.CloseSession(t.Context(), s, false)))
			}
			held := e.holds(t)
			should.Hold(t, len(held) == 2 && strings.Contains(held[0], place.SparePrefix), "the engine holds %q", held)
		})
	}
}

func TestASpareFitsOnlyWhatItWasMadeFor(t *testing.T) {
	e := newEngine(t)
	config := spareConfig(t, e)
	config.Limits.CPUs = 2
	m := newQuietManager(t, config)
	mustRun(t, m, RunOptions{Code: "1", SessionID: "first"})
	id := readySpare(t, m)
	mustRun(t, m, RunOptions{Code: "1", SessionID: "less", Limits: SessionLimits{CPUs: 1}})
	should.Equal(t, placeOf(config, "less"), "", "a session with limits of its own")
	// How long it lasts is no matter of its container.
	mustRun(t, m, RunOptions{Code: "1", SessionID: "short", Times: Times{IdleTimeout: time.Minute}})
	should.Equal(t, placeOf(config, "short"), id, "a session with times of its own is at")
}

func TestASessionIsTakenUpAtItsPlace(t *testing.T) {
	_, config, m, _ := withSpare(t, "")
	mustRun(t, m, RunOptions{Code: "x = 41", SessionID: "mine"})
	m.Close(t.Context())
	wantSwept(t, &config)
	later := newQuietManager(t, config)
	list := listed(t, later)
	should.Hold(t, len(list) == 1 && list[0].ID == "mine" && list[0].Named && list[0].Kernels[0].State == "kept", "%+v are listed", list)
	wantValue(t, mustRun(t, later, RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
	later.Close(t.Context())
	// Without its mark it is the record that says whose it is and that it stays.
	lock := must.Get(state.Take(config.StateDir, "mine"))(t)
	lock.Discard()
	wantSwept(t, &config)
	wantValue(t, mustRun(t, newQuietManager(t, config), RunOptions{Code: "x + 2", SessionID: "mine"}), "43")
}

func TestASpareWaitsForALaterServer(t *testing.T) {
	e, config, m, id := withSpare(t, "")
	other := newQuietManager(t, config) // of two that end, one leaves it
	mustRun(t, other, RunOptions{Code: "1"})
	readySpare(t, other)
	m.Close(t.Context())
	other.Close(t.Context())
	swept, err := Sweep(t.Context(), &config)
	should.Hold(t, err == nil && len(swept) == 0 && len(e.holds(t)) == 2, "swept %+v, %v", swept, err)
	later := newQuietManager(t, config)
	should.Len(t, listed(t, later), 0, "are listed")
	made := len(e.specs())
	look, err := state.Take(config.StateDir, id) // as a sweep does for a moment
	must.OK(t, err)
	time.AfterFunc(place.SweepLook/10, look.Release)
	wantValue(t, mustRun(t, later, RunOptions{Code: "1", SessionID: "mine"}), "1")
	place := placeOf(config, "mine")
	should.Hold(t, place == id && len(e.specs()) == made, "the session is at %q, and %q waited", place, id)
	must.OK(t, should.ErrOf(later.CloseSession(t.Context(), "mine", false)))
	config.Spares = 0
	later.pool.config.Spares = 0 // it leaves none
	later.Close(t.Context())
	nothingLeft(t, e, config)
}

func TestASpareThatDoesNotAnswerIsTheOnlyOneWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := spareConfig(t, e)
		config.Spares = 2
		m := newTestManager(t, config)
		mustRun(t, m, RunOptions{Code: "1"})
		must.Soon(t, "two are kept ready", func() bool { return len(e.specs()) == 3 })
		m.Close(t.Context())
		waiting := place.WaitingSpares(config.StateDir)
		must.Hold(t, len(waiting) == 2, "%q wait", waiting)
		e.fails(faults{exec: func(string) (engine.Process, error) { return enginetest.Play(played(peer.stay)), nil }})
		mustRun(t, newTestManager(t, config), RunOptions{Code: "1", SessionID: "mine"})
		should.Equal(t, e.joined(), 1, "were waited for")
	})
}

func TestASpareOfOtherSettingsIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*Config, *testEngine){
		"the server's": func(c *Config, _ *testEngine) { c.Limits.CPUs = 1 },
		"the engine's": func(_ *Config, e *testEngine) { e.Made = "otherwise" },
	} {
		t.Run(name, func(t *testing.T) {
			e, config, m, _ := withSpare(t, "")
			m.Close(t.Context())
			change(&config, e)
			mustRun(t, newQuietManager(t, config), RunOptions{Code: "1", SessionID: "mine"})
			should.Equal(t, placeOf(config, "mine"), "")
		})
	}
}

// inPods is an engine whose places cost a cluster something.
type inPods struct{ *testEngine }

func (e inPods) Abilities() engine.Abilities {
	a := e.testEngine.Abilities()
	a.OneContainer = true
	return a
}

func TestASpareOfOtherSettingsIsRemovedWhereItIsAPod(t *testing.T) {
	e, config, m, id := withSpare(t, "")
	m.Close(t.Context())
	config.Limits.CPUs, config.Engine = 1, inPods{e}
	later := newQuietManager(t, config)
	mustRun(t, later, RunOptions{Code: "1", SessionID: "mine"})
	must.Soon(t, "it is gone", func() bool { return !slices.Contains(state.IDs(config.StateDir), id) })
	for _, c := range e.holds(t) {
		should.Hold(t, !strings.Contains(c, id), "%s is left", c)
	}
}

func TestSparesThatWaitCanBeDropped(t *testing.T) {
	e, config, m, _ := withSpare(t, "")
	place.DropSpares(config.StateDir) // which that of a live server does not
	should.Hold(t, slices.Contains(state.IDs(config.StateDir), readySpare(t, m)), "a live server's is gone")
	m.Close(t.Context())
	place.DropSpares(config.StateDir)
	swept, err := Sweep(t.Context(), &config)
	should.Hold(t, err == nil && len(swept) == 1, "swept %+v, %v", swept, err)
	nothingLeft(t, e, config)
}

func TestASweepRemovesSpares(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, m *Manager, config Config, id string){
		"of a server that was killed": func(_ *testing.T, m *Manager, _ Config, _ string) {
			m.pool.Spares.Mu.Lock()
			defer m.pool.Spares.Mu.Unlock()
			for _, sp := range m.pool.Spares.Ready {
				sp.Lock.Release()
			}
		},
		"that nobody took": func(t *testing.T, m *Manager, config Config, id string) {
			m.Close(t.Context())
			lastUsedAt(t, config, id, time.Now().Add(-config.IdleTimeout))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, config, m, id := withSpare(t, "")
			wantSwept(t, &config)
			must.OK(t, should.ErrOf(m.CloseSession(t.Context(), "", false)))
			end(t, m, config, id)
			wantSwept(t, &config, id)
			nothingLeft(t, e, config)
		})
	}
}

// What a killed server's session has is found by its record.
func TestASweepFindsThePlaceOfASession(t *testing.T) {
	e, config, m, _ := withSpare(t, DefaultOf("a"))
	res := mustRun(t, m, RunOptions{Code: "1", SessionID: DefaultOf("b")})
	wantSwept(t, &config)
	place := placeOf(config, res.SessionID)
	s := m.sessions[res.SessionID]
	s.uses.CloseHistory()
	s.uses.Lock.Release()
	wantSwept(t, &config, res.SessionID)
	if held := e.holds(t); slices.ContainsFunc(held, func(name string) bool { return strings.Contains(name, place) }) {
		t.Errorf("the engine holds %q", held)
	}
}

func TestASpareThatEndsIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := spareConfig(t, e)
		m := newTestManager(t, config)
		mustRun(t, m, RunOptions{Code: "1"})
		id := readySpare(t, m)
		must.OK(t, e.Processes.Remove(t.Context(), []string{"csm-host-" + id + "-python"}, nil))
		must.Soon(t, "it is gone", func() bool { return !slices.Contains(state.IDs(config.StateDir), id) })
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		should.Equal(t, placeOf(config, "mine"), "", "the session is at")
	})
}

func TestPrewarmKeepsAContainerReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := testConfig(t, e)
		config.Prewarm = []Language{Python}
		m := newTestManager(t, config)
		m.Prewarm()
		id := readySpare(t, m)
		should.Len(t, append(m.Known(), listed(t, m)...), 0, "listed before one was used")
		time.Sleep(config.IdleTimeout + time.Minute)
		res := mustRun(t, m, RunOptions{Code: "1"})
		should.Equal(t, placeOf(config, res.SessionID), id, "the session")
		next := readySpare(t, m)
		should.Hold(t, next != id, "%q is ready again", id)
		m.Close(t.Context())
		nothingLeft(t, e, config)
	})
}

func TestASpareThatCannotBeMadeIsMadeLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := completingEngine(t)
		config := spareConfig(t, e)
		m := newTestManager(t, config)
		e.fails(faults{start: func(spec engine.Spec) (engine.Started, error) {
			if place.IsSpare(place.IDOf("", spec.Labels[LabelSession])) {
				return engine.Started{}, engine.ErrEngineUnavailable
			}
			return engine.Started{}, nil
		}})
		mustRun(t, m, RunOptions{Code: "1", SessionID: "first"})
		time.Sleep(time.Minute)
		should.EqualSlice(t, state.IDs(config.StateDir), []string{"first"})
		e.fails(faults{})
		mustRun(t, m, RunOptions{Code: "1", SessionID: "second"})
		readySpare(t, m)
	})
}

// A power cut, a full disk or a person may take the record that says whose the place is.
func TestTheFilesAtAPlaceOutliveItsRecord(t *testing.T) {
	_, config, m, id := withSpare(t, "first")
	mustRun(t, m, RunOptions{Code: "open('file', 'w').close()", SessionID: "mine"})
	m.Close(t.Context())
	must.OK(t, os.RemoveAll(config.StateDir))
	later := newQuietManager(t, config)
	for range 2 {
		if swept, err := Sweep(t.Context(), &config); err != nil || slices.ContainsFunc(swept, func(s Swept) bool { return s.ID == id && !state.IsKept(config.StateDir, id) }) {
			t.Errorf("swept %+v, %v", swept, err)
		}
	}
	if list := listed(t, later); !slices.ContainsFunc(list, func(s SessionInfo) bool { return s.ID == id && s.Named && s.Owner == OwnerNone }) {
		t.Errorf("listed %+v", list)
	}
	wantValue(t, mustRun(t, later, RunOptions{Code: "import os; os.path.exists('file')", SessionID: id}), "True")
}

func TestWhatACloseCouldNotRemoveAtAPlaceGoesLater(t *testing.T) {
	e, _, m, place := withSpare(t, "first")
	mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
	e.fails(faults{remove: errors.New("the engine refuses")})
	must.Code(t, should.ErrOf(m.CloseSession(t.Context(), "mine", false)), fault.EngineError)
	e.fails(faults{})
	mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
	if held := e.holds(t); slices.ContainsFunc(held, func(name string) bool { return strings.Contains(name, place) }) {
		t.Errorf("the engine holds %q", held)
	}
}

func TestADefaultSessionThatIsKeptHasARecord(t *testing.T) {
	_, config, m, place := withSpare(t, "first")
	mustRun(t, m, RunOptions{Code: "1"})
	id, err := m.CloseSession(t.Context(), "", true)
	r := state.LoadRecord(config.StateDir, id)
	should.Hold(t, err == nil && r != nil && !r.Unnamed && r.Place == place && r.SizeBytes != 0, "the record is %+v, %v", r, err)
}

// After a burst as many are kept as it took, for ten minutes and within their memory.
func TestSparesFollowTheLastBurst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEngine(t)
		e.play(completing)
		config := spareConfig(t, e)
		config.SparesBytes = 4 * place.SpareBytes
		m := newQuietManager(t, config)
		ready := func() int {
			p := m.pool.Spares
			p.Mu.Lock()
			defer p.Mu.Unlock()
			return len(p.Ready)
		}
		begin := func(sessions int) {
			for range sessions {
				id := state.NewID("s")
				mustRun(t, m, RunOptions{Code: "1", SessionID: id})
				should.OK(t, should.ErrOf(m.CloseSession(t.Context(), id, false)))
			}
		}
		for _, burst := range []struct{ sessions, want int }{{1, 1}, {3, 3}, {7, 4}} {
			time.Sleep(place.DemandTime + place.BurstTime)
			begin(burst.sessions)
			if time.Sleep(place.QuietTime + time.Second); ready() != burst.want {
				t.Errorf("after %d sessions %d are ready, want %d", burst.sessions, ready(), burst.want)
			}
		}
		made := len(e.specs())
		if begin(4); len(e.specs()) > made+4 {
			t.Errorf("another burst started %d containers", len(e.specs())-made)
		}
		if time.Sleep(place.DemandTime + time.Minute); ready() != 1 {
			t.Errorf("%d are ready long after it", ready())
		}
	})
}
