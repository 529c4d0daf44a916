//go:build linux

package kernels

import (
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	describeTime = 500 * time.Millisecond // a kernel that does not answer by then is busy
	mostHeld     = 200
	mostAsking   = 16
)

// asked is a question to all languages what they hold.
type asked struct {
	ids   []string // of those who ask
	all   []*protocol.Holding
	from  map[*Kernel]*protocol.Holding // that are to answer
	limit *loop.Timer
}

// Describe answers a server that asks what the kernels hold. Kernels with a run are not waited for.
func (s *Set) Describe(id string) {
	id = bounds.Clean(id, 64)
	if s.asked != nil && len(s.asked.ids) < mostAsking {
		s.asked.ids = append(s.asked.ids, id)
		return
	}
	a := &asked{ids: []string{id}, from: map[*Kernel]*protocol.Holding{}}
	s.asked = a
	for _, l := range s.languages {
		l.describe(a)
	}
	a.limit = s.After(describeTime, func() { s.answerAsked(a) })
	if len(a.from) == 0 {
		s.answerAsked(a)
	}
}

// describe asks the main kernel, which has the variables, or can read their names in the file where it is to have them from.
func (l *Language) describe(a *asked) {
	k, message := l.main, map[string]any{"type": "describe"}
	h := &protocol.Holding{Language: l.Name}
	switch {
	case k != nil && (k.begun || k.awake):
	case l.set.Settings.FreezeBytes > 0 && l.frozen.isThere():
		h.Asleep = true
		message["path"] = l.set.Dir.StateFile(l.frozen.name())
	default:
		return
	}
	a.all = append(a.all, h)
	if h.Busy = k == nil || k.isEnding() || l.obstacle() != ""; !h.Busy {
		a.from[k] = h
		k.link.Send(message)
	}
}

// onDescribed handles a kernel's answer.
func (s *Set) onDescribed(k *Kernel, m *kernelproc.Report) {
	if s.asked == nil || s.asked.from[k] == nil {
		return
	}
	h := s.asked.from[k]
	for _, held := range m.Holds[:min(len(m.Holds), mostHeld)] {
		held.Name, held.Kind, held.Shape = bounds.Clean(held.Name, bounds.MaxNamed), bounds.Clean(held.Kind, bounds.MaxNamed), held.Shape[:min(len(held.Shape), 4)]
		h.Holds = append(h.Holds, held)
	}
	for _, name := range m.Imported[:min(len(m.Imported), mostHeld)] {
		h.Imported = append(h.Imported, bounds.Clean(name, bounds.MaxNamed))
	}
	h.Total = max(m.Variables, len(h.Holds))
	if delete(s.asked.from, k); len(s.asked.from) == 0 {
		s.answerAsked(s.asked)
	}
}

// answerAsked tells those who asked what is known by now.
func (s *Set) answerAsked(a *asked) {
	a.limit.Stop()
	if s.asked == a {
		s.asked = nil
	}
	for _, h := range a.from {
		h.Busy = true
	}
	answer := protocol.Described{Type: "described", Languages: []protocol.Holding{}}
	for _, h := range a.all {
		answer.Languages = append(answer.Languages, *h)
	}
	for _, answer.ID = range a.ids {
		s.Server.Send(answer, false)
	}
}
