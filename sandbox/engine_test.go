package sandbox

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// testEngine is an engine whose containers are processes with the real supervisor. Tests may have its calls come to
// something else.
type testEngine struct {
	*enginetest.Processes

	mu      sync.Mutex
	faults  faults
	started []engine.Spec
	joins   int
}

// faults are calls that fail, or that are answered by the test. Those that are nil are as they are.
type faults struct {
	image, remove, list error
	start               func(engine.Spec) (engine.Started, error) // without a process and an error: as it is
	exec                func(container string) (engine.Process, error)
}

// bubble runs a test in a bubble with a clock of its own. The multiplexer keeps its timers in a pool, and a bubble's must
// not be reset outside it: a pool is empty after two collections.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	defer func() {
		runtime.GC()
		runtime.GC()
	}()
	synctest.Test(t, test)
}

// bubbleOf is a part of a test in a bubble of its own.
func bubbleOf(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}

func newEngine(t *testing.T) *testEngine { return &testEngine{Processes: enginetest.New(t)} }

// fails has calls fail from now on; all that did before are as they are again.
func (e *testEngine) fails(f faults) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = f
}

// commanded has containers start with another command.
func (e *testEngine) commanded(by func(command []string) []string) {
	e.fails(faults{start: func(spec engine.Spec) (engine.Started, error) {
		spec.Command = by(spec.Command)
		return e.Processes.Start(context.Background(), spec)
	}})
}

func (e *testEngine) faultsNow() faults {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.faults
}

// anotherImage makes an image's name that of another one.
const anotherImage = "-another"

func (e *testEngine) Image(ctx context.Context, ref string) (engine.ImageInfo, error) {
	if err := e.faultsNow().image; err != nil {
		return engine.ImageInfo{}, err
	}
	info, err := e.Processes.Image(ctx, strings.TrimSuffix(ref, anotherImage))
	info.Labels = map[string]string{containers.LabelVersions: strings.Repeat("one 1.0, ", 1000)}
	return info, err
}

func (e *testEngine) Start(ctx context.Context, spec engine.Spec) (engine.Started, error) {
	e.mu.Lock()
	e.started = append(e.started, spec)
	e.mu.Unlock()
	if start := e.faultsNow().start; start != nil {
		if s, err := start(spec); s.Process != nil || err != nil {
			return s, err
		}
	}
	spec.Image = strings.TrimSuffix(spec.Image, anotherImage)
	return e.Processes.Start(ctx, spec)
}

func (e *testEngine) Exec(ctx context.Context, container string, command []string) (engine.Process, error) {
	e.mu.Lock()
	e.joins++
	e.mu.Unlock()
	if exec := e.faultsNow().exec; exec != nil {
		return exec(container)
	}
	return e.Processes.Exec(ctx, container, command)
}

// joined is how often a program was to be started in a container.
func (e *testEngine) joined() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.joins
}

func (e *testEngine) Remove(ctx context.Context, names, volumes []string) error {
	if err := e.faultsNow().remove; err != nil {
		return err
	}
	return e.Processes.Remove(ctx, names, volumes)
}

func (e *testEngine) List(ctx context.Context, key, value string) (engine.Inventory, error) {
	if err := e.faultsNow().list; err != nil {
		return engine.Inventory{}, err
	}
	return e.Processes.List(ctx, key, value)
}

// specs are the containers that were asked for.
func (e *testEngine) specs() []engine.Spec {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.started)
}

func (e *testEngine) holds(t *testing.T) []string {
	t.Helper()
	inventory := must.Get(e.Processes.List(t.Context(), LabelSession, ""))(t)
	var names []string
	for _, c := range inventory.Containers {
		names = append(names, c.Name)
	}
	for _, v := range inventory.Volumes {
		names = append(names, "volume "+v.Name)
	}
	slices.Sort(names)
	return names
}

// peer is a supervisor that a test plays, word by word.
type peer struct {
	*channel.Conn
	raw io.Writer
}

// played is process 1 as a script has it. Its container ends with the script.
func played(script func(p peer)) func(io.ReadWriteCloser) {
	return func(stdio io.ReadWriteCloser) {
		c := channel.New(stdio, channel.Options{Supervisor: true, MaxControl: protocol.MaxToSupervisor})
		defer func() { _ = c.Close() }()
		script(peer{c, stdio})
	}
}

// play has every container's process 1 be played by a script.
func (e *testEngine) play(script func(p peer)) {
	e.Play = func(engine.Spec) func(io.ReadWriteCloser) { return played(script) }
}

// heard is any message of a server.
type heard struct {
	Type     string `json:"type"`
	Language string `json:"language"`
	Token    string `json:"token"`
	ID       string `json:"id"`
	Code     string `json:"code"`
	Run      string `json:"run"`
	Name     string `json:"name"`
	Copy     bool   `json:"copy"`

	Languages map[string]string `json:"languages"`
}

// hear returns the server's next message of a type; false when there is none any more.
func (p peer) hear(kind string) (heard, bool) {
	for {
		var m heard
		body, err := p.Receive()
		if err != nil || json.Unmarshal(body, &m) != nil {
			return m, false
		}
		if m.Type == kind {
			return m, true
		}
	}
}

// say sends a message, about Python where it names no language.
func (p peer) say(message map[string]any) {
	if message["language"] == nil {
		message["language"] = "python"
	}
	text, err := json.Marshal(message)
	if err == nil {
		_ = p.Send(text)
	}
}

// ready says that the supervisor is there with a used kernel, by default Python's, and what more is in either message.
func (p peer) ready(more map[string]any) {
	language := with(map[string]any{"language": "python"}, more)["language"]
	p.say(with(map[string]any{"type": "attached", "protocol": protocol.Version, "languages": []any{map[string]any{"language": language, "started": true}}}, more))
	p.say(with(map[string]any{"type": "ready", "language": language, "version": "3.played"}, more))
}

func (p peer) done(id string, more map[string]any) {
	p.say(with(map[string]any{"type": "done", "id": id, "status": "completed", "exit_code": 0, "kernel": "alive"}, more))
}

func with(message, more map[string]any) map[string]any {
	for name, value := range more {
		message[name] = value
	}
	return message
}

// stay keeps a container alive until its server lets go of it.
func (p peer) stay() { p.hear("") }

// completing is a script for tests of what happens long afterwards: every run is over at once.
func completing(p peer) {
	p.ready(nil)
	completingRuns(p)
}

func completingRuns(p peer) {
	for run, ok := p.hear("run"); ok; run, ok = p.hear("run") {
		p.done(run.ID, map[string]any{"result": run.Code})
	}
}

// hostileTo is a script that answers the first run as answer does.
func hostileTo(answer func(p peer, run heard)) func(p peer) {
	return func(p peer) {
		p.ready(nil)
		if run, ok := p.hear("run"); ok {
			answer(p, run)
		}
	}
}

// hang is code that goes on until it is interrupted.
const hang = "import time\nprint('so far', flush=True)\ntime.sleep(600)"

func testConfig(t *testing.T, e *testEngine) Config {
	return Config{Config: place.Config{
		Rules: runs.Rules{
			CodeBytes: 1000, OutputBytes: 1000, RunTimeout: time.Minute, MaxRunTimeout: time.Hour, IdleTimeout: 30 * time.Minute, Lifetime: 24 * time.Hour,
			MaxSessions: 3, StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		},
		Engine: e, Host: "host", SpoolBytes: 1 << 20, KeepLimit: 10 << 30, StartTimeout: time.Minute,
		Kernels: map[Language]KernelConfig{
			Python: {Image: enginetest.Image, Interpreter: "python3", Join: containers.Join()},
		},
	}}
}

// NewTestManager must be called inside the bubble that the test runs in.
func newTestManager(t *testing.T, config Config) *Manager {
	m := NewManager(config)
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// newTestManagerOf is newTestManager for one of several managers of a server.
func newTestManagerOf(t *testing.T, pool *Pool, config Config) *Manager {
	m := pool.NewManager(config)
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// newQuietManager makes no sweep after its first answer, which would lock what was closed.
func newQuietManager(t *testing.T, config Config) *Manager {
	return quiet(newTestManager(t, config))
}

func quiet(m *Manager) *Manager {
	m.pool.sweeper.swept.Do(func() {})
	return m
}

// sweptBy sweeps with another idle time than the sessions have, and returns what something was removed of.
func sweptBy(t *testing.T, e *testEngine, config Config, idle time.Duration) (ids []string, err error) {
	t.Helper()
	config.Engine, config.IdleTimeout = e, idle
	swept, err := Sweep(t.Context(), &config)
	for _, s := range swept {
		ids = append(ids, s.ID)
	}
	return ids, err
}

// mustRun waits for a run that is expected to have a result.
func mustRun(t *testing.T, m *Manager, options RunOptions) *Result {
	t.Helper()
	res := must.Get(finish(m, options))(t, "run %q", options.Code)
	return res
}

// wantValue wants a run to come to a value and to tell nothing.
func wantValue(t *testing.T, res *Result, value string) {
	t.Helper()
	should.Hold(t, res.Value != nil && *res.Value == value && len(res.Notes) == 0,
		"%s came to %+v, not to %s: notes %q, error %+v", res.RunID, res.Value, value, res.Notes, res.Error)
}

// mustHang begins a run that goes on.
func mustHang(t *testing.T, m *Manager, options RunOptions) *Run {
	t.Helper()
	options.Language, options.Code = Python, hang
	run := must.Get(m.Run(options))(t)
	must.Soon(t, "the code runs", func() bool { return run.SoFar(t.Context()).Stdout.Head == "so far\n" })
	return run
}

// mustCancel interrupts a run and wants that to keep the variables.
func mustCancel(t *testing.T, run *Run) {
	t.Helper()
	run.Interrupt()
	<-run.Done()
	res, err := run.Result()
	should.Hold(t, err == nil && res.Status == Cancelled && res.ExitCode == 130 && !res.VariablesLost, "it came to %+v, %v", res, err)
}

func finish(m *Manager, options RunOptions) (*Result, error) {
	if options.Language == "" {
		options.Language = Python
	}
	run, err := m.Run(options)
	if err != nil {
		return nil, err
	}
	<-run.Done()
	return run.Result()
}

// wantNote wants a run to tell one thing, or nothing where that is empty.
func wantNote(t *testing.T, res *Result, part string) {
	t.Helper()
	if notes := strings.Join(res.Notes, "\n"); (part == "") != (notes == "") || !strings.Contains(notes, part) || len(res.Notes) > 1 {
		t.Errorf("%s has the notes %q, want %q", res.RunID, res.Notes, part)
	}
}
