//go:build linux

// Package tree walks through the folders below one, which hostile code may change meanwhile. No link is followed,
// nothing is opened but folders, and none where something else is mounted.
package tree

import (
	"encoding/binary"
	"errors"
	"os"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is a folder whose entries are being visited.
type Dir struct {
	FD    int    // open meanwhile
	Path  string // relative to the root, whose own is empty
	Depth int    // the root's is 0
}

// Join returns the path of an entry, relative to the root.
func (d *Dir) Join(name string) string {
	if d.Path == "" {
		return name
	}
	return d.Path + "/" + name
}

// Kinds of entries, as in getdents64.
const (
	Folder  = unix.DT_DIR
	Regular = unix.DT_REG
	Link    = unix.DT_LNK
)

// Walk is one way through a tree. Its zero value is of no use without Visit.
type Walk struct {
	// Visit is called for each entry, a folder before its content, and returns whether to enter a folder. It must
	// not keep name's bytes.
	Visit func(dir *Dir, name []byte, kind byte) bool
	// Unlock unlocks folders locked by their owner.
	Unlock bool
	// PassOver passes over the folders that must not be read.
	PassOver bool
	// MaxDepth bounds how far down folders are entered; zero: 64.
	MaxDepth int
	// MaxEntries bounds how many entries are visited; zero: no bound.
	MaxEntries int
	// Until ends the walk; zero: no limit.
	Until time.Time
	// Pause is called now and then, and returns whether to go on. May be nil.
	Pause func() bool

	device  uint64 // of the root
	entries int
	missed  bool // something was not seen
	ended   bool
}

const (
	defaultDepth = 64
	pauseEvery   = 256
)

// rooms are buffers for getdents64: one for each folder on the way down, of every walk.
var rooms = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// Run walks below root, an open folder that stays the caller's, and returns whether everything was seen. Entries
// moved meanwhile may be seen twice, or not at all. The error says that root cannot be read.
func (w *Walk) Run(root int) (complete bool, err error) {
	if w.MaxDepth == 0 {
		w.MaxDepth = defaultDepth
	}
	fd, err := w.open(root, ".")
	if err != nil {
		return false, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err == nil {
		w.device = s.Dev
	}
	w.list(&Dir{FD: fd})
	return !w.missed, nil
}

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

func (w *Walk) open(dir int, name string) (int, error) {
	fd, err := w.openHere(dir, name)
	if errors.Is(err, unix.EACCES) && w.Unlock && unlock(dir, name) == nil {
		fd, err = w.openHere(dir, name)
	}
	return fd, err
}

// openHere opens a folder that is no mount: EXDEV where it is one.
func (w *Walk) openHere(dir int, name string) (int, error) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: folderFlags, Resolve: unix.RESOLVE_NO_XDEV})
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fd, err
	}
	// gVisor, where each mount is a device of its own, an old kernel or an old seccomp profile.
	fd, err = unix.Openat(dir, name, folderFlags, 0)
	var s unix.Stat_t
	if err == nil && w.device != 0 && unix.Fstat(fd, &s) == nil && s.Dev != w.device {
		_ = unix.Close(fd)
		return -1, unix.EXDEV
	}
	return fd, err
}

// unlock restores the rights of a folder's owner. A folder that may not be searched cannot be reached by its own dot.
func unlock(dir int, name string) error {
	if name == "." {
		return unix.Fchmod(dir, 0o700)
	}
	return unix.Fchmodat(dir, name, 0o700, 0)
}

// list visits the entries of a folder, which it closes.
func (w *Walk) list(dir *Dir) {
	defer func() { _ = unix.Close(dir.FD) }()
	room := rooms.Get().(*[32 << 10]byte)
	defer rooms.Put(room)
	for !w.ended {
		n, err := unix.Getdents(dir.FD, room[:])
		if err != nil || n <= 0 {
			w.missed = w.missed || err != nil
			return
		}
		for at := 0; at < n && !w.ended; {
			size := int(binary.NativeEndian.Uint16(room[at+16:]))
			w.visit(dir, cString(room[at+19:at+size]), room[at+18])
			at += size
		}
	}
}

func (w *Walk) visit(dir *Dir, name []byte, kind byte) {
	if string(name) == "." || string(name) == ".." {
		return
	}
	w.entries++
	if w.MaxEntries > 0 && w.entries > w.MaxEntries || w.entries%pauseEvery == 0 && w.isOver() {
		w.ended, w.missed = true, true
		return
	}
	if kind == unix.DT_UNKNOWN {
		kind = kindOf(dir.FD, string(name))
	}
	if !w.Visit(dir, name, kind) || kind != Folder {
		return
	}
	if dir.Depth+1 >= w.MaxDepth {
		w.missed = true
		return
	}
	below := string(name)
	fd, err := w.open(dir.FD, below)
	if err != nil {
		isPassed := w.PassOver && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT))
		w.missed = w.missed || !errors.Is(err, unix.EXDEV) && !isPassed
		return
	}
	w.list(&Dir{FD: fd, Path: dir.Join(below), Depth: dir.Depth + 1})
}

func (w *Walk) isOver() bool {
	return !w.Until.IsZero() && time.Now().After(w.Until) || w.Pause != nil && !w.Pause()
}

func cString(b []byte) []byte {
	for i, c := range b {
		if c == 0 {
			return b[:i]
		}
	}
	return b
}

// Names returns the sorted names in a folder. [os.ReadDir] would be 12 KB of program.
func Names(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
	return names, err
}

func kindOf(dir int, name string) byte {
	var s unix.Stat_t
	if unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_UNKNOWN
	}
	return byte(s.Mode & unix.S_IFMT >> 12)
}
