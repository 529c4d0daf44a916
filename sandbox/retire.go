// The orderly end of kernels with a snapshot: each writes its variables into the session's files before it ends.

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
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

// reachAny is reachEarlier for a container that is to end.
func (l *link) reachAny(ctx context.Context) error {
	l.starting.Lock()
	defer l.starting.Unlock()
	if l.reached || l.had.Load() {
		return nil
	}
	l.endEarlier(ctx, l.earlierNames())
	c, err := l.attach(ctx, l.name())
	switch {
	case err != nil:
		return err
	case c.Earlier(): // it takes no messages of this version, and writes its variables at its end
		c.Retire(ctx, l.config.retireTime())
		c.Close()
	default:
		l.set(c)
	}
	l.reached = true
	return nil
}

// replaceEarlier ends an earlier server's kernels with other settings, so that the next ones restore their variables. The caller
// holds l.starting.
func (l *link) replaceEarlier(ctx context.Context) {
	if l.config.freezes() {
		l.endEarlier(ctx, append(l.earlierNames(), l.name()))
	}
}

// earlierNames names the further containers that an earlier server may have left with these languages: one for each language, or one
// that bears the name of a language that is switched off now.
func (l *link) earlierNames() (names []Language) {
	others := l.config.containers()
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	for _, i := range kernel.Languages {
		isOther := slices.ContainsFunc(others, func(languages []Language) bool { return languages[0] == i.Language })
		if l.engine.record != nil && l.engine.record.Settings[string(i.Language)] != "" && !isOther {
			names = append(names, i.Language)
		}
	}
	return names
}

// endEarlier ends an earlier server's containers in order, as far as they are there.
func (l *link) endEarlier(ctx context.Context, names []Language) {
	var ending sync.WaitGroup
	for _, name := range names {
		ending.Go(func() {
			c, err := l.attach(ctx, name)
			if err != nil {
				l.config.Logger.Debug("end container", "session", l.engine.id, "container", name, "error", err)
				return
			}
			c.Retire(ctx, l.config.retireTime())
			c.Close()
		})
	}
	ending.Wait()
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
