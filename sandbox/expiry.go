// Sessions that expire by idle time or lifetime, and signs of life for supervisors.

package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

const (
	// checkInterval is the time between looks for idle sessions and pings of kernels.
	checkInterval = 15 * time.Second
	// sweepEvery is the number of intervals between sweeps.
	sweepEvery = 20
)

// expire closes sessions when their time is over, until the manager closes.
func (m *Manager) expire() {
	eachInterval(m.ctx, func(_ int, now time.Time) { m.closeExpired(now) })
}

// keepAlive pings the supervisors, even while expire waits for something.
func (m *Manager) keepAlive() {
	eachInterval(m.ctx, func(n int, _ time.Time) {
		for _, s := range m.all() {
			s.ping(n)
		}
	})
}

// eachInterval calls work after every checkInterval, counted from 1, until ctx ends.
func eachInterval(ctx context.Context, work func(n int, now time.Time)) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			work(n, now)
		}
	}
}

func (m *Manager) closeExpired(now time.Time) {
	for _, s := range m.all() {
		if !s.uses.beginClosing(func() bool { return s.uses.hasExpired(now) }) {
			continue
		}
		sleeps := s.named && s.engine.hasFiles() && (m.conf().Keep > s.limits.ends().IdleTimeout || state.IsPinned(m.conf().StateDir, s.id))
		m.conf().Logger.Info("session expired", "session", s.id, "files_kept", sleeps)
		m.noteExpired(s, now, sleeps)
		m.working.Go(func() { m.endSession(s, sleeps) })
	}
}

// endSession follows beginClosing if nobody waits for the answer.
func (m *Manager) endSession(s *session, keepFiles bool) {
	ctx, cancel := context.WithTimeout(m.ctx, sweepTimeout+s.config.retireTime())
	defer cancel()
	if err := m.finishClosing(ctx, s, keepFiles); err != nil {
		m.conf().Logger.Warn("close session", "session", s.id, "error", err, "cause", errors.Unwrap(err))
	}
}
