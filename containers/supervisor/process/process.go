//go:build linux

// Package process runs programs for the server in a container, with pipes or a terminal: docs/kernel-protocol.md, "Programs: streams".
// They run as the session's user under the limits of its code, and end with their stream.
package process

import (
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/confine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/programwire"
	"golang.org/x/sys/unix"
)

// Mark is the mark of the programs that a server started, which end with no kernel; see procs.MarkAs.
const Mark = 100

// oomScore makes the OOM killer take a program before kernels with variables.
const oomScore = 1000

// Programs are the running programs. Its methods are safe for several goroutines.
type Programs struct {
	mu      sync.Mutex
	running map[int]*Program
}

// Running returns the running programs.
func (ps *Programs) Running() []*Program {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.Collect(maps.Values(ps.running))
}

// Add adds the processes of all of them.
func (ps *Programs) Add(table procs.Table, all map[int]bool) {
	for _, p := range ps.Running() {
		maps.Copy(all, p.Processes(table))
	}
}

// Exited passes on the status of an ended process, perhaps none of these programs.
func (ps *Programs) Exited(pid int, status syscall.WaitStatus) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.running[pid]; p != nil {
		p.ended = procs.TicksNow()
		p.status <- status
		delete(ps.running, pid)
	}
}

// Asks returns the program that a stream's first message asks for; nil: none.
func Asks(text []byte) *programwire.Start {
	var start programwire.Start
	if json.Unmarshal(text, &start) != nil || start.Op != programwire.Op {
		return nil
	}
	return &start
}

// Program is one with its stream. The sandbox's code can signal it too, and its parts are no secret to that.
type Program struct {
	pid    int
	input  *os.File
	output map[string]*os.File
	pty    *os.File // nil: it has pipes
	fed    chan programwire.Input
	status chan syscall.WaitStatus
	over   atomic.Bool
	all    *Programs
	ended  int64  // as procs.Process.Start, under the lock of all; 0: it runs. Its number may be another's from then on
	cause  string // why it was stopped, under that lock

	writing sync.Mutex // to the stream
	stream  net.Conn
}

// Serve runs a program until that ends, or the stream does and kills it. It calls over before the stream is told of the end.
func (ps *Programs) Serve(stream net.Conn, start *programwire.Start, env []string, workDir string, over func()) {
	p := &Program{all: ps, stream: stream, output: make(map[string]*os.File), fed: make(chan programwire.Input, 1), status: make(chan syscall.WaitStatus, 1)}
	if err := ps.start(p, start, env, workDir); err != nil {
		p.close()
		over()
		p.send(programwire.Output{Error: err.Error()})
		return
	}
	p.send(programwire.Output{PID: p.pid})
	go p.obey()
	go p.feed()
	read := make(chan struct{})
	for name, from := range p.output {
		go p.copy(name, from, read)
	}
	status := <-p.status
	for range p.output { // which its children may hold open, unless it was killed
		<-read
	}
	p.over.Store(true)
	ps.mu.Lock()
	cause := p.cause
	ps.mu.Unlock()
	exit := programwire.Exit{Code: status.ExitStatus(), Cause: cause}
	if status.Signaled() {
		exit.Code, exit.Signal = 128+int(status.Signal()), int(status.Signal())
	}
	over()
	p.send(programwire.Output{Exit: &exit})
	p.close()
}

// start starts the program. The lock keeps its end from being taken before its number is known.
func (ps *Programs) start(p *Program, start *programwire.Start, env []string, workDir string) error {
	if len(start.Argv) == 0 {
		return errors.New("there is no command")
	}
	for name, value := range start.Env {
		env = append(env, name+"="+value)
	}
	dir := workDir
	if start.Dir != "" {
		dir = start.Dir
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return errors.New("cwd '" + dir + "' does not exist")
	}
	path := start.Argv[0] // relative to dir, or on the container's own PATH
	if !strings.Contains(path, "/") {
		var err error
		if path, err = kernelproc.Find(path); err != nil {
			return err
		}
	}
	sys := &syscall.SysProcAttr{Setsid: true}
	theirs, err := p.open(start.PTY, sys)
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	if err != nil {
		return err
	}
	files := []uintptr{theirs[0].Fd(), theirs[1].Fd(), theirs[2].Fd()}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.pid, err = confine.ForkExec(path, start.Argv, &syscall.ProcAttr{Dir: dir, Env: env, Files: files, Sys: sys})
	if err != nil {
		return err
	}
	procs.MarkAs(p.pid, Mark) // first: what it starts has its mark
	procs.RaiseOOMScore(p.pid, oomScore)
	if ps.running == nil {
		ps.running = make(map[int]*Program)
	}
	ps.running[p.pid] = p
	return nil
}

// open makes our ends of the program's pipes or terminal, and returns its three, which are the caller's to close.
func (p *Program) open(size *programwire.Size, sys *syscall.SysProcAttr) (theirs []*os.File, err error) {
	if size != nil {
		var tty *os.File
		if p.pty, tty, err = openPTY(*size); err != nil {
			return nil, err
		}
		sys.Setctty = true // its descriptor 0
		p.input, p.output[programwire.PTY] = p.pty, p.pty
		return []*os.File{tty, tty, tty}, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.input, theirs = write, append(theirs, read)
	for _, name := range []string{programwire.Stdout, programwire.Stderr} {
		read, write, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		p.output[name], theirs = read, append(theirs, write)
	}
	return theirs, nil
}

func openPTY(size programwire.Size) (pty, tty *os.File, err error) {
	pty, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var number int
	err = control(pty, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return errors.Join(err, resize(fd, size))
	})
	if err == nil {
		tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = pty.Close()
		return nil, nil, err
	}
	return pty, tty, nil
}
