package sandbox

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// SessionLimits are limits of one session, below those of the server. Zero: the server's.
type SessionLimits = state.Limits

// The least that a session can be given: below it no interpreter starts.
const (
	minSessionMemory = 128 << 20
	minSessionCPUs   = 0.05
)

// within returns the limits as far as the server's allow them, and a note of what was changed.
func within(asked SessionLimits, c *Config) (SessionLimits, string) {
	var changes []string
	got := SessionLimits{
		MemoryBytes: between(asked.MemoryBytes, minSessionMemory, c.Limits.MemoryBytes),
		CPUs:        between(asked.CPUs, minSessionCPUs, c.Limits.CPUs),
		RunTimeout:  between(asked.RunTimeout, 0, c.MaxRunTimeout),
	}
	change := func(changed bool, what string, from, to any) {
		if changed {
			changes = append(changes, fmt.Sprintf("%s from %v to %v", what, from, to))
		}
	}
	change(got.MemoryBytes != asked.MemoryBytes, "memory", size(asked.MemoryBytes), size(got.MemoryBytes))
	change(got.CPUs != asked.CPUs, "processors", asked.CPUs, got.CPUs)
	change(got.RunTimeout != asked.RunTimeout, "timeout", asked.RunTimeout, got.RunTimeout)
	if len(changes) == 0 {
		return got, ""
	}
	return got, "Limits were changed to what this server allows: " + strings.Join(changes, ", ") + "."
}

// between bounds a limit. Zero is none: it stays none, and bounds nothing.
func between[T int64 | float64 | time.Duration](asked, least, most T) T {
	if asked > 0 {
		asked = max(asked, least)
	}
	if asked > 0 && most > 0 {
		asked = min(asked, most)
	}
	return asked
}

func size(bytes int64) string { return humanize.IBytes(uint64(bytes)) }

// inForce returns what holds for a session with limits of its own: those, or the server's.
func inForce(own SessionLimits, c *Config) SessionLimits {
	return SessionLimits{
		MemoryBytes: cmp.Or(between(own.MemoryBytes, 0, c.Limits.MemoryBytes), c.Limits.MemoryBytes),
		CPUs:        cmp.Or(between(own.CPUs, 0, c.Limits.CPUs), c.Limits.CPUs),
		RunTimeout:  cmp.Or(between(own.RunTimeout, 0, c.MaxRunTimeout), c.MaxRunTimeout),
	}
}

// ownLimits are the limits that a session was given. They are for its first container, and stay: what has variables is
// not made anew for others.
type ownLimits struct {
	SessionLimits
	settled bool
}

// recorded takes over the limits of a session that earlier servers had.
func (o *ownLimits) recorded(r *state.Record) {
	if r == nil {
		return
	}
	if r.Limits != nil {
		o.SessionLimits = *r.Limits
	}
	o.settled = r.Limits != nil || len(r.Settings) > 0
}

// ask notes the limits that a run asks for, where the session has no container yet, and returns what is to be said of them.
// Limits of an earlier run whose container did not start are forgotten.
func (s *session) ask(asked SessionLimits) (notes []string) {
	if asked == (SessionLimits{}) {
		return nil
	}
	allowed, note := within(asked, s.config)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.limits.settled {
		s.limits.SessionLimits = allowed
		if note != "" {
			notes = append(notes, note)
		}
		return notes
	}
	if has := inForce(s.limits.SessionLimits, s.config); inForce(allowed, s.config) != has {
		notes = append(notes, fmt.Sprintf("This session keeps the limits that it began with (%s memory, %v processors, runs of at most %s); close it first, or use another session_id, for others.",
			size(has.MemoryBytes), has.CPUs, has.RunTimeout))
	}
	return notes
}

// limitsNow returns the limits in force.
func (s *session) limitsNow() SessionLimits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return inForce(s.limits.SessionLimits, s.config)
}

// containerLimits are those of the session's containers.
func (s *session) containerLimits() engine.Limits {
	l, own := s.config.Limits, s.limitsNow()
	l.MemoryBytes, l.CPUs = own.MemoryBytes, own.CPUs
	return l
}

// settleLimits keeps the limits that the session's first container was made with. The caller holds engineMu.
func (s *session) settleLimits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.settled = true
	s.recordTimes()
	if s.named && s.limits.SessionLimits != (SessionLimits{}) {
		own := s.limits.SessionLimits
		s.record.Limits = &own
	}
}

// bound shortens a run to what its session allows, and returns what is to be said of it.
func (s *session) bound(run *Run) string {
	most := s.limitsNow().RunTimeout
	run.most = most
	if run.options.Timeout <= most || run.options.Timeout == s.config.RunTimeout {
		return ""
	}
	return fmt.Sprintf("The timeout was lowered from %s to %s, the limit of this session.", run.options.Timeout, most)
}

// timeout is how long the code may take.
func (r *Run) timeout() time.Duration {
	if r.most > 0 {
		return min(r.options.Timeout, r.most)
	}
	return r.options.Timeout
}
