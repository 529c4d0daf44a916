// The end of kernels whose variables are kept, in order: each writes them into the session's files before it ends.

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

// errAsleep ends the kernels of a session whose files and variables stay.
var errAsleep = errors.New("session is put to sleep")

func errSlept(id string) *fault.Error {
	return fault.New(fault.SessionBusy, "Try again: the next call wakes it, with its variables.", "Session %q was put to sleep meanwhile.", id)
}

// retire ends the kernels of a session that is closing, those too that earlier servers left. It waits for them, and returns
// what the files take; nil: not known.
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

// asVisit returns the settings for work on a session that is another server's: its record stays as that has it.
func (c *Config) asVisit() *Config {
	visit := *c
	visit.Visit = true
	return &visit
}

// asHeir is asVisit for the end of kernels that others left, which write their variables by the settings that they began with.
func (c *Config) asHeir(id string) *Config {
	heir := c.asVisit()
	heir.FreezeBytes, heir.FreezeTime = max(1, heir.FreezeBytes), c.stayOf(id).Freeze
	return heir
}

// addLeft makes the session of kernels that an earlier server left, which is closing already. The caller holds m.mu.
func (m *Manager) addLeft(id string) *session {
	s := newSession(id, true, nil, m.conf().asHeir(id))
	s.uses.beginClosing(nil)
	m.sessions[id] = s
	return s
}

// endLeft ends these kernels, with the session's lock, which it takes over. It was last used when it was.
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

// sleepLeft is freezeLeft for who has the lock, and waits. It reports whether it was done: not where a call waits for the lock.
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

// retire asks a supervisor to end, which has its kernel write its variables first, and waits for that.
func (k *kernel) retire(ctx context.Context, most time.Duration) {
	if k.send(protocol.Request{Type: "stop"}) != nil {
		return
	}
	if !k.ends(ctx, most) && ctx.Err() == nil {
		k.log.Warn("kernel did not end in time")
	}
}

// reachAll connects to the kernels that earlier servers left, whatever they were made with.
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

// reachAny is reachEarlier for a kernel that is not to be gone on with.
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

// replaceEarlier ends a kernel of an earlier server that this one does not go on with, so that the next one finds its
// variables. The caller holds l.starting.
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

// What supervisors say of kernels that write nothing.
const (
	frozenNone = "no code has run"
	frozenBusy = "a run goes on"
)

// Freeze has the kernels of a named session write their variables into its files, and go on. It returns why one could not; where it ends
// is set, that a run goes on is no reason, because it ends too and they are written then.
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

// freeze has the kernel write its variables, and returns why it did not; empty: it did.
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
