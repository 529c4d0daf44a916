//go:build linux

package main

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/files"
)

// workDir is the session's folder. Its streams are independent of runs.
type workDir struct {
	path    string        // set before known is closed, and never changed
	known   chan struct{} // closed when it is open, so that streams begin
	dir     *os.File      // nil where it cannot be used
	scanner *artifacts.Scanner
	moving  atomic.Int32     // streams that are being served
	pages   *browser.Browser // that draws HTML files
	undo    *undo            // of its files
}

// open opens the folder, and makes it and its subfolders. problem takes each failure.
func (w *workDir) open(problem func(string)) {
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

// fd returns the folder's descriptor, or -1.
func (w *workDir) fd() int {
	if w.dir == nil {
		return -1
	}
	return int(w.dir.Fd())
}

// acceptAll serves the streams that a server opens: about files, and those that other takes; nil: it takes none.
func (w *workDir) acceptAll(l *link, other func(stream net.Conn, request []byte) bool) {
	for {
		stream, err := l.conn.Accept()
		if err != nil {
			return
		}
		go w.serve(stream, other)
	}
}

func (w *workDir) serve(stream net.Conn, other func(stream net.Conn, request []byte) bool) {
	defer func() { _ = stream.Close() }()
	<-w.known // a stream may overtake the message
	w.moving.Add(1)
	defer w.moving.Add(-1)
	request, err := files.Read(stream)
	if err == nil && (other == nil || !other(stream, request)) {
		files.Folder{Path: w.path, Placed: w.undo.note, Placing: &w.undo.placing, Pages: w.pages, Versions: w.undo.store}.Serve(stream, request)
	}
}
