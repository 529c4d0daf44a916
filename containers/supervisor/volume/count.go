//go:build linux

package volume

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"golang.org/x/sys/unix"
)

// Level is how full a work directory is.
type Level struct {
	Bytes int64 // sizes, or blocks where those are more
	Files int64
	Disk  int64 // blocks
	// Complete is false where something was not seen.
	Complete bool
	// Hider is a process that does not let its open files be looked at; 0 where there is none.
	Hider int
}

// isSure reports whether nothing was missed.
func (l *Level) isSure() bool { return l.Complete && l.Hider == 0 }

const blockBytes = 512 // the unit of st_blocks

// counter adds files up, hard links once.
type counter struct {
	devices map[uint64]bool
	linked  map[uint64]bool
	level   Level
}

func newCounter(dirs []int) *counter {
	c := &counter{devices: map[uint64]bool{}, linked: map[uint64]bool{}}
	for _, dir := range dirs {
		var root unix.Stat_t
		if dir >= 0 && unix.Fstat(dir, &root) == nil {
			c.devices[root.Dev] = true
		}
	}
	return c
}

func (c *counter) add(s *unix.Stat_t) {
	if s.Nlink > 1 && s.Mode&unix.S_IFMT != unix.S_IFDIR {
		if c.linked[s.Ino] {
			return
		}
		c.linked[s.Ino] = true
	}
	onDisk := s.Blocks * blockBytes
	c.level.Disk += onDisk
	c.level.Bytes += max(s.Size, onDisk)
}

// Count counts everything below open folders, of which a negative one is none, and deleted files that processes hold open below them.
// It unlocks folders locked by their owner. Pause is called now and then and returns whether to go on; it may be nil.
func Count(dirs, pids []int, unlock bool, pause func() bool) Level {
	c := newCounter(dirs)
	c.level.Complete = len(c.devices) > 0
	for _, dir := range dirs {
		if dir >= 0 && !c.count(dir, unlock, pause) {
			c.level.Complete = false
		}
	}
	c.addUnnamed(dirs, pids, pause)
	return c.level
}

// count adds everything below an open folder, and reports whether it saw all.
func (c *counter) count(dir int, unlock bool, pause func() bool) bool {
	walk := tree.Walk{Unlock: unlock, MaxDepth: maxDepth, Pause: pause}
	missed := false
	walk.Visit = func(d *tree.Dir, name []byte, kind byte) bool {
		var s unix.Stat_t
		if err := unix.Fstatat(d.FD, string(name), &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			missed = missed || err != unix.ENOENT || kind == tree.Folder // perhaps only its name changed
			return false
		}
		c.level.Files++
		c.add(&s)
		return kind == tree.Folder
	}
	complete, err := walk.Run(dir)
	return complete && err == nil && !missed
}

const maxDepth = 1000

// addUnnamed adds deleted files that only a process keeps, open or mapped. Pause may be nil.
func (c *counter) addUnnamed(dirs, pids []int, pause func() bool) {
	below, err := pathsOf(dirs)
	if err != nil {
		c.level.Complete = false
		return
	}
	u := unnamed{counter: c, below: below, seen: map[uint64]bool{}, mapped: map[uint64]int64{}}
	for _, pid := range pids {
		if pause != nil && !pause() {
			c.level.Complete = false
			break
		}
		u.look(pid)
	}
	for inode, length := range u.mapped {
		if !u.seen[inode] {
			c.level.Bytes += length
			c.level.Disk += length
		}
	}
}

// Holds reports whether a process keeps deleted files below open folders, or may, because it hides them.
func Holds(dirs []int, pid int) bool {
	c := newCounter(dirs)
	c.addUnnamed(dirs, []int{pid}, nil)
	return c.level.Bytes > 0 || c.level.Hider != 0
}

// pathsOf returns the paths of open folders, each with a slash behind it.
func pathsOf(dirs []int) (paths []string, err error) {
	for _, dir := range dirs {
		if dir < 0 {
			continue
		}
		path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(dir))
		if err != nil {
			return nil, err
		}
		paths = append(paths, path+"/")
	}
	return paths, nil
}

// Opened returns the files below the first of open folders that a process has open or mapped, by inode, with a path where one had or has
// it. What it hides is not among them.
func Opened(dirs []int, pid int) map[uint64]string {
	opened := map[uint64]string{}
	below, err := pathsOf(dirs)
	if err != nil || len(below) == 0 {
		return opened
	}
	folder := shown(pid)
	if folder == "" {
		return opened // it ended
	}
	names, _ := readNames(folder + "/fd")
	for _, name := range names {
		var s unix.Stat_t
		path, err := os.Readlink(folder + "/fd/" + name)
		path, is := strings.CutPrefix(path, below[0])
		if err == nil && is && unix.Stat(folder+"/fd/"+name, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFREG {
			opened[s.Ino] = strings.TrimSuffix(path, deleted)
		}
	}
	mapped, _ := mappedBy(folder, below)
	for _, m := range mapped {
		if path, is := strings.CutPrefix(m.path, below[0]); is {
			opened[m.inode] = path
		}
	}
	return opened
}

type unnamed struct {
	*counter
	below  []string
	seen   map[uint64]bool
	mapped map[uint64]int64
}

func (u *unnamed) look(pid int) {
	folder := shown(pid)
	if folder == "" {
		return // it ended
	}
	u.addMapped(folder)
	for range listings {
		if u.lookAtOpen(pid, folder) {
			return
		}
	}
	u.level.Complete = false
}

// listings is how often the descriptors of a process are listed until none moved meanwhile.
const listings = 8

// lookAtOpen reports whether it saw all open files of a process.
func (u *unnamed) lookAtOpen(pid int, folder string) bool {
	names, err := readNames(folder + "/fd")
	if err != nil {
		switch {
		case !os.IsPermission(err) || shown(pid) == "":
		case bornJustNow(pid):
			u.level.Complete = false
		default:
			u.level.Hider = pid
		}
		return true
	}
	var s unix.Stat_t
	// A descriptor moved to a listed number is missing. Linux since 6.2 tells their count.
	all := unix.Stat(folder+"/fd", &s) != nil || int64(len(names)) >= s.Size
	for _, name := range append(names, "../exe") {
		path := folder + "/fd/" + name
		if err := unix.Stat(path, &s); err != nil {
			all = all && (err != unix.ENOENT || shown(pid) == "") // a dead process holds nothing
			continue
		}
		switch {
		case s.Mode&unix.S_IFMT == unix.S_IFSOCK && inFlight(folder+"/fdinfo/"+name):
			u.level.Complete = false // a descriptor in a socket is open nowhere
		case u.devices[s.Dev] && s.Nlink == 0 && s.Mode&unix.S_IFMT == unix.S_IFREG && !u.seen[s.Ino]:
			u.seen[s.Ino] = true
			u.add(&s)
		}
	}
	return all
}

// shown is the folder in /proc with a process's open files: of another thread if the main thread ended, and empty if all
// ended.
func shown(pid int) string {
	folder := "/proc/" + strconv.Itoa(pid)
	if !hasEnded(folder) {
		return folder
	}
	threads, _ := readNames(folder + "/task")
	for _, thread := range threads {
		if path := folder + "/task/" + thread; !hasEnded(path) {
			return path
		}
	}
	return ""
}

// hasEnded reports whether a process or thread ended or is about to: an ending one drops its program first, and no other
// is without one.
func hasEnded(folder string) bool {
	_, err := os.Readlink(folder + "/exe")
	return err != nil && !os.IsPermission(err)
}

// bornJustNow reports whether a process began within the last moments: nobody may inspect a newborn kernel.
func bornJustNow(pid int) bool {
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err != nil || time.Since(info.ModTime()) < hiddenFor
}

const hiddenFor = 3 * time.Second

func readNames(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	return dir.Readdirnames(-1)
}

func inFlight(fdinfo string) bool {
	text, _ := os.ReadFile(fdinfo)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "scm_fds:"); ok {
			return strings.TrimSpace(rest) != "0"
		}
	}
	return false
}

// addMapped notes how far files without a name are mapped.
func (u *unnamed) addMapped(folder string) {
	mapped, complete := mappedBy(folder, u.below)
	u.level.Complete = u.level.Complete && complete
	for _, m := range mapped {
		if m.isDeleted {
			u.mapped[m.inode] = max(u.mapped[m.inode], m.end)
		}
	}
}

// mapping is a part of a file that a process has mapped, up to an end.
type mapping struct {
	inode     uint64
	end       int64
	path      string
	isDeleted bool
}

// resting caches the mappings of processes that did not run since the last look, such as twins. Reading them takes
// milliseconds for each.
var resting = struct {
	sync.Mutex
	processes map[string]rested
}{processes: map[string]rested{}}

type rested struct {
	ran    string
	mapped []mapping
}

const mostResting = 64

// mappedBy returns the mapped files of a process below folders.
func mappedBy(folder string, below []string) (mapped []mapping, complete bool) {
	key, ran := folder+" "+strings.Join(below, " "), hasRun(folder)
	resting.Lock()
	defer resting.Unlock()
	if known, ok := resting.processes[key]; ok && ran != "" && known.ran == ran {
		return known.mapped, true
	}
	maps, err := os.Open(folder + "/maps")
	if err != nil {
		return nil, true
	}
	defer func() { _ = maps.Close() }()
	if mapped, complete = mappingsIn(maps, below); !complete {
		return mapped, false
	}
	if len(resting.processes) >= mostResting {
		clear(resting.processes)
	}
	resting.processes[key] = rested{ran, mapped}
	return mapped, true
}

// hasRun returns the run time of a process of one thread in nanoseconds; nothing if the system does not say.
func hasRun(folder string) string {
	threads, err := readNames(folder + "/task")
	if err != nil || len(threads) != 1 {
		return ""
	}
	text, _ := os.ReadFile(folder + "/task/" + threads[0] + "/schedstat")
	return string(text)
}

// Bounds of the list of a process's mappings. Each line has a file's whole path.
const (
	mapsLine  = 8 << 10
	mapsBytes = 16 << 20
)

const deleted = " (deleted)"

// mappingsIn reads the files below folders in such a list. Complete is false where that was too long.
func mappingsIn(maps io.Reader, below []string) (mapped []mapping, complete bool) {
	complete = true
	lines := bufio.NewReaderSize(maps, mapsLine)
	for size := 0; size < mapsBytes; {
		line, err := lines.ReadSlice('\n')
		size += len(line)
		switch {
		case err == nil:
			at := max(bytes.IndexByte(line, '/'), 0) // where the path begins: the numbers before it have none
			for _, folder := range below {
				if bytes.HasPrefix(line[at:], []byte(folder)) { // of hundreds, most are libraries
					mapped = addMapping(mapped, strings.Fields(string(line[:at])), strings.TrimSuffix(string(line[at:]), "\n"))
					break
				}
			}
		case errors.Is(err, bufio.ErrBufferFull):
			complete = false
		default:
			return mapped, complete
		}
	}
	return mapped, false
}

// addMapping adds the file of a line: of the numbers before its path, and that.
func addMapping(mapped []mapping, fields []string, path string) []mapping {
	if len(fields) != 5 {
		return mapped
	}
	from, to, _ := strings.Cut(fields[0], "-")
	start, err1 := strconv.ParseInt(from, 16, 64)
	end, err2 := strconv.ParseInt(to, 16, 64)
	offset, err3 := strconv.ParseInt(fields[2], 16, 64)
	inode, err4 := strconv.ParseUint(fields[4], 10, 64)
	if err1 == nil && err2 == nil && err3 == nil && err4 == nil {
		path, isDeleted := strings.CutSuffix(path, deleted)
		mapped = append(mapped, mapping{inode, offset + end - start, path, isDeleted})
	}
	return mapped
}
