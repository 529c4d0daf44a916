//go:build linux

package main

import (
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/volume"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	twinDelay  = 50 * time.Millisecond  // between the end of a run and a fork, so that a run that follows at once comes first
	twinAgain  = 500 * time.Millisecond // after a fork that the kernel says may soon come to more
	maxWhy     = 200
	mostBefore = 8 // known runs that began with the same variables
	mostComing = 16
)

// Scores that the kernel's OOM killer adds to a process's memory, in thousandths of the limit: older twins go first, before a
// kernel many times their size, and the newest after the kernel that it stands in for. Process 1 is always last.
const (
	newestScore = 50
	mainScore   = 100 // and that of the programs that its code starts from then on
	busyScore   = 500 // of a main kernel with a run, beside other languages
	olderScore  = 1000
)

// twins keeps copies of the main kernel, forked when it is idle, which its variables can be gone back to. They run nothing
// until they take its place.
type twins struct {
	l      *language
	kept   []*twin // the oldest first
	coming []*twin // that a kernel is to fork, in the order in which it was asked
	why    string  // there is none of the present variables
	timer  *timer
}

// twin is one of them.
type twin struct {
	*kernel
	born   time.Time // when it was forked
	at     time.Time // of the variables
	isCopy bool      // left by a run that asked for one
	run    *run      // that gets it
	from   *kernel   // that forks it
	forked bool      // that kernel says so
	lost   bool      // it ended before that
}

// moment is a state of the variables. The kernels with that state share it.
type moment struct {
	run    string   // the run before it; empty: none began
	before []string // the runs that began here: several after a restore
}

func (m *moment) begin(run string) {
	if !slices.Contains(m.before, run) {
		m.before = append(m.before[max(0, len(m.before)-mostBefore+1):], run)
	}
}

// over lists the runs that began here and are over.
func (m *moment) over(l *language) (runs []string) {
	for _, id := range m.before {
		if l.kept == nil || l.kept.ID != id {
			runs = append(runs, id)
		}
	}
	return runs
}

// want forks the main kernel once it is idle for a moment.
func (t *twins) want() {
	if t.l.HasZygote && t.l.s.settings.Twins > 0 {
		t.timer.stop()
		t.timer = t.l.s.after(twinDelay, t.renew)
	}
}

// renew forks the idle main kernel unless there is a twin of its variables.
func (t *twins) renew() {
	main := t.l.main
	if t.l.kept != nil || main == nil || main.isEnding() {
		return // the next event asks again
	}
	same := func(n *twin) bool { return n.moment == main.moment && n.run == nil && !n.isCopy }
	if slices.ContainsFunc(t.kept, same) || slices.ContainsFunc(t.coming, same) {
		return
	}
	t.order(nil)
}

// source returns the kernel with the variables to copy, and their time: the main one, or its twin from before the current
// run; nil without one.
func (t *twins) source() (*kernel, time.Time) {
	main := t.l.main
	if t.l.kept == nil {
		return main, time.Now()
	}
	if n := t.newest(); n != nil && n.moment == main.moment {
		return n.kernel, n.born
	}
	return nil, time.Time{}
}

// order asks a kernel to fork, for a run with copy or for no run.
func (t *twins) order(r *run) {
	main := t.l.main
	from, born := t.source()
	if from == nil {
		return // the end of the run asks again
	}
	if limit := t.l.s.settings.MemoryBytes / 2; limit > 0 && procs.Anonymous(main.pid) > limit {
		t.refuse(r, "the kernel takes more than half of the memory ("+strconv.FormatInt(limit>>20, 10)+" MiB)")
		return
	}
	if len(t.coming) > mostComing {
		t.refuse(r, "the kernel does not fork")
		return
	}
	link, theirs, err := kernelproc.Pair()
	if err != nil {
		t.refuse(r, "no socket could be made")
		return
	}
	n := &twin{
		kernel: &kernel{l: t.l, link: link, pipedTicks: procs.TicksNow(), begun: true, asleep: true, moment: main.moment},
		run:    r, from: from, born: born, at: born,
	}
	if from != main {
		n.origin = &protocol.Origin{From: "twin", Run: main.moment.run, AtMS: born.UnixMilli(), Lost: []protocol.Lost{}}
	}
	t.coming = append(t.coming, n)
	n.listen()
	from.link.Send(map[string]any{"type": "twin"}, theirs)
}

// onTwinned handles a kernel's report of the oldest twin ordered from it.
func (t *twins) onTwinned(k *kernel, m *kernelproc.Report) {
	at := slices.IndexFunc(t.coming, func(n *twin) bool { return n.from == k && !n.forked })
	if at < 0 {
		return
	}
	n := t.coming[at]
	why := clean(m.Why, maxWhy)
	if why == "" && n.lost {
		why = "the copy was killed"
	}
	if why == "" {
		n.forked = true
		t.take(n)
		return
	}
	t.coming = slices.Delete(t.coming, at, at+1)
	n.discard()
	if m.Again {
		t.timer.stop()
		t.timer = t.l.s.after(twinAgain, t.tryAgain)
	}
	if n.run == nil || !m.Again { // else the run waits
		t.refuse(n.run, why)
	}
}

// tryAgain forks the main kernel for all runs that wait for a copy.
func (t *twins) tryAgain() {
	t.renew()
	t.l.s.runs.provideWaiting()
}

// take takes in a twin that both the kernel that forks it and itself say is there.
func (t *twins) take(n *twin) {
	if !n.forked || !n.ready {
		return
	}
	t.coming = slices.DeleteFunc(t.coming, func(o *twin) bool { return o == n })
	if r := n.run; r != nil {
		n.run = nil
		if t.l.s.runs.all[r.ID] != r || r.kernel != nil { // it is over meanwhile
			n.discard()
			return
		}
		r.born = n.born
		procs.RaiseOOMScore(n.pid, olderScore)
		t.l.s.runs.adopt(r, n.kernel)
		r.startTimeout()
		return
	}
	t.why = ""
	t.keep(n)
}

// refuse is called where no twin can be made: the run that it was for fails, or the server hears why.
func (t *twins) refuse(r *run, why string) {
	if r == nil {
		t.why = why
		t.l.sendRestorable(false)
		t.measure()
	} else if t.l.s.runs.all[r.ID] == r && r.kernel == nil {
		r.finish(&protocol.Done{Status: "failed", ExitCode: 1, Kernel: r.fate(""), Error: copyError(why)})
	}
}

func copyError(why string) *protocol.Error {
	return &protocol.Error{Name: "CopyError", Message: "the variables could not be copied: " + why + "; a run with fresh: true needs no copy"}
}

// refuseWaiting fails the runs that wait for a copy of lost variables: they did not ask for others.
func (t *twins) refuseWaiting(why string) {
	for _, r := range t.l.s.runs.all {
		if r.Copy && r.l == t.l {
			t.refuse(r, why)
		}
	}
}

func (t *twins) keep(n *twin) {
	t.kept = append(t.kept, n)
	for len(t.kept) > t.l.s.settings.Twins && t.dropOldest() {
	}
	t.score()
	t.l.told = nil // also where the lists are as they were, this is of other variables
	t.l.sendRestorable(false)
	t.measure()
}

// keepCopy keeps the kernel of a finished run with copy.
func (t *twins) keepCopy(r *run) {
	k := r.kernel
	k.moment = &moment{run: r.ID}
	t.keep(&twin{kernel: k, born: r.born, at: time.Now(), isCopy: true})
}

// dropOldest ends the oldest twin, except the newest one that is no copy, and reports whether there was one: many copies must
// not cost the variables to keep if the kernel is killed.
func (t *twins) dropOldest() bool {
	newest := t.newest()
	at := slices.IndexFunc(t.kept, func(n *twin) bool { return n != newest })
	if at < 0 {
		return false
	}
	t.drop(t.kept[at])
	return true
}

func (t *twins) drop(n *twin) {
	t.kept = slices.DeleteFunc(t.kept, func(o *twin) bool { return o == n })
	n.discard()
	if t.abandon(n.kernel) {
		go t.l.s.post(t.l.s.runs.provideWaiting) // this is the loop, which would wait for itself
	}
}

// dropAll ends all that are kept.
func (t *twins) dropAll() {
	for len(t.kept) > 0 {
		t.drop(t.kept[0])
	}
	t.l.sendRestorable(false)
}

// abandon gives up those that a kernel which ends was to fork, and reports whether there were any.
func (t *twins) abandon(k *kernel) bool {
	before := len(t.coming)
	t.coming = slices.DeleteFunc(t.coming, func(n *twin) bool {
		if n.from == k {
			n.discard()
		}
		return n.from == k
	})
	return len(t.coming) < before
}

// release ends the oldest twin and reports whether there was one to end. The newest stays: it
// keeps the variables if the kernel is killed, and takes hardly any memory until the kernel writes to its own.
func (t *twins) release() bool {
	if !t.dropOldest() {
		return false
	}
	t.l.sendRestorable(false)
	return true
}

// dropHolders ends the twins that hold deleted files: code may have closed those since. It reports whether there were any.
func (t *twins) dropHolders() bool {
	held := false
	for _, n := range slices.Clone(t.kept) {
		if volume.Holds(t.l.s.workDir.fd(), n.pid) {
			held = true
			t.drop(n)
		}
	}
	t.l.sendRestorable(false)
	return held
}

// newest returns the one that goes on where the main kernel is killed, or nil.
func (t *twins) newest() *twin {
	for _, n := range slices.Backward(t.kept) {
		if !n.isCopy && !n.isEnding() {
			return n
		}
	}
	return nil
}

// onReady is called when a kernel reports that it is there.
func (t *twins) onReady(k *kernel) {
	if n := of(t.coming, k); n != nil {
		t.take(n)
	}
}

// lose forgets an ended twin, and reports whether it was one.
func (t *twins) lose(k *kernel) bool {
	if n := of(t.coming, k); n != nil {
		t.loseComing(n)
		return true
	}
	n := of(t.kept, k)
	if n == nil {
		return false
	}
	t.drop(n)
	if main := t.l.main; !n.isCopy && main != nil && n.moment == main.moment {
		t.why = "the copy was killed"
		t.want()
	}
	t.l.sendRestorable(false)
	return true
}

// loseComing forgets a twin that ended before it was taken in, once its parent reported it.
func (t *twins) loseComing(n *twin) {
	n.lost = true
	if n.forked {
		t.coming = slices.DeleteFunc(t.coming, func(o *twin) bool { return o == n })
		n.discard()
		t.refuse(n.run, "the copy was killed")
	}
}

func of(all []*twin, k *kernel) *twin {
	for _, n := range all {
		if n.kernel == k {
			return n
		}
	}
	return nil
}

// discard ends a kernel that nothing is waited for from.
func (k *kernel) discard() {
	k.end()
	procs.Signal(k.pid, syscall.SIGKILL)
	k.closePipes()
}

// score makes the OOM killer take the older ones first.
func (t *twins) score() {
	newest := t.newest()
	for _, n := range t.kept {
		score := olderScore
		if n == newest {
			score = newestScore
		}
		procs.RaiseOOMScore(n.pid, score)
	}
	if t.l.main != nil {
		t.l.main.score()
	}
}

// score makes the OOM killer take a kernel before its newest twin and, while a run is in it, before those of other languages.
func (k *kernel) score() {
	score := 0
	if k.l.twins.newest() != nil || k.asleep {
		score = mainScore
	}
	if k.l.kept != nil && len(k.l.s.languages) > 1 {
		score = busyScore
	}
	if k == k.l.main && score != k.scored {
		k.scored = score
		procs.RaiseOOMScore(k.pid, score)
	}
}

// measure ends the oldest twins while all of them take more memory than they may. Most often the container's account shows that
// they do not; else it looks at each, beside the loop: that takes some 10 ms a twin.
func (t *twins) measure() {
	main := t.l.main
	most := t.l.s.settings.TwinBytes
	if len(t.kept) < 2 || main == nil || most <= 0 || int64(len(t.kept))*procs.Anonymous(main.pid) <= most {
		return
	}
	if t.l.s.memory.beside(main.pid) <= most {
		return
	}
	oldest, pid := t.kept[0], main.pid
	var pids []int
	for _, n := range t.kept {
		pids = append(pids, n.pid)
	}
	go func() {
		taken := procs.Beside(pid, pids)
		t.l.s.post(func() {
			if taken > most && len(t.kept) > 1 && t.kept[0] == oldest {
				t.drop(oldest)
				t.l.sendRestorable(false)
				t.measure()
			}
		})
	}()
}

// list returns the runs that are over and whose beginning can be gone back to, and the copies.
func (t *twins) list() (runs, copies []string) {
	runs, copies = []string{}, []string{}
	for _, n := range t.kept {
		if n.isCopy {
			copies = append(copies, n.moment.run)
			continue
		}
		runs = append(runs, n.moment.over(t.l)...)
	}
	return runs, copies
}

func (t *twins) isComing(r *run) bool {
	return slices.ContainsFunc(t.coming, func(n *twin) bool { return n.run == r })
}
