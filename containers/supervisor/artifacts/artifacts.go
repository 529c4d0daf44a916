//go:build linux

// Package artifacts finds the files that a run created, changed or removed.
package artifacts

import (
	"bytes"
	"hash/maphash"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"golang.org/x/sys/unix"
)

const (
	pathBudget = 256 << 10              // bytes of paths in one answer
	lag        = 100 * time.Millisecond // how far file times may lag, where the file system's own clock cannot be read
	recently   = time.Second            // how old a file may be that a tick could take to be of the next run
	maxEntries = 200_000
	maxBytes   = 16 << 20                // of paths
	scanTime   = 1500 * time.Millisecond // so that a huge folder does not delay the answer
	beginTime  = 3 * time.Millisecond    // nor the beginning of a run: the names behind the last one count then
	mostGone   = 20                      // named
)

// Mark is a moment by the clock that stamps files, in nanoseconds.
type Mark int64

// Scanner finds the files whose change time lies in a run, by the file system's own clock: that ticks
// coarsely, and lags far behind on a busy machine. It leaves out earlier files of the other language's
// container. Within a tick nothing shows on which side of a run's start a file falls, so files of the last moments are
// remembered and compared. A Scanner is for one goroutine.
type Scanner struct {
	dir    *os.File
	clock  Clock
	recent map[string]facts
	names  []batch // behind the last run; nil: not known
}

// Start is what a run began with.
type Start struct {
	at    Mark
	names []batch // of the files; nil: not known
}

// Found is what became of files in a run. Removed also has those of input; at most 20 of RemovedTotal.
type Found struct {
	Files               []protocol.Artifact
	Total, RemovedTotal int
	Bytes               int64
	Removed             []string
}

type facts struct {
	inode                  uint64
	size, modified, change int64
}

// NewScanner returns one for the files below dir, which stays the caller's and open.
func NewScanner(dir *os.File) *Scanner {
	return &Scanner{dir: dir, clock: NewClock(int(dir.Fd())), recent: map[string]facts{}}
}

// Clock is the one that stamps files: a file without a name on the volume, or -1 where there can be none.
type Clock int

// NewClock returns the clock of the file system below an open folder.
func NewClock(dir int) Clock {
	fd, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1
	}
	return Clock(fd)
}

// Now returns the present; if it is not known, a moment that is surely past.
func (c Clock) Now() (now Mark, isKnown bool) {
	var info unix.Stat_t
	// Some file systems need room even for that.
	if c < 0 || touch(int(c)) != nil || unix.Fstat(int(c), &info) != nil {
		return Mark(time.Now().Add(-lag).UnixNano()), false
	}
	return Mark(info.Ctim.Nano()), true
}

// Settle waits until the clock that stamps the files below a folder has gone on, a few milliseconds, so that a later run does not take
// existing files for its own.
func Settle(dir int) {
	c := NewClock(dir)
	defer func() { _ = unix.Close(int(c)) }()
	began, isKnown := c.Now()
	for range lag / time.Millisecond {
		time.Sleep(time.Millisecond)
		if now, _ := c.Now(); isKnown && now > began {
			return
		}
	}
}

// Begin returns the present, for the run that begins. Without a scanner there are no artifacts.
func (s *Scanner) Begin() Start {
	if s == nil {
		return Start{}
	}
	var names []batch
	last, complete := s.walk(beginTime, func(full batch) { names = append(names, full) })
	if names = append(names, last); !complete {
		names = s.names
	}
	now, _ := s.clock.Now()
	return Start{now, names}
}

// Scan returns the artifacts of a run, newest first at most so many, without unreported names; their number, and their size in bytes;
// and what it removed.
func (s *Scanner) Scan(start Start, most int) Found {
	if s == nil {
		return Found{Files: []protocol.Artifact{}}
	}
	now, _ := s.clock.Now()
	since, recentFrom := int64(start.at), int64(now)-int64(recently)
	recent, all := map[string]facts{}, Found{Files: []protocol.Artifact{}}
	for _, f := range s.look(min(since, recentFrom)) {
		if f.change >= recentFrom {
			recent[f.path] = f.facts
		}
		if f.change >= since && s.recent[f.path] != f.facts {
			all.Total++
			all.Bytes += f.size
			if filewire.IsName(f.path) {
				all.Files = append(all.Files, protocol.Artifact{Path: f.path, SizeBytes: f.size, ModifiedMS: f.modified / 1e6})
				files := all.Files
				for i := len(files) - 1; i > 0 && files[i-1].ModifiedMS < files[i].ModifiedMS; i-- { // a sort would cost 20 KB of program
					files[i-1], files[i] = files[i], files[i-1]
				}
				all.Files = bounded(files, most)
			}
		}
	}
	s.recent = recent
	if start.names != nil && s.names != nil {
		all.Removed, all.RemovedTotal = missing(start.names, s.names)
	}
	return all
}

// missing returns the names that are in the first list alone, and their number.
func missing(was, is []batch) (names []string, total int) {
	if slices.EqualFunc(was, is, func(a, b batch) bool { return bytes.Equal(a.text, b.text) }) {
		return nil, 0
	}
	seed, there := maphash.MakeSeed(), map[uint64]bool{}
	for _, b := range is {
		for path := range b.paths {
			there[maphash.Bytes(seed, path)] = true
		}
	}
	for _, b := range was {
		for path := range b.paths {
			if there[maphash.Bytes(seed, path)] {
				continue
			}
			if total++; filewire.IsName(string(path)) && len(names) < mostGone {
				names = append(names, string(path))
			}
		}
	}
	return names, total
}

type found struct {
	path string
	facts
}

// look lists the files that were changed since a time. To ask for the facts of a file costs far more than to find its
// name, so where there are many that is done by several goroutines, a batch of names at a time.
func (s *Scanner) look(since int64) []found {
	root := int(s.dir.Fd())
	batches, results := make(chan batch), make(chan []found)
	workers := 0
	var names []batch
	last, complete := s.walk(scanTime, func(full batch) {
		names = append(names, full)
		for ; workers < runtime.NumCPU(); workers++ {
			go func() {
				var changed []found
				for b := range batches {
					changed = b.look(root, since, changed)
				}
				results <- changed
			}()
		}
		batches <- full
	})
	close(batches)
	s.names = nil
	if complete {
		names = append(names, last)
		s.names = names
	}
	all := last.look(root, since, nil)
	for range workers {
		all = append(all, <-results...)
	}
	return all
}

// batchFiles is how many files a goroutine asks for at a time.
const batchFiles = 256

// batch is the paths of files, one behind the other.
type batch struct {
	text []byte
	ends []int
}

// paths are the paths in a batch.
func (b batch) paths(yield func(path []byte) bool) {
	start := 0
	for _, end := range b.ends {
		if !yield(b.text[start:end]) {
			return
		}
		start = end
	}
}

// walk hands over the paths of all files that are shown in full batches, and returns the rest, and whether these are all.
func (s *Scanner) walk(within time.Duration, take func(batch)) (next batch, complete bool) {
	bytes := 0
	walk := tree.Walk{MaxEntries: maxEntries, Until: time.Now().Add(within)}
	walk.Visit = func(dir *tree.Dir, name []byte, kind byte) bool {
		if !isShown(name) || bytes > maxBytes {
			return false
		}
		if kind != tree.Regular {
			return kind == tree.Folder
		}
		bytes += len(dir.Path) + len(name)
		if dir.Path != "" {
			next.text = append(append(next.text, dir.Path...), '/')
		}
		next.text = append(next.text, name...)
		next.ends = append(next.ends, len(next.text))
		if len(next.ends) == batchFiles {
			take(next)
			next = batch{}
		}
		return false
	}
	complete, err := walk.Run(int(s.dir.Fd())) // without a work directory there are none
	return next, complete && err == nil && bytes <= maxBytes
}

// look adds the files that were changed since a time.
func (b *batch) look(root int, since int64, changed []found) []found {
	for text := range b.paths {
		path := string(text)
		if path == "input" || strings.HasPrefix(path, "input/") {
			continue
		}
		var info unix.Stat_t
		if unix.Fstatat(root, path, &info, unix.AT_SYMLINK_NOFOLLOW) != nil || info.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if change := info.Ctim.Nano(); change >= since {
			changed = append(changed, found{path, facts{info.Ino, info.Size, info.Mtim.Nano(), change}})
		}
	}
	return changed
}

func bounded(files []protocol.Artifact, most int) []protocol.Artifact {
	left := pathBudget
	for i, f := range files {
		if left -= len(f.Path); left < 0 || i == most {
			return files[:i]
		}
	}
	return files
}

// IsArtifact reports whether a file at a path counts if a run makes it.
func IsArtifact(path string) bool {
	for depth, name := range strings.Split(path, "/") {
		if !isShown([]byte(name)) || depth == 0 && name == "input" {
			return false
		}
	}
	return true
}

// isShown leaves out installed packages and caches of programs.
func isShown(name []byte) bool {
	return string(name) != "node_modules" && string(name) != "__pycache__" && name[0] != '.'
}

// touch sets the times of an open file to the present.
func touch(fd int) error {
	_, _, err := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0, 0, 0)
	if err != 0 {
		return err
	}
	return nil
}
