//go:build linux

// Going back: a twin takes the main kernel's place, because that was killed or because the server asks for it.

package main

import (
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// goOn has the newest twin go on in the place of a main kernel that has died. The next answer says so.
func (t *twins) goOn() {
	t.abandon()
	n := t.newest()
	if n == nil {
		return
	}
	n.origin = &protocol.Origin{From: "twin", Run: n.moment.run, AtMS: n.at.UnixMilli(), Lost: []protocol.Lost{}}
	t.promote(n)
}

// promote makes a twin the main kernel. Another one is forked from it as soon as it is idle.
func (t *twins) promote(n *twin) {
	t.kept = slices.DeleteFunc(t.kept, func(o *twin) bool { return o == n })
	t.s.kernels.main = n.kernel
	if g := t.s.guard; g != nil {
		g.between = nil // what was counted until now is not this one's
	}
	t.why = "the last one has just taken the kernel's place"
	t.tell(false)
	t.score()
	t.want()
}

// restore answers the message of that name.
func (t *twins) restore(m protocol.Request) {
	answer := protocol.Restored{Type: "restored", ID: clean(m.ID, maxNamed), Run: clean(m.Run, maxNamed), Error: t.goTo(m.Run)}
	answer.Runs, answer.Copies = t.list()
	t.s.server.send(answer, false)
	t.tell(false)
}

// goTo makes the variables those from before a run, or those of a copy, and returns why it does not.
func (t *twins) goTo(run string) string {
	s := t.s
	main := s.kernels.main
	switch {
	case !s.language.HasZygote:
		return "only Python's variables can be gone back to; a run with fresh: true leaves them as they are"
	case s.runs.kept != nil:
		return "a run goes on in this kernel"
	case main != nil && !main.isEnding() && slices.Contains(main.moment.before, run):
		return "" // they are as they were then
	}
	at := slices.IndexFunc(t.kept, func(n *twin) bool {
		return !n.isEnding() && (n.isCopy && n.moment.run == run || !n.isCopy && slices.Contains(n.moment.before, run))
	})
	if at < 0 {
		return "no copy of the variables from before this run is kept"
	}
	n := t.kept[at]
	for _, o := range slices.Clone(t.kept) {
		if !o.isCopy && o.born.After(n.born) {
			t.drop(o)
		}
	}
	t.abandon()
	t.promote(n)
	killAll(s.kernels.programs) // the main kernel that was, with what it had started: first, as that is known by its parent
	if main != nil {
		main.discard()
		s.frozen.onEnd(main, "its variables were gone back from")
	}
	s.runs.provideWaiting()
	return ""
}
