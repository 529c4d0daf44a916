//go:build linux

// Package guard stops what takes too much of a container's memory, or of the session's files.
package guard

import (
	"math"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/volume"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/workdir"
)

const (
	// A run that begins over the limit may go on as long as it adds no more than this, so that it can delete.
	spareBytes = 1 << 20
	spareFiles = 64
	// quietPause is how often a kernel is looked at that no run is in and that seems to do nothing.
	quietPause = 10 * time.Second
	// countWait is how long a run waits for the count that shows whether it may begin at all, and an answer for its own.
	countWait  = 5 * time.Second
	answerWait = 250 * time.Millisecond
)

// Session is what guards look at and stop.
type Session interface {
	IsIdle() bool      // no run and no program of a server goes on
	HasRuns() bool     // a run goes on
	IsRestoring() bool // the files go back
	Programs(table procs.Table) map[int]bool
	Holders() []int             // the processes that code of the session runs in
	Writers() []Writer          // kernels that stay
	DropHolders() bool          // drops the copies of kernels that hold deleted files, and reports whether there were any
	DropSnapshots() bool        // drops files of variables, and reports whether there were any
	StopRuns(why string)        // that took the files over their limit
	EndAll(why string)          // ends every process of the session's code
	StopLargest() time.Duration // stops what has taken the most memory, and returns for how long that is enough
}

// Writer is a kernel that may write between runs.
type Writer struct {
	PID    int
	MayOwn func(pid int) bool
	End    func() // as it filled the files
}

// Disk stops the writers that take the work directory over its limit: current runs, or programs of earlier ones. It does
// not prove whose fault it was.
type Disk struct {
	loop     loop.Loop
	settings *bounds.Settings
	server   *door.Server
	session  Session
	undo     *workdir.Undo
	watch    *volume.Watch // nil: the work directory is unlimited, or cannot be used
	timer    *loop.Timer
	next     time.Time // when it fires; zero: it has fired
	// base is where the runs that go on began, if that was over the limit; nil: it was not, or is not known yet, and
	// then the first count shows it.
	base *volume.Level
	// baseDue is when such runs began, until a count from then on shows their base; zero: none is due.
	baseDue time.Time
	between *volume.Level          // by the last count since the last run ended; nil: there was none
	worked  map[int]procs.Activity // of the kernels, by number, at that count
	looked  map[int]procs.Activity // and when the work directory was last looked at
}

// NewDisk guards nothing yet.
func NewDisk(l loop.Loop, settings *bounds.Settings, server *door.Server, undo *workdir.Undo) *Disk {
	return &Disk{loop: l, settings: settings, server: server, undo: undo}
}

// Guard begins to guard a session's files, if they are limited.
func (g *Disk) Guard(session Session, dir *workdir.Dir) {
	if dir.FD() < 0 || !g.settings.HasVolumeLimit() {
		return
	}
	g.session = session
	limits := volume.Limits{Bytes: g.settings.VolumeBytes, Files: g.settings.VolumeFiles}
	g.watch = volume.New(dir.Folders(), limits, session.Holders, func(r volume.Result) {
		g.loop.Post(func() {
			if g.watch.Take(r) {
				g.judge()
			}
		})
	})
	g.watch.Look()
}

// IsOn reports whether there is a limit that it keeps.
func (g *Disk) IsOn() bool { return g.watch != nil }

// IsBroken returns why a limit cannot be kept, or nothing.
func (g *Disk) IsBroken() string {
	if g.watch == nil && g.settings.HasVolumeLimit() {
		return "the work directory cannot be used, so its limit could not be kept"
	}
	return ""
}

// Refuses returns why no run may begin, or nothing.
func (g *Disk) Refuses() string {
	if g.watch == nil {
		return ""
	}
	patience := countWait
	if !g.watch.IsKnown() {
		patience = answerWait // in a new container, by far most often with little in it
	} else if g.watch.FarOver() == "" {
		return ""
	}
	g.watch.CountNow(patience)
	g.lookIn(volume.Tick) // the kernel itself may hold the excess
	return g.watch.FarOver()
}

// Room is how many bytes may be added, in so many files, between runs.
func (g *Disk) Room(files int64) int64 {
	if g.watch != nil && g.watch.IsStale() {
		g.watch.CountNow(answerWait)
	}
	return g.LastRoom(files)
}

// LastRoom is Room by the last count. An unlimited work directory always has some.
func (g *Disk) LastRoom(files int64) int64 {
	if g.watch == nil {
		return math.MaxInt64 / 2
	}
	return g.watch.Room(files)
}

// ExpectRun is called before a run without another beside it: from now on growth counts against it.
func (g *Disk) ExpectRun() {
	if g.watch == nil {
		return
	}
	g.base, g.baseDue = nil, time.Time{}
	began := time.Now()
	// Count now: otherwise the run's first files would be taken for earlier ones.
	if (g.watch.Over() != "" || g.watch.IsStale()) && !g.watch.CountNow(answerWait) {
		g.baseDue = began
	}
	if level := g.watch.Level(); g.baseDue.IsZero() && level.Hider == 0 && g.watch.Over() != "" {
		g.base = &level
	}
}

// Begin is called after a run got its kernel, so that it does not wait, or when a program of a server begins. What a program adds counts
// as it does between runs. What there was before is known, or its count is due: the next one comes where most runs are over.
func (g *Disk) Begin(run bool) {
	if g.watch == nil {
		return
	}
	if run {
		g.between = nil
	}
	g.watch.Expect()
	if g.baseDue.IsZero() {
		g.lookIn(volume.Tick)
	} else {
		g.look()
	}
}

// EndRun requests one count of the run's leftovers after its end.
func (g *Disk) EndRun() {
	if g.watch == nil {
		return
	}
	g.between = nil
	g.watch.Expect()
	g.lookIn(volume.Tick)
}

// ExceededAtEnd returns how a run that just ended passed the limit, or nothing.
func (g *Disk) ExceededAtEnd(bytes int64, files int) string {
	if g.watch == nil || !g.watch.MayBeOver(bytes, int64(files)) {
		return ""
	}
	g.watch.CountNow(answerWait)
	return g.exceeded()
}

// exceeded returns how the current runs passed the limit, or nothing.
func (g *Disk) exceeded() string {
	level, why := g.watch.Level(), g.watch.Over()
	if why != "" && (g.session.DropHolders() || g.undo.GiveWay() || g.session.DropSnapshots()) {
		g.watch.Forget() // the next count shows the freed space
		return ""
	}
	if !g.baseDue.IsZero() {
		if g.watch.Began().Before(g.baseDue) {
			return "" // it may have missed what the run before made meanwhile
		}
		g.baseDue = time.Time{}
		if why != "" && level.Hider == 0 {
			g.base = &level
		}
	}
	if g.base != nil && level.Hider == 0 && level.Bytes <= g.base.Bytes+spareBytes && level.Files <= g.base.Files+spareFiles {
		return ""
	}
	return why
}

// Forget is called when what was counted may look otherwise by now.
func (g *Disk) Forget() {
	if g.watch != nil {
		g.watch.Forget()
	}
}

// ForgetKernel is called when another kernel stays: earlier counts are not of that.
func (g *Disk) ForgetKernel() { g.between = nil }

// lookIn looks after a while, or earlier if that was requested before: runs that follow at once put it off no further.
func (g *Disk) lookIn(d time.Duration) {
	if at := time.Now().Add(d); g.next.IsZero() || at.Before(g.next) {
		g.timer.Stop()
		g.next, g.timer = at, g.loop.After(d, g.look)
	}
}

func (g *Disk) look() {
	g.next = time.Time{}
	g.watch.Look()
	pause := volume.Tick
	if g.session.IsIdle() && len(g.session.Programs(procs.Read())) == 0 {
		writers, before, rest := g.session.Writers(), g.looked, g.between != nil
		if len(writers) == 0 {
			return
		}
		g.looked = activities(writers)
		for _, w := range writers {
			rest = rest && g.looked[w.PID] == before[w.PID]
		}
		if rest {
			pause = quietPause
		}
	}
	g.lookIn(pause)
}

func activities(writers []Writer) map[int]procs.Activity {
	now := map[int]procs.Activity{}
	for _, w := range writers {
		now[w.PID] = procs.Watch(w.PID)
	}
	return now
}

// judge acts on a count.
func (g *Disk) judge() {
	if far := g.watch.FarOver(); far != "" {
		g.server.Log("warn", "all programs and kernels are ended: "+far)
		g.session.EndAll(far)
		g.watch.Forget()
		return
	}
	if g.session.IsRestoring() {
		return // it has what it replaces twice for a moment
	}
	if !g.session.HasRuns() {
		g.judgeQuiet()
	} else if why := g.exceeded(); why != "" {
		g.session.StopRuns(why)
	}
}

// judgeQuiet ends the writers between runs: programs left by runs, or else kernels whose own threads write. Another container may be
// the writer too, and every kernel writes a little.
func (g *Disk) judgeQuiet() {
	level, before, writers, worked := g.watch.Level(), g.between, g.session.Writers(), g.worked
	g.between, g.worked = &level, activities(writers)
	why := g.watch.Over()
	if why != "" && g.undo.GiveWay() {
		g.watch.Forget()
		return
	}
	if why == "" || before == nil && level.Hider == 0 {
		return
	}
	if level.Hider == 0 && level.Bytes <= before.Bytes && level.Files <= before.Files {
		return
	}
	if len(g.session.Programs(procs.Read())) > 0 {
		g.server.Log("warn", "programs that write between runs are ended: "+why)
		procs.MustKill(g.session.Programs)
		g.watch.Forget()
		g.between = nil // a program wrote until its end; that is not the kernel's
		return
	}
	for _, w := range writers {
		if level.Hider == 0 && hasWritten(worked[w.PID], g.worked[w.PID], level.Bytes-before.Bytes, level.Files > before.Files) ||
			level.Hider != 0 && w.MayOwn(level.Hider) {
			w.End()
		}
	}
}

// hasWritten reports whether a kernel wrote what was added between two counts.
func hasWritten(before, now procs.Activity, bytes int64, files bool) bool {
	switch {
	case before == procs.Activity{}: // it was not there
		return false
	case now.Written >= 0 && before.Written >= 0 && !files:
		return 2*(now.Written-before.Written) >= bytes
	}
	return now.CPU != before.CPU
}
