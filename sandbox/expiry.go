package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// checkInterval is how often idle sessions are looked for and kernels are pinged.
	checkInterval = 15 * time.Second
	// sweepEvery is how many of those intervals lie between sweeps.
	sweepEvery = 20
	// sweepTimeout bounds a sweep's engine calls.
	sweepTimeout = 60 * time.Second
)

// expire closes sessions whose time has passed, and sweeps now and then, until the manager closes.
func (m *Manager) expire() {
	m.eachInterval(func(n int, now time.Time) {
		m.closeExpired(now)
		if n%sweepEvery == 0 && m.usedEngine() {
			m.sweep()
		}
	})
}

// keepAlive pings the supervisors, whatever expire waits for.
func (m *Manager) keepAlive() {
	m.eachInterval(func(n int, _ time.Time) {
		for _, s := range m.all() {
			s.ping(n)
		}
	})
}

// eachInterval calls work after every checkInterval, counted from 1, until the manager closes.
func (m *Manager) eachInterval(work func(n int, now time.Time)) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-m.ctx.Done():
			return
		case now := <-tick.C:
			work(n, now)
		}
	}
}

func (m *Manager) all() []*session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.sessions))
}

func (m *Manager) usedEngine() bool {
	return slices.ContainsFunc(m.all(), func(s *session) bool { return s.engine.used() })
}

func (m *Manager) closeExpired(now time.Time) {
	for _, s := range m.all() {
		if !s.uses.beginClosing(func() bool { return s.uses.hasExpired(now) }) {
			continue
		}
		m.config.Logger.Info("session expired", "session", s.id)
		m.noteExpired(s, now)
		m.endSession(s)
	}
}

// endSession follows beginClosing where nobody waits for the answer.
func (m *Manager) endSession(s *session) {
	ctx, cancel := context.WithTimeout(m.ctx, sweepTimeout)
	defer cancel()
	if err := m.finishClosing(ctx, s, false); err != nil {
		m.config.Logger.Warn("close session", "session", s.id, "error", err, "cause", errors.Unwrap(err))
	}
}

// maxExpired bounds the ids of sessions that have expired.
const maxExpired = 1000

// noteExpired keeps a note for the next session of that id, whose user may expect this one.
func (m *Manager) noteExpired(s *session, now time.Time) {
	most := s.limits.ends()
	why := fmt.Sprintf("it was %v old, and may not become older", most.Lifetime)
	if now.Sub(s.uses.created) < most.Lifetime {
		why = fmt.Sprintf("nobody had used it for %v", most.IdleTimeout)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteEnded(s, why, false)
}

// noteEnded keeps that note. The caller holds m.mu.
func (m *Manager) noteEnded(s *session, why string, filesKept bool) {
	lost := "its variables and files are gone"
	if filesKept {
		lost = "its variables are gone, the files are there"
	}
	note := fmt.Sprintf("The session before this one has ended, as %s: %s.", why, lost)
	if len(m.expired) >= maxExpired {
		clear(m.expired)
	}
	m.expired[s.id] = note
	if !s.named {
		m.expired[s.fallback] = note
	}
}

// noteExpiry has the session's next runs report that the one before has expired. The caller holds m.mu.
func (m *Manager) noteExpiry(s *session) {
	id := s.id
	if !s.named {
		id = s.fallback
	}
	note, expired := m.expired[id]
	if !expired {
		return
	}
	delete(m.expired, id)
	s.noteLater(note)
}

// sweep removes what dead servers of this machine left on the engine: all of an unnamed
// session, and of a named one the containers that have ended, and all of it once its idle time has
// passed. A session that a live server has is never touched: its lock cannot be had.
func (m *Manager) sweep() {
	m.sweepMu.Lock()
	defer m.sweepMu.Unlock()
	ctx, cancel := context.WithTimeout(m.ctx, sweepTimeout)
	defer cancel()
	swept, err := Sweep(ctx, m.config.Engine, m.config.StateDir, m.config.Host, m.config.IdleTimeout)
	if err != nil && m.ctx.Err() == nil {
		m.config.Logger.Warn("sweep", "error", err)
	}
	if len(swept) > 0 {
		m.config.Logger.Info("removed what dead servers left", "sessions", swept)
	}
}
