// Sessions that go on in another server: while this one drains, and with a shared session.

package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// How often a server looks which of its offered sessions another server wants: while it drains, and with a shared session.
const (
	offerEvery = 20 * time.Millisecond
	shareEvery = 100 * time.Millisecond
)

func errDraining() *fault.Error {
	return fault.New(fault.ServerDraining, "Try again in a moment: another server takes its place, or name a session that there is.",
		"The server is about to be stopped or replaced, and takes no new sessions.")
}

const overloadPause = 10 // seconds after which a client that was refused may ask again

func errOverloaded() *fault.Error {
	return fault.New(fault.ServerBusy, fmt.Sprintf("Try again in %d seconds, or name a session that there is: those go on.", overloadPause),
		"The server has too much to do, and takes no new sessions for now.").With(fault.RetryAfter, overloadPause)
}

func errMoved(id string) *fault.Error {
	return fault.New(fault.ServerDraining, "Ask the server that takes this one's place.",
		"Session %q is in another server by now, and this one is about to be stopped.", id)
}

// Drain stops or resumes the admission of new sessions. Existing sessions go on: unnamed ones here, and a named one until another
// server of the state directory wants it and nothing runs in it.
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

// Drains reports whether other servers get the named sessions as soon as they want them.
func (m *Manager) Drains() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopDraining != nil
}

// isNew reports whether no session with this id exists. The caller holds m.mu.
func (m *Manager) isNew(id string) bool {
	return m.sessions[m.resolve(id)] == nil && (isDefault(id) || !state.IsKept(m.conf().StateDir, id))
}

// offer offers sessions to other servers until ctx ends, and hands over those that one of them wants.
func (m *Manager) offer(ctx context.Context, every time.Duration, which func(*session) bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	offered := make(map[*session]bool)
	for ctx.Err() == nil {
		for _, s := range m.all() {
			switch {
			case !which(s) || !s.isOpen() || s.uses.IsClosing():
			case !offered[s]:
				if err := s.uses.Locked(func() error { return state.Offer(m.conf().StateDir, s.id) }); err != nil {
					m.conf().Logger.Warn("offer session", "session", s.id, "error", err)
				}
				offered[s] = true
			case state.IsWanted(m.conf().StateDir, s.id) && s.uses.BeginClosing(func() bool { return s.uses.Active == 0 }):
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
		_ = s.uses.Locked(func() error { state.TakeBack(m.conf().StateDir, s.id); return nil })
	}
}

// handOver follows BeginClosing for a session that goes on in another server.
func (m *Manager) handOver(s *session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), place.LeaveTime)
	defer cancel()
	s.leaveBehind(ctx)
	m.forget(s)
}

// Load counts the activity in a manager's sessions.
type Load struct {
	Sessions int `json:"sessions"` // open here
	Busy     int `json:"busy"`     // those at work
	Clients  int `json:"clients"`  // unnamed ones with a client: they end with this server
}

// Load asks neither the engine nor a kernel.
func (m *Manager) Load() Load {
	var load Load
	for _, s := range m.all() {
		if !s.isOpen() && runs.IsClosed(s.opened) {
			continue
		}
		load.Sessions++
		if s.uses.IsBusy() {
			load.Busy++
		}
		if !s.named && (m.conf().Gone == nil || !m.conf().Gone(s.fallback, s.uses.IdleFor(time.Now()))) {
			load.Clients++
		}
	}
	return load
}
