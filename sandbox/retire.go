// The orderly end of kernels with a snapshot: each writes its variables into the session's files before it ends.

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// errAsleep ends the kernels of a session that keeps its files and variables.
var errAsleep = errors.New("session is put to sleep")

func errSlept(id string) *fault.Error {
	return fault.New(fault.SessionBusy, "Try again: the next call wakes it, with its variables.", "Session %q was put to sleep meanwhile.", id)
}

// retire ends the kernels of a closing session, including those of earlier servers. It waits for them, and returns the size of the
// files; nil: unknown.
func (s *session) retire(ctx context.Context) *int64 {
	s.reachAll(ctx)
	s.cancel(errAsleep)
	size := s.size(ctx)
	var ending sync.WaitGroup
	for _, k := range s.liveKernels() {
		ending.Go(func() { k.retire(ctx, s.config.retireTime()) })
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
	s := newSession(id, true, nil, m.conf().asHeir(id))
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

// retire asks a supervisor to end, after its kernel wrote a snapshot, and waits for that.
func (k *kernel) retire(ctx context.Context, most time.Duration) {
	if k.send(protocol.Request{Type: "stop"}) != nil {
		return
	}
	if !k.ends(ctx, most) && ctx.Err() == nil {
		k.log.Warn("kernel did not end in time")
	}
}

// reachAll connects to earlier servers' kernels, whatever their settings.
func (s *session) reachAll(ctx context.Context) {
	if !s.engine.resumed.Load() || !s.config.freezes() {
		return
	}
	for _, l := range s.files.startedEarlier() {
		if err := l.reachAny(ctx); err != nil {
			s.config.Logger.Debug("reach kernel", "session", s.id, "language", l.language, "error", err)
		}
	}
}

// reachAny is reachEarlier for a kernel that is to end.
func (l *link) reachAny(ctx context.Context) error {
	l.starting.Lock()
	defer l.starting.Unlock()
	if l.reached || l.had.Load() {
		return nil
	}
	k, err := l.attach(ctx)
	if err == nil {
		l.setKernel(k)
		l.reached = true
	}
	return err
}

// replaceEarlier ends an earlier server's kernel with other settings, so that the next one restores its variables. The caller
// holds l.starting.
func (l *link) replaceEarlier(ctx context.Context) {
	if !l.config.freezes() {
		return
	}
	k, err := l.attach(ctx)
	if err != nil {
		l.config.Logger.Debug("end kernel", "session", l.engine.id, "language", l.language, "error", err)
		return
	}
	k.retire(ctx, l.config.retireTime())
	k.close()
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
	for language, l := range s.links {
		k := l.kernel.Load()
		if k == nil || !k.alive() || !k.wasReady() {
			continue
		}
		if problem := k.freeze(ctx, s.config.retireTime()); problem != "" && problem != frozenNone && (!ends || problem != frozenBusy) {
			problems = append(problems, fmt.Sprintf("the variables of the %s kernel are as they were written before: %s", language, problem))
		}
	}
	return problems, nil
}

// freeze makes the kernel write a snapshot, and returns the reason if it did not; empty: it did.
func (k *kernel) freeze(ctx context.Context, most time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	id := state.NewID("freeze-")
	if err := k.send(protocol.Request{Type: "freeze", ID: id}); err != nil {
		return err.Error()
	}
	for {
		select {
		case answer := <-k.frozen:
			if answer.ID == id {
				return phrase(answer.Error)
			}
		case <-k.dead:
			return errKernelGone.Error()
		case <-ctx.Done():
			return errUnresponsive.Error()
		}
	}
}
