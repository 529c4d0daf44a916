//go:build linux

package kernels

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const mostBefore = 8 // known runs that began with the same variables

// past keeps earlier variables of a language, and goes back to them: in twins where kernels can be forked, else in snapshots.
type past struct {
	l         *Language
	twins     *twins
	snapshots *snapshots
	pins      *pins
	told      []byte    // which variables can be gone back to
	first     *moment   // the state of a new kernel before its first run; nil: it is too long ago
	unkept    []*moment // of the last runs' beginnings, those without a copy
	looked    []string  // the last runs that changed no variable, as is known
}

func newPast(l *Language) *past {
	return &past{l: l, twins: &twins{l: l}, snapshots: &snapshots{l: l}, pins: &pins{l: l, why: map[string]string{}}}
}

// moment is a state of the variables. The kernels with that state share it.
type moment struct {
	run    string   // the run before it; empty: none began
	before []string // the runs that began here: several after a restore
	pins   []string // the keys of the checkpoints that were made here
	why    string   // there is no copy of it
	digest string   // of what was written of it; empty: not known
	since  string   // that of the moment before
	lost   []protocol.Lost
	total  int // of lost: what the kernel lacks that has read it
}

func (m *moment) begin(run string) {
	if !slices.Contains(m.before, run) {
		m.before = append(m.before[max(0, len(m.before)-mostBefore+1):], run)
	}
}

// isBefore reports whether a run began here, or a checkpoint of this key was made.
func (m *moment) isBefore(run string) bool {
	return m != nil && (slices.Contains(m.before, run) || slices.Contains(m.pins, run))
}

// over lists the runs that began here and are over.
func (m *moment) over(l *Language) (runs []string) {
	if m == nil {
		return nil
	}
	for _, id := range m.before {
		if l.kept == nil || l.kept.Asked().ID != id {
			runs = append(runs, id)
		}
	}
	return runs
}

// obstacle says why the variables cannot be exchanged now.
func (p *past) obstacle() string {
	switch {
	case p.l.kept != nil:
		return "a run goes on in this kernel"
	case p.l.frozen.kernel != nil, p.l.set.retiring, p.pins.isWriting(p.l.main):
		return "the variables are being written"
	case p.l.frozen.waking != nil, p.snapshots.reading != nil:
		return "the variables are being read"
	}
	return ""
}

// isBefore reports whether the variables are those from before a run.
func (p *past) isBefore(run string) bool {
	if p.l.main == nil || !p.l.main.begun {
		return p.first.isBefore(run)
	}
	return !p.l.main.isEnding() && p.l.main.moment.isBefore(run)
}

// Target is what variables go back to: that before a run, its copy, or a checkpoint.
type Target struct {
	Run string        // or the key of the checkpoint
	Pin *versions.Pin // nil: it is a run
}

// isNew reports whether the language had no variables at a checkpoint.
func (t Target) isNew(l *Language) bool {
	return t.Pin != nil && !slices.Contains(t.Pin.Languages, l.Name)
}

// Obstacle says why the variables can be neither kept nor exchanged now.
func (p *past) Obstacle() string { return p.obstacle() }

// CannotGoBack says what stands for good against the variables' way back.
func (p *past) CannotGoBack(to Target) (why string) {
	run := to.Run
	if to.isNew(p.l) || p.isBefore(run) || p.first.isBefore(run) || p.twins.find(run) != nil || p.written(to) != nil {
		return ""
	}
	if to.Pin != nil {
		return cmp.Or(p.pins.why[run], "the variables of this checkpoint are no longer kept")
	}
	why = "no copy of the variables from before this run is kept"
	for _, m := range p.unkept {
		if m.isBefore(run) {
			return why + ": " + m.why
		}
	}
	if now := p.noCopy(); now != "" {
		why += "; there is none of the present ones either: " + now
	}
	return why
}

// written returns the file with the variables; nil: there is none.
func (p *past) written(to Target) *snapshot {
	if n := p.snapshots.find(to.Run); n != nil || to.Pin == nil {
		return n
	}
	name := p.pins.file(to.Pin.Next)
	if !p.l.set.Dir.HasState(name) {
		return nil
	}
	return &snapshot{moment: &moment{run: to.Pin.After, pins: []string{to.Run}}, name: name, at: time.UnixMilli(to.Pin.AtMS)}
}

// restDelay is when a kernel that was gone back to is copied, unless a run comes first: behind the answer, and what is asked about it.
const restDelay = 50 * time.Millisecond

// Way is a way back of a language's variables that is prepared: nothing has changed yet. Take or Drop ends it.
type Way struct {
	*Language
	to   Target
	twin *twin
	read *comeback // has read them already
}

// Prepare makes ready what exchanges the variables for earlier ones. over gets that, or why it cannot be.
func (p *past) Prepare(to Target, over func(w *Way, why string)) {
	w := &Way{Language: p.l, to: to}
	switch file := p.written(to); {
	case p.isBefore(to.Run) || to.isNew(p.l):
	case p.twins.find(to.Run) != nil:
		w.twin = p.twins.find(to.Run)
	case file != nil:
		p.snapshots.read(file, func(c *comeback, why string) {
			w.read = c
			over(w, why)
		})
		return
	}
	over(w, p.CannotGoBack(to))
}

// Gone says why there is no such way any more.
func (w *Way) Gone() string {
	if w.twin != nil && w.twins.find(w.to.Run) != w.twin || w.read != nil && w.snapshots.reading != w.read {
		return "the kernel with the variables of " + w.Name + " has ended"
	}
	return ""
}

// Drop leaves the variables as they are.
func (w *Way) Drop() {
	if c := w.read; c != nil && w.snapshots.reading == c {
		w.snapshots.reading = nil
		c.kernel.discard()
	}
}

// Take exchanges the variables, and returns those that are lost.
func (w *Way) Take() (lost []protocol.Lost, total int) {
	switch {
	case w.twin != nil:
		w.endFormer(w.twins.goTo(w.twin))
		w.set.After(restDelay, func() {
			if w.obstacle() == "" {
				w.want()
			}
		})
	case w.read != nil:
		w.snapshots.take(w.read)
	case w.isBefore(w.to.Run):
	default:
		if w.to.isNew(w.Language) {
			w.set.Dir.DropState(w.frozen.name())
		}
		w.beginAnew()
	}
	if w.main == nil {
		return nil, 0
	}
	return w.main.moment.lost, w.main.moment.total
}

// Enter has the living kernels enter their current folders by name: these may be other ones now. over gets what is not there any more.
func (s *Set) Enter(over func(gone []protocol.Lost)) {
	a := &entering{left: 1, over: over}
	for _, l := range s.languages {
		if k := l.main; k != nil && !k.isEnding() && (k.begun || k.awake) {
			a.left++
			k.entering = a
			k.link.Send(map[string]any{"type": "enter"})
		}
	}
	s.After(describeTime, a.end)
	a.onEntered("", "")
}

// entering is a wait for kernels that enter their folders.
type entering struct {
	left int
	gone []protocol.Lost
	over func(gone []protocol.Lost)
}

func (a *entering) onEntered(language, why string) {
	if why != "" {
		a.gone = append(a.gone, protocol.Lost{Name: "the current folder of " + language, Why: why})
	}
	if a.left--; a.left == 0 {
		a.end()
	}
}

func (a *entering) end() {
	if over := a.over; over != nil {
		a.over = nil
		over(a.gone)
	}
}

// noteLooked keeps a run that changed no variable.
func (p *past) noteLooked(run string) {
	p.looked = append(p.looked[max(0, len(p.looked)-mostBefore+1):], run)
}

// beginAnew leaves the next run to a new kernel.
func (p *past) beginAnew() {
	former := p.l.main
	if former == nil || !former.begun && !former.woken {
		return // that is one
	}
	p.l.main = nil
	p.snapshots.giveWay()
	p.twins.abandon(former)
	p.endFormer(append(p.twins.dropNewer(time.Time{}), former))
	p.l.reserve.want()
}

// endFormer ends replaced kernels with their programs.
func (p *past) endFormer(ended []*Kernel) {
	for _, k := range ended {
		k.giveWay()
	}
	procs.MustKill(p.l.Programs) // they count as programs now: their children are known by the parent
	for _, k := range ended {
		k.discard()
		p.l.frozen.onEnd(k, "its variables were gone back from")
	}
	p.l.set.provideWaiting()
}

// want keeps the idle main kernel's variables, so that they can be gone back to, and reports whether a copy is on its way.
func (p *past) want() bool {
	if p.l.HasZygote {
		return p.twins.want()
	}
	return p.snapshots.want()
}

// IsCopying reports whether a run should wait until there is a copy of the present variables. A new kernel's need none.
func (p *past) IsCopying() bool {
	k := p.l.main
	return k != nil && k.begun && k.moment.why == "" && p.obstacle() == "" && p.want()
}

// GiveUpCopy is called when a run does not wait any longer.
func (p *past) GiveUpCopy() {
	if p.IsCopying() {
		p.l.main.moment.why = "the kernel did not make it in time"
	}
}

// onCopy is called when there is one more copy.
func (p *past) onCopy(kept int) {
	if kept >= p.l.set.Settings.Twins {
		p.first = nil
	}
	p.told = nil // also where the lists are as they were, this is of other variables
	p.Tell(false)
}

// noCopy says why there is no copy of the present variables.
func (p *past) noCopy() string {
	k := p.l.main
	if k == nil || !k.begun || p.l.kept != nil || p.twins.has(k.moment) || p.snapshots.of(k.moment) != nil {
		return ""
	}
	if !p.l.HasZygote && p.l.set.Settings.UndoBytes <= 0 {
		return "nothing is kept to undo runs here (--undo-limit)"
	}
	return cmp.Or(k.moment.why, "it is being made")
}

// begin is called when a run begins in the main kernel.
func (p *past) begin(k *Kernel, run string) {
	if !k.begun {
		if p.first != nil {
			k.moment.before = append(k.moment.before, p.first.before...)
		}
		p.first = k.moment
	}
	k.moment.begin(run)
	if k.moment.why != "" && !slices.Contains(p.unkept, k.moment) {
		p.unkept = append(p.unkept[max(0, len(p.unkept)-mostBefore+1):], k.moment)
	}
}

// isCutBySignals reports whether a kernel writes its variables that a signal would end; interrupts are repeated.
func (p *past) isCutBySignals() bool { return p.l.KillsPrograms && p.snapshots.writing != nil }

// Restorable lists the ended runs whose beginning can be restored, and the copies.
func (p *past) Restorable() (runs, copies []string) {
	runs, copies = []string{}, []string{}
	moments := []*moment{p.first}
	for _, n := range p.snapshots.kept {
		moments = append(moments, n.moment)
	}
	for _, n := range p.twins.kept {
		if n.isCopy {
			copies = append(copies, n.moment.run)
		} else if n.moment != p.first {
			moments = append(moments, n.moment)
		}
	}
	for _, m := range moments {
		runs = append(runs, m.over(p.l)...)
	}
	return runs, copies
}

// Tell sends the restorable runs if they changed, or always if again is set.
func (p *past) Tell(again bool) {
	if !p.l.set.Settings.AreKnown() || p.l.set.Settings.Twins == 0 {
		return
	}
	m := protocol.Twins{Type: "twins", Language: p.l.Name, Why: p.noCopy()}
	m.Runs, m.Copies = p.Restorable()
	m.Looked = p.looked
	if p.l.main != nil {
		present := p.snapshots.of(p.l.main.moment)
		m.Present = present != nil
	}
	body, _ := json.Marshal(m)
	if again && p.told != nil || !again && !bytes.Equal(body, p.told) {
		p.told = body
		p.l.set.Server.SendBody(body, false)
	}
}

// goOn is called when the main kernel is dead: a twin takes its place, or the runs that wait for a copy of it fail.
func (p *past) goOn(k *Kernel, cause string) {
	p.twins.goOn(k)
	if p.l.main == nil && (k.begun || k.woken) {
		p.twins.refuseWaiting("the kernel with them has ended: " + cause)
	}
}

// kernels are those that wait with earlier variables, or are to.
func (p *past) kernels() (all []*Kernel) {
	for _, n := range slices.Concat(p.twins.kept, p.twins.coming) {
		all = append(all, n.Kernel)
	}
	all = append(all, p.pins.forks()...)
	if c := p.snapshots.reading; c != nil {
		all = append(all, c.kernel)
	}
	return all
}

// Reopened is the kernel that has its open files from before, as its variables went back; 0 where it has read those.
func (p *past) Reopened() (pid int) {
	if p.l.HasZygote && p.l.main != nil {
		pid = p.l.main.pid
	}
	return pid
}

// Snapshots: the variables of a kernel that cannot be forked, in a file behind each of its last runs ----------------------

const (
	// snapshotShare of the room that is left is the most that one takes.
	snapshotShare = 8
	// snapshotSeconds of the processor bound its writing, which the next run waits for.
	snapshotSeconds = 0.05
)

// snapshots keeps the earlier variables of a language without twins. None is written during a run.
type snapshots struct {
	l       *Language
	kept    []*snapshot // the oldest first
	failed  bool        // the last one
	writing *snapshot   // that the main kernel is to report
	reading *comeback
}

// snapshot is one of them.
type snapshot struct {
	*moment
	name string    // of the file in the state folder
	from *Kernel   // that writes it
	at   time.Time // of a checkpoint
}

// comeback is a kernel that reads a snapshot, to take the main kernel's place.
type comeback struct {
	kernel *Kernel
	to     *snapshot
	limit  *loop.Timer
	over   func(c *comeback, why string)
	isRead bool
}

// clear removes what an earlier container has left.
func (t *snapshots) clear() { t.l.set.Dir.DropState(t.names()...) }

// names are those of all files: of the snapshots that are kept, and of one that is written.
func (t *snapshots) names() (names []string) {
	for n := range t.l.set.Settings.Twins + 1 {
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

// of returns the snapshot of a moment, or nil.
func (t *snapshots) of(m *moment) *snapshot {
	for _, n := range t.kept {
		if n.moment == m {
			return n
		}
	}
	return nil
}

// want has a snapshot of the present variables written unless there is one, and reports whether that goes on.
func (t *snapshots) want() bool {
	main, settings := t.l.main, t.l.set.Settings
	if settings.Twins == 0 || settings.UndoBytes <= 0 || main == nil || main.isEnding() || !main.begun || t.l.obstacle() != "" || t.of(main.moment) != nil {
		return false
	}
	if t.writing == nil && main.moment.why == "" {
		t.write(main)
	}
	return t.writing != nil
}

func (t *snapshots) write(main *Kernel) {
	room, why := t.l.frozen.room(t.l.set.Settings.SnapshotBytes * snapshotShare)
	if why != "" {
		t.refuse(main.moment, why)
		return
	}
	t.writing = &snapshot{moment: main.moment, name: t.free(), from: main}
	main.link.Send(map[string]any{
		"type": "freeze", "path": t.l.set.Dir.StateFile(t.writing.name), "limit_bytes": room / snapshotShare, "seconds": snapshotSeconds, "quick": true,
	})
}

func (t *snapshots) keep(n *snapshot) {
	n.why = ""
	t.kept = append(t.kept, n)
	for len(t.kept) > t.l.set.Settings.Twins {
		t.drop(t.kept[0])
	}
	t.l.onCopy(len(t.kept))
}

// onFrozen takes a kernel's report of a snapshot, and reports whether it is one.
func (t *snapshots) onFrozen(k *Kernel, m *kernelproc.Report) bool {
	n := t.writing
	if n == nil || n.from != k {
		return false
	}
	t.writing = nil
	again := !t.failed // the first one takes longer than the next
	t.failed = m.Why != ""
	switch {
	case t.failed && again:
		t.write(k)
		return true
	case t.failed:
		t.refuse(n.moment, bounds.Clean(m.Why, bounds.MaxNamed))
		return true
	}
	n.from, n.digest = nil, bounds.Clean(m.Digest, bounds.MaxNamed)
	if n.digest != "" && n.digest == n.since && m.LostTotal == 0 {
		t.l.noteLooked(n.run)
	}
	t.keep(n)
	return true
}

func (t *snapshots) refuse(m *moment, why string) {
	m.why = why
	t.l.Tell(false)
}

func (t *snapshots) drop(n *snapshot) {
	t.kept = slices.DeleteFunc(t.kept, func(o *snapshot) bool { return o == n })
	t.l.set.Dir.DropState(n.name)
}

// giveWay drops all, as the work directory is full, and reports whether there was a file.
func (t *snapshots) giveWay() (freed bool) {
	for len(t.kept) > 0 {
		freed = true
		t.drop(t.kept[0])
	}
	t.l.Tell(false)
	return freed
}

// find returns the snapshot from before a run; nil: there is none.
func (t *snapshots) find(run string) *snapshot {
	for _, n := range t.kept {
		if n.isBefore(run) {
			return n
		}
	}
	return nil
}

// read has a kernel read a snapshot, which take lets go on in the main kernel's place. over gets it, or why there is none.
func (t *snapshots) read(n *snapshot, over func(c *comeback, why string)) {
	l := t.l
	k := l.main
	if k != nil && !k.begun && !k.woken && !k.isEnding() {
		l.use()
		l.main = nil // it has imported what the reserve is still to
	} else {
		k = l.reserve.take()
	}
	if k == nil {
		var err error
		if k, err = l.spawn(); err != nil {
			over(nil, "no interpreter could be started: "+err.Error())
			return
		}
	}
	t.reading = &comeback{kernel: k, to: n, over: over, limit: l.set.After(l.frozen.patience()+coldStart, func() { k.Kill("") })}
	k.link.Send(map[string]any{"type": "wake", "path": l.set.Dir.StateFile(n.name), "seconds": l.set.Settings.FreezeSeconds, "enters": true})
	l.reserve.prepare()
}

// onWoken takes a kernel's report that it has read a snapshot, and reports whether it is one.
func (t *snapshots) onWoken(k *Kernel, m *kernelproc.Report) bool {
	c := t.reading
	if c == nil || c.kernel != k || c.isRead {
		return false
	}
	c.limit.Stop()
	if m.Why != "" {
		t.reading = nil
		k.discard()
		c.over(nil, bounds.Clean(m.Why, bounds.MaxNamed))
		return true
	}
	c.isRead = true
	k.begun, k.woken, k.awake, k.asleep = true, true, true, true
	k.moment = c.to.moment
	k.moment.lost, k.moment.total = lostOf(m)
	c.over(c, "")
	return true
}

// take lets a kernel go on that has read a snapshot.
func (t *snapshots) take(c *comeback) {
	t.reading = nil
	t.replace(c.kernel, c.to)
}

// lose is called when a kernel is dead, and reports whether it was to read a snapshot.
func (t *snapshots) lose(k *Kernel, cause string) bool {
	if t.writing != nil && t.writing.from == k {
		t.writing = nil
	}
	c := t.reading
	if c == nil || c.kernel != k {
		return false
	}
	t.reading = nil
	c.limit.Stop()
	if !c.isRead {
		c.over(nil, "the kernel ended over them: "+cause)
	}
	return true
}

// replace makes k the main kernel, ends the one before with its programs, and forgets newer snapshots and twins.
func (t *snapshots) replace(k *Kernel, n *snapshot) {
	ended := t.l.twins.dropNewer(n.at)
	for last := len(t.kept) - 1; last >= 0 && t.kept[last] != n; last = len(t.kept) - 1 {
		t.drop(t.kept[last])
	}
	former := t.l.main
	t.l.main, t.writing = k, nil
	if former != nil {
		t.l.twins.abandon(former)
		ended = append(ended, former)
	}
	if len(ended) > 0 {
		t.l.endFormer(ended)
	}
	t.l.reserve.want()
}
