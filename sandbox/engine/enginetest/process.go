package enginetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// process is a process of this machine, or a played one.
type process struct {
	io.Reader
	stdin  io.WriteCloser
	stdout io.Closer
	stderr lastBytes
	said   chan struct{} // closed when nothing more comes to stderr
	folder string        // stands for engine.WorkDir
	begun  bool          // it received its settings
	closed atomic.Bool
	ended  chan struct{}
	stop   func(patient bool)
}

// launch starts a process that has a folder in the place of engine.WorkDir.
func launch(command, environ []string, folder string) (*process, error) {
	var ours, theirs [3]*os.File
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if ours[i], theirs[i] = r, w; i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = "/", environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	err := cmd.Start()
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		for _, f := range ours {
			_ = f.Close()
		}
		return nil, err
	}
	p := &process{Reader: ours[1], stdin: ours[0], stdout: ours[1], folder: folder, said: make(chan struct{}), ended: make(chan struct{})}
	p.stop = func(patient bool) {
		if patient {
			_ = cmd.Process.Signal(syscall.SIGTERM) // a supervisor other than process 1 ends its own children
			return
		}
		_ = cmd.Process.Kill()
	}
	go func() {
		_, _ = io.Copy(&p.stderr, ours[2])
		_ = ours[2].Close()
		close(p.said)
	}()
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// played returns a process that play plays; it ends when play returns.
func played(play func(stdio io.ReadWriteCloser)) *process {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	p := &process{Reader: stdout, stdin: stdin, stdout: stdout, ended: make(chan struct{})}
	theirs := &struct {
		io.Reader
		io.Writer
		io.Closer
	}{in, out, closer{in, out}}
	p.stop = func(bool) { _ = theirs.Close() }
	go func() {
		play(theirs)
		_ = theirs.Close()
		close(p.ended)
	}()
	return p
}

// Play returns the stdio of a program that play plays; it ends when play returns.
func Play(play func(stdio io.ReadWriteCloser)) engine.Process { return played(play) }

type closer []io.Closer

func (c closer) Close() (err error) {
	for _, one := range c {
		err = errors.Join(err, one.Close())
	}
	return err
}

func (p *process) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if err == nil {
		return n, nil
	}
	if !p.closed.Load() && p.said != nil { // a reader may ask at the end for earlier output
		select {
		case <-p.said:
		case <-time.After(time.Second): // its own children go on
		}
	}
	return n, io.EOF // readers know only this end
}

// Write passes bytes on. A server's init, which a stream may overtake, names the work directory, which is elsewhere here.
func (p *process) Write(b []byte) (int, error) {
	const kind = 4
	if !p.begun && len(b) > kind && bytes.HasPrefix(b[kind:], []byte(`c{"type":"init"`)) && p.folder != "" {
		moved := bytes.Replace(b, fmt.Appendf(nil, `"work_dir":%q`, engine.WorkDir), fmt.Appendf(nil, `"work_dir":%q`, p.folder), 1)
		binary.BigEndian.PutUint32(moved, uint32(len(moved)-kind-1))
		if _, err := p.stdin.Write(moved); err != nil {
			return 0, err
		}
		p.begun = true
		return len(b), nil
	}
	return p.stdin.Write(b)
}

// Stderr implements engine.Process.
func (p *process) Stderr() string { return p.stderr.String() }

// Close implements engine.Process.
func (p *process) Close() error {
	p.closed.Store(true)
	err := errors.Join(p.stdin.Close(), p.stdout.Close())
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// end ends the process and waits for it.
func (p *process) end() {
	p.stop(true)
	select {
	case <-p.ended:
	case <-time.After(stopWait):
		p.stop(false)
		<-p.ended
	}
}

// lastBytes keeps the last 4 KiB written to it.
type lastBytes struct {
	mu   sync.Mutex
	kept []byte
}

func (l *lastBytes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, b...)
	l.kept = l.kept[max(0, len(l.kept)-4<<10):]
	return len(b), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.kept)
}
