// The orderly end of kernels with a snapshot: each writes its variables into the session's files before it ends.

package sandbox

import (
	"context"
	"fmt"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// retire ends the kernels of a closing session, including those of earlier servers. It waits for them, and returns the size of the
// files; nil: unknown.
func (s *session) retire(ctx context.Context) *int64 {
	s.reachAll(ctx)
	s.cancel(errAsleep)
	size := s.size(ctx)
	var ending sync.WaitGroup
	for _, c := range s.containers() {
		ending.Go(func() { c.Retire(ctx, s.config.retireTime()) })
	}
	ending.Wait()
	return size
}

// asVisit returns the settings for work on another server's session: its record stays unchanged.
func (c *Config) asVisit() *Config {
	visit := *c
	visit.Visit = true
	return &visit
}

// asHeir is asVisit for ending kernels of other servers, which write their snapshots by their own settings.
func (c *Config) asHeir(id string) *Config {
	heir := c.asVisit()
	heir.FreezeBytes, heir.FreezeTime = max(1, heir.FreezeBytes), c.stayOf(id).Freeze
	return heir
}

// addLeft makes the already closing session of an earlier server's kernels. The caller holds m.mu.
func (m *Manager) addLeft(id string) *session {
	s := m.newSession(id, true, nil, m.conf().asHeir(id))
	s.uses.beginClosing(nil)
	m.sessions[id] = s
	return s
}

// endLeft ends these kernels, with the session's lock, which it takes over. The last use stays unchanged.
func (m *Manager) endLeft(s *session, lock *state.Lock) {
	used := lock.LastUsed()
	s.begin(lock, true)
	s.uses.usedAt(used)
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
	if !s.engine.resumed.Load() || !s.config.freezes() {
		return
	}
	for _, l := range s.files.startedEarlier() {
		if err := l.reachAny(ctx); err != nil {
			s.config.Logger.Debug("reach container", "session", s.id, "container", l.name(), "error", err)
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
	s, err := m.open(id, toResume)
	if err != nil || !s.named || !s.config.freezes() {
		return nil, err
	}
	if err := s.uses.enter(); err != nil {
		return nil, err
	}
	defer s.uses.leave()
	s.reachAll(ctx)
	for language, i := range s.interpreters {
		k := i.current()
		if k == nil || k.Info() == nil {
			continue
		}
		if problem := k.Freeze(ctx, s.config.retireTime()); problem != "" && problem != frozenNone && (!ends || problem != frozenBusy) {
			problems = append(problems, fmt.Sprintf("the variables of the %s kernel are as they were written before: %s", language, problem))
		}
	}
	return problems, nil
}
