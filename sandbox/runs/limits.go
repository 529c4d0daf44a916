package runs

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// SessionLimits are limits of one session, below those of the server. Zero: the server's.
type SessionLimits = state.Limits

// Times end one session earlier than the server would. Zero: the server's.
type Times = state.Times

// The minimum for a session: below it no interpreter starts.
const (
	minSessionMemory = 128 << 20
	minSessionCPUs   = 0.05
)

// within returns the limits lowered to the server's, and a note on the changes.
func within(asked SessionLimits, c *Rules) (SessionLimits, string) {
	var changes []string
	memory, cpus := c.Largest()
	got := SessionLimits{
		MemoryBytes: between(asked.MemoryBytes, minSessionMemory, memory),
		CPUs:        between(asked.CPUs, minSessionCPUs, cpus),
		RunTimeout:  between(asked.RunTimeout, 0, c.MaxRunTimeout),
	}
	change := func(changed bool, what string, from, to any) {
		if changed {
			changes = append(changes, fmt.Sprintf("%s from %v to %v", what, from, to))
		}
	}
	change(got.MemoryBytes != asked.MemoryBytes, "memory", Size(asked.MemoryBytes), Size(got.MemoryBytes))
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

// Size formats a number of bytes.
func Size(bytes int64) string { return humanize.IBytes(uint64(bytes)) }

// Limits are the own limits of one session. The first container settles its limits, because a container with variables is not made
// anew for others. The first user settles its end: another client cannot end somebody's session earlier. Methods may be called
// from any goroutine.
type Limits struct {
	Rules *Rules

	mu      sync.Mutex
	Own     SessionLimits
	times   Times
	settled bool // there was a container, or earlier servers recorded limits
	used    bool // somebody asked for times, or for none, or earlier servers recorded some
}

// Restore takes over the limits in an earlier server's record; nil: nothing.
func (l *Limits) Restore(r *state.Record) {
	if r == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled, l.used = r.Limits != nil || len(r.Settings) > 0, r.Times != nil || len(r.Settings) > 0
	if r.Limits != nil {
		l.Own = *r.Limits
	}
	if r.Times != nil {
		l.times = *r.Times
	}
}

// Ask applies the limits that a use asks for, as far as they are not settled. It returns the longest time of its runs and notes
// for the user. It forgets the limits of an earlier run if their container did not start.
func (l *Limits) Ask(o *RunOptions) (longest time.Duration, notes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	allowed, changed := within(o.Limits, l.Rules)
	switch has := InForce(l.Own, l.Rules); {
	case o.Limits == SessionLimits{}:
	case !l.settled:
		l.Own = allowed
		if changed != "" {
			notes = append(notes, changed)
		}
	case InForce(allowed, l.Rules) != has:
		notes = append(notes, fmt.Sprintf("This session keeps the limits that it began with (%s memory, %v processors, runs of at most %s); close it first, or use another session_id, for others.",
			Size(has.MemoryBytes), has.CPUs, has.RunTimeout))
	}
	longest = InForce(l.Own, l.Rules).RunTimeout
	if o.Timeout > longest && o.Timeout != l.Rules.RunTimeout {
		notes = append(notes, fmt.Sprintf("The timeout was lowered from %s to %s, the limit of this session.", o.Timeout, longest))
	}
	if !l.used {
		l.times, l.used = o.Times, true
		return longest, notes
	}
	has, wants := timesInForce(l.times, l.Rules), timesInForce(o.Times, l.Rules)
	if o.Times.IdleTimeout > 0 && wants.IdleTimeout != has.IdleTimeout || o.Times.Lifetime > 0 && wants.Lifetime != has.Lifetime {
		notes = append(notes, fmt.Sprintf("This session keeps the times that it began with: its kernels end when nobody has used it for %s, or when they are %s old.",
			has.IdleTimeout, has.Lifetime))
	}
	return longest, notes
}

// Settle fixes the limits of a container before it starts, and writes them to the record of a named session; nil: it keeps none. undo is
// for one that did not start.
func (l *Limits) Settle(r *state.Record) (undo func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.settled
	l.settled = true
	if own := l.Own; r != nil && own != (SessionLimits{}) {
		r.Limits = &own
	}
	if times := l.times; r != nil && times != (Times{}) {
		r.Times, r.IdleSeconds = &times, timesInForce(times, l.Rules).IdleTimeout.Seconds()
		r.KeepSeconds = max(l.Rules.Keep.Seconds(), r.IdleSeconds)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.settled = was
	}
}

// Ends returns the session's times.
func (l *Limits) Ends() Times {
	l.mu.Lock()
	defer l.mu.Unlock()
	return timesInForce(l.times, l.Rules)
}

// Container returns the limits of the session's containers.
func (l *Limits) Container() engine.Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, own := l.Rules.Limits, InForce(l.Own, l.Rules)
	all.MemoryBytes, all.CPUs = own.MemoryBytes, own.CPUs
	return all
}

// Now returns the limits and times in force, and whether the limits are the session's own.
func (l *Limits) Now() (limits SessionLimits, own bool, times Times) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return InForce(l.Own, l.Rules), l.Own != SessionLimits{}, timesInForce(l.times, l.Rules)
}

// InForce returns the effective limits: the session's own, or the server's.
func InForce(own SessionLimits, c *Rules) SessionLimits {
	memory, cpus := c.Largest()
	return SessionLimits{MemoryBytes: Below(own.MemoryBytes, memory), CPUs: Below(own.CPUs, cpus), RunTimeout: Below(own.RunTimeout, c.MaxRunTimeout)}
}

// timesInForce is InForce for times.
func timesInForce(own Times, c *Rules) Times {
	if c.Visit { // it ends no session in use
		own.Lifetime = 0
	}
	return Times{IdleTimeout: Below(own.IdleTimeout, c.IdleTimeout), Lifetime: Below(own.Lifetime, c.Lifetime)}
}

// Below returns a session's own limit, or the server's if that is lower or the session sets none.
func Below[T int64 | float64 | time.Duration](own, server T) T {
	return cmp.Or(between(own, 0, server), server)
}

// Timeout is the code's time limit.
func (r *Run) Timeout() time.Duration {
	if r.Most > 0 {
		return min(r.Options.Timeout, r.Most)
	}
	return r.Options.Timeout
}
