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
func writeWhole(path string, force bool, write func(io.Writer) error) (err error) {
	if err := mayWrite(path, force); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".code-sandbox-mcp-*.part")
	if err != nil {
		return cannotWrite(path, err)
	}
	defer func() { _ = os.Remove(temp.Name()) }() // nothing is there when all went well
	// Our own errors are in plain words already, so only the file's are rewritten.
	out := bufio.NewWriterSize(temp, 1<<20)
	if err := write(out); err != nil {
		_ = temp.Close()
		return diskFault(path, err)
	}
	if err := errors.Join(out.Flush(), temp.Sync(), temp.Close()); err != nil {
		return cannotWrite(path, err)
	}
	if force {
		err = os.Rename(temp.Name(), path)
	} else {
		err = os.Link(temp.Name(), path) // if a file appeared meanwhile, it stays
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = renameOnto(temp.Name(), path)
		}
	}
	if err != nil {
		return cannotWrite(path, err)
	}
	return nil
}

// renameOnto serves file systems without hard links: an empty file takes the name first.
func renameOnto(from, path string) error {
	own, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_ = own.Close()
	return os.Rename(from, path)
}

// mayWrite reports early an error that would come late.
func mayWrite(path string, force bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return cannotWrite(path, err)
	case info.IsDir():
		return fault.New(fault.InvalidArgument, "Name a file in it.", "%q is a folder.", path)
	case !force:
		return cannotWrite(path, fs.ErrExist)
	}
	return nil
}

// diskFault describes a failure to write, and leaves other errors unchanged.
func diskFault(path string, err error) error {
	var f *fault.Error
	var disk *fs.PathError
	if !errors.As(err, &f) && errors.As(err, &disk) {
		return cannotWrite(path, err)
	}
	return err
}

func cannotWrite(path string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.FileExists, "Pass --force to replace it, or name another file.", "The file %q exists.", path)
	}
	var because *fs.PathError
	why := err
	if errors.As(err, &because) {
		why = because.Err
	}
	return fault.New(fault.InvalidArgument, "Name a file in a folder that exists and can be written to.", "The file %q cannot be written: %v.", path, why)
}
