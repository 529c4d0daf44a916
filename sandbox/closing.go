// How a session is closed, with its files or without, and how this server leaves a named one.

package sandbox

import (
	"context"

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
	keepFiles, err := s.place.End(ctx, keepFiles, s.uses, size)
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
	defer s.place.Leave(ctx, size, s.uses.History.Bytes())()
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
