// The end of a session, and of this server's use of it.

package sandbox

import (
	"context"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// close ends everything in the session: it interrupts runs and removes containers. It removes the volume too, unless keepFiles,
// for which the caller marked the session already; then a named session keeps its variables as well. It returns the engine's
// error; the session is over all the same.
func (s *session) close(ctx context.Context, keepFiles bool) error {
	var size *int64
	if keepFiles && s.named && s.config.freezes() {
		size = s.retire(ctx)
	} else if keepFiles {
		size = s.size(ctx)
	}
	s.cancel(errClosing)
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	var volumes []string
	if !keepFiles {
		volumes = []string{s.engine.volumeName()}
		// If the removal fails, a later sweep knows that the files are not kept.
		if err := s.uses.lock.Drop(); err != nil {
			s.config.Logger.Warn("session lock", "session", s.id, "error", err)
		}
	}
	var err error
	if s.engine.used() {
		err = s.config.Engine.Remove(ctx, s.engine.names(), volumes)
	}
	if keepFiles && err == nil {
		s.engine.rest(size, s.uses.history.Bytes())
	}
	if keepFiles {
		ending, cancel := context.WithTimeout(ctx, leaveTime)
		s.uses.await(ending)
		cancel()
	}
	s.uses.closeHistory()
	switch {
	case keepFiles:
		s.uses.touchLast()
		s.uses.lock.Release()
	case err != nil:
		s.uses.lock.Release() // a sweep, which can take the lock, removes the rest
	default:
		s.uses.lock.Remove()
	}
	return err
}

// leaveBehind detaches from a named session. Its containers go on with their variables, and end by themselves if no server takes
// them over within the idle time. It interrupts running code, unless the manager only visits.
func (s *session) leaveBehind(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if !s.config.Visit {
		s.cancel(errLeaving)
		s.uses.await(ctx)
	}
	size := s.size(ctx)
	// A container that just starts should come up; otherwise the next server finds half of one.
	if s.engine.lock(ctx) {
		defer s.engine.mu.Unlock()
		if size != nil && s.engine.record != nil {
			s.engine.record.SizeBytes, s.engine.record.HistoryBytes = *size, s.uses.history.Bytes()
			s.engine.saveRecord()
		}
		for _, c := range s.engine.ready {
			c.Close()
		}
	}
	for _, run := range s.uses.all() {
		if !run.over() {
			run.unrecorded.Store(true) // the next server may hear its end
		}
	}
	for _, l := range s.links {
		if c := l.container.Load(); c != nil {
			c.Close()
		}
	}
	s.cancel(errLeaving)
	s.uses.closeHistory()
	s.uses.mu.Lock()
	s.uses.touch()
	s.uses.mu.Unlock()
	state.TakeBack(s.config.StateDir, s.id)
	s.uses.lock.Release()
}

// abandon releases a session that nobody used yet.
func (s *session) abandon() {
	s.cancel(errClosing)
	s.uses.closeHistory()
	if s.named {
		s.uses.lock.Release()
	} else {
		s.uses.lock.Remove()
	}
}
