package sandbox

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// fakeEngine starts goroutines in the place of containers. It keeps to the Engine contract and
// complains when two calls of one session overlap.
type fakeEngine struct {
	t *testing.T
	// supervise plays process 1; the container has ended when it returns. Nil: obedient.
	supervise func(s *fakeSupervisor)
	// program plays what Exec starts. Nil: nothing can be started.
	program    func(command []string, in io.Reader, out io.Writer)
	failImage  error
	failStart  error
	failRemove error
	failExec   error
	failList   error

	mu         sync.Mutex
	started    []Spec
	containers map[string]*fakeProcess
	volumes    map[string]map[string]string
	removed    []string
}

func (e *fakeEngine) Image(context.Context, string) (ImageInfo, error) {
	return ImageInfo{ID: "sha256:0"}, e.failImage
}

func (e *fakeEngine) Start(_ context.Context, spec Spec) (Process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failStart != nil {
		return nil, e.failStart
	}
	if e.containers[spec.Name] != nil {
		return nil, errors.New("name in use: " + spec.Name)
	}
	if e.containers == nil {
		e.containers, e.volumes = make(map[string]*fakeProcess), make(map[string]map[string]string)
	}
	p, toSupervisor, fromSupervisor := newFakeProcess()
	p.labels = spec.Labels
	e.containers[spec.Name] = p
	e.volumes[spec.Volume] = spec.Labels
	e.started = append(e.started, spec)
	supervise := e.supervise
	if supervise == nil {
		supervise = obedient
	}
	go func() {
		if readSource(toSupervisor) == "source" {
			supervise(&fakeSupervisor{in: toSupervisor, out: fromSupervisor})
		}
		p.over.Store(true)
		_ = toSupervisor.Close()
		_ = fromSupervisor.Close()
	}()
	return p, nil
}

// readSource takes what process 1 is to become.
func readSource(in io.Reader) string {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return ""
	}
	source := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, _ = io.ReadFull(in, source)
	return string(source)
}

func newFakeProcess() (*fakeProcess, *io.PipeReader, *io.PipeWriter) {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	return &fakeProcess{Reader: stdout, stdin: stdin, stdout: stdout}, in, out
}

// play exchanges what Exec starts.
func (e *fakeEngine) play(program func(command []string, in io.Reader, out io.Writer)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.program = program
}

func (e *fakeEngine) Exec(_ context.Context, container string, command []string) (Process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failExec != nil {
		return nil, e.failExec
	}
	if p := e.containers[container]; p == nil || p.over.Load() || e.program == nil {
		return nil, fmt.Errorf("%w: %s", ErrContainerGone, container)
	}
	p, in, out := newFakeProcess()
	program := e.program
	go func() {
		program(command, in, out)
		_ = in.Close()
		_ = out.Close()
	}()
	return p, nil
}

// cut ends the connection to a container, which goes on as it will.
func (e *fakeEngine) cut(container string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.containers[container].Close()
}

func (e *fakeEngine) Remove(_ context.Context, containers, volumes []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failRemove != nil {
		return e.failRemove
	}
	for _, name := range containers {
		if p := e.containers[name]; p != nil {
			_ = p.Close()
			delete(e.containers, name)
			e.removed = append(e.removed, name)
		}
	}
	for _, name := range volumes {
		if _, ok := e.volumes[name]; ok {
			delete(e.volumes, name)
			e.removed = append(e.removed, name)
		}
	}
	return nil
}

func (e *fakeEngine) List(_ context.Context, key, value string) (Inventory, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var inventory Inventory
	if e.failList != nil {
		return inventory, e.failList
	}
	for name, p := range e.containers {
		if p.labels[key] == value {
			inventory.Containers = append(inventory.Containers, Container{Name: name, Labels: p.labels, Running: !p.over.Load(), Created: time.Now()})
		}
	}
	for name, labels := range e.volumes {
		if labels[key] == value {
			inventory.Volumes = append(inventory.Volumes, Volume{Name: name, Labels: labels, Created: time.Now()})
		}
	}
	return inventory, nil
}

func (e *fakeEngine) Close() error { return nil }

func (e *fakeEngine) holds() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for name := range e.containers {
		names = append(names, name)
	}
	for name := range e.volumes {
		names = append(names, "volume "+name)
	}
	slices.Sort(names)
	return names
}

type fakeProcess struct {
	io.Reader
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	labels map[string]string
	over   atomic.Bool // process 1 has ended
}

func (p *fakeProcess) Write(b []byte) (int, error) { return p.stdin.Write(b) }
func (p *fakeProcess) Stderr() string              { return "stderr of the fake" }
func (p *fakeProcess) Close() error {
	_ = p.stdin.Close()
	return p.stdout.Close()
}

// fakeSupervisor is process 1's end of a fake container.
type fakeSupervisor struct {
	in   io.Reader
	out  io.Writer
	runs []string // that it was asked for
}

type anyMessage struct {
	Type   string `json:"type"`
	Token  string `json:"token"`
	OnEOF  string `json:"on_eof"`
	ID     string `json:"id"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// next reads the server's next message; false when there is none any more.
func (s *fakeSupervisor) next() (anyMessage, bool) {
	var m anyMessage
	body, err := readFrame(s.in)
	if err != nil || json.Unmarshal(body, &m) != nil {
		return m, false
	}
	return m, true
}

func (s *fakeSupervisor) send(message map[string]any) { _ = writeFrame(s.out, message) }

func (s *fakeSupervisor) ready() {
	s.send(map[string]any{"type": "ready", "protocol": 1, "language": "python", "version": "3.fake"})
}

func (s *fakeSupervisor) done(id, status string, exit int, more map[string]any) {
	message := map[string]any{"type": "done", "id": id, "status": status, "exit_code": exit, "kernel": "alive"}
	for name, value := range more {
		message[name] = value
	}
	s.send(message)
}

// obedient completes every run with its code as the result; code that begins with "hang" goes on until it is
// interrupted.
func obedient(s *fakeSupervisor) {
	s.ready()
	s.obey()
}

func (s *fakeSupervisor) obey() {
	for s.obeyOnce() {
	}
}

// obeyOnce answers the next message; false when there is none any more.
func (s *fakeSupervisor) obeyOnce() bool {
	m, ok := s.next()
	if m.Type == "run" {
		s.runs = append(s.runs, m.ID)
	}
	switch {
	case m.Type == "run" && !strings.HasPrefix(strings.TrimSpace(m.Code), "hang"):
		s.done(m.ID, "completed", 0, map[string]any{"result": m.Code})
	case m.Type == "interrupt":
		s.done(m.ID, "cancelled", 130, nil)
	case m.Type == "peek":
		s.send(map[string]any{"type": "peek", "id": m.ID, "stdout": map[string]any{"head": "so far\n", "bytes": 7}})
	case m.Type == "usage":
		s.send(map[string]any{"type": "usage", "bytes": 4096})
	}
	return ok
}

func testConfig(t *testing.T, e *fakeEngine) Config {
	e.t = t
	return Config{
		Engine:    e,
		Kernels:   map[Language]KernelConfig{Python: {Image: "img", Interpreter: "python3", Flags: []string{"-c"}, Boot: "boot", Supervisor: "source", Program: []string{"-I", "-c"}, Files: "files", Relay: "relay"}},
		CodeBytes: 1000, OutputBytes: 1000, SpoolBytes: 1 << 20,
		RunTimeout: time.Minute, MaxRunTimeout: time.Hour, IdleTimeout: 30 * time.Minute, Lifetime: 24 * time.Hour,
		StartTimeout: time.Minute, MaxSessions: 3, StateDir: t.TempDir(), Host: "host",
		Logger: slog.New(slog.DiscardHandler),
	}
}

// newTestManager must be called inside the bubble that the test runs in.
func newTestManager(t *testing.T, config Config) *Manager {
	m := NewManager(config)
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// mustRun waits for a run that is expected to have a result.
func mustRun(t *testing.T, m *Manager, options RunOptions) *Result {
	t.Helper()
	res, err := finish(m, options)
	if err != nil {
		t.Fatalf("run %q: %v", options.Code, err)
	}
	return res
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

func wantCode(t *testing.T, err error, code fault.Code) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("got error %v, want code %s", err, code)
	}
	if f.Hint == "" {
		t.Errorf("fault %v has no hint", f)
	}
	return f
}

var discardLog = slog.New(slog.DiscardHandler)
