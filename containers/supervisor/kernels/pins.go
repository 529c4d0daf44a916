//go:build linux

package kernels

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	// writerNice is the priority of a fork that writes: it takes a quarter of a processor from code that wants it all, so it has more time.
	writerNice = 5
	writerTime = 3 // times what a kernel has that others wait for
)

// pins keeps the variables of a language at checkpoints: each in a file, which a fork of the twin writes beside later runs, and in that twin
// while there is room.
type pins struct {
	l       *Language
	writing []*writing
	waiting []func()          // called when nothing is written any more
	why     map[string]string // there is no file, by the checkpoint's key
}

// writing is a file of variables that is being made.
type writing struct {
	t      *pins
	key    string
	name   string // of the file
	room   int64
	by     *Kernel // nil: it is still to be forked
	forked bool
	limit  *loop.Timer
	over   func(lost []protocol.Lost, total int, why string) // nil: nobody waits
}

func (t *pins) file(number int) string {
	return t.l.Name + filewire.CheckpointMark + strconv.Itoa(number)
}

// pin keeps the variables of a checkpoint. over gets what is not kept, or why nothing is. No run may begin meanwhile.
func (t *pins) pin(p versions.Pin, over func(lost []protocol.Lost, total int, why string)) {
	l, main, key, name := t.l, t.l.main, p.Key(), t.file(p.Next)
	if main == nil || !main.begun { // they are as they were written last
		over(nil, 0, t.link(l.frozen.name(), name))
		return
	}
	main.moment.pins = append(main.moment.pins, key)
	if n := l.snapshots.of(main.moment); n != nil {
		over(nil, 0, t.link(n.name, name))
		return
	}
	most := int64(0)
	if l.set.Settings.SnapshotBytes > 0 {
		most = l.set.Settings.UndoBytes
	}
	pending := int64(0)
	for _, other := range l.set.languages {
		for _, w := range other.pins.writing {
			pending += w.room
		}
	}
	room, why := int64(0), "variables are not kept"
	if most > 0 {
		room, why = l.frozen.room(most + pending)
	}
	if room = min(most, room-pending); room <= 0 && why == "" {
		why = "the work directory is full"
	}
	in := slices.IndexFunc(l.twins.kept, func(n *twin) bool { return n.moment == main.moment && !n.isCopy })
	if why != "" {
		t.why[key] = "they were in memory alone, because " + why
		if in >= 0 {
			over([]protocol.Lost{{Name: "variables of " + l.Name, Why: "kept in memory alone, because " + why}}, 1, "")
		} else {
			over(nil, 0, why)
		}
		return
	}
	w := &writing{t: t, key: key, name: name, room: room, forked: in >= 0}
	t.writing = append(t.writing, w)
	w.limit = l.set.After(writerTime*l.frozen.patience(), func() { t.conclude(w, nil, 0, "that took too long") })
	if !w.forked {
		w.over = over
		w.send(main)
		return
	}
	if n := l.twins.kept[in]; !l.twins.fork(&twin{writes: w, from: n.Kernel, born: n.born, at: n.at}, main.moment) {
		t.conclude(w, nil, 0, "no socket could be made")
	}
	over(nil, 0, "")
}

// link gives variables that were written the name of a checkpoint's.
func (t *pins) link(from, to string) (why string) {
	if err := t.l.set.Dir.LinkState(from, to); err != nil {
		return "their file cannot be used: " + err.Error()
	}
	return ""
}

// send asks a kernel to write.
func (w *writing) send(k *Kernel) {
	w.by = k
	settings := w.t.l.set.Settings
	k.link.Send(map[string]any{"type": "freeze", "path": w.t.l.set.Dir.StateFile(w.name), "limit_bytes": w.room, "seconds": writerTime * settings.FreezeSeconds})
}

// take has a fork write, unless that is over meanwhile.
func (t *pins) take(n *twin) {
	if !slices.Contains(t.writing, n.writes) {
		n.discard()
		return
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, n.pid, writerNice)
	n.writes.send(n.Kernel)
}

// onFrozen takes a kernel's report, and reports whether it is of a checkpoint.
func (t *pins) onFrozen(k *Kernel, m *kernelproc.Report) bool {
	w := t.of(k)
	if w == nil {
		return false
	}
	lost, total := lostOf(m)
	t.conclude(w, lost, total, bounds.Clean(m.Why, bounds.MaxNamed))
	t.l.twins.trim()
	return true
}

func (t *pins) of(k *Kernel) *writing {
	for _, w := range t.writing {
		if w.by == k {
			return w
		}
	}
	return nil
}

func (t *pins) isWriting(k *Kernel) bool { return k != nil && t.of(k) != nil }

// areWriting reports whether the variables of a moment are being written.
func (t *pins) areWriting(m *moment) bool {
	return slices.ContainsFunc(t.writing, func(w *writing) bool { return slices.Contains(m.pins, w.key) })
}

// forks are the kernels that do nothing but write.
func (t *pins) forks() (all []*Kernel) {
	for _, w := range t.writing {
		if w.forked && w.by != nil {
			all = append(all, w.by)
		}
	}
	return all
}

// lose is called when a kernel is dead, and reports whether it did nothing but write.
func (t *pins) lose(k *Kernel, cause string) bool {
	w := t.of(k)
	if k == nil || w == nil {
		return false
	}
	t.conclude(w, nil, 0, "the kernel ended: "+cause)
	return w.forked
}

// letGo ends what writes, and reports whether there was any: a twin keeps the variables while there is one.
func (t *pins) letGo() bool {
	for _, w := range t.writing {
		if w.forked {
			t.conclude(w, nil, 0, "there was not enough memory or time")
			return true
		}
	}
	return false
}

// conclude ends a writing, nil being none.
func (t *pins) conclude(w *writing, lost []protocol.Lost, total int, why string) {
	at := slices.Index(t.writing, w)
	if w == nil || at < 0 {
		return
	}
	t.writing = slices.Delete(t.writing, at, at+1)
	w.limit.Stop()
	if w.forked && w.by != nil {
		w.by.discard()
	}
	if why != "" {
		t.why[w.key] = "they were not written: " + why
		t.l.set.Server.Log("warn", "the variables of a checkpoint were not written: "+why)
	}
	if w.over != nil {
		w.over(lost, total, why)
	}
	t.l.set.boundPins()
	if len(t.writing) == 0 {
		waiting := t.waiting
		t.waiting = nil
		for _, f := range waiting {
			f()
		}
	}
}

// behind calls a function when nothing is written any more, which then takes no longer than what somebody waits for.
func (t *pins) behind(f func()) {
	if len(t.writing) == 0 {
		f()
		return
	}
	t.waiting = append(t.waiting, f)
	t.l.set.After(t.l.frozen.patience(), func() {
		for t.letGo() {
		}
	})
}

// forget drops what is of checkpoints that are gone.
func (t *pins) forget(isGone func(key string) bool) {
	l := t.l
	moments := []*moment{l.first}
	if l.main != nil {
		moments = append(moments, l.main.moment)
	}
	for _, n := range l.snapshots.kept {
		moments = append(moments, n.moment)
	}
	for _, n := range l.twins.kept {
		moments = append(moments, n.moment)
	}
	for _, m := range moments {
		if m != nil {
			m.pins = slices.DeleteFunc(m.pins, isGone)
		}
	}
	for _, n := range slices.Clone(l.twins.kept) {
		if n.aside && len(n.moment.pins) == 0 {
			l.twins.drop(n)
		}
	}
	l.twins.trim()
}

// Of all languages ---------------------------------------------------------------------

// WithVariables names the languages that have variables.
func (s *Set) WithVariables() (names []string) {
	for _, l := range s.languages {
		if l.main != nil && l.main.begun || s.Settings.FreezeBytes > 0 && l.frozen.isThere() {
			names = append(names, l.Name)
		}
	}
	return names
}

// Obstacle says why variables can be neither kept nor exchanged now.
func (s *Set) Obstacle() string {
	for _, l := range s.languages {
		if why := l.obstacle(); why != "" {
			return why
		}
	}
	return ""
}

// Pin keeps the variables of a checkpoint, and calls over with what is not kept.
func (s *Set) Pin(p versions.Pin, over func(lost []protocol.Lost, total int)) {
	var all []protocol.Lost
	left, sum := 1, 0
	end := func() {
		if left--; left == 0 {
			over(all[:min(len(all), mostLost)], sum)
		}
	}
	for _, name := range p.Languages {
		left++
		s.Language(name).pins.pin(p, func(lost []protocol.Lost, total int, why string) {
			if why != "" {
				lost, total = []protocol.Lost{{Name: "variables of " + name, Why: why}}, 1
			}
			all, sum = append(all, lost...), sum+total
			end()
		})
	}
	end()
}

// KeepPins forgets all checkpoints but these, and those that are newer.
func (s *Set) KeepPins(pins []versions.Pin, upcoming int) {
	isGone := func(number string) bool {
		n, err := strconv.Atoi(number)
		return err != nil || n < upcoming && !slices.ContainsFunc(pins, func(p versions.Pin) bool { return p.Next == n })
	}
	for _, l := range s.languages {
		l.pins.forget(func(key string) bool { return isGone(key[1:]) })
	}
	for name := range s.Dir.Pinned() {
		if _, number, _ := strings.Cut(name, filewire.CheckpointMark); isGone(strings.TrimSuffix(number, ".new")) {
			s.Dir.DropState(name)
			defer s.boundPins()
		}
	}
}

// boundPins has the oldest checkpoint dropped if their variables take more than they may.
func (s *Set) boundPins() {
	var sum int64
	for _, bytes := range s.Dir.Pinned() {
		sum += bytes
	}
	if sum > s.Settings.UndoBytes {
		s.Undo.Unpin()
	}
}
