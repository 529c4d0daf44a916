//go:build linux

package versions

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"golang.org/x/sys/unix"
)

// copies are the files in the folder of the versions: c1, c2 … with contents, log, journal, and those about to be restored.
type copies struct {
	work   int
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

// open opens the folder, and makes it where it is absent; one process has it at a time. Copies that code has removed are forgotten.
func (c *copies) open(work int) (isNew bool, err error) {
	if c.folder >= 0 {
		var mine, there unix.Stat_t
		if unix.Fstat(c.folder, &mine) == nil && unix.Fstatat(work, stateFolder+"/"+folder, &there, unix.AT_SYMLINK_NOFOLLOW) == nil && mine.Ino == there.Ino {
			return false, nil
		}
		c.close()
	}
	c.total.Store(0)
	c.sizes, c.alike = map[string]int64{}, map[likeness][]string{}
	state, err := makeFolder(work, stateFolder)
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

// list finds the copies that an earlier process made.
func (c *copies) list() error {
	walk := tree.Walk{Visit: func(d *tree.Dir, raw []byte, kind byte) bool {
		name := string(raw)
		var s unix.Stat_t
		if number := numberOf(name, "c"); number > 0 && kind == tree.Regular && unix.Fstatat(d.FD, name, &s, unix.AT_SYMLINK_NOFOLLOW) == nil {
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
func (c *copies) find(file *os.File, e *entry, breathe func(time.Duration) error) (string, error) {
	like := []string{e.likely}
	if all := c.alike[likeness{e.Size, e.Mtime}]; e.Size >= worthwhile { // a small one is sooner copied than compared
		like = append(like, all[:min(len(all), mostAlike)]...)
	}
	for _, id := range like {
		if same, err := c.isCopyOf(id, file, e.Size, breathe); same || err != nil {
			return id, err
		}
	}
	return "", nil
}

// add copies a file.
func (c *copies) add(file *os.File, e *entry, breathe func(time.Duration) error) (string, error) {
	c.last++
	id := "c" + strconv.Itoa(c.last)
	to, err := c.create(id)
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

// readFile opens a file of the folder; a size of -1 is any.
func (c *copies) readFile(id string, size int64) (*os.File, error) {
	fd, err := unix.Openat(c.folder, id, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
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

// create makes a file in the folder, in place of what is there.
func (c *copies) create(name string) (*os.File, error) {
	_ = unix.Unlinkat(c.folder, name, 0)
	fd, err := unix.Openat(c.folder, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
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
