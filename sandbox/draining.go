// A server that another one replaces: it takes no new sessions, and lets go of what the other wants.

package sandbox

import (
	"context"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// How often a server looks which of the sessions that it offers another one wants: one that drains, and one with a shared session.
const (
	offerEvery = 20 * time.Millisecond
	shareEvery = 100 * time.Millisecond
)

func errDraining() *fault.Error {
	return fault.New(fault.ServerDraining, "Try again in a moment: another server takes its place, or name a session that there is.",
		"The server is about to be stopped or replaced, and takes no new sessions.")
}

func errMoved(id string) *fault.Error {
	return fault.New(fault.ServerDraining, "Ask the server that takes this one's place.",
		"Session %q is in another server by now, and this one is about to be stopped.", id)
}

// Drain has the manager take no new sessions, or take them again. Sessions that there are go on: the unnamed ones here, and a
// named one until another server of the state directory is asked for it, which then has it as soon as nothing runs in it.
func (m *Manager) Drain(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case on == (m.stopDraining != nil):
	case on && !m.closed:
		ctx, stop := context.WithCancel(m.ctx)
		m.stopDraining = stop
		m.working.Go(func() { m.offer(ctx, offerEvery, func(s *session) bool { return s.named }) })
	case !on:
		m.stopDraining()
		m.stopDraining = nil
	}
}

func (m *Manager) drains() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopDraining != nil
}

// isNew reports whether an id is that of a session that does not exist. The caller holds m.mu.
func (m *Manager) isNew(id string) bool {
	return m.sessions[m.resolve(id)] == nil && (isDefault(id) || !state.IsKept(m.conf().StateDir, id))
}

// offer offers sessions to other servers until ctx ends, and hands over those that one wants.
func (m *Manager) offer(ctx context.Context, every time.Duration, which func(*session) bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	offered := make(map[*session]bool)
	for ctx.Err() == nil {
		for _, s := range m.all() {
			switch {
			case !which(s) || !s.isOpen() || s.uses.isClosing():
			case !offered[s]:
				if err := s.uses.locked(func() error { return state.Offer(m.conf().StateDir, s.id) }); err != nil {
					m.conf().Logger.Warn("offer session", "session", s.id, "error", err)
				}
				offered[s] = true
			case state.IsWanted(m.conf().StateDir, s.id) && s.uses.beginClosing(func() bool { return s.uses.active == 0 }):
				m.conf().Logger.Info("another server has the session from now on", "session", s.id)
				m.working.Go(func() { m.handOver(s) })
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	for s := range offered {
		_ = s.uses.locked(func() error { state.TakeBack(m.conf().StateDir, s.id); return nil })
	}
}

// handOver follows beginClosing of a session that goes on in another server.
func (m *Manager) handOver(s *session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), leaveTime)
	defer cancel()
	s.leaveBehind(ctx)
	m.forget(s)
}

// Load is what goes on in a manager's sessions.
type Load struct {
	Sessions int `json:"sessions"` // that are open here
	Busy     int `json:"busy"`     // of them in which something goes on
	Clients  int `json:"clients"`  // of them without a name, whose clients are there: they end with this server
}

// Load tells what goes on. It asks neither the engine nor a kernel.
func (m *Manager) Load() Load {
	var load Load
	for _, s := range m.all() {
		if !s.isOpen() && isClosed(s.opened) {
			continue
		}
		load.Sessions++
		if s.uses.isBusy() {
			load.Busy++
		}
		if !s.named && (m.conf().Gone == nil || !m.conf().Gone(s.fallback)) {
			load.Clients++
		}
	}
	return load
}
