//go:build unix

package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// leaveSessions has a server run code in named sessions and end. It gives the settings for the next one.
func leaveSessions(t *testing.T, e *testEngine, ids ...string) Config {
	config := testConfig(t, e)
	first := NewManager(config)
	for _, id := range ids {
		mustRun(t, first, RunOptions{Code: "x = 41", SessionID: id})
	}
	first.Close(t.Context())
	return config
}

// refusing plays what joins a supervisor that lets nobody in.
func refusing(string) (engine.Process, error) { return enginetest.Play(played(func(peer) {})), nil }

// silent plays what joins a supervisor that says nothing.
func silent(string) (engine.Process, error) { return enginetest.Play(played(peer.stay)), nil }

// losing is a connection that loses what a server says from something on.
type losing struct {
	engine.Process
	from string
	lost atomic.Bool
}

func (l *losing) Write(b []byte) (int, error) {
	if l.lost.Load() || bytes.Contains(b, []byte(l.from)) {
		l.lost.Store(true)
		return len(b), nil
	}
	return l.Process.Write(b)
}

// loses has the connections of containers lose what a server says from something on.
func (e *testEngine) loses(from string) {
	e.fails(faults{start: func(spec engine.Spec) (engine.Started, error) {
		s, err := e.Processes.Start(context.Background(), spec)
		s.Process = &losing{Process: s.Process, from: from}
		return s, err
	}})
}

// forging is a connection on which a text is exchanged for another as long.
type forging struct {
	engine.Process
	text, other string
}

func (f forging) Write(b []byte) (int, error) {
	return f.Process.Write(bytes.ReplaceAll(b, []byte(f.text), []byte(f.other)))
}

func TestALaterServerTakesTheKernelOver(t *testing.T) {
	e := newEngine(t)
	later := newTestManager(t, leaveSessions(t, e, "mine"))
	wantValue(t, mustRun(t, later, RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
	should.Equal(t, len(e.specs()), 1, "containers were started")
	info, err := later.Session(t.Context(), "mine")
	should.Hold(t, err == nil && strings.HasPrefix(info.Kernels[0].Version, "3."), "the session is %+v, %v", info, err)
}

func TestAKernelThatWaitsToBeTakenOverIsToldOf(t *testing.T) {
	const other = "csm-host-mine-javascript"
	for name, test := range map[string]struct {
		change func(*testing.T, *Config, *testEngine)
		want   string
		listed string // empty: the same
	}{
		"its container runs":      {func(*testing.T, *Config, *testEngine) {}, "kept", ""},
		"its container has ended": {func(_ *testing.T, _ *Config, e *testEngine) { e.Kill(other) }, "not started", "kept"},
		"its container is gone": {func(t *testing.T, _ *Config, e *testEngine) {
			_ = e.Remove(t.Context(), []string{other}, nil)
		}, "not started", "kept"},
		"it has other settings": {func(_ *testing.T, c *Config, _ *testEngine) { c.Limits.MemoryBytes += 8 << 30 }, "not started", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			config := testConfig(t, e)
			apart := config.Kernels[Python]
			apart.Image += anotherImage
			config.Kernels[JavaScript] = apart
			first := NewManager(config)
			mustRun(t, first, RunOptions{Code: "1", SessionID: "mine"})
			mustRun(t, first, RunOptions{Code: "1", SessionID: "mine", Language: JavaScript})
			first.Close(t.Context())
			test.change(t, &config, e)
			later := newTestManager(t, config)
			mustRun(t, later, RunOptions{Code: "2", SessionID: "mine"})
			info, err := later.Session(t.Context(), "mine")
			list := listed(t, later)
			must.Hold(t, err == nil && len(list) == 1, "told of %v, listed %+v", err, list)
			kernels := info.Kernels
			should.Hold(t, kernels[0].State == "idle" && kernels[1].State == test.want, "the kernels are %+v", kernels)
			if test.listed = cmp.Or(test.listed, test.want); list[0].Kernels[1].State != test.listed { // which asks no engine
				t.Errorf("the kernels are listed as %+v", list[0].Kernels)
			}
		})
	}
}

func TestAVisitorLeavesASessionAsItIs(t *testing.T) {
	e := newEngine(t)
	config := leaveSessions(t, e, "mine")
	before := e.holds(t)
	visitor := config
	visitor.Visit, visitor.IdleTimeout = true, config.IdleTimeout/2
	visitor.Limits.MemoryBytes += 1 << 40
	m := NewManager(visitor)
	must.OK(t, should.ErrOf(m.Resume(t.Context(), "mine")))
	walk := func() error {
		_, err := m.WalkFiles(t.Context(), "mine", true, func(Entry) error { return nil })
		return err
	}
	should.OK(t, walk(), "its files, which need no kernel")
	e.fails(faults{exec: func(string) (engine.Process, error) { return nil, errors.New("no such program") }})
	must.Code(t, walk(), fault.EngineError)
	m.Close(t.Context())
	e.fails(faults{})
	should.EqualSlice(t, e.holds(t), before, "the engine holds")
	should.Equal(t, state.LoadRecord(config.StateDir, "mine").IdleSeconds, config.IdleTimeout.Seconds())
	wantValue(t, mustRun(t, newTestManager(t, config), RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
}

func TestAKernelThatCannotBeTakenOverIsReplaced(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *Config, *testEngine){
		"other limits":              func(_ *testing.T, c *Config, _ *testEngine) { c.Limits.MemoryBytes += 8 << 30 },
		"other secrets":             func(_ *testing.T, c *Config, _ *testEngine) { c.Env = map[string]string{"KEY": "new"} },
		"a supervisor that refuses": func(_ *testing.T, _ *Config, e *testEngine) { e.fails(faults{exec: refusing}) },
		"a container that has just gone": func(_ *testing.T, _ *Config, e *testEngine) {
			e.fails(faults{exec: func(string) (engine.Process, error) { return nil, fmt.Errorf("exec: %w", engine.ErrContainerGone) }})
		},
		"another token": func(t *testing.T, c *Config, e *testEngine) {
			token := state.LoadRecord(c.StateDir, "mine").Token
			e.fails(faults{exec: func(container string) (engine.Process, error) {
				p, err := e.Processes.Exec(t.Context(), container, containers.Join())
				return forging{p, token, strings.Repeat("x", len(token))}, err
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			config := leaveSessions(t, e, "mine")
			change(t, &config, e)
			later := newTestManager(t, config)
			res := mustRun(t, later, RunOptions{Code: "'x' in globals()", SessionID: "mine"})
			if wantNote(t, res, "variables"); len(e.specs()) != 2 || *res.Value != "False" {
				t.Errorf("%d containers were started, and x is there: %s", len(e.specs()), *res.Value)
			}
			wantValue(t, mustRun(t, later, RunOptions{Code: "3", SessionID: "mine"}), "3")
		})
	}
}

func TestASweepLeavesWhatALaterServerCanTakeOver(t *testing.T) {
	e := newEngine(t)
	config := leaveSessions(t, e, "mine")
	sweep := func(idle time.Duration, want ...string) {
		t.Helper()
		swept, err := sweptBy(t, e, config, idle)
		should.Hold(t, err == nil && slices.Equal(swept, want), "swept %q, %v", swept, err)
	}
	sweep(config.IdleTimeout)
	should.EqualSlice(t, e.holds(t), []string{"csm-host-mine-python", "volume csm-host-mine"}, "engine holds")
	sweep(0) // what a sweep is told counts less than what the session's own server promised
	lastUsedAt(t, config, "mine", time.Now().Add(-config.IdleTimeout))
	sweep(0, "mine")
	if left := state.Kept(config.StateDir); len(e.holds(t)) != 0 || len(left) != 0 {
		t.Errorf("engine holds %q, and the state folder %v", e.holds(t), left)
	}
}

// A machine that was asleep has supervisors whose idle time has not passed yet.
func TestASweepHasKernelsWriteTheirVariables(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	config.FreezeBytes, config.FreezeTime, config.Keep = 1<<20, 10*time.Second, 24*time.Hour
	first := NewManager(config)
	mustRun(t, first, RunOptions{Code: "x = 41", SessionID: "mine"})
	first.Close(t.Context())
	used := time.Now().Add(-config.IdleTimeout - time.Hour).Truncate(time.Second)
	lastUsedAt(t, config, "mine", used)
	other := config
	other.FreezeBytes, other.FreezeTime = 0, 0 // what the kernels were made with counts
	swept, err := Sweep(t.Context(), &other)
	should.Hold(t, err == nil && slices.Equal(swept, []Swept{{"", "mine", "nobody had used its kernels"}}), "swept %q, %v", swept, err)
	should.EqualSlice(t, e.holds(t), []string{"volume csm-host-mine"}, "engine holds")
	again, err := state.LastUsed(config.StateDir, "mine")
	should.Hold(t, err == nil && again.Equal(used), "it was last used at %v, %v", again, err)
	res := mustRun(t, newTestManager(t, config), RunOptions{Code: "x + 1", SessionID: "mine"})
	wantNote(t, res, "1 variable is back as it was at ")
	should.Hold(t, res.Value != nil && *res.Value == "42", "x + 1 gave %+v", res)
}

func TestSessionsThatNoServerHasCount(t *testing.T) {
	e := newEngine(t)
	later := newTestManager(t, leaveSessions(t, e, "a", "b", "c"))
	_, err := finish(later, RunOptions{Code: "1", SessionID: "d"})
	should.Contain(t, must.Code(t, err, "max_sessions").Hint, "b (idle", "the hint")
	wantValue(t, mustRun(t, later, RunOptions{Code: "x", SessionID: "b"}), "41")
}

func TestSessionsThatAnotherServerHasDoNotCount(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	other, m := newTestManager(t, config), newTestManager(t, config)
	for _, id := range []string{"a", "b", "c"} {
		mustRun(t, other, RunOptions{Code: "1", SessionID: id})
	}
	for _, id := range []string{"", "d", "e"} {
		mustRun(t, m, RunOptions{Code: "1", SessionID: id})
	}
	_, err := finish(m, RunOptions{Code: "1", SessionID: "f"})
	f := must.Code(t, err, "max_sessions")
	should.Hold(t, !strings.Contains(f.Hint, " a (idle") && strings.Contains(f.Hint, " d (idle"), "the hint is %q", f.Hint)
	other.Close(t.Context())
	m.Close(t.Context())
	later := newTestManager(t, config) // more wait for it than it may have, and none of them is lost
	mustRun(t, later, RunOptions{Code: "2", SessionID: "a"})
	mustRun(t, later, RunOptions{Code: "2", SessionID: "e"})
	must.Code(t, should.ErrOf(finish(later, RunOptions{Code: "1", SessionID: "f"})), "max_sessions")
}

// A run goes on in a kernel that an earlier server left: what a server may say of it, and when.
func TestARunOfAnEarlierServer(t *testing.T) {
	// begin has a server that is killed leave a run, of which its kernel has heard or not.
	begin := func(t *testing.T, e *testEngine, heard bool) (Config, string) {
		t.Helper()
		config := testConfig(t, e)
		config.MaxRunTimeout = time.Minute
		gone := config
		gone.Visit = true // it lets go of the session as a server does that is killed
		first := NewManager(gone)
		defer first.Close(t.Context())
		if !heard {
			e.loses("time.sleep")
		}
		mustRun(t, first, RunOptions{Code: "x = 41", SessionID: "mine"})
		if heard {
			return config, mustHang(t, first, RunOptions{SessionID: "mine"}).ID
		}
		run := must.Get(first.Run(RunOptions{Code: hang, SessionID: "mine", Language: Python}))(t)
		must.Soon(t, "it is on its way", run.IsFollowed)
		e.fails(faults{})
		return config, run.ID
	}
	find := func(t *testing.T, m *Manager, id string) *Run {
		t.Helper()
		run := must.Get(m.FindRun(id))(t)
		return run
	}
	t.Run("is taken over", func(t *testing.T) {
		config, id := begin(t, newEngine(t), true)
		later := newTestManager(t, config)
		run := find(t, later, id)
		if res := run.SoFar(t.Context()); run.Over() || res.Stdout.Head != "so far\n" {
			t.Errorf("it is over: %v, and has printed %q", run.Over(), res.Stdout.Head)
		}
		// A fresh run does not wait for it, and others do.
		wantValue(t, mustRun(t, later, RunOptions{Code: "1", SessionID: "mine", Fresh: true}), "1")
		_, err := finish(later, RunOptions{Code: "1", SessionID: "mine", Timeout: 50 * time.Millisecond})
		must.Code(t, err, fault.SessionBusy)
		mustCancel(t, run)
		wantValue(t, mustRun(t, later, RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
	})
	t.Run("is taken over, and followed over lost connections", func(t *testing.T) {
		e := newRemote(t)
		config, id := begin(t, e, true)
		later := newTestManager(t, config)
		run := find(t, later, id)
		for range 2 {
			joined := e.joined()
			e.CutAll()
			must.Soon(t, "it goes on", func() bool {
				return run.Over() || e.joined() > joined && run.SoFar(t.Context()).Stdout.Head == "so far\n"
			})
		}
		mustCancel(t, run)
		wantValue(t, mustRun(t, later, RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
	})
	t.Run("is taken over with the fresh ones beside it", func(t *testing.T) {
		e := newEngine(t)
		config := testConfig(t, e)
		gone := config
		gone.Visit = true
		first := NewManager(gone)
		main := mustHang(t, first, RunOptions{SessionID: "mine"})
		fresh := mustHang(t, first, RunOptions{SessionID: "mine", Fresh: true})
		first.Close(t.Context())
		later := newTestManager(t, config)
		mustCancel(t, find(t, later, fresh.ID))
		if run := find(t, later, main.ID); run.Over() {
			t.Error("the one that has the kernel ended with it")
		} else {
			mustCancel(t, run)
		}
	})
	t.Run("ended while there was no server", func(t *testing.T) {
		e := newEngine(t)
		config := testConfig(t, e)
		gone := config
		gone.Visit = true
		first := NewManager(gone)
		mustRun(t, first, RunOptions{Code: "x = 41", SessionID: "mine"})
		run := must.Get(first.Run(RunOptions{
			Code:      "import os, time; print('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(.01)\nx += 1; open('over', 'w'); x",
			SessionID: "mine", Language: Python,
		}))(t)
		must.Soon(t, "the code runs", func() bool { return run.SoFar(t.Context()).Stdout.Bytes > 0 })
		first.Close(t.Context())
		folder := e.Folder("csm-host-mine")
		writeFile(t, filepath.Join(folder, "go"))
		must.Soon(t, "it is over", func() bool {
			_, err := os.Stat(filepath.Join(folder, "over"))
			return err == nil
		})
		found := find(t, newTestManager(t, config), run.ID)
		<-found.Done()
		res, err := found.Result()
		must.Hold(t, err == nil && res.Status == Completed && res.Stdout.Head == "begun\n", "it came to %+v, %v", res, err)
		wantValue(t, res, "42")
	})
	t.Run("is left alone by a server that has ended", func(t *testing.T) {
		config, id := begin(t, newEngine(t), true)
		ended := NewManager(config)
		must.OK(t, should.ErrOf(ended.Resume(t.Context(), "mine")))
		ended.Close(t.Context())
		must.Code(t, should.ErrOf(ended.FindRun(id)), fault.EngineError)
		run := find(t, newTestManager(t, config), id)
		should.Hold(t, !run.Over(), "the next server says that it is over")
	})
	t.Run("is not told lost while its container may live", func(t *testing.T) {
		config, id := begin(t, newEngine(t), true)
		other := config
		other.Limits.MemoryBytes++
		visitor := NewManager(other)
		must.Code(t, should.ErrOf(visitor.FindRun(id)), fault.SessionBusy)
		visitor.Close(t.Context())
		run := find(t, newTestManager(t, config), id)
		should.Hold(t, !run.Over(), "the server that could hear of it says that it is over")
	})
	t.Run("ended before its server told the kernel of it", func(t *testing.T) {
		config, id := begin(t, newEngine(t), false)
		run := find(t, newTestManager(t, config), id)
		res, _ := run.Result()
		should.Hold(t, res != nil && res.Status == Cancelled && !res.VariablesLost && len(res.Notes) == 1, "it came to %+v", res)
	})
	t.Run("is lost with its container", func(t *testing.T) {
		e := newEngine(t)
		config, id := begin(t, e, true)
		must.OK(t, e.Remove(t.Context(), []string{"csm-host-mine-python"}, nil))
		run := find(t, newTestManager(t, config), id)
		res, _ := run.Result()
		should.Hold(t, res != nil && res.Status == Killed && res.VariablesLost, "it came to %+v", res)
	})
	t.Run("holds up the next one, whatever is recorded of it", func(t *testing.T) {
		config, id := begin(t, newEngine(t), true)
		must.OK(t, os.RemoveAll(filepath.Join(state.Folder(config.StateDir, "mine"), "history")))
		later := newTestManager(t, config)
		next := must.Get(later.Run(RunOptions{Code: "x + 1", SessionID: "mine", Language: Python}))(t)
		must.Soon(t, "the next one waits for it", func() bool {
			return next.Over() || strings.Contains(strings.Join(next.SoFar(t.Context()).Notes, ""), id)
		})
		mustCancel(t, find(t, later, id))
		<-next.Done()
		res := must.Get(next.Result())(t)
		wantValue(t, res, "42")
	})
}

// A supervisor that was taken over may name runs that there never were, or very many.
func TestRunsThatAHostileSupervisorNames(t *testing.T) {
	names := func(prefix string, n int) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = prefix + strings.Repeat("x", i%70)
		}
		return list
	}
	for name, forged := range map[string]map[string]any{
		"none that there are":  {"run": "", "runs": names("run-", 5000), "over": names("run-", 5000)},
		"the same ones":        {"run": "", "runs": slices.Repeat([]string{"run-a"}, 5000), "over": slices.Repeat([]string{"run-a"}, 5000)},
		"what are no names":    {"run": "../../x", "runs": []string{"", "../../x", "a\nb"}, "over": []string{"\u0000"}},
		"nothing":              {"runs": nil, "over": nil},
		"one that is not told": {"run": "run-a", "runs": []string{}, "over": []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			config := leaveSessions(t, e, "mine")
			e.fails(faults{exec: func(string) (engine.Process, error) {
				return enginetest.Play(played(func(p peer) {
					p.ready(forged)
					completingRuns(p)
				})), nil
			}})
			later := newTestManager(t, config)
			wantValue(t, mustRun(t, later, RunOptions{Code: "2", SessionID: "mine"}), "2")
			s := must.Get(later.get("mine", toFind))(t)
			for _, run := range s.uses.All() {
				should.Hold(t, run.ID != "" && state.ValidID(run.ID), "there is a run %q", run.ID)
			}
			n := len(s.uses.All())
			should.Hold(t, n <= 3, "there are %d runs", n)
		})
	}
}

// Of runs that there are, only so many are taken over, and each once.
func TestOnlySoManyRunsAreTakenOver(t *testing.T) {
	e := newEngine(t)
	config := leaveSessions(t, e, "mine")
	w := history.NewWriter(0)
	must.OK(t, should.ErrOf(w.Open(state.Folder(config.StateDir, "mine"))))
	var ids []string
	for i := range 200 {
		ids = append(ids, fmt.Sprint("run-", i))
		w.Begin(history.Begin{RunID: ids[i], Language: "python", Code: "1", TimeoutMS: 60_000, Started: time.Now()})
	}
	must.OK(t, w.Close())
	e.fails(faults{exec: func(string) (engine.Process, error) {
		return enginetest.Play(played(func(p peer) {
			p.ready(map[string]any{"run": "", "runs": ids, "over": ids})
			for _, id := range ids {
				p.done(id, map[string]any{"result": "forged"})
			}
			completingRuns(p)
		})), nil
	}})
	later := newTestManager(t, config)
	wantValue(t, mustRun(t, later, RunOptions{Code: "2", SessionID: "mine"}), "2")
	later.Close(t.Context()) // which writes what waits to be written
	entries := must.Get(runs.ReadHistory(config.StateDir, "mine"))(t)
	told := 0
	for _, e := range entries {
		if e.Result != nil && e.Result.Value != nil && *e.Result.Value == "forged" {
			told++
		}
	}
	should.Hold(t, told != 0 && told <= kernel.MaxRuns+runs.MaxReported, "the ends of %d runs are believed", told)
}

func TestAKernelThatDoesNotAnswerIsNotReplaced(t *testing.T) {
	e := newEngine(t)
	config := leaveSessions(t, e, "mine")
	impatient := config
	impatient.StartTimeout = 100 * time.Millisecond
	e.fails(faults{exec: silent})
	later := NewManager(impatient)
	must.Code(t, should.ErrOf(finish(later, RunOptions{Code: "2", SessionID: "mine"})), fault.EngineError)
	later.Close(t.Context())
	e.fails(faults{})
	wantValue(t, mustRun(t, newTestManager(t, config), RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
	should.Equal(t, len(e.specs()), 1, "containers were started")
}

// unremoved is a manager whose session "mine" was closed while the engine removed nothing.
func unremoved(t *testing.T) (*testEngine, Config, *Manager) {
	t.Helper()
	e := newEngine(t)
	config := testConfig(t, e)
	m := newQuietManager(t, config)
	mustRun(t, m, RunOptions{Code: "x = 41", SessionID: "mine"})
	e.fails(faults{remove: errors.New("the engine refuses")})
	must.Code(t, should.ErrOf(m.CloseSession(t.Context(), "mine", false)), fault.EngineError)
	e.fails(faults{})
	return e, config, m
}

func TestWhatACloseCouldNotRemoveIsNotTakenForTheNextSession(t *testing.T) {
	e, config, m := unremoved(t)
	left := filepath.Join(e.Folder("csm-host-mine"), "left")
	writeFile(t, left)
	wantValue(t, mustRun(t, m, RunOptions{Code: "'x' in globals()", SessionID: "mine"}), "False")
	_, err := os.Stat(left)
	should.Hold(t, err != nil, "its files are there")
	entries, err := runs.ReadHistory(config.StateDir, "mine")
	should.Hold(t, err == nil && len(entries) <= 1, "the history is %+v, %v", entries, err)
}

// Nor is it where no container came up for that one.
func TestWhatACloseCouldNotRemoveDoesNotOutliveAnUnusedSession(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Manager){
		"that ends with its server": func(t *testing.T, m *Manager) { m.Close(t.Context()) },
		"that dies with its server": func(_ *testing.T, m *Manager) { kill(m) },
		"that is closed": func(t *testing.T, m *Manager) {
			should.OK(t, should.ErrOf(m.CloseSession(t.Context(), "mine", false)))
		},
		"that is closed with its files": func(t *testing.T, m *Manager) {
			should.OK(t, should.ErrOf(m.CloseSession(t.Context(), "mine", true)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, config, m := unremoved(t)
			left := filepath.Join(e.Folder("csm-host-mine"), "left")
			writeFile(t, left)
			m.Close(t.Context())
			m = newQuietManager(t, config) // which does not know the image yet
			e.fails(faults{image: engine.ErrImageMissing})
			_, err := finish(m, RunOptions{Code: "1", SessionID: "mine"})
			must.Code(t, err, fault.ImageMissing)
			e.fails(faults{})
			end(t, m)
			wantValue(t, mustRun(t, newTestManager(t, config), RunOptions{Code: "'x' in globals()", SessionID: "mine"}), "False")
			_, err = os.Stat(left)
			should.Hold(t, err != nil, "its files are there")
		})
	}
}

// Podman's service ends, and with it every connection; the containers go on.
func TestAConnectionThatIsLost(t *testing.T) {
	const container = "csm-host-mine-python"
	for name, test := range map[string]struct {
		id     string
		change func(*testEngine)
		kept   bool
	}{
		"leaves the variables":             {"mine", func(*testEngine) {}, true},
		"leaves none without a name":       {"", func(*testEngine) {}, false},
		"leaves none without a container":  {"mine", func(e *testEngine) { e.Kill(container) }, false},
		"leaves none without an answer":    {"mine", func(e *testEngine) { e.fails(faults{exec: silent}) }, false},
		"leaves none to who is not let in": {"mine", func(e *testEngine) { e.fails(faults{exec: refusing}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			config := testConfig(t, e)
			if name == "leaves none without an answer" {
				config.StartTimeout = time.Second
			}
			m := newTestManager(t, config)
			mustRun(t, m, RunOptions{Code: "x = 41", SessionID: test.id})
			e.Cut(e.specs()[0].Name)
			test.change(e)
			s := must.Get(m.get(test.id, toFind))(t)
			must.Soon(t, "it is known to be lost", func() bool { return !s.links[0].Container.Load().Alive() })
			res := mustRun(t, m, RunOptions{Code: "'x' in globals()", SessionID: test.id})
			if kept := len(e.specs()) == 1 && len(res.Notes) == 0 && *res.Value == "True"; kept != test.kept {
				t.Errorf("%d containers were started, notes are %q", len(e.specs()), res.Notes)
			}
			wantValue(t, mustRun(t, m, RunOptions{Code: "3", SessionID: test.id}), "3")
		})
	}
	for name, known := range map[string]bool{"under a run that goes on": true, "before the code has begun": false} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			m := newTestManager(t, testConfig(t, e))
			if !known {
				e.loses("time.sleep")
			}
			mustRun(t, m, RunOptions{Code: "x = 41", SessionID: "mine"})
			var run *Run
			if known {
				run = mustHang(t, m, RunOptions{SessionID: "mine"})
			} else {
				var err error
				run, err = m.Run(RunOptions{Code: hang, SessionID: "mine", Language: Python})
				must.OK(t, err)
				must.Soon(t, "it is on its way", run.IsFollowed)
			}
			e.Cut(container)
			must.Soon(t, "it goes on", func() bool {
				return run.Over() || e.joined() > 0 && run.SoFar(t.Context()).Stdout.Head == "so far\n"
			})
			mustCancel(t, run)
			wantValue(t, mustRun(t, m, RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
			should.Equal(t, len(e.specs()), 1, "containers were started")
		})
	}
	t.Run("waits for the engine", func(t *testing.T) {
		e := newEngine(t)
		m := newTestManager(t, testConfig(t, e))
		mustRun(t, m, RunOptions{Code: "x = 41", SessionID: "mine"})
		s := must.Get(m.get("mine", toFind))(t)
		e.fails(faults{exec: func(string) (engine.Process, error) { return nil, engine.ErrEngineUnavailable }})
		e.Cut(container)
		must.Soon(t, "it is known to be lost", func() bool { return !s.links[0].Container.Load().Alive() })
		must.Code(t, should.ErrOf(finish(m, RunOptions{Code: "2", SessionID: "mine", Language: Python})), fault.EngineUnavailable)
		e.fails(faults{})
		wantValue(t, mustRun(t, m, RunOptions{Code: "x + 1", SessionID: "mine"}), "42")
		should.Equal(t, len(e.specs()), 1, "containers were started")
	})
	t.Run("is another matter than a frame that breaks the protocol", func(t *testing.T) {
		e := newEngine(t)
		e.play(func(p peer) {
			p.ready(nil)
			if run, ok := p.hear("run"); ok {
				p.done(run.ID, nil)
				_, _ = p.raw.Write([]byte("\xff\xff\xff\xffc"))
			}
		})
		m := newTestManager(t, testConfig(t, e))
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		e.Play = nil
		s := must.Get(m.get("mine", toFind))(t)
		must.Soon(t, "it is known", func() bool { return !s.links[0].Container.Load().Alive() })
		if res := mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}); len(e.specs()) != 2 || len(res.Notes) != 1 || e.joined() != 0 {
			t.Errorf("%d containers were started, %d joined, notes are %q", len(e.specs()), e.joined(), res.Notes)
		}
	})
}

// What is left of a session that nobody wants is not listed, and to have looked at it does not keep it.
func TestAListLeavesToTheSweepWhatACloseCouldNotRemove(t *testing.T) {
	e, config, m := unremoved(t)
	should.Len(t, listed(t, m), 0, "listed")
	swept, err := sweptBy(t, e, config, config.IdleTimeout)
	should.Hold(t, err == nil && slices.Equal(swept, []string{"mine"}), "swept %q, %v", swept, err)
	should.Len(t, e.holds(t), 0, "engine holds")
}

func TestASessionThatNeverHadAContainerIsNotKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEngine(t)
		config := testConfig(t, e)
		config.Keep = 30 * 24 * time.Hour
		e.fails(faults{image: engine.ErrImageMissing})
		first := NewManager(config)
		for _, id := range []string{"ghost", "idle"} {
			must.Code(t, should.ErrOf(finish(first, RunOptions{Code: "1", SessionID: id})), fault.ImageMissing)
			if id == "ghost" {
				time.Sleep(config.IdleTimeout + time.Minute)
			}
		}
		list := listed(t, first)
		should.Hold(t, len(list) == 1 && list[0].ID == "idle", "listed %+v", list)
		first.Close(t.Context())
		if list := listed(t, newTestManager(t, config)); len(list) != 0 || len(state.Kept(config.StateDir)) != 0 {
			t.Errorf("listed %+v, kept %v", list, state.Kept(config.StateDir))
		}
	})
}

// Whatever comes first, the next run tells of it.
func TestThatVariablesAreGoneIsTold(t *testing.T) {
	for name, before := range map[string]func(*testing.T, *Manager, *testEngine){
		"after files were asked for": func(t *testing.T, m *Manager, _ *testEngine) {
			should.OK(t, should.ErrOf(m.WalkFiles(t.Context(), "mine", true, func(Entry) error { return nil })))
		},
		"after a start that failed": func(t *testing.T, m *Manager, e *testEngine) {
			e.fails(faults{exec: refusing, start: func(engine.Spec) (engine.Started, error) { return engine.Started{}, errors.New("no room") }})
			must.Code(t, should.ErrOf(finish(m, RunOptions{Code: "2", SessionID: "mine"})), fault.EngineError)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			config := leaveSessions(t, e, "mine")
			e.fails(faults{exec: refusing})
			later := newTestManager(t, config)
			before(t, later, e)
			e.fails(faults{})
			for _, want := range []string{"variables of its python kernel are gone", ""} {
				wantNote(t, mustRun(t, later, RunOptions{Code: "3", SessionID: "mine"}), want)
			}
		})
	}
}

func TestThatAContainerIsKeptAsItWasMadeIsTold(t *testing.T) {
	e := newEngine(t)
	e.fails(faults{start: func(engine.Spec) (engine.Started, error) {
		return engine.Started{Process: enginetest.Play(played(completing)), OtherSettings: true}, nil
	}})
	m := newQuietManager(t, testConfig(t, e))
	wantNote(t, mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"}), "with the settings that it was made with")
}

// What is said of a session's files is looked up before anything makes its volume anew.
func TestWhetherTheFilesAreThereIsTold(t *testing.T) {
	const (
		there, gone     = "The session's files are there.", "The session's files are gone: its volume is no longer on the engine."
		ended, replaced = "the variables of its python kernel are gone", "its variables are gone"
	)
	otherSettings := func(c *Config) { c.VolumeFiles = 1234 }
	walk := func(t *testing.T, m *Manager) {
		should.OK(t, should.ErrOf(m.WalkFiles(t.Context(), "mine", true, func(Entry) error { return nil })))
	}
	for name, test := range map[string]struct {
		lost     bool
		settings func(*Config)
		before   func(*testing.T, *Manager)
		faults   faults
		want     []string
	}{
		"with its volume":              {want: []string{there, ended}},
		"without":                      {lost: true, want: []string{gone, ended}},
		"after files were asked for":   {lost: true, before: walk, want: []string{gone, ended}},
		"with other settings":          {settings: otherSettings, want: []string{there, replaced}},
		"with other settings, without": {lost: true, settings: otherSettings, want: []string{gone, replaced}},
		"where it cannot be looked up": {faults: faults{list: errors.New("no list")}, want: []string{ended}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			config := leaveSessions(t, e, "mine")
			var volumes []string
			if test.lost {
				volumes = []string{"csm-host-mine"}
			}
			must.OK(t, e.Remove(t.Context(), []string{"csm-host-mine-python"}, volumes))
			if test.settings != nil {
				test.settings(&config)
			}
			e.fails(test.faults)
			m := newTestManager(t, config)
			if test.before != nil {
				test.before(t, m)
			}
			notes := strings.Join(mustRun(t, m, RunOptions{Code: "2", SessionID: "mine"}).Notes, "\n")
			for _, part := range []string{there, gone, ended, replaced} {
				should.Hold(t, strings.Contains(notes, part) == slices.Contains(test.want, part),
					"the notes are %q, want %q", notes, test.want)
			}
			wantNote(t, mustRun(t, m, RunOptions{Code: "3", SessionID: "mine"}), "")
		})
	}
}

// A server with an image for each language left both containers to be taken over by one with one image: they end in order.
func TestContainersOfOtherImagesEndInOrder(t *testing.T) {
	e, _, config := freezing(t)
	other := config.Kernels[Python]
	other.Image += anotherImage
	config.Kernels[JavaScript] = other
	first := NewManager(config)
	mustRun(t, first, RunOptions{Code: "1", SessionID: "mine"})
	mustRun(t, first, RunOptions{Code: "1", SessionID: "mine", Language: JavaScript})
	first.Close(t.Context())
	var mu sync.Mutex
	var stopped []string
	e.fails(faults{exec: func(container string) (engine.Process, error) {
		return enginetest.Play(played(func(p peer) {
			p.say(map[string]any{"type": "attached"})
			if _, ok := p.hear("stop"); ok {
				mu.Lock()
				stopped = append(stopped, container)
				mu.Unlock()
			}
		})), nil
	}})
	config.Kernels[JavaScript] = config.Kernels[Python]
	later := newTestManager(t, config)
	wantNote(t, mustRun(t, later, RunOptions{Code: "2", SessionID: "mine"}), "begins anew: its variables are gone")
	wantNote(t, mustRun(t, later, RunOptions{Code: "2", SessionID: "mine", Language: JavaScript}), "begins anew: its variables are gone")
	mu.Lock()
	defer mu.Unlock()
	if slices.Sort(stopped); !slices.Equal(stopped, []string{"csm-host-mine-javascript", "csm-host-mine-python"}) {
		t.Errorf("%q were told to end", stopped)
	}
}
