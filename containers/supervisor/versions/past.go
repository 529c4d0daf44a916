//go:build linux

package versions

import (
	"errors"
	"os"
	"slices"
	"sort"

	"golang.org/x/sys/unix"
)

const mostTouched = 10 // paths of what a run did

// What happened to a path.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

// Touched is a path, and what happened to it: Added, Changed or Removed.
type Touched struct {
	Path string `json:"p"`
	How  string `json:"h"`
}

// Did is what runs did to files and links, folders apart.
type Did struct {
	Runs    []string `json:"-"` // several if nobody looked between their ends
	Added   int      `json:"a,omitempty"`
	Changed int      `json:"c,omitempty"`
	Removed int      `json:"r,omitempty"`
	// Paths are at most 10, those that a person sees first.
	Paths []Touched `json:"p,omitempty"`
}

// File is a regular file of an earlier state.
type File struct {
	Path        string
	Mode        uint32 // permissions
	Size, Mtime int64  // in bytes and nanoseconds
	Why         string // its content cannot be had; empty: it can
}

// Version is what was at a path before a run that changed it. File is empty if that Added it.
type Version struct {
	Before, How string
	File        File
}

// NotKeptError says why the content of an earlier file cannot be had.
type NotKeptError struct{ Why string }

func (e *NotKeptError) Error() string { return e.Why }

// isContent reports whether an entry is a file or a link.
func isContent(e *entry) bool {
	return e != nil && (e.kind() == unix.S_IFREG || e.kind() == unix.S_IFLNK)
}

// howOf says what happened to a path; nothing: no file or link was or is there.
func howOf(was, is *entry) string {
	switch {
	case isContent(was) && isContent(is):
		return Changed
	case isContent(is):
		return Added
	case isContent(was):
		return Removed
	}
	return ""
}

// did sums up changes that have just been seen.
func (s *Store) did(changes []change) *Did {
	d, hidden := &Did{}, []Touched{}
	for _, c := range changes {
		path := string(c.Path)
		how := howOf(c.Was, s.now[path])
		switch how {
		case Added:
			d.Added++
		case Changed:
			d.Changed++
		case Removed:
			d.Removed++
		default:
			continue
		}
		if e := s.now[path]; e != nil && e.hidden || e == nil && c.Was.hidden {
			hidden = append(hidden, Touched{path, how})
		} else {
			d.Paths = append(d.Paths, Touched{path, how})
		}
	}
	for _, list := range [][]Touched{d.Paths, hidden} {
		sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	}
	d.Paths = append(d.Paths, hidden...)
	d.Paths = slices.Clone(d.Paths[:min(len(d.Paths), mostTouched)])
	return d
}

// since is what was at the paths that have changed since a version.
func (s *Store) since(number int) map[string]*entry {
	was := map[string]*entry{}
	for i := len(s.versions) - 1; i >= 0 && s.versions[i].Number >= number; i-- {
		for _, c := range s.versions[i].Before {
			was[string(c.Path)] = c.Was
		}
	}
	return was
}

// undoing is since without what others brought, and the paths of that where a run had changed them before.
func (s *Store) undoing(number int) (was map[string]*entry, stay map[string]bool) {
	was, stay = map[string]*entry{}, map[string]bool{}
	brought := map[string]bool{}
	for i := len(s.versions) - 1; i >= 0 && s.versions[i].Number >= number; i-- {
		v := s.versions[i]
		for _, c := range v.Before {
			switch path := string(c.Path); {
			case len(v.Runs) == 0:
				brought[path] = true
			case !brought[path]:
				was[path] = c.Was
			case isContent(c.Was) || isContent(s.now[path]):
				stay[path] = true
			}
		}
	}
	for path := range brought {
		for path = parentOf(path); path != ""; path = parentOf(path) {
			if e := was[path]; e == nil || e.kind() != unix.S_IFDIR { // a folder stays for what was brought into it
				delete(was, path)
			}
		}
	}
	return was, stay
}

// before is since for the beginning of a run that is over or goes on.
func (s *Store) before(run string) (map[string]*entry, error) {
	to, ok := s.find(run)
	if !ok {
		s.mu.Lock()
		b, goesOn := s.begun[run]
		ok = goesOn && b.exact && b.next >= min(s.oldest(), s.next)
		s.mu.Unlock()
		to.Next = b.next
	}
	if !ok {
		return nil, ErrUnknown
	}
	return s.since(to.Next), nil
}

// describe describes a regular file.
func (s *Store) describe(e *entry) File {
	f := File{Path: e.path, Mode: e.Mode & 0o7777, Size: e.Size, Mtime: e.Mtime}
	if e.ID == "" && s.now[e.path] != e {
		if f.Why = e.Why; f.Why == "" {
			f.Why = whyChanged
		}
	}
	return f
}

// List returns the regular files from before a run, sorted by their paths. The error is ErrUnknown.
func (s *Store) List(run string) (files []File, err error) {
	s.do(func() {
		var was map[string]*entry
		if was, err = s.before(run); err != nil {
			return
		}
		add := func(e *entry) {
			if e != nil && e.kind() == unix.S_IFREG {
				files = append(files, s.describe(e))
			}
		}
		for path, e := range s.now {
			if _, isOther := was[path]; !isOther {
				add(e)
			}
		}
		for _, e := range was {
			add(e)
		}
	})
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	return files, err
}

// Read opens the regular file from before a run at the first of these paths that there was, and returns that. The errors are
// ErrUnknown, NotKeptError, and those of the file system: no file, a folder, or (ELOOP) something else.
func (s *Store) Read(run string, paths []string) (file *os.File, path string, err error) {
	s.do(func() {
		var was map[string]*entry
		if was, err = s.before(run); err != nil {
			return
		}
		for _, path = range paths {
			e, isOther := was[path]
			if !isOther {
				e = s.now[path]
			}
			if e != nil {
				file, err = s.content(e)
				return
			}
		}
		err = unix.ENOENT
	})
	return file, path, err
}

// content opens a file as it is, if it is still that, or its copy.
func (s *Store) content(e *entry) (*os.File, error) {
	switch e.kind() {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		return nil, unix.EISDIR
	default:
		return nil, unix.ELOOP
	}
	if s.now[e.path] == e {
		if file, err := s.openFile(e); err == nil {
			return file, nil
		}
	}
	file, err := s.copies.read(e.ID, e.Size)
	if errors.Is(err, unix.ENOENT) {
		why := s.describe(e).Why
		if e.ID != "" {
			why = "its copy is gone"
		} else if why == "" {
			why = whyChanged
		}
		return nil, &NotKeptError{why}
	}
	return file, err
}

// Of returns the versions of the file at the first of these paths that has any, the newest first.
func (s *Store) Of(paths []string) (list []Version) {
	s.do(func() {
		for _, path := range paths {
			is := s.now[path]
			for _, v := range slices.Backward(s.versions) {
				at := slices.IndexFunc(v.Before, func(c change) bool { return string(c.Path) == path })
				if at < 0 {
					continue
				}
				was := v.Before[at].Was
				if how := howOf(was, is); how != "" && len(v.Runs) > 0 {
					list = append(list, s.version(v, how, was))
				}
				is = was
			}
			if len(list) > 0 {
				return
			}
		}
	})
	return list
}

// version describes what was at a path before the runs of a version; the first of those that can be gone back before names it.
func (s *Store) version(v *version, how string, was *entry) Version {
	one := Version{Before: v.Runs[0].Run, How: how}
	for _, p := range slices.Backward(v.Runs) {
		if _, ok := s.find(p.Run); ok {
			one.Before = p.Run
		}
	}
	if how != Added {
		one.File = s.describe(was)
	}
	return one
}
