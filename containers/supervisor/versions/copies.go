//go:build linux

package versions

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"golang.org/x/sys/unix"
)

// copies are the files in the folder of the versions: c1, c2 … with contents, m3 … with those of mounted folders, which no export has, log
// and journal. Those about to be restored, r1, r2 …, are
// in the work directory, since a rename ends at a mount.
type copies struct {
	work   int
	state  string
	folder int // -1: not opened yet
	total  atomic.Int64
	sizes  map[string]int64
	alike  map[likeness][]string // copies by what files of the same content have in common
	last   int
}

type likeness struct{ size, mtime int64 }

const (
	folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	// diskReserve is what is left free on a disk.
	diskReserve = 64 << 20
	worthwhile  = 64 << 10 // bytes from which a moved file is looked for
	mostAlike   = 4
)

// ErrFolder says that nothing can be kept.
var ErrFolder = errors.New("the folder of the versions cannot be used")

var errWanted = errors.New("something else is to be done")

// open opens the folder, and makes it where it is absent; one process has it at a time. Copies that code has removed are forgotten.
func (c *copies) open() (isNew bool, err error) {
	if c.folder >= 0 {
		var mine, there unix.Stat_t
		if unix.Fstat(c.folder, &mine) == nil && unix.Lstat(c.state+"/"+folder, &there) == nil && mine.Ino == there.Ino {
			return false, nil
		}
		c.close()
	}
	c.total.Store(0)
	c.sizes, c.alike = map[string]int64{}, map[likeness][]string{}
	state, err := makeFolder(unix.AT_FDCWD, c.state)
	if err != nil {
		return true, err
	}
	defer func() { _ = unix.Close(state) }()
	if c.folder, err = makeFolder(state, folder); err != nil {
		c.folder = -1
		return true, err
	}
	if err := unix.Flock(c.folder, unix.LOCK_EX|unix.LOCK_NB); err != nil { // another container of the session keeps the versions
		c.close()
		return true, err
	}
	return true, c.list()
}

func (c *copies) close() {
	_ = unix.Close(c.folder)
	c.folder = -1
}

func makeFolder(above int, name string) (int, error) {
	if err := unix.Mkdirat(above, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return unix.Openat(above, name, folderFlags, 0)
}

// ready opens the folder of the files that are about to be restored, and makes it if it is to be.
func (c *copies) ready(isNew bool) (int, error) {
	if !isNew {
		return openBelow(c.work, uploads+"/"+ready, folderFlags)
	}
	above, err := makeFolder(c.work, uploads)
	if err != nil {
		_ = unix.Unlinkat(c.work, uploads, 0) // what code put in its place
		if above, err = makeFolder(c.work, uploads); err != nil {
			return -1, ErrFolder
		}
	}
	defer func() { _ = unix.Close(above) }()
	return makeFolder(above, ready)
}

// list finds the copies that an earlier process made.
func (c *copies) list() error {
	walk := tree.Walk{Visit: func(d *tree.Dir, raw []byte, kind byte) bool {
		name := string(raw)
		var s unix.Stat_t
		if number := max(numberOf(name, "c"), numberOf(name, "m")); number > 0 && kind == tree.Regular && unix.Fstatat(d.FD, name, &s, unix.AT_SYMLINK_NOFOLLOW) == nil {
			c.last = max(c.last, number)
			c.note(name, &s)
		}
		return false
	}}
	_, err := walk.Run(c.folder)
	return err
}

// numberOf returns the number in a name after a letter, or 0.
func numberOf(name, letter string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, letter))
	if err != nil || n <= 0 || letter+strconv.Itoa(n) != name {
		return 0
	}
	return n
}

func (c *copies) note(id string, s *unix.Stat_t) {
	size := min(s.Size, s.Blocks*512)
	c.sizes[id] = size
	c.total.Add(size)
	key := likeness{s.Size, s.Mtim.Nano()}
	c.alike[key] = append(c.alike[key], id)
}

func (c *copies) has(id string) bool {
	_, ok := c.sizes[id]
	return ok
}

// find returns the copy that has the content of a file, if there is one.
func (c *copies) find(letter string, file *os.File, e *entry, breathe func(time.Duration) error) (string, error) {
	like := []string{e.likely}
	if all := c.alike[likeness{e.Size, e.Mtime}]; e.Size >= worthwhile { // a small one is sooner copied than compared
		like = append(like, all[:min(len(all), mostAlike)]...)
	}
	for _, id := range like {
		if !strings.HasPrefix(id, letter) {
			continue
		}
		if same, err := c.isCopyOf(id, file, e.Size, breathe); same || err != nil {
			return id, err
		}
	}
	return "", nil
}

// add copies a file.
func (c *copies) add(letter string, file *os.File, e *entry, breathe func(time.Duration) error) (string, error) {
	c.last++
	id := letter + strconv.Itoa(c.last)
	to, err := create(c.folder, id)
	if err != nil {
		return "", err
	}
	defer func() { _ = to.Close() }()
	err = transfer(to, file, e.Size, breathe)
	var s unix.Stat_t
	if err == nil {
		err = setTime(int(to.Fd()), e.Mtime)
	}
	if err == nil {
		err = unix.Fstat(int(to.Fd()), &s)
	}
	if err != nil {
		_ = unix.Unlinkat(c.folder, id, 0)
		return "", err
	}
	c.note(id, &s)
	return id, nil
}

func (c *copies) isCopyOf(id string, file *os.File, size int64, breathe func(time.Duration) error) (bool, error) {
	of, err := c.read(id, size)
	if err != nil {
		return false, nil
	}
	defer func() { _ = of.Close() }()
	return isSame(file, of, size, breathe)
}

// read opens a copy. What code has put there instead is no copy.
func (c *copies) read(id string, size int64) (*os.File, error) {
	if !c.has(id) {
		return nil, unix.ENOENT
	}
	return c.readFile(id, size)
}

func (c *copies) readFile(id string, size int64) (*os.File, error) {
	return openRegular(c.folder, id, size)
}

// openRegular opens a file of a folder; a size of -1 is any.
func openRegular(folder int, id string, size int64) (*os.File, error) {
	fd, err := unix.Openat(folder, id, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil || s.Mode&unix.S_IFMT != unix.S_IFREG || size >= 0 && s.Size != size {
		_ = unix.Close(fd)
		return nil, unix.ENOENT
	}
	return os.NewFile(uintptr(fd), id), nil
}

// create makes a file in a folder, in place of what is there.
func create(folder int, name string) (*os.File, error) {
	_ = unix.Unlinkat(folder, name, 0)
	fd, err := unix.Openat(folder, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (c *copies) drop(id string) {
	c.total.Add(-c.sizes[id])
	delete(c.sizes, id)
	_ = unix.Unlinkat(c.folder, id, 0)
}

// keepOnly removes the copies that are not needed.
func (c *copies) keepOnly(needed map[string]bool) {
	for id := range c.sizes {
		if !needed[id] {
			c.drop(id)
		}
	}
	for key, ids := range c.alike {
		kept := ids[:0]
		for _, id := range ids {
			if c.has(id) {
				kept = append(kept, id)
			}
		}
		if c.alike[key] = kept; len(kept) == 0 {
			delete(c.alike, key)
		}
	}
}

// diskRoom is what the disk may be filled with.
func (c *copies) diskRoom() int64 {
	var s unix.Statfs_t
	if unix.Fstatfs(c.folder, &s) != nil {
		return 0
	}
	return int64(s.Bavail)*s.Bsize - diskReserve
}

// extents calls f for each part of a file that is no hole.
func extents(file *os.File, size int64, f func(from, to int64) error) error {
	for at := int64(0); at < size; {
		from, err := file.Seek(at, unix.SEEK_DATA)
		switch {
		case errors.Is(err, unix.ENXIO):
			return nil
		case err != nil: // the file system knows no holes
			return f(at, size)
		}
		to, err := file.Seek(from, unix.SEEK_HOLE)
		if err != nil {
			to = size
		}
		if to = min(to, size); from >= to {
			return nil
		}
		if err := f(from, to); err != nil {
			return err
		}
		at = to
	}
	return nil
}

const pieceBytes = 1 << 20

// transfer copies a file, with its holes, into an empty one.
func transfer(to, from *os.File, size int64, breathe func(time.Duration) error) error {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return to.Truncate(size)
	}
	room := make([]byte, min(size, pieceBytes))
	err := extents(from, size, func(at, end int64) error {
		for at < end {
			began := time.Now()
			n, err := from.ReadAt(room[:min(end-at, int64(len(room)))], at)
			if n == 0 {
				return cut(err)
			}
			if _, err := to.WriteAt(room[:n], at); err != nil {
				return err
			}
			at += int64(n)
			if err := breathe(time.Since(began)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return to.Truncate(size)
}

func cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return refusal(whyChanged)
	}
	return err
}

// isSame reports whether two files of the same size have the same content.
func isSame(a, b *os.File, size int64, breathe func(time.Duration) error) (same bool, err error) {
	roomA, roomB := make([]byte, min(size, pieceBytes)), make([]byte, min(size, pieceBytes))
	var end int64 // of the last extent
	differ := errors.New("they differ")
	compare := func(at, to int64) error {
		for at < to {
			began := time.Now()
			n := min(to-at, pieceBytes)
			_, errA := io.ReadFull(io.NewSectionReader(a, at, n), roomA[:n])
			_, errB := io.ReadFull(io.NewSectionReader(b, at, n), roomB[:n])
			if errA != nil || errB != nil || !bytes.Equal(roomA[:n], roomB[:n]) {
				return differ
			}
			at += n
			if err := breathe(time.Since(began)); err != nil {
				return err
			}
		}
		end = to
		return nil
	}
	err = extents(a, size, compare)
	if err == nil { // b may have more
		var endB int64
		_ = extents(b, size, func(_, to int64) error { endB = to; return nil })
		if endB > end {
			err = differ
		}
	}
	if errors.Is(err, errWanted) {
		return false, err
	}
	return err == nil, nil
}
