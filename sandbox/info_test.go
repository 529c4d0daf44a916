//go:build unix

package sandbox

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// listed is what a manager lists, which asks no engine for that.
func listed(t *testing.T, m *Manager) []SessionInfo {
	t.Helper()
	e, _ := m.conf().Engine.(*testEngine)
	if e != nil {
		before := e.faultsNow()
		asked := errors.New("the engine was asked")
		e.fails(faults{image: asked, list: asked})
		defer e.fails(before)
	}
	return m.Sessions(t.Context())
}

func TestToLookAtASessionDoesNotTakeItOver(t *testing.T) {
	config := leaveSessions(t, newEngine(t), "mine")
	then := time.Now().Add(-time.Minute).Truncate(time.Second)
	lastUsedAt(t, config, "mine", then)
	looks, works := newTestManager(t, config), newTestManager(t, config)
	info, err := looks.Session(t.Context(), "mine")
	if err != nil || info.Owner != OwnerNone || !info.LastUsed.Equal(then) || len(info.Kernels) != 1 || info.Kernels[0].State != "kept" {
		t.Errorf("it waits for a server: %+v, %v", info, err)
	}
	wantValue(t, mustRun(t, works, RunOptions{Code: "x", SessionID: "mine"}), "41")
	if info, err = looks.Session(t.Context(), "mine"); err != nil || info.Owner != OwnerOther || time.Since(info.LastUsed) > time.Minute || !info.KeptUntil.Equal(info.LastUsed.Add(max(config.Keep, config.IdleTimeout))) {
		t.Errorf("another server has it: %+v, %v", info, err)
	}
	must.OK(t, state.Pin(config.StateDir, "mine", true))
	info, err = looks.Session(t.Context(), "mine")
	should.Hold(t, err == nil && info.Pinned && info.KeptUntil.IsZero(), "another server has it, pinned: %+v, %v", info, err)
	unnamed := mustRun(t, works, RunOptions{Code: "1"}).SessionID
	if info, err = looks.Session(t.Context(), unnamed); err != nil || info.Owner != OwnerOther || info.Named || !info.KeptUntil.IsZero() {
		t.Errorf("another server has one without a name: %+v, %v", info, err)
	}
	_, err = looks.Session(t.Context(), "yours")
	must.Code(t, err, fault.SessionNotFound)
}

func TestALookWaitsForASessionThatIsBeingOpened(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newTestManager(t, testConfig(t, completingEngine(t)))
		lock := must.Get(state.Take(m.conf().StateDir, "mine"))(t)
		run := must.Get(m.Run(RunOptions{Code: "2", SessionID: "mine", Language: Python}))(t)
		told := make(chan SessionInfo, 1)
		go func() {
			info, _ := m.Session(t.Context(), "mine")
			told <- info
		}()
		synctest.Wait()
		select {
		case info := <-told:
			t.Errorf("told too early of %+v", info)
		default:
		}
		lock.Remove()
		info := <-told
		should.Hold(t, info.Owner == OwnerThis, "told of %+v", info)
		<-run.Done()
	})
}

func TestAKernelThatWouldNotBeTakenOverIsNotToldOf(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"other settings": func(c *Config) { c.Limits.MemoryBytes++ },
		"switched off":   func(c *Config) { delete(c.Kernels, Python) },
	} {
		t.Run(name, func(t *testing.T) {
			config := leaveSessions(t, newEngine(t), "mine")
			change(&config)
			info, err := newTestManager(t, config).Session(t.Context(), "mine")
			should.Hold(t, err == nil && info.Owner == OwnerNone && len(info.Kernels) == 0, "told of %+v, %v", info, err)
		})
	}
}

func TestAnEngineThatDoesNotAnswerIsToldOf(t *testing.T) {
	e := newEngine(t)
	m := newQuietManager(t, leaveSessions(t, e, "left"))
	mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
	for code, failure := range map[fault.Code]error{
		fault.EngineUnavailable: fmt.Errorf("%w: gone", engine.ErrEngineUnavailable),
		fault.EngineError:       errors.New("database is locked"),
	} {
		e.fails(faults{list: failure})
		list := m.Sessions(t.Context())
		should.Hold(t, len(list) == 2 && list[0].ID == "mine" && list[1].ID == "left", "listed %+v", list)
		if info, err := m.Session(t.Context(), "left"); err != nil || info.ID != "left" {
			t.Errorf("what the disk tells is %+v, %v", info, err)
		}
		_, err := m.Session(t.Context(), "yours")
		must.Code(t, err, code)
		_, err = m.CloseSession(t.Context(), "left", false)
		must.Code(t, err, code)
	}
}

// located is an engine of several machines.
type located struct{ *testEngine }

func (l located) Abilities() engine.Abilities {
	a := l.testEngine.Abilities()
	a.Where = func(container string) engine.Location {
		return engine.Location{Name: "place of " + container, Node: "n1"}
	}
	return a
}

func TestASessionSaysOnWhichNodeItIs(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	config.Engine = located{e}
	m, other := newTestManager(t, config), newTestManager(t, config)
	mustRun(t, m, RunOptions{Code: "1", SessionID: "named"})
	want := "place of csm-" + m.conf().Host[:min(6, len(m.conf().Host))] + "-named-python on node n1"
	for name, list := range map[string][]SessionInfo{"known": m.Known(), "listed": listed(t, m)} {
		should.Hold(t, len(list) == 1 && list[0].Place.String() == want, "%s: %+v", name, list)
	}
	list := listed(t, other)
	should.Hold(t, len(list) == 1 && list[0].Place.String() == want, "another server's: %+v", list)
}

func TestASessionOfItsOwnNameIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newTestManager(t, testConfig(t, completingEngine(t)))
		own, named := mustRun(t, m, RunOptions{Code: "1"}).SessionID, mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"}).SessionID
		asleep := mustRun(t, m, RunOptions{Code: "1", SessionID: "kept"}).SessionID
		must.OK(t, should.ErrOf(m.CloseSession(t.Context(), asleep, true)))
		for id, want := range map[string]bool{"": false, own: false, named: true, asleep: true, "nobody": false} {
			should.Equal(t, m.IsNamed(id), want, "%q", id)
		}
		should.Equal(t, m.SessionOfRun(mustRun(t, m, RunOptions{Code: "2"}).RunID), m.Named(""))
	})
}
