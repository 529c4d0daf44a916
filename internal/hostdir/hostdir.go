// Package hostdir reads and writes files of the host for somebody who is not trusted: only below
// folders that the host's user allowed.
//
// Start with New; Dirs.Open reads, Dirs.Create writes. Links are followed, and their targets must
// lie below an allowed folder as well. That holds against races too: a path is resolved first, and
// then opened through an os.Root, which does not leave its folder whatever becomes of the path.
package hostdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Dirs is the allowed folders. The zero value and nil allow none.
type Dirs struct {
	roots []string // absolute
	home  string
}

// New takes folders as a person names them: ~ is the home directory, and a relative one lies below the working directory. They need not
// exist yet, but each must be a name of a folder other than the root of the file system.
func New(folders []string) (*Dirs, error) {
	home, _ := os.UserHomeDir()
	d := &Dirs{home: home}
	for _, folder := range folders {
		if strings.TrimSpace(folder) == "" {
			return nil, errors.New("the name of a folder is empty")
		}
		if strings.ContainsFunc(folder, unicode.IsControl) {
			return nil, fmt.Errorf("%q has a control character, such as the end of a line; rename the folder", folder)
		}
		root, err := filepath.Abs(d.expand(folder))
		if err != nil {
			return nil, err
		}
		if root == filepath.Dir(root) {
			return nil, errors.New("the whole file system cannot be allowed; name a folder")
		}
		d.roots = append(d.roots, root)
	}
	return d, nil
}

// Any reports whether a folder is allowed. A nil Dirs allows none.
func (d *Dirs) Any() bool { return d != nil && len(d.roots) > 0 }

// Holds reports whether a path, as it is written, is below an allowed folder. It looks at nothing on the host.
func (d *Dirs) Holds(path string) bool {
	return d != nil && slices.ContainsFunc(d.roots, func(root string) bool {
		rest, err := filepath.Rel(root, d.expand(path))
		return err == nil && filepath.IsLocal(rest)
	})
}

// expand puts the home directory in the place of a leading ~.
func (d *Dirs) expand(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if ok && d.home != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
		return d.home + rest
	}
	return path
}

// absolute names a file from the root. A relative path lies below the first allowed folder.
func (d *Dirs) absolute(path string) string {
	name := d.expand(path)
	if !filepath.IsAbs(name) {
		name = filepath.Join(d.roots[0], name)
	}
	return filepath.Clean(name)
}

// place is a file below an allowed folder, by a path without links in it when it was looked at.
type place struct {
	root string
	path string // relative to root
}

// find resolves a path. With last, a link at the end is followed too.
func (d *Dirs) find(path string, last bool) (place, error) {
	if !d.Any() {
		return place{}, fault.New(fault.InvalidPath,
			"The user can allow a folder: start the server with --allow-host-dir FOLDER.",
			"No folder of the host is allowed, so %q cannot be used.", text.Shorten(path, shownPath))
	}
	if path == "" || strings.ContainsFunc(path, unicode.IsControl) {
		return place{}, fault.New(fault.InvalidPath, "Name a file below an allowed folder.", "%q is no path of a file on the host.", text.Shorten(path, shownPath))
	}
	name := d.absolute(path)
	for _, root := range d.roots {
		real, err := filepath.EvalSymlinks(root)
		// A path that lies outside by its name alone is not even looked up: the answer would reveal whether it exists.
		if err != nil || (!below(root, name) && !below(real, name)) {
			continue
		}
		p, err := resolve(real, name, last)
		if err != nil {
			return place{}, d.refuse(path, err)
		}
		for _, other := range d.roots { // a link may lead from one allowed folder to another
			if real, err := filepath.EvalSymlinks(other); err == nil && below(real, p) {
				rel, err := filepath.Rel(real, p)
				return place{real, rel}, d.refuse(path, err)
			}
		}
		return place{}, outside(path)
	}
	return place{}, outside(path)
}

// resolve follows the links of a path; not the last name's when the file is to be made.
func resolve(root, name string, last bool) (string, error) {
	if last || name == root {
		return filepath.EvalSymlinks(name)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(name))
	return filepath.Join(parent, filepath.Base(name)), err
}

func below(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

func outside(path string) *fault.Error {
	return fault.New(fault.InvalidPath, "Name a file below a folder that the user has allowed; a relative path is taken below the first of them.",
		"%q is not below an allowed folder.", text.Shorten(path, shownPath))
}

// refuse puts an error of the host's file system into words about the path as it was given.
func (d *Dirs) refuse(path string, err error) error {
	var already *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &already):
		return already
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fault.New(fault.NotFound, "Check the path with the user; a folder must exist before a file is written to it.",
			"There is no %q on the host.", text.Shorten(path, shownPath)).Because(err)
	case errors.Is(err, fs.ErrExist):
		return exists(path)
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.InvalidPath, "Use another file or folder, or ask the user.", "The server may not use %q.", text.Shorten(path, shownPath)).Because(err)
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		return fault.New(fault.InvalidPath, "Use a shorter path without links in a circle.", "%q is no path of a file on the host.", text.Shorten(path, shownPath)).Because(err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.New(fault.QuotaExceeded, "The user has to make room, or name another folder.", "The host has no room for %q.", text.Shorten(path, shownPath)).Because(err)
	}
	return fault.New(fault.InvalidPath, "Use another path, or ask the user.", "%q cannot be used on the host.", text.Shorten(path, shownPath)).Because(err)
}

func exists(path string) *fault.Error {
	return fault.New(fault.FileExists, "Use another name, or pass overwrite: true to replace it.", "%q exists already on the host.", text.Shorten(path, shownPath))
}

// shownPath is the most characters of a path in a message.
const shownPath = 200
