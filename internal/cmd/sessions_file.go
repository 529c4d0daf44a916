// Files that the commands of sessions write and read.

package cmd

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// writeWhole makes a file that is there whole or not at all, and that only this user can read. One that
// exists is replaced only with force; a link is replaced, not followed.
func writeWhole(path string, force bool, write func(io.Writer) error) error {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		return fault.New(fault.InvalidArgument, "Name a file in it.", "%q is a folder.", path)
	case err == nil && !force:
		return cannotWrite(path, fs.ErrExist)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return cannotWrite(path, err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".code-sandbox-mcp-*.part")
	if err != nil {
		return cannotWrite(path, err)
	}
	defer func() { _ = os.Remove(temp.Name()) }() // nothing is there when all went well
	out := bufio.NewWriterSize(temp, 1<<20)
	if err = write(out); err != nil {
		_ = temp.Close()
		return cannotWrite(path, err)
	}
	if err = errors.Join(out.Flush(), temp.Sync(), temp.Close()); err == nil && !force {
		err = os.Link(temp.Name(), path)                // if a file appeared meanwhile, it stays
		if err != nil && !errors.Is(err, fs.ErrExist) { // a file system without hard links: an empty file takes the name
			var own *os.File
			if own, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				force = own.Close() == nil
			}
		}
	}
	if err == nil && force {
		err = os.Rename(temp.Name(), path)
	}
	return cannotWrite(path, err)
}

// cannotWrite describes an error of the disk, and leaves others unchanged: they are in plain words already.
func cannotWrite(path string, err error) error {
	var f *fault.Error
	var disk *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, fs.ErrExist):
		return fault.New(fault.FileExists, "Pass --force to replace it, or name another file.", "The file %q exists.", path)
	case errors.As(err, &disk):
		err = disk.Err
	case errors.As(err, &link):
		err = link.Err
	default:
		return err
	}
	return fault.New(fault.InvalidArgument, "Name a file in a folder that exists, can be written to and has room.", "The file %q cannot be written: %v.", path, err)
}
