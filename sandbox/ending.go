// Sessions that expire by idle time or lifetime, and signs of life for supervisors.

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/stay"
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
		if !s.uses.BeginClosing(func() bool { return s.uses.HasExpired(now) }) {
			continue
		}
		sleeps := s.named && s.place.HasFiles() && (m.conf().Keep > s.limits.Ends().IdleTimeout || state.IsPinned(m.conf().StateDir, s.id))
		m.conf().Logger.Info("session expired", "session", s.id, "files_kept", sleeps)
		m.noteExpired(s, now, sleeps)
		m.working.Go(func() { m.endSession(s, sleeps) })
	}
}

// endSession follows BeginClosing if nobody waits for the answer.
func (m *Manager) endSession(s *session, keepFiles bool) {
	ctx, cancel := context.WithTimeout(m.ctx, place.SweepTimeout+s.config.RetireTime())
	defer cancel()
	if err := m.finishClosing(ctx, s, keepFiles); err != nil {
		m.conf().Logger.Warn("close session", "session", s.id, "error", err, "cause", errors.Unwrap(err))
	}
}

// retire ends the kernels of a closing session, including those of earlier servers. It waits for them, and returns the size of the
// files; nil: unknown.
func (s *session) retire(ctx context.Context) *int64 {
	s.reachAll(ctx)
	s.cancel(runs.ErrAsleep)
	size := s.size(ctx)
	var ending sync.WaitGroup
	for _, c := range s.containers() {
		ending.Go(func() { c.Retire(ctx, s.config.RetireTime()) })
	}
	ending.Wait()
	return size
}

// asVisit returns the settings for work on another server's session: its record stays unchanged.
func asVisit(c *Config) *Config {
	visit := *c
	visit.Visit = true
	return &visit
}

// asHeir is asVisit for ending kernels of other servers, which write their snapshots by their own settings.
func asHeir(c *Config, id string) *Config {
	heir := asVisit(c)
	heir.FreezeBytes, heir.FreezeTime = max(1, heir.FreezeBytes), stay.Of(&c.Config, id).Freeze
	return heir
}

// addLeft makes the already closing session of an earlier server's kernels. The caller holds m.mu.
func (m *Manager) addLeft(id string) *session {
	s := m.newSession(id, true, nil, asHeir(m.conf(), id))
	s.uses.BeginClosing(nil)
	m.sessions[id] = s
	return s
}

// endLeft ends these kernels, with the session's lock, which it takes over. The last use stays unchanged.
func (m *Manager) endLeft(s *session, lock *state.Lock) {
	used := lock.LastUsed()
	s.begin(lock, true)
	s.uses.UsedAt(used)
	m.mu.Lock()
	m.admit(s, nil)
	m.mu.Unlock()
	if s.openErr == nil {
		m.endSession(s, true)
	}
}

// sleepLeft is freezeLeft for a holder of the lock, and waits. It reports whether it was done: false if a call waits for the lock.
func (m *Manager) sleepLeft(id string, lock *state.Lock) bool {
	m.mu.Lock()
	if m.sessions[id] != nil {
		m.mu.Unlock()
		lock.Release()
		return false
	}
	s := m.addLeft(id)
	m.mu.Unlock()
	m.endLeft(s, lock)
	return true
}

// reachAll connects to earlier servers' kernels, whatever their settings.
func (s *session) reachAll(ctx context.Context) {
	if !s.place.IsResumed() || !s.config.Freezes() {
		return
	}
	for _, l := range s.files.StartedEarlier() {
		if err := l.ReachAny(ctx); err != nil {
			s.config.Logger.Debug("reach container", "session", s.id, "container", l.Name(), "error", err)
		}
	}
}

// Supervisors' answers for kernels that write no snapshot.
const (
	frozenNone = "no code has run"
	frozenBusy = "a run goes on"
)

// Freeze makes the kernels of a named session write their snapshots and go on. It returns the reasons of those that could not.
// With ends, a running run is no reason, because it ends too and the snapshot follows then.
func (m *Manager) Freeze(ctx context.Context, id string, ends bool) (problems []string, err error) {
	s, err := m.open(ctx, id, toResume)
	if err != nil || !s.named || !s.config.Freezes() {
		return nil, err
	}
	if err := s.uses.Enter(); err != nil {
		return nil, err
	}
	defer s.uses.Leave()
	s.reachAll(ctx)
	for language, i := range s.interpreters {
		k := i.Current()
		if k == nil || k.Info() == nil {
			continue
		}
		if problem := k.Freeze(ctx, s.config.RetireTime()); problem != "" && problem != frozenNone && (!ends || problem != frozenBusy) {
			problems = append(problems, fmt.Sprintf("the variables of the %s kernel are as they were written before: %s", language, problem))
		}
	}
	return problems, nil
}
