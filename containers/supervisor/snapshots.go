//go:build linux

// Snapshots: the variables of a kernel that cannot be forked, in a file behind each of its last runs.

package main

import (
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
)

const (
	// snapshotBytes bounds one, and each takes at most an eighth of the room that is left.
	snapshotBytes = 16 << 20
	// snapshotSeconds of the processor bound its writing, which a run that begins meanwhile waits for.
	snapshotSeconds = 0.05
	// snapshotRest is behind how many runs none is tried after two that failed behind one run, or a large one that took snapshotSlow.
	snapshotRest  = 5
	snapshotSlow  = 200 * time.Millisecond
	snapshotLarge = 1 << 20
)

// snapshots keeps the earlier variables of a language without twins. None is written during a run.
type snapshots struct {
	l       *language
	kept    []*snapshot // the oldest first
	why     string      // there is none of the present variables
	rest    int         // runs without one
	again   bool        // it was tried a second time behind this run
	timer   *timer
	writing *snapshot // that the main kernel is to report
	reading *comeback
}

// snapshot is one of them.
type snapshot struct {
	*moment
	name string  // of the file in the state folder; empty: the variables of a new kernel
	from *kernel // that writes it
	at   time.Time
}

// comeback is a kernel that reads a snapshot, to take the main kernel's place.
type comeback struct {
	kernel *kernel
	to     *snapshot
	limit  *timer
	over   func(m *kernelproc.Report, why string)
}

// clear removes what an earlier container has left.
func (t *snapshots) clear() {
	if t.l.HasZygote {
		return
	}
	folder, err := t.l.frozen.openFolder()
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(folder) }()
	for _, name := range t.names() {
		_ = unix.Unlinkat(folder, name, 0)
	}
}

// names are those of all files: of the snapshots that are kept, and of one that is written.
func (t *snapshots) names() (names []string) {
	for n := range t.l.s.settings.Twins + 1 {
		names = append(names, t.l.Name+filewire.SnapshotMark+strconv.Itoa(n+1))
	}
	return names
}

// free returns the name of a file that no snapshot has.
func (t *snapshots) free() string {
	names := slices.DeleteFunc(t.names(), func(name string) bool {
		return slices.ContainsFunc(t.kept, func(n *snapshot) bool { return n.name == name })
	})
	return names[0]
}

// path is relative to the work directory.
func (n *snapshot) path() string { return stateFolder + "/" + n.name }

// of returns the snapshot of a moment, or nil.
func (t *snapshots) of(m *moment) *snapshot {
	for _, n := range t.kept {
		if n.moment == m {
			return n
		}
	}
	return nil
}

// want writes a snapshot once the main kernel is idle for a moment.
func (t *snapshots) want() {
	if most := t.l.s.settings.Twins; most > 0 && t.l.s.settings.UndoBytes > 0 {
		t.timer.stop()
		t.again = false
		t.timer = t.l.s.after(twinDelay, t.write)
	}
}

func (t *snapshots) write() {
	main := t.l.main
	if t.l.kept != nil || main == nil || main.isEnding() || !main.begun || t.writing != nil || t.reading != nil || t.l.frozen.kernel != nil {
		return
	}
	if t.of(main.moment) != nil {
		return
	}
	if t.rest > 0 {
		t.rest--
		if t.why == "" {
			t.refuse("they take too long to be written behind each run")
		}
		return
	}
	room, why := t.l.frozen.room()
	if why != "" {
		t.refuse(why)
		return
	}
	t.writing = &snapshot{moment: main.moment, name: t.free(), from: main, at: time.Now()}
	main.link.Send(map[string]any{
		"type": "freeze", "path": t.writing.path(), "limit_bytes": min(room/8, snapshotBytes), "seconds": snapshotSeconds, "quick": true,
	})
}

// begin keeps the state before a kernel's first run, which another new kernel has as well.
func (t *snapshots) begin(k *kernel) {
	if !k.begun && t.of(k.moment) == nil {
		t.keep(&snapshot{moment: k.moment})
	}
}

func (t *snapshots) keep(n *snapshot) {
	t.why = ""
	t.kept = append(t.kept, n)
	for len(t.kept) > t.l.s.settings.Twins {
		t.drop(t.kept[0])
	}
	t.l.told = nil // also where the lists are as they were, this is of other variables
	t.l.sendRestorable(false)
}

// onFrozen takes a kernel's report of a snapshot, and reports whether it is one.
func (t *snapshots) onFrozen(k *kernel, m *kernelproc.Report) bool {
	n := t.writing
	if n == nil || n.from != k {
		return false
	}
	t.writing = nil
	if m.Why != "" {
		t.refuse(clean(m.Why, maxWhy))
		if t.again {
			t.rest = snapshotRest
		} else { // the first one takes longer than the next
			t.again = true
			t.timer = t.l.s.after(twinAgain, t.write)
		}
		return true
	}
	if m.Bytes > snapshotLarge && time.Since(n.at) > snapshotSlow {
		t.rest = snapshotRest
	}
	n.from = nil
	t.keep(n)
	return true
}

func (t *snapshots) refuse(why string) {
	t.why = why
	t.l.sendRestorable(false)
}

// onFileFrozen is called when the frozen file was written: a new kernel no longer has the variables from before the first run.
func (t *snapshots) onFileFrozen() {
	t.kept = slices.DeleteFunc(t.kept, func(n *snapshot) bool { return n.name == "" })
	t.l.sendRestorable(false)
}

func (t *snapshots) drop(n *snapshot) {
	t.kept = slices.DeleteFunc(t.kept, func(o *snapshot) bool { return o == n })
	if n.name == "" {
		return
	}
	if folder, err := t.l.frozen.openFolder(); err == nil {
		_ = unix.Unlinkat(folder, n.name, 0)
		_ = unix.Close(folder)
	}
}

// giveWay drops all, as the work directory is full, and reports whether there was a file.
func (t *snapshots) giveWay() (freed bool) {
	for len(t.kept) > 0 {
		freed = freed || t.kept[0].name != ""
		t.drop(t.kept[0])
	}
	t.l.sendRestorable(false)
	return freed
}

func (t *snapshots) list() []string {
	runs := []string{}
	for _, n := range t.kept {
		runs = append(runs, n.over(t.l)...)
	}
	return runs
}

// find returns the snapshot from before a run, or neither it nor an error if the variables are still those.
func (t *snapshots) find(run string) (*snapshot, string) {
	if why := t.l.obstacle(); why != "" {
		return nil, why
	}
	if t.l.isBefore(run) {
		return nil, ""
	}
	for _, n := range t.kept {
		if slices.Contains(n.before, run) {
			return n, ""
		}
	}
	return nil, noCopy(t.why)
}

// goTo has a kernel read a snapshot and take the main kernel's place. over gets its report, or why nothing has changed.
func (t *snapshots) goTo(n *snapshot, over func(m *kernelproc.Report, why string)) {
	l := t.l
	if n.name == "" {
		t.replace(nil, n)
		over(nil, "")
		return
	}
	k := l.reserve.take()
	if k == nil {
		var err error
		if k, err = l.spawn(); err != nil {
			over(nil, "no interpreter could be started: "+err.Error())
			return
		}
	}
	t.reading = &comeback{kernel: k, to: n, over: over, limit: l.s.after(l.frozen.patience()+coldStart, func() { k.kill("") })}
	k.link.Send(map[string]any{"type": "wake", "path": n.path(), "seconds": l.s.settings.FreezeSeconds})
	l.reserve.prepare()
}

// onWoken takes a kernel's report that it has read a snapshot, and reports whether it is one.
func (t *snapshots) onWoken(k *kernel, m *kernelproc.Report) bool {
	c := t.reading
	if c == nil || c.kernel != k {
		return false
	}
	t.reading = nil
	c.limit.stop()
	if m.Why != "" {
		k.discard()
		c.over(nil, clean(m.Why, maxNamed))
		return true
	}
	k.begun, k.woken, k.awake, k.asleep = true, true, true, true
	k.moment = c.to.moment
	t.replace(k, c.to)
	c.over(m, "")
	return true
}

// lose is called when a kernel is dead, and reports whether it was to read a snapshot.
func (t *snapshots) lose(k *kernel, cause string) bool {
	if t.writing != nil && t.writing.from == k {
		t.writing = nil
	}
	c := t.reading
	if c == nil || c.kernel != k {
		return false
	}
	t.reading = nil
	c.limit.stop()
	c.over(nil, "the kernel ended over them: "+cause)
	return true
}

// replace makes k the main kernel, ends the one before with its programs, and forgets newer snapshots. Without k, the next run gets a
// new kernel, and the state before that is kept again.
func (t *snapshots) replace(k *kernel, n *snapshot) {
	for last := len(t.kept) - 1; last >= 0 && t.kept[last] != n; last = len(t.kept) - 1 {
		t.drop(t.kept[last])
	}
	if k == nil {
		t.drop(n)
	}
	former := t.l.main
	t.l.main, t.writing = k, nil
	if former != nil {
		t.l.endFormer([]*kernel{former})
	}
	t.l.reserve.want()
}
