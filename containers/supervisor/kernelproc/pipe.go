//go:build linux

package kernelproc

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// drainBytes bounds one read of a pipe under constant writing. No pipe holds more.
const drainBytes = 1 << 20

// Pipe reads one pipe of a kernel and its programs. Its methods may be called from any
// goroutine, but not by a sink.
type Pipe struct {
	file *os.File
	raw  syscall.RawConn
	end  func() // called once, by another goroutine, when all write ends are closed

	mu   sync.Mutex
	sink func([]byte)
	over bool
}

// rooms are buffers for reading pipes; an idle pipe keeps none.
var rooms = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// NewPipe makes a pipe and reads it from now on. It returns the write end, which is the caller's to close.
func NewPipe(sink func([]byte), end func()) (*Pipe, *os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	p, err := readPipe(fds[0], sink, end)
	w := os.NewFile(uintptr(fds[1]), "pipe")
	if err != nil {
		_ = w.Close()
		return nil, nil, err
	}
	return p, w, nil
}

// readPipe owns fd, the read end.
func readPipe(fd int, sink func([]byte), end func()) (*Pipe, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "pipe")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	p := &Pipe{file: file, raw: raw, end: end, sink: sink}
	go p.follow()
	return p, nil
}

func (p *Pipe) follow() {
	for {
		ended := false
		err := p.raw.Read(func(fd uintptr) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			n, err := p.readSome(int(fd))
			ended = n == 0 && err == nil
			return !errors.Is(err, unix.EAGAIN)
		})
		if err != nil || ended {
			break
		}
	}
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	_ = p.file.Close()
	if p.end != nil {
		p.end()
	}
}

// readSome is called with the lock.
func (p *Pipe) readSome(fd int) (int, error) {
	room := rooms.Get().(*[64 << 10]byte)
	defer rooms.Put(room)
	for {
		n, err := unix.Read(fd, room[:])
		if err == unix.EINTR {
			continue
		}
		if n > 0 && p.sink != nil {
			p.sink(room[:n])
		}
		return n, err
	}
}

// Drain passes on the output so far, and directs later output to another sink, if one is given.
func (p *Pipe) Drain(next func([]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_ = p.raw.Control(func(fd uintptr) {
			left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			if err != nil {
				return
			}
			for left = min(left, drainBytes); left > 0; {
				n, err := p.readSome(int(fd))
				if n <= 0 || err != nil {
					return
				}
				left -= n
			}
		})
	}
	if next != nil {
		p.sink = next
	}
}

// Close stops reading. A program that writes to the pipe afterwards is ended by SIGPIPE, or gets EPIPE.
func (p *Pipe) Close() { _ = p.file.Close() }
