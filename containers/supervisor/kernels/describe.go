//go:build linux

package kernels

import (
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// describeTime is how long a kernel is waited for: one that does not answer by then is busy.
const describeTime = 500 * time.Millisecond

// asked is a question to all languages what they hold.
type asked struct {
	id   string
	all  []protocol.Holding
	from map[*Kernel]int // those that are to answer, and their places
}

// Describe answers a server that asks what the kernels hold. It replaces an earlier question. Kernels with a run are not waited for.
func (s *Set) Describe(id string) {
	a := &asked{id: id, all: []protocol.Holding{}, from: map[*Kernel]int{}}
	s.asked = a
	for _, l := range s.languages {
		l.describe(a)
	}
	s.After(describeTime, func() { s.answerAsked(a) })
	s.onDescribed(nil, nil)
}

// describe asks the main kernel, which has the variables, or can read their names in the file where it is to have them from.
func (l *Language) describe(a *asked) {
	k, message := l.main, map[string]any{"type": "describe"}
	h := protocol.Holding{Language: l.Name}
	switch {
	case k != nil && (k.begun || k.awake):
	case l.set.Settings.FreezeBytes > 0 && l.frozen.isThere():
		h.Asleep, message["path"] = true, l.set.Dir.StateFile(l.frozen.name())
	default:
		return
	}
	if h.Busy = k == nil || k.isEnding() || l.obstacle() != ""; !h.Busy {
		a.from[k] = len(a.all)
		k.link.Send(message)
	}
	a.all = append(a.all, h)
}

// onDescribed handles a kernel's answer, and tells the server when there is nothing to wait for any more.
func (s *Set) onDescribed(k *Kernel, m *kernelproc.Report) {
	a := s.asked
	if a == nil {
		return
	}
	if at, asked := a.from[k]; asked {
		h := &a.all[at]
		h.Holds, h.Imported, h.Total = cleanedNames(m.Holds), cleanedNames(m.Imported), max(m.Variables, 0)
		delete(a.from, k)
	}
	if len(a.from) == 0 {
		s.answerAsked(a)
	}
}

func (s *Set) answerAsked(a *asked) {
	if s.asked != a {
		return
	}
	s.asked = nil
	for _, at := range a.from {
		a.all[at].Busy = true
	}
	s.Server.Send(protocol.Described{Type: "described", ID: bounds.Clean(a.id, 64), Languages: a.all}, false)
}

func cleanedNames(names []string) (clean []string) {
	for _, name := range names[:min(len(names), protocol.MaxHeld)] {
		clean = append(clean, bounds.Clean(name, bounds.MaxNamed))
	}
	return clean
}
