//go:build linux

// Package volume knows how full a session's work directory is: docs/kernel-protocol.md, "The limit of the work
// directory". A look at the file system's free space is cheap, and made at every tick; files are counted when it
// moved, and now and then in any case.
package volume

import (
	"math"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Tick is how often Look should be called while anything may write.
const Tick = 100 * time.Millisecond

const (
	firstRecount = 2 * time.Second // between two counts where nothing moves; longer and longer
	lastRecount  = 32 * time.Second
	suspicious   = 500 * time.Millisecond // the same where something was not seen
	fineBytes    = 1 << 20                // a move of the free space that is too small to count for
	fineFiles    = 64
	// share is the part of the time for counting.
	share = 10
	// Far over the limit is this many times the limit, and so much more.
	farTimes = 2
	// unsureCounts is how many incomplete counts in a row make lost free space count as the work directory's: a single one
	// misses files being renamed, and others write to the same disk.
	unsureCounts = 3
	farBytes     = 512 << 20
	farFiles     = 10_000
)

// Limits bound a work directory; zero is no limit.
type Limits struct{ Bytes, Files int64 }

func (l Limits) far() Limits {
	if l.Bytes > 0 {
		l.Bytes = farTimes*l.Bytes + farBytes
	}
	if l.Files > 0 {
		l.Files = farTimes*l.Files + farFiles
	}
	return l
}

func (l Limits) passedBy(bytes, files int64) bool {
	return l.Bytes > 0 && bytes > l.Bytes || l.Files > 0 && files > l.Files
}

type space struct{ bytes, files int64 }

// Watch looks after one work directory. Its methods are for one goroutine; counting is done by another.
type Watch struct {
	dirs   []int
	limits Limits
	pids   func() []int

	counting  bool
	counted   func(Result)
	epoch     int // results of counts that began in an earlier one are worth nothing any more
	forgotten time.Time
	level     Level     // by the last count
	sure      Level     // by the last count that saw everything
	sureSpace space     // when that began
	unsure    int       // counts since then
	began     time.Time // the last count
	space     space     // then
	due       time.Time
	rested    time.Time // from when on the next count takes no more than its share of the time
	pause     time.Duration
	known     bool // whether anything was counted yet
}

// Result is the result of a count.
type Result struct {
	level Level
	space space
	began time.Time
	took  time.Duration
	epoch int
}

// New returns a watch over open folders, which stay the caller's; the first one must be there. pids lists the processes that may hold
// deleted files. counted is called by another goroutine when a count is over, for Take.
func New(dirs []int, limits Limits, pids func() []int, counted func(Result)) *Watch {
	return &Watch{dirs: dirs, limits: limits, pids: pids, counted: counted, pause: firstRecount}
}

// Expect requests a count at the next look, or after the rest between counts.
func (w *Watch) Expect() { w.due, w.pause = w.rested, firstRecount }

// Look begins a count where one is due.
func (w *Watch) Look() {
	now := w.readSpace()
	if w.counting || !time.Now().After(w.due) && !w.hasMoved(now) {
		return
	}
	w.counting = true
	pids, epoch := w.pids(), w.epoch
	go func() {
		began := time.Now()
		level := Count(w.dirs, pids, true, nil)
		w.counted(Result{level, now, began, time.Since(began), epoch})
	}()
}

// Take takes the result of a count, and reports whether it counts.
func (w *Watch) Take(r Result) bool {
	w.counting = false
	if r.epoch != w.epoch {
		return false
	}
	w.take(r)
	return true
}

// Forget requests a new count, because a holder of many files was killed. It may take a while to end.
func (w *Watch) Forget() {
	w.epoch++
	w.forgotten, w.rested = time.Now(), time.Time{}
	w.Expect()
}

func (w *Watch) take(r Result) {
	if r.level.Bytes == w.level.Bytes && r.level.Files == w.level.Files {
		w.pause = min(2*w.pause, lastRecount)
	} else {
		w.pause = firstRecount
	}
	pause := w.pause
	w.level, w.space, w.began = r.level, r.space, r.began
	if r.level.isSure() || !w.known {
		w.sure, w.sureSpace, w.unsure = r.level, r.space, 0
	} else {
		w.unsure++
		pause = suspicious
	}
	w.known = true
	now := time.Now()
	w.rested = now.Add(share * r.took)
	w.due = now.Add(max(pause, share*r.took))
}

// CountNow counts at once, and reports whether it did: not if that takes too long. It takes a finished count
// however long a busy machine delayed it.
func (w *Watch) CountNow(patience time.Duration) bool {
	now, began, stopped := w.readSpace(), time.Now(), false
	level := Count(w.dirs, w.pids(), true, func() bool {
		stopped = time.Since(began) >= patience
		return !stopped
	})
	if !stopped {
		w.epoch++
		w.take(Result{level, now, began, time.Since(began), w.epoch})
	}
	return !stopped
}

// MayBeOver reports whether the limit may be passed now, with the growth since the last count.
func (w *Watch) MayBeOver(moreBytes, moreFiles int64) bool {
	return w.limits.passedBy(w.level.Bytes+moreBytes, w.level.Files+moreFiles) || w.IsStale()
}

// Room is how many bytes could be added, in so many files, by the last count.
func (w *Watch) Room(files int64) int64 {
	switch {
	case !w.known || w.limits.Files > 0 && w.level.Files+files > w.limits.Files:
		return 0
	case w.limits.Bytes > 0:
		return w.limits.Bytes - w.level.Bytes
	default:
		return math.MaxInt64
	}
}

// IsStale reports whether the work directory may hold something else than the last count found.
func (w *Watch) IsStale() bool { return !w.known || w.hasMoved(w.readSpace()) }

// Level is the result of the last count.
func (w *Watch) Level() Level { return w.level }

// Began is when the last count began.
func (w *Watch) Began() time.Time { return w.began }

// IsKnown reports whether there was a count.
func (w *Watch) IsKnown() bool { return w.known }

// Over returns how the limit is passed, or nothing.
func (w *Watch) Over() string {
	if w.level.Hider != 0 && time.Since(w.forgotten) > hiddenFor {
		return "a program hides its open files (process " + strconv.Itoa(w.level.Hider) + "), so what the work directory holds cannot be counted"
	}
	if !w.known || !w.limits.passedBy(w.level.Bytes, w.level.Files) {
		return ""
	}
	text := "the work directory holds " + strconv.FormatInt(w.level.Bytes, 10) + " bytes in " +
		strconv.FormatInt(w.level.Files, 10) + " files; it may hold "
	switch l := w.limits; {
	case l.Files == 0:
		return text + strconv.FormatInt(l.Bytes, 10) + " bytes"
	case l.Bytes == 0:
		return text + strconv.FormatInt(l.Files, 10) + " files"
	default:
		return text + strconv.FormatInt(l.Bytes, 10) + " bytes and " + strconv.FormatInt(l.Files, 10) + " files"
	}
}

// FarOver returns how the second limit is passed, by what is on the disk, or nothing. While counts
// stay incomplete, the free space lost since a complete one counts as the work directory's.
func (w *Watch) FarOver() string {
	if !w.known {
		return ""
	}
	bytes, files := w.level.Disk, w.level.Files
	if w.unsure >= unsureCounts {
		now := w.readSpace()
		bytes = max(bytes, w.sure.Disk+w.sureSpace.bytes-now.bytes)
		files = max(files, w.sure.Files+w.sureSpace.files-now.files)
	}
	if !w.limits.far().passedBy(bytes, files) {
		return ""
	}
	return "the work directory takes " + strconv.FormatInt(bytes, 10) + " bytes of the disk and " + strconv.FormatInt(files, 10) +
		" files, far more than it may hold"
}

// hasMoved reports whether the free space changed by more than a part of the distance to the limit.
func (w *Watch) hasMoved(now space) bool {
	if !w.known {
		return true
	}
	moved := func(now, was, most, level, fine int64) bool {
		return most > 0 && max(now-was, was-now) > max(fine, (most-level)/4)
	}
	return moved(now.bytes, w.space.bytes, w.limits.Bytes, w.level.Bytes, fineBytes) ||
		moved(now.files, w.space.files, w.limits.Files, w.level.Files, fineFiles)
}

func (w *Watch) readSpace() space {
	var s unix.Statfs_t
	if unix.Fstatfs(w.dirs[0], &s) != nil {
		return space{}
	}
	// How many files there could be is no fixed number everywhere; less those that there are is.
	return space{int64(s.Bfree) * s.Bsize, int64(s.Ffree) - int64(s.Files)}
}
