//go:build linux

package versions

import (
	"bytes"
	"cmp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
)

// entry is what is at a path. One that is in a version stays as it is, but for its copy.
type entry struct {
	Mode   uint32 `json:"m"` // with its kind
	Mtime  int64  `json:"t"` // in nanoseconds
	Size   int64  `json:"s,omitempty"`
	Target []byte `json:"l,omitempty"` // of a link
	ID     string `json:"i,omitempty"` // of the copy; empty: there is none
	Why    string `json:"w,omitempty"` // there is none
	Inode  uint64 `json:"n"`
	Ctime  int64  `json:"c"`

	path   string
	data   int64  // bytes on the disk
	hidden bool   // nothing that a person sees
	likely string // the copy of what was at the path, where that looks the same
	round  int    // when it was seen last
}

func (e *entry) kind() uint32 { return e.Mode & unix.S_IFMT }

func (e *entry) isUnkept() bool { return e.kind() == unix.S_IFREG && e.ID == "" }

// looksLike reports whether nothing but the time of its inode tells it from another one.
func (e *entry) looksLike(o *entry) bool {
	return e != nil && o != nil && e.Mode == o.Mode && e.Mtime == o.Mtime && e.Size == o.Size && bytes.Equal(e.Target, o.Target)
}

// isSeenAs reports whether nothing has happened to it since.
func (e *entry) isSeenAs(s *unix.Stat_t) bool {
	return e.Inode == s.Ino && e.Ctime == s.Ctim.Nano() && e.Mode == s.Mode && e.Mtime == s.Mtim.Nano() && (e.Size == s.Size || e.kind() == unix.S_IFDIR)
}

// isLike reports whether a person cannot tell the two apart.
func (e *entry) isLike(o *entry) bool {
	if e.Mode != o.Mode || e.Mtime != o.Mtime || e.Size != o.Size || string(e.Target) != string(o.Target) {
		return false
	}
	if e.ID == "" || o.ID == "" {
		return e.kind() != unix.S_IFREG || e.Inode == o.Inode && e.Ctime == o.Ctime
	}
	return e.ID == o.ID
}

// isOurs reports whether a path is of the server, and no file of the session.
func isOurs(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return first == stateFolder || first == ".uploads" || first == ".runs"
}

const maxDepth = 200

// changes looks at all files, and returns what was at the paths where something else is now. Complete is false, and nothing is
// changed, if a run began or not everything was seen.
func (s *Store) changes() (before []change, complete bool) {
	s.mu.Lock()
	s.mark = 0
	s.mu.Unlock()
	s.round++
	l := look{s: s}
	walk := tree.Walk{Visit: l.visit, Unlock: true, MaxDepth: maxDepth, MaxEntries: mostEntries, Pause: func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.stop
	}}
	complete, err := walk.Run(s.dir)
	l.lockAgain()
	s.unseen = err != nil || !complete || l.bytes > mostPathBytes
	if s.unseen {
		return nil, false
	}
	for _, e := range l.found {
		before = append(before, s.set(e.path, e))
	}
	for path, e := range s.now {
		if e.round != s.round {
			before = append(before, s.set(path, nil))
		}
	}
	return before, true
}

// set replaces the entry of a path, and returns what it was.
func (s *Store) set(path string, e *entry) change {
	was := s.now[path]
	s.dirty[path] = true
	if e == nil {
		delete(s.now, path)
	} else {
		s.now[path] = e
	}
	if e != nil && was != nil && e.Size == was.Size && e.Mtime == was.Mtime {
		e.likely = cmp.Or(was.ID, was.likely)
	}
	return change{[]byte(path), was}
}

// look is one way through the files.
type look struct {
	s      *Store
	path   []byte
	found  []*entry // what is new
	locked []*entry // folders that were unlocked to be seen
	bytes  int      // of all paths
}

func (l *look) visit(dir *tree.Dir, name []byte, kind byte) bool {
	l.path = append(l.path[:0], dir.Path...)
	if dir.Path != "" {
		l.path = append(l.path, '/')
	}
	l.path = append(l.path, name...)
	if dir.Depth == 0 && isOurs(string(l.path)) || len(l.path) >= unix.PathMax { // longer ones are in no list of files
		return false
	}
	if l.bytes += len(l.path); l.bytes > mostPathBytes {
		return false
	}
	var s unix.Stat_t
	if unix.Fstatat(dir.FD, string(name), &s, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	e := l.s.now[string(l.path)]
	if e == nil || !e.isSeenAs(&s) {
		if e = newEntry(string(l.path), &s); e.kind() == unix.S_IFLNK {
			e.Target = target(dir.FD, string(name))
		}
		l.found = append(l.found, e)
	}
	e.round = l.s.round
	isFolder := e.kind() == unix.S_IFDIR
	if isFolder && e.Mode&0o500 != 0o500 {
		l.locked = append(l.locked, e)
	}
	return isFolder
}

func newEntry(path string, s *unix.Stat_t) *entry {
	e := &entry{path: path, Mode: s.Mode, Mtime: s.Mtim.Nano(), Size: s.Size, Inode: s.Ino, Ctime: s.Ctim.Nano(), hidden: !artifacts.IsArtifact(path)}
	e.data = min(s.Size, s.Blocks*512)
	if e.kind() == unix.S_IFDIR {
		e.Size = 0
	}
	if first, _, _ := strings.Cut(path, "/"); first == "input" {
		e.hidden = false
	}
	return e
}

func target(folder int, name string) []byte {
	room := make([]byte, unix.PathMax)
	n, _ := unix.Readlinkat(folder, name, room)
	return room[:max(n, 0)]
}

// lockAgain restores the rights of folders.
func (l *look) lockAgain() {
	for i := len(l.locked) - 1; i >= 0; i-- {
		e := l.locked[i]
		fd, err := l.s.openPlace(e.path)
		if err != nil {
			continue
		}
		var s unix.Stat_t
		if chmod(fd, e.Mode) == nil && unix.Fstat(fd, &s) == nil && s.Mode == e.Mode {
			e.Ctime = s.Ctim.Nano()
		}
		_ = unix.Close(fd)
	}
}

// note takes the files at paths as they are, with the folders that they are in.
func (s *Store) note(paths []string) {
	for _, path := range paths {
		for at := 0; at <= len(path); at++ {
			if at == len(path) || path[at] == '/' {
				s.notePath(path[:at], at == len(path))
			}
		}
	}
	s.seen()
	s.followUp(true)
}

func (s *Store) notePath(path string, itself bool) {
	if isOurs(path) || s.now[path] != nil && !itself {
		return
	}
	fd, err := s.openPlace(path)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) == nil && (stat.Mode&unix.S_IFMT == unix.S_IFREG || stat.Mode&unix.S_IFMT == unix.S_IFDIR) {
		s.set(path, newEntry(path, &stat))
	}
}
