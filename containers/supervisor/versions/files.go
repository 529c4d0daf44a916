//go:build linux

package versions

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"golang.org/x/sys/unix"
)

// Why a file has no copy.
const (
	whyLarge   = "there is no room for it below the limit of the versions"
	whyMany    = "more files changed at once than are copied"
	whyFull    = "the work directory or the disk has no room for a copy"
	whyChanged = "it was changed before it was copied"
	whyRead    = "it cannot be read: "
	whyBrought = "somebody else than a run changed it since, and it stays"
)

type refusal string

func (r refusal) Error() string { return string(r) }

const (
	mostEntries   = 50_000   // of a work directory whose states are kept
	mostPathBytes = 16 << 20 // of all their paths
)

// files is the work directory as it was behind the last run.
type files struct {
	dir    int // a descriptor
	mounts []*mount
	now    map[string]*entry
	dirty  map[string]bool // paths whose entries the log does not have
	round  int             // of looking
}

// change is what was at a path; nothing if Was is nil.
type change struct {
	Path []byte `json:"p"`
	Was  *entry `json:"e,omitempty"`
}

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
	User   uint32 `json:"u,omitempty"` // whose it is, in a mounted folder

	path   string
	data   int64  // bytes on the disk
	hidden bool   // nothing that a person sees
	likely string // the copy of what was at the path, where that looks the same
	round  int    // when it was seen last
	heard  bool   // a folder of a mounted one, whose changes are noticed
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

// set replaces the entry of a path, and returns what it was.
func (f *files) set(path string, e *entry) change {
	was := f.now[path]
	f.dirty[path] = true
	if e == nil {
		delete(f.now, path)
	} else {
		f.now[path] = e
	}
	if e != nil && was != nil && e.Size == was.Size && e.Mtime == was.Mtime {
		e.likely = cmp.Or(was.ID, was.likely)
	}
	return change{[]byte(path), was}
}

// look is one way through the files.
type look struct {
	f       *files
	mount   *mount // nil: the work directory
	path    []byte
	found   []*entry // what is new
	locked  []*entry // folders that were unlocked to be seen
	bytes   int      // of all paths
	entries int
}

func (l *look) visit(dir *tree.Dir, name []byte, kind byte) bool {
	l.entries++
	l.path = l.path[:0]
	if l.mount != nil {
		l.path = append(append(l.path, l.mount.path...), '/')
	}
	if dir.Path != "" {
		l.path = append(append(l.path, dir.Path...), '/')
	}
	l.path = append(l.path, name...)
	if dir.Depth == 0 && isOurs(string(l.path)) || len(l.path) >= unix.PathMax || l.mount == nil && dir.Depth == 1 && l.f.isMount(string(l.path)) { // longer ones are in no list of files
		return false
	}
	if l.bytes += len(l.path); l.bytes > mostPathBytes {
		return false
	}
	var s unix.Stat_t
	if unix.Fstatat(dir.FD, string(name), &s, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	e := l.f.now[string(l.path)]
	if e == nil || !e.isSeenAs(&s) {
		if e = newEntry(string(l.path), &s); e.kind() == unix.S_IFLNK {
			e.Target = target(dir.FD, string(name))
		}
		if l.mount != nil {
			e.User = s.Uid
		}
		l.found = append(l.found, e)
	}
	e.round = l.f.round
	isFolder := e.kind() == unix.S_IFDIR
	if isFolder && l.mount != nil && !e.heard {
		l.mount.follow(dir.FD, string(name))
		e.heard = true
	}
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
		fd, err := l.f.openPlace(e.path)
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

// notePath takes the file at a path as it is, unless there is one already; itself: in any case.
func (f *files) notePath(path string, itself bool) (brought []change) {
	if isOurs(path) || f.now[path] != nil && !itself {
		return nil
	}
	fd, err := f.openPlace(path)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) == nil && (stat.Mode&unix.S_IFMT == unix.S_IFREG || stat.Mode&unix.S_IFMT == unix.S_IFDIR) {
		brought = append(brought, f.set(path, newEntry(path, &stat)))
	}
	return brought
}

// openPlace opens a path with O_PATH, so that no FIFO blocks and no device acts.
func (f *files) openPlace(path string) (int, error) {
	dir, rest := f.at(path)
	return openBelow(dir, rest, unix.O_PATH)
}

// withRights calls a function, and once more with the rights to the folders above a path if it lacked them.
func (f *files) withRights(path string, do func() error) error {
	err := do()
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	var locked look
	locked.f = f
	for at, c := range path {
		if e := f.now[path[:at]]; c == '/' && e != nil && e.Mode&0o700 != 0o700 && f.setMode(e.path, e.Mode|0o700) == nil {
			locked.locked = append(locked.locked, e)
		}
	}
	err = do()
	locked.lockAgain()
	return err
}

func (f *files) setMode(path string, mode uint32) error {
	fd, err := f.openPlace(path)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return chmod(fd, mode)
}

func isStill(file *os.File, e *entry) bool {
	var now unix.Stat_t
	return unix.Fstat(int(file.Fd()), &now) == nil && e.isSeenAs(&now)
}

// openFile opens a file for reading if it is still that. One without the right to read gets it for a moment.
func (f *files) openFile(e *entry) (*os.File, error) {
	var place int
	err := f.withRights(e.path, func() (err error) {
		place, err = f.openPlace(e.path)
		return err
	})
	if err != nil {
		return nil, refusal(whyChanged)
	}
	defer func() { _ = unix.Close(place) }()
	var now unix.Stat_t
	if unix.Fstat(place, &now) != nil || !e.isSeenAs(&now) {
		return nil, refusal(whyChanged)
	}
	fd, err := reopen(place, unix.O_RDONLY)
	if errors.Is(err, unix.EACCES) && chmod(place, e.Mode|0o400) == nil {
		fd, err = reopen(place, unix.O_RDONLY)
		_ = chmod(place, e.Mode)
		if unix.Fstat(place, &now) == nil && now.Size == e.Size && now.Mtim.Nano() == e.Mtime {
			e.Ctime = now.Ctim.Nano()
		}
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), ""), nil
}
