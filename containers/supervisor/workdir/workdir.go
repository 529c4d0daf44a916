//go:build linux

// Package workdir is the work directory of a session: its files, their versions, and the files that kernels leave for later ones.
package workdir

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"golang.org/x/sys/unix"
)

const mostState = 10_000 // files of the state folder that are looked at

// Dir is the session's folder. Its streams are independent of runs.
type Dir struct {
	path    string        // set before known is closed, and never changed
	known   chan struct{} // closed when it is open, so that streams begin
	dir     *os.File      // nil where it cannot be used
	state   string        // the folder with what is kept of kernels and files
	beside  int           // that folder where it is not in this one; else -1
	scanner *artifacts.Scanner
	moving  atomic.Int32     // streams that are being served
	pages   *browser.Browser // that draws HTML files
	undo    *Undo            // of its files
}

// New returns a folder that is to be opened.
func New(pages *browser.Browser, undo *Undo) *Dir {
	return &Dir{known: make(chan struct{}), beside: -1, pages: pages, undo: undo}
}

// Open opens the folder, and makes it and its subfolders. problem takes each failure.
func (w *Dir) Open(path, state string, problem func(string)) {
	w.path = path
	w.state = path + "/" + filewire.StateFolder
	if fd, err := unix.Open(state, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); state != "" && err == nil {
		w.state, w.beside = state, fd
	}
	_ = os.MkdirAll(w.path, 0o755)
	if info, err := os.Lstat(w.path); err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
		_ = os.Chmod(w.path, info.Mode().Perm()|0o700) // earlier code may have locked it
	}
	dir, err := os.OpenFile(w.path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		problem("the work directory cannot be used: " + err.Error())
		return
	}
	w.dir, w.scanner = dir, artifacts.NewScanner(dir)
	for _, name := range []string{"input", "output"} {
		if _, err := os.Lstat(w.path + "/" + name); errors.Is(err, os.ErrNotExist) {
			if err := os.Mkdir(w.path+"/"+name, 0o755); err != nil {
				problem("the folder " + name + " cannot be made: " + err.Error())
			}
		}
	}
}

// FD returns the folder's descriptor, or -1.
func (w *Dir) FD() int {
	if w.dir == nil {
		return -1
	}
	return int(w.dir.Fd())
}

// Folders are the descriptors of all that is limited.
func (w *Dir) Folders() []int { return []int{w.FD(), w.beside} }

// Path returns the folder's path.
func (w *Dir) Path() string { return w.path }

// Admit lets streams begin, when all is open.
func (w *Dir) Admit() { close(w.known) }

// IsServing reports whether a stream goes on.
func (w *Dir) IsServing() bool { return w.moving.Load() > 0 }

// Scanner finds the files of runs; nil where the folder cannot be used.
func (w *Dir) Scanner() *artifacts.Scanner { return w.scanner }

// AcceptAll serves the streams that a server opens: about files, and those that other takes; nil: it takes none.
func (w *Dir) AcceptAll(conn *channel.Conn, other func(stream net.Conn, request []byte) bool) {
	for {
		stream, err := conn.Accept()
		if err != nil {
			return
		}
		go w.serve(stream, other)
	}
}

func (w *Dir) serve(stream net.Conn, other func(stream net.Conn, request []byte) bool) {
	defer func() { _ = stream.Close() }()
	<-w.known // a stream may overtake the message
	w.moving.Add(1)
	defer w.moving.Add(-1)
	request, err := files.Read(stream)
	if err == nil && (other == nil || !other(stream, request)) {
		files.Folder{Path: w.path, State: w.state, Placed: w.undo.note, Placing: &w.undo.placing, Pages: w.pages, Versions: w.undo.store}.Serve(stream, request)
	}
}

// The folder of the session's state has files of variables. No link is followed that code may have put in its place.

// StateFile returns the path of a file of variables.
func (w *Dir) StateFile(name string) string { return w.state + "/" + name }

// MakeState makes the folder where it is absent.
func (w *Dir) MakeState() error {
	if err := unix.Mkdir(w.state, 0o700); err != nil && err != unix.EEXIST {
		return err
	}
	return w.inState(func(int) error { return nil })
}

func (w *Dir) inState(do func(folder int) error) error {
	folder, err := unix.Open(w.state, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(folder) }()
	return do(folder)
}

// HasState reports whether there is such a file.
func (w *Dir) HasState(name string) bool {
	var s unix.Stat_t
	err := w.inState(func(folder int) error { return unix.Fstatat(folder, name, &s, unix.AT_SYMLINK_NOFOLLOW) })
	return err == nil && s.Mode&unix.S_IFMT == unix.S_IFREG
}

// LinkState gives a file a second name, by which it stays when its first one is replaced.
func (w *Dir) LinkState(from, to string) error {
	return w.inState(func(folder int) error {
		_ = unix.Unlinkat(folder, to, 0)
		return unix.Linkat(folder, from, folder, to, 0)
	})
}

// Pinned returns the bytes of the files with the variables of checkpoints.
func (w *Dir) Pinned() map[string]int64 {
	sizes, mark := map[string]int64{}, []byte(filewire.CheckpointMark)
	_ = w.inState(func(place int) error {
		folder, err := unix.Openat(place, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		walk := tree.Walk{MaxEntries: mostState, Visit: func(d *tree.Dir, name []byte, _ byte) bool {
			var s unix.Stat_t
			if bytes.Contains(name, mark) && unix.Fstatat(d.FD, string(name), &s, unix.AT_SYMLINK_NOFOLLOW) == nil {
				sizes[string(name)] = s.Size
			}
			return false
		}}
		_, err = walk.Run(folder)
		return errors.Join(err, unix.Close(folder))
	})
	return sizes
}

// SetAside renames a file that no kernel is to read any more.
func (w *Dir) SetAside(name string) error {
	return w.inState(func(folder int) error { return unix.Renameat(folder, name, folder, name+".bad") })
}

// DropState removes files, as far as there are any.
func (w *Dir) DropState(names ...string) {
	_ = w.inState(func(folder int) error {
		for _, name := range names {
			_ = unix.Unlinkat(folder, name, 0)
		}
		return nil
	})
}
