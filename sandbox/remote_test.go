//go:build unix

package sandbox

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
)

// Engines that are reached over a network, and whose machines come and go.

func newRemote(t *testing.T) *testEngine {
	e := newEngine(t)
	e.Remote = true
	return e
}

// keepingConfig has sessions of two languages whose variables are kept.
func keepingConfig(t *testing.T, e *testEngine) Config {
	config := testConfig(t, e)
	config.Kernels[JavaScript] = config.Kernels[Python]
	config.FreezeBytes, config.FreezeTime, config.Keep = 1<<20, 10*time.Second, 24*time.Hour
	return config
}

// portOnly is a way out that leads nowhere.
type portOnly struct{}

func (portOnly) Environment(port int) map[string]string {
	return map[string]string{"INDEX": fmt.Sprint("http://127.0.0.1:", port)}
}
func (portOnly) Trust(string, []byte) (string, []byte, error)        { return "", nil, nil }
func (portOnly) Serve(_ context.Context, _, _ string, conn net.Conn) { _ = conn.Close() }
func (portOnly) Forget(string)                                       {}

func TestWhatContainersAreMadeWith(t *testing.T) {
	const idle, life, freeze = 30 * time.Minute, 24 * time.Hour, 10*time.Second + place.RetireMargin
	for name, test := range map[string]struct {
		id    string // of the session; that of a spare otherwise
		lasts bool
		ends  time.Duration
		grace time.Duration
	}{
		"of a named session":    {id: "mine", lasts: true, ends: life + idle + place.EndsMargin, grace: freeze},
		"of one without a name": {id: DefaultOf("a"), ends: life + idle + place.EndsMargin},
		"kept ready":            {lasts: true, grace: freeze},
	} {
		bubbleOf(t, name, func(t *testing.T) {
			e := newEngine(t)
			e.play(completing)
			config := keepingConfig(t, e)
			config.WayOut = portOnly{}
			if test.id == "" {
				config.Spares, config.Prewarm = 1, []Language{JavaScript}
			}
			m := newTestManager(t, config)
			if test.id == "" {
				m.Prewarm()
				readySpare(t, m)
			} else {
				mustRun(t, m, RunOptions{Code: "1", SessionID: test.id, Language: JavaScript})
			}
			spec := e.specs()[0]
			should.Hold(t, spec.Lasts == test.lasts && spec.Ends == test.ends && spec.Grace == test.grace,
				"it lasts: %v, ends after %v, has %v to end", spec.Lasts, spec.Ends, spec.Grace)
			want := map[string]string{"INDEX": "http://127.0.0.1:9797", "CODE_SANDBOX_WAY_OUT": "9797"}
			should.Hold(t, maps.Equal(spec.Env, want), "it is made with %q", spec.Env)
		})
	}
}

// A node is drained, or somebody deletes a pod: what it has frozen comes back, and what is gone is said.
func TestAPodThatEndsElsewhere(t *testing.T) {
	const volume = "csm-host-mine"
	const ended = "The python kernel's container had ended since the last run: its variables are gone"
	for name, test := range map[string]struct {
		id   string
		last bool // the files
		want []string
	}{
		"with files that last":    {"mine", true, []string{"1 variable is back as it was "}},
		"with its files":          {"mine", false, []string{"The session's files are gone: ", ended + "."}},
		"of one without a name":   {"", false, []string{"The session's files are gone: ", ended + "."}},
		"of which the files last": {"", true, []string{ended + ", the files are there."}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newRemote(t)
			m := newTestManager(t, keepingConfig(t, e))
			mustRun(t, m, RunOptions{Code: "x = 41", SessionID: test.id})
			e.Drain(e.specs()[0].Volume, test.last)
			awaitCut(t, m, test.id)
			res := mustRun(t, m, RunOptions{Code: "globals().get('x')", SessionID: test.id})
			told := len(res.Notes) == len(test.want)
			for i := range min(len(res.Notes), len(test.want)) {
				told = told && strings.HasPrefix(res.Notes[i], test.want[i])
			}
			should.Hold(t, told && (res.Value != nil && *res.Value == "41") == (len(test.want) == 1 && test.id != ""),
				"x is %v, the notes are %q, want %q", res.Value, res.Notes, test.want)
			other := mustRun(t, m, RunOptions{Code: "1", SessionID: test.id, Language: JavaScript}).Notes
			gone := slices.ContainsFunc(other, func(n string) bool { return strings.HasPrefix(n, "The session's files are gone: ") })
			should.Hold(t, gone != test.last, "the other language tells %q", other)
			wantNote(t, mustRun(t, m, RunOptions{Code: "2", SessionID: test.id}), "")
		})
	}
	t.Run("under a run", func(t *testing.T) {
		e := newRemote(t)
		m := newTestManager(t, keepingConfig(t, e))
		mustRun(t, m, RunOptions{Code: "x = 41", SessionID: "mine"})
		run := mustHang(t, m, RunOptions{SessionID: "mine"})
		began := time.Now()
		go e.Drain(volume, true)
		<-run.Done()
		res, err := run.Result()
		if err != nil || res.Status != Killed || res.ExitCode != 137 || res.Stdout.Head != "so far\n" || !strings.Contains(res.Cause, "told to end") {
			t.Errorf("it came to %+v, %v", res, err)
		}
		drained := time.Now()
		after := mustRun(t, m, RunOptions{Code: "x + 1", SessionID: "mine"})
		should.Len(t, res.Notes, 1, "it has the notes")
		if wantNote(t, after, " back as "); after.Value == nil || *after.Value != "42" {
			t.Errorf("x + 1 came to %v", after.Value)
		}
		t.Logf("drained in %v, the variables were back %v later", drained.Sub(began), time.Since(drained))
	})
	bubbleOf(t, "while it still writes variables", func(t *testing.T) {
		e := newRemote(t)
		var ended atomic.Bool
		e.play(func(p peer) {
			if p.ready(nil); ended.Load() {
				completingRuns(p)
				return
			}
			for run, ok := p.hear("run"); ok; run, ok = p.hear("run") {
				p.say(map[string]any{
					"type": "done", "id": run.ID, "status": "failed", "kernel": "alive",
					"error": map[string]any{"name": "SessionBusy", "message": "the container is ending"},
				})
				time.Sleep(5 * time.Second)
				ended.Store(true)
				return
			}
		})
		m := newTestManager(t, keepingConfig(t, e))
		began := time.Now()
		res := mustRun(t, m, RunOptions{Code: "6", SessionID: "mine"})
		if res.Status != Completed || *res.Value != "6" || time.Since(began) < 5*time.Second || len(e.specs()) != 2 {
			t.Errorf("it came to %+v after %v in %d containers", res, time.Since(began), len(e.specs()))
		}
	})
}

// unreachable has an engine not reach its containers for a number of times.
func (e *testEngine) unreachable(times int32) {
	var asked atomic.Int32
	e.fails(faults{exec: func(container string) (engine.Process, error) {
		if asked.Add(1) <= times {
			return nil, fmt.Errorf("%w: the API server is restarted", engine.ErrEngineUnavailable)
		}
		return e.Processes.Exec(context.Background(), container, containers.Join())
	}})
}

// cut ends the connections to a session's containers, and waits until that is known.
func cut(t *testing.T, e *testEngine, m *Manager, id string) {
	t.Helper()
	e.CutAll()
	awaitCut(t, m, id)
}

// awaitCut waits until it is known that the connection to a container has ended.
func awaitCut(t *testing.T, m *Manager, id string) {
	t.Helper()
	s := must.Get(m.get(id, toFind))(t)
	must.Soon(t, "it is known to be lost", func() bool { return s.links[0].Live() == nil })
}

func TestAConnectionToAPodIsMadeAgain(t *testing.T) {
	for name, id := range map[string]string{"named": "mine", "unnamed": DefaultOf("a"), "of a spare": DefaultOf("b")} {
		t.Run(name, func(t *testing.T) {
			e := newRemote(t)
			config := keepingConfig(t, e)
			if name == "of a spare" {
				config.Spares, config.Prewarm = 1, []Language{Python}
			}
			m := newTestManager(t, config)
			if m.Prewarm(); config.Spares > 0 {
				readySpare(t, m)
			}
			mustRun(t, m, RunOptions{Code: "x = 41", SessionID: id})
			made := len(e.specs())
			e.unreachable(3)
			cut(t, e, m, id)
			wantValue(t, mustRun(t, m, RunOptions{Code: "x + 1", SessionID: id}), "42")
			for range 2 { // also more than once under a run
				run := mustHang(t, m, RunOptions{SessionID: id})
				for range 2 {
					e.unreachable(2)
					joined := e.joined()
					e.CutAll()
					must.Soon(t, "it goes on", func() bool {
						return run.Over() || e.joined() >= joined+3 && run.SoFar(t.Context()).Stdout.Head == "so far\n"
					})
				}
				mustCancel(t, run)
			}
			wantValue(t, mustRun(t, m, RunOptions{Code: "x + 1", SessionID: id}), "42")
			if config.Spares == 0 && len(e.specs()) != made {
				t.Errorf("%d containers were started", len(e.specs()))
			}
		})
	}
	bubbleOf(t, "or tried for a minute", func(t *testing.T) {
		e := newRemote(t)
		e.play(completing)
		m := newTestManager(t, keepingConfig(t, e))
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		e.unreachable(1 << 20)
		cut(t, e, m, "mine")
		began := time.Now()
		_, err := finish(m, RunOptions{Code: "2", SessionID: "mine"})
		if must.Code(t, err, fault.EngineUnavailable); time.Since(began) < link.AgainFor-link.AgainMost || time.Since(began) > link.AgainFor {
			t.Errorf("it took %v", time.Since(began))
		}
		should.Equal(t, len(e.specs()), 1, "containers were started")
	})
	bubbleOf(t, "unless that is cancelled", func(t *testing.T) {
		e := newRemote(t)
		e.play(completing)
		m := newTestManager(t, keepingConfig(t, e))
		mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		e.unreachable(1 << 20)
		cut(t, e, m, "mine")
		run := must.Get(m.Run(RunOptions{Code: "2", SessionID: "mine", Language: Python}))(t)
		time.Sleep(10 * time.Second)
		run.Interrupt()
		began := time.Now()
		<-run.Done()
		if res, err := run.Result(); err != nil || res.Status != Cancelled || time.Since(began) > time.Second {
			t.Errorf("it came to %+v, %v, after %v", res, err, time.Since(began))
		}
	})
}
