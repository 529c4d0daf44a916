//go:build linux

package versions

import (
	"os"
	"strings"
	"sync/atomic"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"golang.org/x/sys/unix"
)

// Why a mounted folder stays as it is.
const (
	whyUnseen  = "the folder cannot be read"
	whyEntries = "the folder has more than 50,000 entries"
)

// mount is a folder of the machine that is mounted below the work directory. Others than the session change it too, at any time. Its
// versions are the store's, and nothing is kept in it.
type mount struct {
	path string // in the work directory
	dir  int    // -1: it is not there
	why  string // it was not seen at the last look, and its files stay; empty: it was
	// anew: what has changed in it since the look before is of others, because that look saw nothing.
	anew    bool
	skipped bool   // the last look left it out, since nothing told of a change
	inode   uint64 // of the folder itself
	// watch is an inotify descriptor, with something to read where the folder has changed since the last look; -1: it must be looked at.
	watch   atomic.Int64
	watched int // folders in it that are followed
	// told: what was to be read there is gone with a look that has not been taken for the files' state.
	told atomic.Bool
}

// openMounts opens the folders that are mounted at paths.
func (f *files) openMounts(paths []string) {
	for _, path := range paths {
		m := &mount{path: path, why: whyUnseen, dir: -1}
		m.watch.Store(-1)
		if fd, err := unix.Openat(f.dir, path, folderFlags, 0); err == nil {
			m.dir = fd
		}
		var s unix.Stat_t
		var kind unix.Statfs_t
		if unix.Fstat(m.dir, &s) == nil && unix.Fstatfs(m.dir, &kind) == nil {
			m.inode = s.Ino
			switch kind.Type { // those that say what others change
			case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
				if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
					m.watch.Store(int64(fd))
					m.follow(m.dir, ".")
				}
			}
		}
		f.mounts = append(f.mounts, m)
	}
}

const changing = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CLOSE_WRITE

// mostWatched is how many folders are followed in a mounted one, since a user has a limit of them for all sessions and programs.
const mostWatched = 1000

// follow notices what changes in a folder. Where it cannot, or there are too many, the mounted one is looked at before and behind each run.
func (m *mount) follow(parent int, name string) {
	watch := int(m.watch.Load())
	if watch < 0 {
		return
	}
	if m.watched++; m.watched > mostWatched {
		m.watch.Store(-1)
		_ = unix.Close(watch)
	} else if _, err := unix.InotifyAddWatch(watch, inProc(parent)+"/"+name, changing|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW); err == unix.ENOSPC {
		m.watch.Store(-1)
		_ = unix.Close(watch)
	}
}

// mayHaveChanged reports whether somebody may have changed the folder since the last look.
func (m *mount) mayHaveChanged() bool {
	bytes, err := unix.IoctlGetInt(int(m.watch.Load()), unix.TIOCINQ)
	return m.told.Load() || err != nil || bytes > 0
}

// drain forgets what has changed, before a look. Until that is taken, the folder counts as changed.
func (m *mount) drain() {
	told := m.told.Swap(true)
	room := make([]byte, 16<<10)
	for watch := int(m.watch.Load()); watch >= 0; told = true {
		if n, err := unix.Read(watch, room); n <= 0 || err != nil {
			break
		}
	}
	m.told.Store(told)
}

// mountOf returns the mounted folder that a path is in; nil: none.
func (f *files) mountOf(path string) *mount {
	for _, m := range f.mounts {
		if strings.HasPrefix(path, m.path) && len(path) > len(m.path) && path[len(m.path)] == '/' {
			return m
		}
	}
	return nil
}

func (f *files) isMount(path string) bool {
	for _, m := range f.mounts {
		if m.path == path {
			return true
		}
	}
	return false
}

// at returns the folder in which a path is looked up, and the path in that.
func (f *files) at(path string) (dir int, rest string) {
	if m := f.mountOf(path); m != nil {
		return m.dir, path[len(m.path)+1:]
	}
	return f.dir, path
}

// CatchUp has the mounted folders looked at where others may have changed something since the last look, while no run goes on.
func (s *Store) CatchUp() {
	s.mu.Lock()
	idle := s.running == 0 && s.walks == 0
	s.mu.Unlock()
	for _, m := range s.mounts {
		if idle && m.mayHaveChanged() {
			s.look(func() {
				s.follow(s.changesIn(len(s.pending) > 0))
				s.seen()
			})
			return
		}
	}
}

// lookOwed looks, behind a run, at mounted folders that told of no change: what is written to a mapping tells nothing. It is the run's,
// or a later one's where free says that something else is to be done.
func (s *Store) lookOwed(free func() bool) {
	s.mu.Lock()
	owed, next := s.owed, s.next
	s.owed = false
	s.mu.Unlock()
	last := len(s.versions) - 1
	if !owed || last < 0 || len(s.versions[last].Runs) == 0 {
		return
	}
	for _, m := range s.mounts {
		if !m.skipped || m.why != "" {
			continue
		}
		s.round++
		l, complete := s.see(m, free)
		if free != nil && (!free() || s.upcoming() != next) { // a run has begun, and may be over
			s.mu.Lock()
			s.owed = true
			s.mu.Unlock()
			return
		}
		changed := m.told.Load()
		for _, e := range l.found { // its names have changed too: the next look finds those that are gone
			changed = changed || e.kind() == unix.S_IFDIR
		}
		if m.told.Store(changed || !complete); changed || !complete {
			continue
		}
		v := s.versions[last]
		for _, e := range l.found {
			if c := s.set(e.path, e); s.isOfOthers(c, nil) {
				s.bring([]change{c})
			} else {
				v.Before = append(v.Before, c)
			}
			s.logged = min(s.logged, last) // the log gets it again
		}
		if len(l.found) > 0 {
			v.Did = s.did(v.Before)
			s.followUp(true)
		}
	}
}

// isFree reports whether nothing else is to be done.
func (s *Store) isFree() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0 && !s.drop && s.running == 0
}

// goesOn reports whether a look need not be given up.
func (s *Store) goesOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.stop
}

// see looks at the work directory, or at a mounted folder, as long as goesOn says. Nil: to the end.
func (s *Store) see(m *mount, goesOn func() bool) (l *look, complete bool) {
	l = &look{f: &s.files, mount: m}
	dir := s.dir
	if m != nil {
		m.drain()
		dir = m.dir
	}
	walk := tree.Walk{Visit: l.visit, Unlock: true, PassOver: m != nil, MaxDepth: maxDepth, MaxEntries: mostEntries, Pause: goesOn}
	complete, err := walk.Run(dir)
	l.lockAgain()
	complete = complete && err == nil && l.bytes <= mostPathBytes
	if m == nil || goesOn != nil && !goesOn() {
		return l, complete
	}
	m.anew, m.why = m.why != "", ""
	switch {
	case complete:
	case l.entries >= mostEntries || l.bytes > mostPathBytes:
		m.why = whyEntries
	default:
		m.why = whyUnseen
	}
	return l, complete
}

// Who made a change.
const (
	runs    = 1 << iota // a run, or a change out of mounted folders
	beside              // others, while a run went on
	between             // others, while none went on
)

// by returns a function that picks changes by who made them. Nothing tells who has deleted or moved a file, or written to one that
// everybody may write to: beside a run, that counts for it.
func (s *Store) by(changes []change) func(who int) []change {
	gone := map[uint64]*entry{}
	for _, c := range changes {
		if c.Was != nil && len(s.mounts) > 0 {
			gone[c.Was.Inode] = c.Was
		}
	}
	return func(who int) (list []change) {
		for _, c := range changes {
			made := runs
			switch m := s.mountOf(string(c.Path)); {
			case m == nil:
			case m.anew || len(s.pending) == 0:
				made = between
			case s.isOfOthers(c, gone):
				made = beside
			}
			if made&who != 0 {
				list = append(list, c)
			}
		}
		return list
	}
}

// isOfOthers reports whether no run can have made what is at a path now: it came behind the last one's end, or it belongs to somebody
// else, and is neither what was there, nor moved there.
func (s *Store) isOfOthers(c change, gone map[uint64]*entry) bool {
	is := s.now[string(c.Path)]
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	switch {
	case is == nil:
		return false
	case ended != 0 && is.Ctime > ended:
		return true
	case is.User == s.user:
		return false
	}
	if c.Was != nil && c.Was.Inode == is.Inode && c.Was.kind() == is.kind() {
		return c.Was.Mode != is.Mode || is.kind() != unix.S_IFDIR && is.Mode&0o002 == 0
	}
	moved := gone[is.Inode]
	return moved == nil || !moved.looksLike(is)
}

// aside is the name of what waits beside its place in a mounted folder, for a moment: nothing is renamed into another file system.
const aside = ".code-sandbox-mcp.undo"

// clear removes what a restore that was cut short has left of the session's.
func (s *Store) clear(parent int) {
	var left unix.Stat_t
	if unix.Fstatat(parent, aside, &left, unix.AT_SYMLINK_NOFOLLOW) == nil && left.Uid == s.user && left.Mode&unix.S_IFMT != unix.S_IFDIR {
		_ = unix.Unlinkat(parent, aside, 0)
	}
}

// isAt reports whether what a step is to replace is at a name: nobody has written to it since.
func isAt(parent int, name string, e *entry) bool {
	var s unix.Stat_t
	return unix.Fstatat(parent, name, &s, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		s.Ino == e.Inode && s.Mode == e.Mode && s.Mtim.Nano() == e.Mtime && s.Size == e.Size
}

// exchange puts what is aside at its place, where what the step is to replace still is; nothing is lost that somebody brought there.
func (s *Store) exchange(parent int, name string, o op) {
	var mine, left unix.Stat_t
	if unix.Fstatat(parent, aside, &mine, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	how := uint(unix.RENAME_NOREPLACE)
	if o.At != nil {
		how = unix.RENAME_EXCHANGE
	}
	err := unix.Renameat2(parent, aside, parent, name, how)
	switch {
	case err == nil && o.At == nil:
		return
	case err == nil && isAt(parent, aside, o.At):
		_ = unix.Unlinkat(parent, aside, 0)
		return
	case err == nil:
		_ = unix.Renameat2(parent, aside, parent, name, how)
	case (err == unix.EINVAL || err == unix.ENOSYS) && (o.At != nil && isAt(parent, name, o.At) || o.At == nil && isAbsent(parent, name)): // a file system that cannot
		_ = unix.Renameat(parent, aside, parent, name)
	}
	if unix.Fstatat(parent, aside, &left, unix.AT_SYMLINK_NOFOLLOW) == nil && left.Ino == mine.Ino {
		_ = unix.Unlinkat(parent, aside, 0)
	}
}

func isAbsent(parent int, name string) bool {
	return unix.Faccessat(parent, name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT
}

// takeAway removes a file of a mounted folder if it is still what the step is to remove.
func (s *Store) takeAway(parent int, name string, o op) {
	s.clear(parent)
	if o.At == nil || !isAt(parent, name, o.At) {
		return
	}
	if err := unix.Renameat2(parent, name, parent, aside, unix.RENAME_NOREPLACE); err == unix.EINVAL || err == unix.ENOSYS {
		_ = unix.Unlinkat(parent, name, 0)
	} else if err == nil && isAt(parent, aside, o.At) {
		_ = unix.Unlinkat(parent, aside, 0)
	} else if err == nil {
		_ = unix.Renameat2(parent, aside, parent, name, unix.RENAME_NOREPLACE)
	}
}

// bringIn puts a file or a link that is ready at its place in a mounted folder.
func (s *Store) bringIn(parent int, name string, o op) {
	ready, err := s.copies.ready(false)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(ready) }()
	s.clear(parent)
	if o.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.Symlinkat(string(target(ready, nameOf(o.From))), parent, aside)
		_ = unix.UtimesNanoAt(parent, aside, timesOf(o.Mtime), unix.AT_SYMLINK_NOFOLLOW)
	} else {
		err = fillIn(ready, parent, name, o)
	}
	if err != nil {
		s.clear(parent)
		return
	}
	s.exchange(parent, name, o)
}

func fillIn(ready, parent int, name string, o op) error {
	from, err := openRegular(ready, nameOf(o.From), -1)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	fd, err := unix.Openat(parent, aside, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), aside)
	defer func() { _ = to.Close() }()
	info, err := from.Stat()
	if err == nil {
		err = transfer(to, from, info.Size(), unhurried)
	}
	if o.At != nil {
		copyAttributes(inProc(parent)+"/"+name, fd)
	}
	if err == nil {
		err = unix.Fchmod(fd, o.Mode&0o7777&^(unix.S_ISUID|unix.S_ISGID)) // nor may process 1
	}
	if err == nil {
		err = setTime(fd, o.Mtime)
	}
	return err
}

// copyAttributes gives a file the extended attributes of the one that it is to replace, as far as its owner may.
func copyAttributes(from string, to int) {
	names, value := make([]byte, 64<<10), make([]byte, 64<<10)
	n, _ := unix.Llistxattr(from, names)
	for name := range strings.SplitSeq(string(names[:max(n, 0)]), "\x00") {
		if size, err := unix.Lgetxattr(from, name, value); err == nil && name != "" {
			_ = unix.Fsetxattr(to, name, value[:size], 0)
		}
	}
}

// hasNames reports whether a file of a mounted folder has several names, which are to stay one file.
func (f *files) hasNames(path string) bool {
	place, err := f.openPlace(path)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(place) }()
	var s unix.Stat_t
	return unix.Fstat(place, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFREG && s.Nlink > 1
}
