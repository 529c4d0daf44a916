//go:build linux

// Package files brings files into a session's work directory and out of it: docs/kernel-protocol.md,
// "Files: streams". The session's code runs beside it as the same user and changes files, folders and links at
// any moment; through this package it reaches no more than by itself.
package files

import (
	"encoding/json"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/volume"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"golang.org/x/sys/unix"
)

const (
	requestPatience = time.Minute
	// atOnce is how many requests are served at once; more of them wait.
	atOnce = 32
)

var semaphore = make(chan struct{}, atOnce)

// Serve serves the one request that comes on a stream, which the caller closes afterwards; pages draws HTML files.
func Serve(stream net.Conn, workDir string, pages *browser.Browser) {
	_ = stream.SetDeadline(time.Now().Add(requestPatience))
	text, err := filewire.ReadText(stream, filewire.MaxRequest)
	if err != nil {
		return
	}
	semaphore <- struct{}{}
	defer func() { <-semaphore }()
	_ = stream.SetDeadline(time.Time{})
	answer, err := serve(stream, workDir, text, pages)
	if err != nil {
		answer = filewire.Answer{Path: answer.Path, Error: inWords(err)}
	}
	_ = filewire.Write(stream, answer)
}

func serve(stream net.Conn, workDir string, text []byte, pages *browser.Browser) (filewire.Answer, error) {
	var r filewire.Request
	if err := json.Unmarshal(text, &r); err != nil {
		return filewire.Answer{}, err
	}
	w, err := openWorkDir(workDir)
	if err != nil {
		return filewire.Answer{}, err
	}
	defer w.close()
	switch r.Op {
	case filewire.Put:
		return w.put(r, &filewire.Content{From: stream})
	case filewire.Import:
		return w.takeAll(r, stream)
	}
	go func() { _, _ = stream.Read(make([]byte, 1)) }() // its end means the end of writing
	switch r.Op {
	case filewire.Get:
		if r.As != "" {
			return w.draw(r, stream, pages)
		}
		return w.get(r, stream)
	case filewire.List:
		return w.list(r, stream)
	case filewire.Export:
		return w.export(stream)
	case filewire.Usage:
		l := volume.Count(w.fd, nil, true, nil)
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
