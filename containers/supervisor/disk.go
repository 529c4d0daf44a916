//go:build linux

package main

import (
	"math"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/volume"
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

// diskGuard stops the writers that take the work directory over its limit: current runs, or programs of earlier ones. It does
// not prove whose fault it was.
type diskGuard struct {
	s     *Supervisor
	watch *volume.Watch
	timer *timer
	// base is where the runs that go on began, if that was over the limit; nil: it was not, or is not known yet, and
	// then the first count shows it.
	base *volume.Level
	// baseDue is when such runs began, until a count from then on shows their base; zero: none is due.
	baseDue time.Time
	between *volume.Level // by the last count since the last run ended; nil: there was none
	// programs of servers that run. What they add counts as it does between runs.
	programs int
}

func newDiskGuard(s *Supervisor) *diskGuard {
	g := &diskGuard{s: s}
	limits := volume.Limits{Bytes: s.settings.VolumeBytes, Files: s.settings.VolumeFiles}
	g.watch = volume.New(s.workDir.fd(), limits, g.holders, func(r volume.Result) {
		s.post(func() {
			if g.watch.Take(r) {
				g.judge()
			}
		})
	})
	g.watch.Look()
	return g
}

// holders are the processes that code of the session runs in.
func (g *diskGuard) holders() []int {
	table := procs.Read()
	holders := g.s.programs(table)
	for _, k := range g.s.kernels() {
		if k.begun { // before that it ran no code, and a newborn process cannot be read
			holders[k.pid] = true
		}
	}
	var pids []int
	for pid := range holders {
		if _, lives := table[pid]; lives {
			pids = append(pids, pid)
		}
	}
	return pids
}

// refuses returns why no run may begin, or nothing.
func (g *diskGuard) refuses() string {
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

// room is how many bytes may be added, in so many files, between runs.
func (g *diskGuard) room(files int64) int64 {
	if g != nil && g.watch.IsStale() {
		g.watch.CountNow(answerWait)
	}
	return g.lastRoom(files)
}

// lastRoom is room by the last count. An unlimited work directory always has some.
func (g *diskGuard) lastRoom(files int64) int64 {
	if g == nil {
		return math.MaxInt64 / 2
	}
	return g.watch.Room(files)
}

// expectRun is called before a run without another beside it: from now on growth counts against it.
func (g *diskGuard) expectRun() {
	g.base, g.baseDue = nil, time.Time{}
	began := time.Now()
	// What is not counted here would let the run's first files pass for earlier ones.
	if (g.watch.Over() != "" || g.watch.IsStale()) && !g.watch.CountNow(answerWait) {
		g.baseDue = began
	}
	if level := g.watch.Level(); g.baseDue.IsZero() && level.Hider == 0 && g.watch.Over() != "" {
		g.base = &level
	}
}

// beginRun is called after the run got its kernel, so that it does not wait.
func (g *diskGuard) beginRun() {
	g.between = nil
	g.watch.Expect()
	g.look()
}

// endRun requests one count of the run's leftovers after its end.
func (g *diskGuard) endRun() {
	g.between = nil
	g.watch.Expect()
	g.lookIn(volume.Tick)
}

// beginProgram returns why no program of a server may begin; else, with nothing, it has.
func (g *diskGuard) beginProgram() (why string) {
	if why = g.refuses(); why != "" {
		return why
	}
	g.programs++
	g.watch.Expect()
	g.look()
	return ""
}

func (g *diskGuard) endProgram() {
	if g.programs--; g.programs == 0 {
		g.endRun()
	}
}

// exceededAtEnd returns how a run that just ended passed the limit, or nothing.
func (g *diskGuard) exceededAtEnd(bytes int64, files int) string {
	if !g.watch.MayBeOver(bytes, int64(files)) {
		return ""
	}
	g.watch.CountNow(answerWait)
	return g.exceeded()
}

// exceeded returns how the current runs passed the limit, or nothing.
func (g *diskGuard) exceeded() string {
	level, why := g.watch.Level(), g.watch.Over()
	holders := func(l *language) bool { return l.twins.dropHolders() }
	snapshots := func(l *language) bool { return l.snapshots.giveWay() }
	if why != "" && (g.ofAll(holders) || g.s.undo.giveWay() || g.ofAll(snapshots)) {
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

// ofAll drops something of each language, and reports whether that freed files.
func (g *diskGuard) ofAll(drop func(*language) bool) (freed bool) {
	for _, l := range g.s.languages {
		freed = drop(l) || freed
	}
	return freed
}

func (g *diskGuard) lookIn(d time.Duration) {
	g.timer.stop()
	g.timer = g.s.after(d, g.look)
}

func (g *diskGuard) look() {
	g.watch.Look()
	pause := volume.Tick
	if len(g.s.runs.all) == 0 && g.programs == 0 && len(g.s.programs(procs.Read())) == 0 {
		mains, rest := g.s.mains(), g.between != nil
		if len(mains) == 0 {
			return
		}
		for _, k := range mains {
			now := procs.Watch(k.pid)
			rest = rest && now == k.looked
			k.looked = now
		}
		if rest {
			pause = quietPause
		}
	}
	g.lookIn(pause)
}

// judge acts on a count.
func (g *diskGuard) judge() {
	if far := g.watch.FarOver(); far != "" {
		g.endAll(far)
		return
	}
	if g.s.runs.restoring {
		return // it has what it replaces twice for a moment
	}
	if len(g.s.runs.all) == 0 {
		g.judgeQuiet()
		return
	}
	why := g.exceeded()
	if why == "" {
		return
	}
	for _, r := range g.s.runs.all {
		r.over = why
		r.interrupt("quota")
	}
}

// endAll ends every process of the session's code, and frees the files that they hold.
func (g *diskGuard) endAll(why string) {
	s := g.s
	s.log("warn", "all programs and kernels are ended: "+why)
	killAll(s.programs)
	for _, r := range s.runs.all {
		r.over = why
		if r.reason == "" {
			r.reason = "quota"
		}
		if r.kernel == nil {
			r.finishKilled("quota")
		}
	}
	for _, k := range s.kernels() {
		if k.begun || s.runs.of(k) != nil { // else it waits for a run, and holds nothing
			k.fills = true
			k.kill("quota")
		}
	}
	g.watch.Forget()
}

// judgeQuiet ends the writers between runs: programs left by runs, or else kernels whose own threads write. Another container may be
// the writer too, and every kernel writes a little.
func (g *diskGuard) judgeQuiet() {
	s, level, before, mains := g.s, g.watch.Level(), g.between, g.s.mains()
	g.between = &level
	for _, k := range mains {
		k.before, k.activity = k.activity, procs.Watch(k.pid)
	}
	why := g.watch.Over()
	if why != "" && g.s.undo.giveWay() {
		g.watch.Forget()
		return
	}
	if why == "" || before == nil && level.Hider == 0 {
		return
	}
	if level.Hider == 0 && level.Bytes <= before.Bytes && level.Files <= before.Files {
		return
	}
	if len(s.programs(procs.Read())) > 0 {
		s.log("warn", "programs that write between runs are ended: "+why)
		killAll(s.programs)
		g.watch.Forget()
		g.between = nil // a program wrote until its end; that is not the kernel's
		return
	}
	for _, k := range mains {
		if level.Hider == 0 && k.hasWritten(level.Bytes-before.Bytes, level.Files > before.Files) || level.Hider != 0 && k.l.mayOwn(level.Hider) {
			k.fills = true
			k.kill("quota")
		}
	}
}

// hasWritten reports whether a kernel wrote what was added between two counts.
func (k *kernel) hasWritten(bytes int64, files bool) bool {
	now, before := k.activity, k.before
	switch {
	case before == procs.Activity{}: // it was not there
		return false
	case now.Written >= 0 && before.Written >= 0 && !files:
		return 2*(now.Written-before.Written) >= bytes
	}
	return now.CPU != before.CPU
}
