package hostdir

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// File is a file of the host that is being written. It appears at its place, whole, when Commit returns nil; Close without Commit leaves
// nothing.
type File struct {
	dirs      *Dirs
	asked     string // the file's path as it was given, and its name if that is a folder's
	overwrite bool
	folder    *os.Root
	temp      *os.File
	tempName  string
	name      string
}

// Create begins a file. Where the path ends in a separator or names an existing folder, the file is
// put into it under name. The error is a fault: file_exists, unless overwrite, where something is at
// its place already; that is looked at again by Commit. A link at the place is replaced, not
// followed. Only a regular file or a link is ever replaced.
func (d *Dirs) Create(path, name string, overwrite bool) (*File, error) {
	path = d.into(path, name)
	at, err := d.find(path, false)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(at.root)
	if err != nil {
		return nil, d.refuse(path, err)
	}
	defer func() { _ = root.Close() }()
	folder, err := root.OpenRoot(filepath.Dir(at.path))
	if err != nil {
		return nil, d.refuse(path, err)
	}
	f := &File{dirs: d, asked: path, overwrite: overwrite, folder: folder, name: filepath.Base(at.path)}
	if err := f.begin(); err != nil {
		_ = folder.Close()
		return nil, d.refuse(path, err)
	}
	return f, nil
}

// Path returns the file's final path, from the root of the host's file system.
func (f *File) Path() string { return f.dirs.absolute(f.asked) }

// into adds the name to a path that is a folder's.
func (d *Dirs) into(path, name string) string {
	isFolder := path != "" && os.IsPathSeparator(path[len(path)-1]) || path == "~" || path == "."
	if at, err := d.find(path, true); !isFolder && err == nil {
		info, err := os.Stat(filepath.Join(at.root, at.path))
		isFolder = err == nil && info.IsDir()
	}
	if isFolder {
		return strings.TrimRight(path, string(os.PathSeparator)) + string(os.PathSeparator) + name
	}
	return path
}

func (f *File) begin() error {
	if err := f.free(); err != nil {
		return err
	}
	f.clear()
	f.tempName = partPrefix + strings.ToLower(rand.Text()[:12]) + partSuffix
	temp, err := f.folder.OpenFile(f.tempName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	f.temp = temp
	return err
}

// The name of a file before it is at its place. A server that is killed leaves it behind.
const (
	partPrefix = ".code-sandbox-mcp-"
	partSuffix = ".part"
	staleAfter = time.Hour // since its last byte
)

// clear removes the parts that servers left in the folder which ended in the middle of writing.
func (f *File) clear() {
	folder, err := f.folder.Open(".")
	if err != nil {
		return
	}
	defer func() { _ = folder.Close() }()
	names, _ := folder.Readdirnames(10_000)
	for _, name := range names {
		if !strings.HasPrefix(name, partPrefix) || !strings.HasSuffix(name, partSuffix) {
			continue
		}
		if info, err := f.folder.Lstat(name); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > staleAfter {
			_ = f.folder.Remove(name)
		}
	}
}

// free reports whether the file may be put at its place.
func (f *File) free() error {
	info, err := f.folder.Lstat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink:
		return notRegular(f.asked, info)
	case !f.overwrite:
		return exists(f.asked)
	}
	return nil
}

// Write adds to the file. The error is a fault.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.temp.Write(p)
	return n, f.dirs.refuse(f.asked, err)
}

// Commit puts the file at its place, whole and on the disk. The error is a fault, and nothing is left
// then. The file is closed in any case.
func (f *File) Commit() error {
	defer func() { _ = f.Close() }()
	err := f.temp.Sync()
	if err == nil {
		err = f.place()
	}
	if err != nil {
		return f.dirs.refuse(f.asked, err)
	}
	if folder, err := f.folder.Open("."); err == nil {
		_ = folder.Sync() // not every file system can; the file is there all the same
		_ = folder.Close()
	}
	return nil
}

func (f *File) place() error {
	if f.overwrite {
		if err := f.free(); err != nil {
			return err
		}
		return f.folder.Rename(f.tempName, f.name)
	}
	// A link is made only if no file is there, whatever happened since the check.
	err := f.folder.Link(f.tempName, f.name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// A file system without hard links: the name is taken by an empty file, which is our own to replace.
	own, err := f.folder.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_ = own.Close()
	if err := f.folder.Rename(f.tempName, f.name); err != nil {
		_ = f.folder.Remove(f.name)
		return err
	}
	return nil
}

// Close removes an uncommitted file. It may be called again.
func (f *File) Close() error {
	if f.temp == nil {
		return nil
	}
	err := f.temp.Close()
	_ = f.folder.Remove(f.tempName) // after a rename there is none
	_ = f.folder.Close()
	f.temp = nil
	return err
}
