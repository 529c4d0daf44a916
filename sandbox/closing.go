// The end of a session, and of this server's use of it.

package sandbox

import (
	"context"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// close ends everything in the session: it interrupts runs and removes containers. It removes the volume too, unless keepFiles,
// for which the caller marked the session already; then a named session keeps its variables as well. It returns the engine's
// error; the session is over all the same.
func (s *session) close(ctx context.Context, keepFiles bool) error {
	var size *int64
	if keepFiles && s.named && s.config.Freezes() {
		size = s.retire(ctx)
	} else if keepFiles {
		size = s.size(ctx)
	}
	s.cancel(runs.ErrClosing)
	s.engine.Mu.Lock()
	defer s.engine.Mu.Unlock()
	var volumes []string
	if !keepFiles {
		volumes = []string{s.engine.VolumeName()}
		// If the removal fails, a later sweep knows that the files are not kept.
		if err := s.uses.Lock.Drop(); err != nil {
			s.config.Logger.Warn("session lock", "session", s.id, "error", err)
		}
	}
	var err error
	if s.engine.Used() {
		err = s.config.Engine.Remove(ctx, s.engine.Names(), volumes)
	}
	if keepFiles && err == nil {
		s.engine.Rest(size, s.uses.History.Bytes())
	}
	if keepFiles {
		ending, cancel := context.WithTimeout(ctx, place.LeaveTime)
		s.uses.Await(ending)
		cancel()
	}
	s.uses.CloseHistory()
	switch {
	case keepFiles:
		s.uses.TouchLast()
		s.uses.Lock.Release()
	case err != nil:
		s.uses.Lock.Release() // a sweep, which can take the lock, removes the rest
	default:
		s.uses.Lock.Remove()
	}
	return err
}

// leaveBehind detaches from a named session. Its containers go on with their variables, and end by themselves if no server takes
// them over within the idle time. It interrupts running code, unless the manager only visits.
func (s *session) leaveBehind(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, place.LeaveTime)
	defer cancel()
	if !s.config.Visit {
		s.cancel(runs.ErrLeaving)
		s.uses.Await(ctx)
	}
	size := s.size(ctx)
	// A container that just starts should come up; otherwise the next server finds half of one.
	if s.engine.Lock(ctx) {
		defer s.engine.Mu.Unlock()
		if size != nil && s.engine.Record != nil {
			s.engine.Record.SizeBytes, s.engine.Record.HistoryBytes = *size, s.uses.History.Bytes()
			s.engine.SaveRecord()
		}
		for _, c := range s.engine.Ready {
			c.Close()
		}
	}
	for _, run := range s.uses.All() {
		if !run.Over() {
			run.Unrecorded.Store(true) // the next server may hear its end
		}
	}
	for _, l := range s.links {
		if c := l.Container.Load(); c != nil {
			c.Close()
		}
	}
	s.cancel(runs.ErrLeaving)
	s.uses.CloseHistory()
	s.uses.Mu.Lock()
	s.uses.Touch()
	s.uses.Mu.Unlock()
	state.TakeBack(s.config.StateDir, s.id)
	s.uses.Lock.Release()
}

// abandon releases a session that nobody used yet.
func (s *session) abandon() {
	s.cancel(runs.ErrClosing)
	s.uses.CloseHistory()
	if s.named {
		s.uses.Lock.Release()
	} else {
		s.uses.Lock.Remove()
	}
}

// How often a server looks which of its offered sessions another server wants: while it drains, and with a shared session.
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

func (m *Manager) drains() bool {
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
		if !s.named && (m.conf().Gone == nil || !m.conf().Gone(s.fallback)) {
			load.Clients++
		}
	}
	return load
}
