//go:build linux

// Going back: a twin takes the main kernel's place, because that was killed or because the server asks for it.

package main

import (
	"slices"

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
	t.sendRestorable(false)
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

// restore answers the message of that name for variables alone. It does not wait for the ended kernels.
func (t *twins) restore(m protocol.Request) {
	answer := t.answerTo(m)
	n, why := t.find(m.Run)
	answer.Error = why
	var ended []*kernel
	if n != nil {
		ended = t.goTo(n)
	}
	answer.Runs, answer.Copies = t.list()
	t.l.s.server.send(answer, false)
	if n != nil {
		t.endFormer(ended)
	}
	t.sendRestorable(false)
}

func (t *twins) answerTo(m protocol.Request) protocol.Restored {
	return protocol.Restored{Type: "restored", Language: t.l.Name, ID: clean(m.ID, maxNamed), Run: clean(m.Run, maxNamed)}
}

// find returns the twin from before a run, or the copy that the run left. It returns neither a twin nor an error if the
// variables are still those.
func (t *twins) find(run string) (*twin, string) {
	l, s := t.l, t.l.s
	main := l.main
	switch {
	case !l.HasZygote:
		return nil, "only Python's variables can be gone back to; a run with fresh: true leaves them as they are"
	case l.kept != nil:
		return nil, "a run goes on in this kernel"
	case l.frozen.kernel != nil, s.retiring:
		return nil, "the variables are being written"
	case l.frozen.waking != nil:
		return nil, "the variables are being read"
	case main != nil && !main.isEnding() && slices.Contains(main.moment.before, run):
		return nil, ""
	}
	for _, n := range t.kept {
		if !n.isEnding() && (n.isCopy && n.moment.run == run || !n.isCopy && slices.Contains(n.moment.before, run)) {
			return n, ""
		}
	}
	why := "no copy of the variables from before this run is kept"
	if t.why != "" {
		why += "; there is none of the present ones either: " + t.why
	}
	return nil, why
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

// endFormer ends replaced kernels with their programs.
func (t *twins) endFormer(ended []*kernel) {
	killAll(t.l.programs) // they count as programs now: their children are known by the parent
	for _, k := range ended {
		k.discard()
		t.l.frozen.onEnd(k, "its variables were gone back from")
	}
	t.l.s.runs.provideWaiting()
}
