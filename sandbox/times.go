package sandbox

import (
	"cmp"
	"fmt"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Times are when one session ends, sooner than the server's would. Zero: the server's.
type Times = state.Times

// ownTimes are the times that a session was given. They are the first user's, and stay: nobody's session ends earlier
// because another client comes.
type ownTimes struct {
	Times
	settled bool
}

// recorded takes over the times of a session that earlier servers had.
func (o *ownTimes) recorded(r *state.Record) {
	if r == nil {
		return
	}
	if r.Times != nil {
		o.Times = *r.Times
	}
	o.settled = r.Times != nil || len(r.Settings) > 0
}

// timesInForce returns what holds for a session with times of its own: those, or the server's.
func timesInForce(own Times, c *Config) Times {
	if c.Visit { // it ends no session under somebody's hands
		own.Lifetime = 0
	}
	return Times{
		IdleTimeout: cmp.Or(between(own.IdleTimeout, 0, c.IdleTimeout), c.IdleTimeout),
		Lifetime:    cmp.Or(between(own.Lifetime, 0, c.Lifetime), c.Lifetime),
	}
}

// giveTimes gives a session the times that its first user asks for, and returns what is to be said to a later one who
// asks for others. The session is open.
func (s *session) giveTimes(asked Times) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.times.settled {
		s.times = ownTimes{Times: asked, settled: true}
		return ""
	}
	has := timesInForce(s.times.Times, s.config)
	wants := timesInForce(asked, s.config)
	if asked.IdleTimeout > 0 && wants.IdleTimeout != has.IdleTimeout || asked.Lifetime > 0 && wants.Lifetime != has.Lifetime {
		return fmt.Sprintf("This session keeps the times that it began with: it ends when nobody has used it for %s, or when it is %s old.",
			has.IdleTimeout, has.Lifetime)
	}
	return ""
}

// timesNow returns the times in force.
func (s *session) timesNow() Times {
	s.mu.Lock()
	defer s.mu.Unlock()
	return timesInForce(s.times.Times, s.config)
}

// recordTimes has later servers know a named session's own times. The caller holds engineMu and s.mu.
func (s *session) recordTimes() {
	if !s.named || s.times.Times == (Times{}) {
		return
	}
	own := s.times.Times
	s.record.Times = &own
	s.record.IdleSeconds = timesInForce(own, s.config).IdleTimeout.Seconds()
}

// hasExpired reports whether the session's time is over. The caller holds s.mu.
func (s *session) hasExpired(now time.Time) bool {
	most := timesInForce(s.times.Times, s.config)
	return s.isOpen() && (s.idle(now) >= most.IdleTimeout || now.Sub(s.created) >= most.Lifetime)
}
