//go:build linux

package kernels

import (
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// describeTime is how long a kernel is waited for: one that does not answer by then is busy.
const describeTime = 2 * time.Second

// asked is a question to all languages what they hold.
type asked struct {
	answer protocol.Described
	from   []*Kernel // that are to answer, in the order of the languages in the answer; nil: it is there
}

// Describe answers a server that asks what the kernels hold. It replaces an earlier question. Kernels with a run are not waited for.
func (s *Set) Describe(id string) {
	a := &asked{answer: protocol.Described{Type: "described", ID: id}}
	s.asked = a
	for _, l := range s.languages {
		l.describe(a)
	}
	s.After(describeTime, func() { s.answerAsked(a, true) })
	s.answerAsked(a, false)
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
	if h.Busy = k == nil || k.isEnding() || l.obstacle() != ""; h.Busy {
		k = nil
	} else {
		k.link.Send(message)
	}
	a.answer.Languages, a.from = append(a.answer.Languages, h), append(a.from, k)
}

// onDescribed handles a kernel's answer.
func (s *Set) onDescribed(k *Kernel, m *kernelproc.Report) {
	a := s.asked
	if a == nil {
		return
	}
	for at, asked := range a.from {
		if asked == k {
			h := &a.answer.Languages[at]
			h.Holds, h.Imported, h.Total = cleanedNames(m.Holds), cleanedNames(m.Imported), max(m.Variables, 0)
			a.from[at] = nil
		}
	}
	s.answerAsked(a, false)
}

// answerAsked tells the server what the kernels hold, when there is nothing or no time to wait for.
func (s *Set) answerAsked(a *asked, now bool) {
	for at, k := range a.from {
		if k != nil && !now {
			return
		}
		a.answer.Languages[at].Busy = a.answer.Languages[at].Busy || k != nil
	}
	if s.asked == a {
		s.asked = nil
		s.Server.Send(a.answer, false)
	}
}

func cleanedNames(names []string) (clean []string) {
	for _, name := range names[:min(len(names), protocol.MaxHeld)] {
		clean = append(clean, bounds.Clean(name, bounds.MaxNamed))
	}
	return clean
}
