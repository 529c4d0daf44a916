package enginetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Image is the only image of Processes. It holds this machine's programs.
const Image = "this-machine"

// stopWait bounds the orderly end of a process with all its children.
const stopWait = 10 * time.Second

// Processes is an engine for tests. Its containers are unconfined processes of this machine, each with a folder for a volume: the
// supervisor is the real one.
type Processes struct {
	*machine
	// Made stands for settings of the engine that containers are made with.
	Made   string
	closed atomic.Bool
}

// machine is the shared part of several engines.
type machine struct {
	tb  testing.TB
	dir string
	// Remote makes it say that connections to its containers break while those go on.
	Remote bool
	// Play plays process 1 of a container in this process, if it returns a function. May be nil.
	Play func(engine.Spec) func(stdio io.ReadWriteCloser)

	programs   func() (string, error)
	mu         sync.Mutex
	containers map[string]*container
	volumes    map[string]engine.Volume
}

type container struct {
	engine.Container
	spec    engine.Spec
	environ []string
	main    *process
	execs   []*process
}

// New makes an empty engine. The end of the test removes everything on it.
func New(tb testing.TB) *Processes {
	m := &machine{tb: tb, dir: tb.TempDir(), containers: make(map[string]*container), volumes: make(map[string]engine.Volume)}
	m.programs = sync.OnceValues(m.writePrograms)
	p := &Processes{machine: m}
	tb.Cleanup(func() {
		for _, c := range m.containers {
			m.end(c)
		}
	})
	return p
}

// Open returns another engine on the same machine.
func (p *Processes) Open() *Processes { return &Processes{machine: p.machine} }

// writePrograms makes the folder that stands for containers.ProgramsDir.
func (m *machine) writePrograms() (string, error) {
	files, err := containers.Programs(runtime.GOARCH)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(m.dir, "programs")
	// A process forked meanwhile would hold the file open for writing, and it could not be started.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, f := range files {
		name := filepath.Join(folder, f.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Content, f.Mode)); err != nil {
			return "", err
		}
	}
	return folder, nil
}

func (p *Processes) check(ctx context.Context) error {
	if p.closed.Load() {
		return engine.ErrEngineUnavailable
	}
	return ctx.Err()
}

// Image implements engine.Engine.
func (p *Processes) Image(ctx context.Context, ref string) (engine.ImageInfo, error) {
	if err := p.check(ctx); err != nil {
		return engine.ImageInfo{}, err
	}
	if ref != Image {
		return engine.ImageInfo{}, fmt.Errorf("%w: %s", engine.ErrImageMissing, ref)
	}
	return engine.ImageInfo{ID: "sha256:0", Arch: runtime.GOARCH}, nil
}

// Start implements engine.Engine.
func (p *Processes) Start(ctx context.Context, spec engine.Spec) (engine.Started, error) {
	if err := spec.Check(); err != nil {
		return engine.Started{}, err
	}
	if len(spec.Mounts) > 0 {
		return engine.Started{}, engine.ErrNotOnHost
	}
	if _, err := p.Image(ctx, spec.Image); err != nil {
		return engine.Started{}, err
	}
	if spec.Arch != "" && spec.Arch != runtime.GOARCH {
		return engine.Started{}, fmt.Errorf("%w: %s", engine.ErrArchitecture, spec.Arch)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.containers[spec.Name] != nil {
		return engine.Started{}, errors.New("a container of that name exists: " + spec.Name)
	}
	if err := os.MkdirAll(p.Folder(spec.Volume), 0o755); err != nil {
		return engine.Started{}, err
	}
	now := time.Now()
	_, had := p.volumes[spec.Volume]
	if !had {
		p.volumes[spec.Volume] = engine.Volume{Name: spec.Volume, Labels: maps.Clone(spec.Labels), Created: now}
	}
	c := &container{
		Container: engine.Container{Name: spec.Name, Labels: maps.Clone(spec.Labels), Created: now}, spec: spec,
		environ: append(os.Environ(), "HOME="+p.dir),
	}
	for name, value := range spec.Env {
		c.environ = append(c.environ, name+"="+value)
	}
	c.environ = append(c.environ, "CODE_SANDBOX_SOCKET=@csm-test-"+rand.Text()) // all sessions share this machine's sockets
	if p.Play != nil {
		if play := p.Play(spec); play != nil {
			c.main = played(play)
		}
	}
	if c.main == nil {
		var err error
		if c.main, err = p.begin(c, spec.Command); err != nil {
			return engine.Started{}, err
		}
	}
	p.containers[spec.Name] = c
	return engine.Started{Process: c.main, NewVolume: !had}, nil
}

// Exec implements engine.Engine.
func (p *Processes) Exec(ctx context.Context, name string, command []string) (engine.Process, error) {
	if len(command) == 0 {
		return nil, errors.New("a program in a container needs a command")
	}
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.containers[name]
	if c == nil || c.main.over() {
		return nil, fmt.Errorf("%w: %s", engine.ErrContainerGone, name)
	}
	program, err := p.begin(c, command)
	if err != nil {
		return nil, err
	}
	c.execs = append(c.execs, program)
	return program, nil
}

func (m *machine) begin(c *container, command []string) (*process, error) {
	programs, err := m.programs()
	if err != nil {
		return nil, err
	}
	folder := m.Folder(c.spec.Volume)
	command = append([]string{}, command...)
	for i, argument := range command {
		command[i] = strings.NewReplacer(containers.ProgramsDir, programs, engine.WorkDir, folder).Replace(argument)
	}
	return launch(command, c.environ, folder)
}

// Remove implements engine.Engine.
func (p *Processes) Remove(ctx context.Context, names, volumes []string) error {
	if err := p.check(ctx); err != nil {
		return err
	}
	for _, name := range names {
		p.mu.Lock()
		c := p.containers[name]
		p.mu.Unlock()
		if c == nil {
			continue
		}
		p.end(c)
		p.mu.Lock()
		delete(p.containers, name)
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed []error
	for _, name := range volumes {
		for _, c := range p.containers {
			if c.spec.Volume == name {
				failed = append(failed, fmt.Errorf("volume %s is used by %s", name, c.Name))
			}
		}
		if len(failed) == 0 {
			delete(p.volumes, name)
			failed = append(failed, os.RemoveAll(p.Folder(name)))
		}
	}
	return errors.Join(failed...)
}

// List implements engine.Engine.
func (p *Processes) List(ctx context.Context, key, value string) (engine.Inventory, error) {
	if err := p.check(ctx); err != nil {
		return engine.Inventory{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var found engine.Inventory
	carries := func(labels map[string]string) bool {
		got, ok := labels[key]
		return ok && (value == "" || value == got)
	}
	for _, c := range p.containers {
		if carries(c.Labels) {
			c.Running = !c.main.over()
			found.Containers = append(found.Containers, c.Container)
		}
	}
	for _, v := range p.volumes {
		if carries(v.Labels) {
			found.Volumes = append(found.Volumes, v)
		}
	}
	return found, nil
}

// Abilities implements engine.Engine.
func (p *Processes) Abilities() engine.Abilities {
	return engine.Abilities{Name: "Podman", Remote: p.Remote}
}

// Shape implements engine.Engine.
func (p *Processes) Shape(spec engine.Spec) string { return engine.Key(p.Made, spec.Alike()) }

// Close implements engine.Engine.
func (p *Processes) Close() error {
	p.closed.Store(true)
	return nil
}

// Folder is the folder of a volume's files.
func (m *machine) Folder(volume string) string { return filepath.Join(m.dir, "volumes", volume) }

// Cut ends the connection that Start returned to a container, as the end of an engine's service does. The container goes on.
func (m *machine) Cut(name string) { _ = m.find(name).main.Close() }

// CutAll is Cut of everything: containers, and programs started in them.
func (m *machine) CutAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.containers {
		for _, p := range append(c.execs, c.main) {
			_ = p.Close()
		}
	}
}

// Kill ends a container, which stays, as after a crash.
func (m *machine) Kill(name string) { m.end(m.find(name)) }

// Drain ends the containers of a volume in order, as the end of their node does, and removes the files unless they last.
func (m *machine) Drain(volume string, last bool) {
	m.mu.Lock()
	var all []*container
	for name, c := range m.containers {
		if c.spec.Volume == volume {
			all = append(all, c)
			delete(m.containers, name)
		}
	}
	m.mu.Unlock()
	for _, c := range all {
		m.end(c)
	}
	if !last {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.volumes, volume)
		should.OK(m.tb, os.RemoveAll(m.Folder(volume)))
	}
}

func (m *machine) find(name string) *container {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.containers[name]
	must.Hold(m.tb, c != nil, "there is no container %s", name)
	return c
}

func (m *machine) end(c *container) {
	c.main.end()
	m.mu.Lock()
	execs := c.execs
	m.mu.Unlock()
	for _, program := range execs {
		program.end()
	}
}
