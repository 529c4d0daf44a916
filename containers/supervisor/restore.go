//go:build linux

// Going back: a twin or a snapshot takes the main kernel's place, because that was killed or because the server asks for it.

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// goOn replaces a dead main kernel by the newest twin. The next answer says so.
func (t *twins) goOn(k *kernel) {
	t.abandon(k)
	n := t.newest()
	if n == nil {
		return
	}
	n.origin = &protocol.Origin{From: "twin", Run: n.moment.run, AtMS: n.at.UnixMilli(), Lost: []protocol.Lost{}}
	t.promote(n)
	t.l.sendRestorable(false)
}

// promote makes a twin the main kernel. Another one is forked from it as soon as it is idle.
func (t *twins) promote(n *twin) {
	t.kept = slices.DeleteFunc(t.kept, func(o *twin) bool { return o == n })
	t.l.main = n.kernel
	if g := t.l.s.guard; g != nil {
		g.between = nil // earlier counts are not this kernel's
	}
	t.why = "the last one has just taken the kernel's place"
	t.score()
	t.want()
}

// find returns the twin from before a run, or the copy that the run left. It returns neither a twin nor an error if the
// variables are still those.
func (t *twins) find(run string) (*twin, string) {
	if why := t.l.obstacle(); why != "" {
		return nil, why
	}
	if t.l.isBefore(run) {
		return nil, ""
	}
	for _, n := range t.kept {
		if !n.isEnding() && (n.isCopy && n.moment.run == run || !n.isCopy && slices.Contains(n.moment.before, run)) {
			return n, ""
		}
	}
	return nil, noCopy(t.why)
}

// goTo makes a twin the main kernel, and returns the kernels to end: the one before, and the newer twins.
func (t *twins) goTo(n *twin) []*kernel {
	var ended []*kernel
	if main := t.l.main; main != nil {
		ended = append(ended, main)
		t.abandon(main)
	}
	t.kept = slices.DeleteFunc(t.kept, func(o *twin) bool {
		newer := !o.isCopy && o.born.After(n.born)
		if newer {
			ended = append(ended, o.kernel)
			t.abandon(o.kernel)
		}
		return newer
	})
	t.promote(n)
	return ended
}

// Of a language ------------------------------------------------------------------------

// obstacle says why the variables cannot be exchanged now.
func (l *language) obstacle() string {
	switch {
	case l.kept != nil:
		return "a run goes on in this kernel"
	case l.frozen.kernel != nil, l.s.retiring:
		return "the variables are being written"
	case l.frozen.waking != nil, l.snapshots.reading != nil:
		return "the variables are being read"
	}
	return ""
}

// isBefore reports whether the variables are those from before a run.
func (l *language) isBefore(run string) bool {
	return l.main != nil && !l.main.isEnding() && slices.Contains(l.main.moment.before, run)
}

func noCopy(why string) string {
	text := "no copy of the variables from before this run is kept"
	if why != "" {
		text += "; there is none of the present ones either: " + why
	}
	return text
}

// cannotGoBack says why the variables cannot go back before a run, or to the copy that it left.
func (l *language) cannotGoBack(run string) (why string) {
	if l.HasZygote {
		_, why = l.twins.find(run)
	} else {
		_, why = l.snapshots.find(run)
	}
	return why
}

// goBack exchanges the variables for those from before a run, or those of its copy. over gets the report of the kernel that had to
// read them, if one had, or why nothing has changed.
func (l *language) goBack(run string, over func(m *kernelproc.Report, why string)) {
	if l.HasZygote {
		n, why := l.twins.find(run)
		if n != nil {
			l.endFormer(l.twins.goTo(n))
		}
		over(nil, why)
		return
	}
	if n, why := l.snapshots.find(run); n != nil {
		l.snapshots.goTo(n, over)
	} else {
		over(nil, why)
	}
}

// endFormer ends replaced kernels with their programs.
func (l *language) endFormer(ended []*kernel) {
	killAll(l.programs) // they count as programs now: their children are known by the parent
	for _, k := range ended {
		k.discard()
		l.frozen.onEnd(k, "its variables were gone back from")
	}
	l.s.runs.provideWaiting()
}

// wantCopy keeps the main kernel's variables, so that they can be gone back to, once it is idle.
func (l *language) wantCopy() {
	if l.HasZygote {
		l.twins.want()
	} else {
		l.snapshots.want()
	}
}

// beginMoment is called when a run begins in the main kernel.
func (l *language) beginMoment(k *kernel, run string) {
	if !l.HasZygote {
		l.snapshots.begin(k)
	}
	k.moment.begin(run)
}

// isCutBySignals reports whether a kernel writes its variables that a signal would end; interrupts are repeated.
func (l *language) isCutBySignals() bool { return l.KillsPrograms && l.snapshots.writing != nil }

// restorable lists the ended runs whose beginning can be restored, and the copies.
func (l *language) restorable() (runs, copies []string) {
	if l.HasZygote {
		return l.twins.list()
	}
	return l.snapshots.list(), []string{}
}

// sendRestorable sends the restorable runs if they changed, or always if again is set.
func (l *language) sendRestorable(again bool) {
	if l.s.settings == nil || l.s.settings.Twins == 0 {
		return
	}
	m := protocol.Twins{Type: "twins", Language: l.Name, Why: cmp.Or(l.twins.why, l.snapshots.why)}
	m.Runs, m.Copies = l.restorable()
	if l.main != nil {
		present := l.snapshots.of(l.main.moment)
		m.Present = present != nil && present.name != ""
	}
	body, _ := json.Marshal(m)
	if again && l.told != nil || !again && !bytes.Equal(body, l.told) {
		l.told = body
		l.s.server.sendBody(body, false)
	}
}

// restore answers the message of that name. No run begins before it is over.
func (l *language) restore(m protocol.Request) {
	s, u := l.s, l.s.undo
	answer := protocol.Restored{Type: "restored", Language: l.Name, ID: clean(m.ID, maxNamed), Run: clean(m.Run, maxNamed)}
	tell := func() {
		answer.Runs, answer.Copies = l.restorable()
		s.server.send(answer, false)
		l.sendRestorable(false)
	}
	over := func() {
		tell()
		s.runs.goOn()
	}
	refused := func(code, why string) *protocol.RestoredFiles {
		return &protocol.RestoredFiles{NotKept: []protocol.NotKept{}, Code: code, Error: why}
	}
	// goBack goes on when the variables are those from before the run.
	goBack := func(then, failed func()) {
		l.goBack(m.Run, func(report *kernelproc.Report, why string) {
			if answer.Error = why; why != "" {
				failed()
				return
			}
			if report != nil {
				answer.Lost, answer.LostTotal = lostOf(report)
			}
			then()
		})
	}
	why := ""
	if m.Variables {
		why = l.cannotGoBack(m.Run)
	}
	if why != "" && m.Files && !l.HasZygote {
		m.Variables, answer.Stay, why = false, why, ""
	}
	switch {
	case why != "":
		answer.Error = why
		tell()
	case !m.Files && s.runs.restoring:
		answer.Error = "another restore goes on in this session"
		tell()
	case !m.Files:
		s.runs.restoring = true
		goBack(over, over)
	case u.store == nil:
		answer.Files = refused("unknown", "no versions of files are kept here")
		tell()
	case len(s.runs.all) > 0 || s.retiring || s.runs.restoring:
		answer.Files = refused("busy", "a run or another restore goes on in this session")
		tell()
	default:
		s.runs.restoring = true
		free := s.guard.room(u.files())
		go func() {
			u.placing.Lock()
			plan, err := u.store.Prepare(answer.ID, m.Run, free)
			placed := func() {
				u.placing.Unlock()
				over()
			}
			apply := func() {
				u.apply(plan, func(files *protocol.RestoredFiles) {
					answer.Files = files
					placed()
				})
			}
			s.post(func() {
				switch {
				case err != nil:
					answer.Files = refused(codeOf(err), err.Error())
					placed()
				case m.Variables:
					goBack(apply, func() { plan.Drop(); placed() })
				default:
					apply()
				}
			})
		}()
	}
}
