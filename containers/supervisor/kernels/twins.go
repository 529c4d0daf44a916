//go:build linux

package kernels

import (
	"slices"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/volume"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	twinAgain    = 500 * time.Millisecond // after a fork that the kernel says may soon come to more
	measureDelay = 100 * time.Millisecond // after a fork, so that no run waits
	mostComing   = 16
	mostPinned   = 3 // of checkpoints, beside those of the last runs
)

// Scores that the kernel's OOM killer adds to a process's memory, in thousandths of the limit. One with a run, and what its code
// starts, goes before a kernel at rest that has nearly all of the memory; the newest twin after the kernel that it stands in for. Process 1
// is always last.
const (
	newestScore = 20
	mainScore   = 50 // of a kernel with variables and no run
	busyScore   = 1000
	olderScore  = 1000 // of twins, and kernels without variables
)

// twins keeps copies of the main kernel, forked when it is idle, which its variables can be gone back to. They run nothing
// until they take its place.
type twins struct {
	l      *Language
	kept   []*twin // the oldest first
	coming []*twin // that a kernel is to fork, in the order in which it was asked
	timer  *loop.Timer
	weigh  *loop.Timer // nil: nothing is to be measured
}

// twin is one of them.
type twin struct {
	*Kernel
	born   time.Time // when it was forked
	at     time.Time // of the variables
	isCopy bool      // left by a run that asked for one
	aside  bool      // of what was gone back from: a checkpoint alone leads there
	writes *writing  // what it was forked for
	run    Run       // that gets it
	from   *Kernel   // that forks it
	forked bool      // that kernel says so
	lost   bool      // it ended before that
}

// want forks the idle main kernel unless there is a twin of its variables, and reports whether one is on its way.
func (t *twins) want() bool {
	main := t.l.main
	if t.l.kept != nil || main == nil || main.isEnding() || t.l.set.Settings.Twins == 0 {
		return false // the next event asks again
	}
	isComing := func() bool {
		return slices.ContainsFunc(t.coming, func(n *twin) bool { return n.moment == main.moment && n.run == nil && n.writes == nil })
	}
	if !t.has(main.moment) && !isComing() {
		t.order(nil)
	}
	return isComing()
}

// source returns the kernel with the variables to copy, and their time: the main one, or its twin from before the current
// run; nil without one.
func (t *twins) source() (*Kernel, time.Time) {
	main := t.l.main
	if t.l.kept == nil {
		return main, time.Now()
	}
	if n := t.newest(); n != nil && n.moment == main.moment {
		return n.Kernel, n.born
	}
	return nil, time.Time{}
}

// order asks a kernel to fork, for a run with copy or for no run.
func (t *twins) order(r Run) {
	main := t.l.main
	from, born := t.source()
	if from == nil {
		return // the end of the run asks again
	}
	if limit := t.l.set.Settings.MemoryBytes / 2; limit > 0 && procs.Anonymous(main.pid) > limit {
		t.refuse(main.moment, r, "the kernel takes more than half of the memory ("+strconv.FormatInt(limit>>20, 10)+" MiB)")
		return
	}
	if len(t.coming) > mostComing {
		t.refuse(main.moment, r, "the kernel does not fork")
		return
	}
	n := &twin{run: r, from: from, born: born, at: born}
	if !t.fork(n, main.moment) {
		t.refuse(main.moment, r, "no socket could be made")
		return
	}
	if from != main {
		n.origin = &protocol.Origin{From: "twin", Run: main.moment.run, AtMS: born.UnixMilli(), Lost: []protocol.Lost{}}
	}
}

// fork has a twin forked, and reports whether it is on its way.
func (t *twins) fork(n *twin, m *moment) bool {
	link, theirs, err := kernelproc.Pair()
	if err != nil {
		return false
	}
	n.Kernel = &Kernel{l: t.l, link: link, pipedTicks: procs.TicksNow(), begun: true, asleep: true, moment: m}
	t.coming = append(t.coming, n)
	n.listen()
	n.from.link.Send(map[string]any{"type": "twin"}, theirs)
	return true
}

// onTwinned handles a kernel's report of the oldest twin ordered from it.
func (t *twins) onTwinned(k *Kernel, m *kernelproc.Report) {
	at := slices.IndexFunc(t.coming, func(n *twin) bool { return n.from == k && !n.forked })
	if at < 0 {
		return
	}
	n := t.coming[at]
	why := bounds.Clean(m.Why, bounds.MaxNamed)
	if why == "" && n.lost {
		why = "the copy was killed"
	}
	if why == "" {
		n.forked = true
		if m.PID > 1 && n.pid == 0 {
			n.pid = m.PID
		}
		t.take(n)
		return
	}
	t.coming = slices.Delete(t.coming, at, at+1)
	n.discard()
	if n.writes != nil {
		t.l.pins.conclude(n.writes, nil, 0, why)
		return
	}
	if m.Again {
		t.timer.Stop()
		t.timer = t.l.set.After(twinAgain, t.tryAgain)
	}
	if n.run == nil || !m.Again { // else the run waits
		t.refuse(n.moment, n.run, why)
	}
}

// tryAgain forks the main kernel for all runs that wait for a copy.
func (t *twins) tryAgain() {
	t.want()
	t.l.set.provideWaiting()
}

// take takes in a twin when the kernel that forks it says that it is there, and its process is known.
func (t *twins) take(n *twin) {
	if !n.forked || n.pid == 0 {
		return
	}
	t.coming = slices.DeleteFunc(t.coming, func(o *twin) bool { return o == n })
	if n.writes != nil {
		t.l.pins.take(n)
		return
	}
	if r := n.run; r != nil {
		n.run = nil
		if !t.l.set.awaits(r) { // it is over meanwhile
			n.discard()
			return
		}
		t.l.adopt(r, n.Kernel, n.born)
		r.SetClock(true)
		return
	}
	n.moment.why = ""
	t.keep(n)
}

// refuse is called where no twin of a moment can be made: the run that it was for fails, or the server hears why.
func (t *twins) refuse(m *moment, r Run, why string) {
	if r == nil {
		m.why = why
		t.l.Tell(false)
		t.measure()
	} else if t.l.set.awaits(r) {
		r.Refuse(CopyError(why))
	}
}

// CopyError is the name and the message of the error that a run with copy fails with.
func CopyError(why string) (name, message string) {
	return "CopyError", "the variables could not be copied: " + why + "; a run with fresh: true needs no copy"
}

// refuseWaiting fails the runs that wait for a copy of lost variables: they did not ask for others.
func (t *twins) refuseWaiting(why string) {
	for _, r := range t.l.set.runs.All() {
		if asked := r.Asked(); asked.Copy && asked.Language == t.l.Name {
			t.refuse(nil, r, why)
		}
	}
}

func (t *twins) keep(n *twin) {
	t.kept = append(t.kept, n)
	t.trim()
	t.score()
	t.l.onCopy(len(t.kept) - t.pinned())
	if t.weigh == nil {
		t.weigh = t.l.set.After(measureDelay, func() {
			t.weigh = nil
			t.measure()
		})
	}
}

// keepCopy keeps the kernel of a finished run with copy.
func (t *twins) keepCopy(k *Kernel, run string, born time.Time) {
	k.moment = &moment{run: run}
	t.keep(&twin{Kernel: k, born: born, at: time.Now(), isCopy: true})
}

// trim ends the oldest twins that are too many.
func (t *twins) trim() {
	for len(t.kept)-min(t.pinned(), mostPinned) > t.l.set.Settings.Twins && t.dropOldest(true) {
	}
}

// pinned counts those that checkpoints have beside the newest.
func (t *twins) pinned() (n int) {
	newest := t.newest()
	for _, o := range t.kept {
		if o != newest && len(o.moment.pins) > 0 {
			n++
		}
	}
	return n
}

// dropOldest ends the oldest twin, except the newest one that is no copy, and reports whether there was one: many copies must
// not cost the variables to keep if the kernel is killed. Those of checkpoints are the last to go, unless they are many; those whose file
// is not there yet stay.
func (t *twins) dropOldest(canWait bool) bool {
	newest, many := t.newest(), t.pinned() > mostPinned
	oldest := func(pinned bool) int {
		return slices.IndexFunc(t.kept, func(n *twin) bool {
			return n != newest && len(n.moment.pins) > 0 == pinned && !t.l.pins.areWriting(n.moment)
		})
	}
	at := oldest(many)
	if at < 0 {
		at = oldest(!many)
	}
	if at < 0 {
		return false
	}
	if canWait {
		t.kept[at].giveWay()
	}
	t.drop(t.kept[at])
	return true
}

func (t *twins) drop(n *twin) {
	t.kept = slices.DeleteFunc(t.kept, func(o *twin) bool { return o == n })
	n.discard()
	if t.abandon(n.Kernel) {
		go t.l.set.Post(t.l.set.provideWaiting) // this is the loop, which would wait for itself
	}
}

// abandon gives up those that a kernel which ends was to fork, and reports whether there were any.
func (t *twins) abandon(k *Kernel) bool {
	before := len(t.coming)
	t.coming = slices.DeleteFunc(t.coming, func(n *twin) bool {
		if n.from == k {
			n.discard()
			t.l.pins.conclude(n.writes, nil, 0, "the kernel with them has ended")
		}
		return n.from == k
	})
	return len(t.coming) < before
}

// release ends the oldest twin and reports whether there was one to end. The newest stays: it
// keeps the variables if the kernel is killed, and takes hardly any memory until the kernel writes to its own.
func (t *twins) release() bool {
	if !t.dropOldest(false) {
		return false
	}
	t.l.Tell(false)
	return true
}

// dropHolders ends the twins that hold deleted files: code may have closed those since. It reports whether there were any.
func (t *twins) dropHolders() bool {
	held := false
	for _, n := range slices.Clone(t.kept) {
		if volume.Holds(t.l.set.Dir.Folders(), n.pid) {
			held = true
			t.drop(n)
		}
	}
	t.l.Tell(false)
	return held
}

// newest returns the one that goes on where the main kernel is killed, or nil.
func (t *twins) newest() *twin {
	for _, n := range slices.Backward(t.kept) {
		if !n.isCopy && !n.aside && !n.isEnding() {
			return n
		}
	}
	return nil
}

// onReady is called when a kernel reports that it is there.
func (t *twins) onReady(k *Kernel) {
	if n := of(t.coming, k); n != nil {
		t.take(n)
	}
}

// lose forgets an ended twin, and reports whether it was one.
func (t *twins) lose(k *Kernel) bool {
	if n := of(t.coming, k); n != nil {
		t.loseComing(n)
		return true
	}
	n := of(t.kept, k)
	if n == nil {
		return t.l.pins.lose(k, "it was killed")
	}
	t.drop(n)
	t.want()
	t.l.Tell(false)
	return true
}

// loseComing forgets a twin that ended before it was taken in, once its parent reported it.
func (t *twins) loseComing(n *twin) {
	n.lost = true
	if n.forked {
		t.coming = slices.DeleteFunc(t.coming, func(o *twin) bool { return o == n })
		n.discard()
		if n.writes != nil {
			t.l.pins.conclude(n.writes, nil, 0, "the copy was killed")
			return
		}
		t.refuse(n.moment, n.run, "the copy was killed")
	}
}

func of(all []*twin, k *Kernel) *twin {
	for _, n := range all {
		if n.Kernel == k {
			return n
		}
	}
	return nil
}

// score makes the OOM killer take the older ones first.
func (t *twins) score() {
	newest := t.newest()
	for _, n := range t.kept {
		if n == newest {
			n.scoreAs(newestScore)
		} else {
			n.scoreAs(olderScore)
		}
	}
	if t.l.main != nil {
		t.l.main.score()
	}
}

// score makes the OOM killer take a kernel with a run before all others, and one that rests after those that nothing would be lost with.
func (k *Kernel) score() {
	switch {
	case k.l.set.of(k) != nil:
		k.scoreAs(busyScore)
	case k.begun:
		k.scoreAs(mainScore)
	}
}

func (k *Kernel) scoreAs(score int) {
	if score != k.scored {
		k.scored = score
		procs.RaiseOOMScore(k.pid, score)
	}
}

// measure ends the oldest twins while all of them take more memory than they may. Most often the container's account shows that
// they do not; else it looks at each, beside the loop: that takes some 10 ms a twin.
func (t *twins) measure() {
	main := t.l.main
	most := t.l.set.Settings.TwinBytes
	if len(t.kept) < 2 || main == nil || most <= 0 || int64(len(t.kept))*procs.Anonymous(main.pid) <= most {
		return
	}
	if t.l.set.Memory.Beside(main.pid) <= most {
		return
	}
	oldest, pid := t.kept[0], main.pid
	var pids []int
	for _, n := range t.kept {
		pids = append(pids, n.pid)
	}
	go func() {
		taken := procs.Beside(pid, pids)
		t.l.set.Post(func() {
			if taken > most && len(t.kept) > 1 && t.kept[0] == oldest {
				t.drop(oldest)
				t.l.Tell(false)
				t.measure()
			}
		})
	}()
}

// has reports whether there is a twin of a moment.
func (t *twins) has(m *moment) bool {
	return slices.ContainsFunc(t.kept, func(n *twin) bool { return n.moment == m && !n.isCopy })
}

// copyFor has the main kernel copied for a run, unless that is on its way.
func (t *twins) copyFor(r Run) {
	if !slices.ContainsFunc(t.coming, func(n *twin) bool { return n.run == r }) {
		t.order(r)
	}
}

// awaitsHello reports whether one is on its way whose process is not known.
func (t *twins) awaitsHello() bool {
	return slices.ContainsFunc(t.coming, func(n *twin) bool { return !n.ready })
}

// Going back ---------------------------------------------------------------------------

// goOn replaces a dead main kernel by the newest twin. The next answer says so.
func (t *twins) goOn(k *Kernel) {
	t.abandon(k)
	n := t.newest()
	if n == nil {
		return
	}
	n.origin = &protocol.Origin{From: "twin", Run: n.moment.run, AtMS: n.at.UnixMilli(), Lost: []protocol.Lost{}}
	t.promote(n)
	n.link.Send(map[string]any{"type": "enter"}) // its folder may be another by now
	t.want()
	t.l.Tell(false)
}

// promote makes a twin the main kernel.
func (t *twins) promote(n *twin) {
	t.kept = slices.DeleteFunc(t.kept, func(o *twin) bool { return o == n })
	t.l.main = n.Kernel
	t.l.set.Disk.ForgetKernel()
	t.score()
}

// find returns the twin from before a run, or the copy that the run left; nil: there is none.
func (t *twins) find(run string) *twin {
	for _, n := range t.kept {
		if !n.isEnding() && (n.isCopy && n.moment.run == run || !n.isCopy && n.moment.isBefore(run)) {
			return n
		}
	}
	return nil
}

// goTo makes a twin the main kernel, and returns the kernels to end: the one before, and the newer twins.
func (t *twins) goTo(n *twin) []*Kernel {
	var ended []*Kernel
	if main := t.l.main; main != nil {
		ended = append(ended, main)
		t.abandon(main)
	}
	ended = append(ended, t.dropNewer(n.born)...)
	t.promote(n)
	return ended
}

// dropNewer forgets the twins from after a time, and returns their kernels, which are to end. Those of checkpoints stay for these.
func (t *twins) dropNewer(than time.Time) (ended []*Kernel) {
	t.kept = slices.DeleteFunc(t.kept, func(o *twin) bool {
		newer := !o.isCopy && o.born.After(than)
		if newer && len(o.moment.pins) > 0 {
			o.aside, o.moment = true, &moment{run: o.moment.run, pins: slices.Clone(o.moment.pins)}
			return false
		}
		if newer {
			ended = append(ended, o.Kernel)
			t.abandon(o.Kernel)
		}
		return newer
	})
	return ended
}
