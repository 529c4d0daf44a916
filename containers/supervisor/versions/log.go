//go:build linux

package versions

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The log has a line of JSON for each time that something was kept, so that a later process goes on with the versions.
const (
	logName  = "log"
	mostLog  = 32 << 20
	slackLog = 1 << 20 // that it may have besides twice what is needed
)

// record is a line of the log.
type record struct {
	Next     int        `json:"next"`
	Now      []change   `json:"now,omitempty"` // what is there now; nothing: it is gone
	Versions []*version `json:"versions,omitempty"`
	// Mounts are the mounted folders by their paths, which a later process may not have any more.
	Mounts map[string]uint64 `json:"mounts,omitempty"`
	Pins   []Pin             `json:"pins,omitempty"` // all that there are
}

// finish writes down what was kept, and describes it.
func (s *Store) finish() {
	if len(s.dirty) == 0 && s.logged == len(s.versions) && !s.repinned {
		return
	}
	if s.logSize == 0 || s.logSize > mostLog/2 {
		s.rewriteLog()
	} else {
		r := record{Next: s.upcoming(), Versions: s.versions[s.logged:], Pins: s.pins}
		for path := range s.dirty {
			r.Now = append(r.Now, change{[]byte(path), s.now[path]})
		}
		s.write(r, unix.O_APPEND)
	}
	s.tell()
}

func (s *Store) upcoming() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// rewriteLog writes the whole log anew.
func (s *Store) rewriteLog() {
	r := record{Next: s.upcoming(), Versions: s.versions, Pins: s.pins}
	for path, e := range s.now {
		r.Now = append(r.Now, change{[]byte(path), e})
	}
	s.write(r, unix.O_TRUNC)
}

// write writes a record. If that fails the next one is the whole log.
func (s *Store) write(r record, how int) {
	s.logged, s.repinned = len(s.versions), false
	clear(s.dirty)
	for _, m := range s.mounts {
		if r.Mounts == nil {
			r.Mounts = map[string]uint64{}
		}
		r.Mounts[m.path] = m.inode
	}
	line, err := json.Marshal(r)
	if err != nil || s.copies.folder < 0 {
		return
	}
	err = s.copies.writeFile(logName, append(line, '\n'), how)
	if s.logSize += int64(len(line)); how == unix.O_TRUNC {
		s.logSize = int64(len(line))
		s.slack = 2*s.logSize + slackLog
	}
	if err != nil || s.logSize > s.slack {
		s.logSize = 0
	}
}

// writeFile writes a file of the folder. Truncating replaces it whole.
func (c *copies) writeFile(name string, text []byte, how int) error {
	at := name
	if how == unix.O_TRUNC {
		at += ".new"
		_ = unix.Unlinkat(c.folder, at, 0)
		how = unix.O_EXCL
	}
	fd, err := unix.Openat(c.folder, at, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|how, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil && at != name {
		err = unix.Renameat(c.folder, at, c.folder, name)
	}
	return err
}

// readLines calls f with the lines of a file of the folder.
func (c *copies) readLines(name string, f func(line []byte) error) error {
	file, err := c.readFile(name, -1)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewReader(io.LimitReader(file, mostLog))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil // a line without an end was cut short
		}
		if err := f(line); err != nil {
			return err
		}
	}
}

// load reads the log and goes on with a restore that was cut short, then looks at the files.
func (s *Store) load() {
	if _, err := s.copies.open(); err == nil {
		_ = s.copies.readLines(logName, s.replay)
		s.verify()
		if id := s.resume(); id != "" {
			s.pending = append(s.pending, past{id, s.upcoming(), true, true})
		}
	}
	changes, complete := s.changes()
	if len(s.pending) == 0 {
		// After an import all inodes are new.
		changes = slices.DeleteFunc(changes, func(c change) bool { return c.Was.looksLike(s.now[string(c.Path)]) })
		if len(s.by(changes)(runs)) > 0 && len(s.versions)+len(s.pins) > 0 { // of a run that the container did not outlive: going back before an earlier one undoes it too
			s.pending = []past{{Next: s.upcoming(), Back: true}}
		}
	}
	s.follow(changes, complete)
	s.gather()
}

// replay takes a line of the log, which code may have written.
func (s *Store) replay(line []byte) error {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	for _, c := range r.Now {
		if path := string(c.Path); s.isKnown(path, r.Mounts) && len(s.now) < mostEntries*(1+len(s.mounts)) {
			s.set(path, c.adopt())
		}
	}
	for _, v := range r.Versions {
		if v == nil || len(v.Before) > 2*mostEntries || len(v.Runs) > 2*mostPast {
			return errors.New("no version")
		}
		for _, r := range v.Runs {
			if len(r.Run) > mostID {
				return errors.New("no run")
			}
		}
		kept := v.Before[:0]
		for _, c := range v.Before {
			if s.isKnown(string(c.Path), r.Mounts) {
				c.adopt()
				kept = append(kept, c)
			}
		}
		v.Before = kept
		if v.Did != nil {
			v.Did.Paths = v.Did.Paths[:min(len(v.Did.Paths), mostTouched)]
		}
		if n := len(s.versions); n > 0 && s.versions[n-1].Number == v.Number { // others brought more since
			s.versions = s.versions[:n-1]
		}
		s.versions = append(s.versions, v)
	}
	s.mu.Lock()
	s.next = max(s.next, min(r.Next, 1<<40))
	s.mu.Unlock()
	s.adoptPins(r.Pins)
	s.shed(max(0, len(s.versions)-mostPast))
	return nil
}

// isKnown reports whether a path may be one of the session's files. What was in a folder that is not mounted any more is none.
func (f *files) isKnown(path string, mounted map[string]uint64) bool {
	for at, inode := range mounted {
		if m := f.mountOf(path); strings.HasPrefix(path, at+"/") && (m == nil || m.inode != inode) {
			return false
		}
	}
	return isPath(path)
}

// adopt completes an entry that was read.
func (c change) adopt() *entry {
	if e := c.Was; e != nil {
		e.Size = max(e.Size, 0)
		stat := unix.Stat_t{Mode: e.Mode}
		e.path, e.hidden = string(c.Path), newEntry(string(c.Path), &stat).hidden
	}
	return c.Was
}

// verify forgets copies that are not there.
func (s *Store) verify() {
	check := func(e *entry) {
		if e != nil && e.ID != "" && !s.copies.has(e.ID) {
			e.ID, e.Why = "", "its copy is gone"
		}
	}
	for _, e := range s.now {
		check(e)
	}
	for _, v := range s.versions {
		for _, c := range v.Before {
			check(c.Was)
		}
	}
}
