package hostdir

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Open opens a regular file for reading, for which it never waits. The error is a fault.
func (d *Dirs) Open(path string) (*os.File, fs.FileInfo, error) {
	at, err := d.find(path, true)
	if err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(at.root)
	if err != nil {
		return nil, nil, d.refuse(path, err)
	}
	defer func() { _ = root.Close() }()
	// The check before opening keeps devices closed, because opening one can have effects; the check of the opened file keeps the answer
	// true. Without O_NONBLOCK a fifo would wait for a writer.
	if info, err := root.Stat(at.path); err == nil && !info.Mode().IsRegular() {
		return nil, nil, notRegular(path, info)
	}
	file, err := root.OpenFile(at.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, d.refuse(path, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, d.refuse(path, err)
	}
	return file, info, nil
}

func notRegular(path string, info fs.FileInfo) *fault.Error {
	what := "a special file"
	if info.IsDir() {
		what = "a folder"
	}
	return fault.New(fault.InvalidPath, "Name a regular file.", "%q is %s on the host.", text.Shorten(path, shownPath), what)
}
