//go:build linux

// Package files brings files into a session's work directory and out of it: docs/kernel-protocol.md,
// "Files: streams". The session's code runs beside it as the same user and changes files, folders and links at
// any moment; through this package it reaches no more than by itself.
package files

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"golang.org/x/sys/unix"
)

const (
	requestPatience = time.Minute
	// atOnce is how many requests are served at once; more of them wait.
	atOnce = 32
)

var semaphore = make(chan struct{}, atOnce)

// Read reads the request that begins a stream.
func Read(stream net.Conn) (request []byte, err error) {
	_ = stream.SetDeadline(time.Now().Add(requestPatience))
	defer func() { _ = stream.SetDeadline(time.Time{}) }()
	return filewire.ReadText(stream, filewire.MaxRequest)
}

// Folder is the work directory that streams are about.
type Folder struct {
	Path string
	// State is the folder with what is kept of kernels and files, in Path or elsewhere. In an export it is .state.
	State string
	// Placed is called when a stream has brought files, with the path of a single one, before the answer.
	Placed func(path ...string)
	// Placing is held for reading while a file goes to its place, and while Placed is called for a single one. Nil: nothing is held.
	Placing *sync.RWMutex
	// Pages draws HTML files. Nil: nothing does.
	Pages *browser.Browser
	// Versions are the earlier states. Nil: none are kept.
	Versions *versions.Store
}

// Serve serves the request of a stream, which the caller closes afterwards.
func (f Folder) Serve(stream net.Conn, text []byte) {
	semaphore <- struct{}{}
	defer func() { <-semaphore }()
	answer, err := f.serve(stream, text)
	if err != nil {
		answer = filewire.Answer{Path: answer.Path, Error: inWords(err)}
	}
	_ = filewire.Write(stream, answer)
}

func (f Folder) serve(stream net.Conn, text []byte) (filewire.Answer, error) {
	var r filewire.Request
	if err := json.Unmarshal(text, &r); err != nil {
		return filewire.Answer{}, err
	}
	w, err := openWorkDir(f.Path)
	if err != nil {
		return filewire.Answer{}, err
	}
	defer w.close()
	w.state = f.State
	w.placing = f.Placing
	switch r.Op {
	case filewire.Put:
		w.placed = f.Placed
		return w.put(r, &filewire.Content{From: stream})
	case filewire.Import:
		defer f.Placed()
		if f.Versions != nil {
			w.giveUp = f.Versions.GiveUp
		}
		return w.takeAll(r, stream)
	}
	left := make(chan struct{})
	go func() { // its end means the end of writing
		_, _ = stream.Read(make([]byte, 1))
		close(left)
	}()
	switch r.Op {
	case filewire.Get:
		switch {
		case r.As != "":
			return w.draw(r, stream, f.Pages, left)
		case r.Before != "":
			return w.get(r, stream, func(names []forms) (*os.File, string, error) { return f.fileBefore(r.Before, names) })
		}
		return w.get(r, stream, w.file)
	case filewire.List:
		if r.Before != "" {
			return f.listBefore(r.Before, stream)
		}
		return w.list(r, stream)
	case filewire.Past:
		return f.past(r)
	case filewire.Export:
		return w.export(stream)
	case filewire.Usage:
		l := w.count()
		return filewire.Answer{Files: l.Files, Bytes: l.Bytes, Complete: l.Complete}, nil
	}
	return filewire.Answer{}, refusal(filewire.Failed, "there is no such request")
}

func refusal(code, message string) *filewire.Error {
	return &filewire.Error{Code: code, Message: message}
}

var codes = map[syscall.Errno]string{
	unix.ENOENT:       filewire.NotFound,
	unix.EEXIST:       filewire.FileExists,
	unix.EISDIR:       filewire.IsDirectory,
	unix.ENOTDIR:      filewire.InvalidPath,
	unix.ELOOP:        filewire.InvalidPath,
	unix.ENAMETOOLONG: filewire.InvalidPath,
	unix.ENXIO:        filewire.InvalidPath,
	unix.ENOSPC:       filewire.QuotaExceeded,
	unix.EDQUOT:       filewire.QuotaExceeded,
	unix.EFBIG:        filewire.QuotaExceeded,
}

func inWords(err error) *filewire.Error {
	var told *filewire.Error
	if errors.As(err, &told) {
		return told
	}
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EROFS) {
		return refusal(filewire.InvalidPath, "it is in a folder of the host, which files are only read from")
	}
	var number syscall.Errno
	if errors.As(err, &number) && codes[number] != "" {
		return refusal(codes[number], number.Error())
	}
	return refusal(filewire.Failed, err.Error())
}
