//go:build linux

package kernelproc

import (
	"encoding/hex"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// NamedPipes are two pipes that a kernel opens by their paths, because it cannot be sent descriptors.
type NamedPipes struct {
	Paths   []string
	Readers []*Pipe // of stdout and stderr
	folder  string
	held    []int // write ends, so that the pipes do not end before the kernel opens them
}

// NewNamedPipes makes them in a folder of their own. The session's code may put anything else into its
// place, which costs its own output and no other.
func NewNamedPipes(sinks [2]func([]byte)) (*NamedPipes, error) {
	var id [8]byte
	if _, err := unix.Getrandom(id[:], 0); err != nil {
		return nil, err
	}
	n := &NamedPipes{folder: os.TempDir() + "/.pipes-" + hex.EncodeToString(id[:])}
	if err := os.Mkdir(n.folder, 0o700); err != nil {
		return nil, err
	}
	for i, name := range []string{"out", "err"} {
		p, err := n.add(n.folder+"/"+name, sinks[i])
		if err != nil {
			n.Release()
			for _, p := range n.Readers {
				p.Close()
			}
			return nil, err
		}
		n.Readers = append(n.Readers, p)
	}
	return n, nil
}

var errNotOurs = errors.New("code has put something else in the place of a pipe")

func (n *NamedPipes) add(path string, sink func([]byte)) (*Pipe, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	n.Paths = append(n.Paths, path)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil || s.Mode&unix.S_IFMT != unix.S_IFIFO {
		_ = unix.Close(fd)
		return nil, errNotOurs
	}
	held, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	n.held = append(n.held, held)
	return readPipe(fd, sink, nil)
}

// Release removes the paths and closes the write ends: the kernel opened them, or never will.
func (n *NamedPipes) Release() {
	for _, fd := range n.held {
		_ = unix.Close(fd)
	}
	n.held = nil
	for _, path := range n.Paths {
		_ = unix.Unlink(path)
	}
	_ = unix.Rmdir(n.folder)
}
