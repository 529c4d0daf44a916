package sandbox

import (
	"context"
	"slices"
	"time"
)

// beginClosing ends the use of the session, and reports whether it did: not where another call
// did before, nor where only returns false; it may be nil. Nothing begins between its answer and the closing.
func (s *session) beginClosing(only func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || only != nil && !only() {
		return false
	}
	s.closing = true
	return true
}

func (s *session) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// close ends everything in the session: runs are cut off, containers removed, and the volume too
// unless keepFiles, for which the session is marked already. It returns the engine's error; the session is over all the same.
func (s *session) close(ctx context.Context, keepFiles bool) error {
	s.cancel(errClosing)
	s.engineMu.Lock()
	defer s.engineMu.Unlock()
	var volumes []string
	if !keepFiles {
		volumes = []string{s.volumeName()}
		// Should the removal fail, a later sweep knows that the files are not kept.
		if err := s.lock.Drop(); err != nil {
			s.config.Logger.Warn("session lock", "session", s.id, "error", err)
		}
	}
	var err error
	if s.usedEngine() {
		err = s.config.Engine.Remove(ctx, s.containerNames(), volumes)
	}
	if keepFiles {
		ending, cancel := context.WithTimeout(ctx, leaveTime)
		s.awaitRuns(ending)
		cancel()
	}
	s.closeHistory()
	switch {
	case keepFiles:
		s.touchLock(s.lock, time.Now())
		s.lock.Release()
	case err != nil:
		s.lock.Release() // what is left over is removed by a sweep, which can take the lock
	default:
		s.lock.Remove()
	}
	return err
}

// leaveTime is how long code that a server interrupts at its own end has to stop.
const leaveTime = 400 * time.Millisecond

// leaveBehind detaches from a named session. Its containers go on, with the variables, and end by
// themselves when no server takes them up in the idle time; code that runs is interrupted, but by a
// manager that only visits.
func (s *session) leaveBehind(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if !s.config.Visit {
		s.cancel(errLeaving)
		s.awaitRuns(ctx)
	}
	// A container that is just being started should come up, or the next server finds half of one.
	if s.lockEngine(ctx) {
		defer s.engineMu.Unlock()
	}
	for _, run := range s.runsNow() {
		if !run.over() {
			run.unrecorded.Store(true) // the next server may hear its end
		}
	}
	for _, l := range s.slots {
		if k := l.kernel.Load(); k != nil {
			k.close()
		}
	}
	s.cancel(errLeaving)
	s.closeHistory()
	s.mu.Lock()
	s.touch()
	s.mu.Unlock()
	s.lock.Release()
}

// lockEngine takes engineMu when it can be had while ctx lasts, and reports whether it was.
func (s *session) lockEngine(ctx context.Context) bool {
	for !s.engineMu.TryLock() {
		if ctx.Err() != nil {
			return false
		}
		time.Sleep(leaveTime / 40)
	}
	return true
}

func (s *session) runsNow() []*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// awaitRuns waits for the ends of the runs, which were asked to end, as long as ctx lasts.
func (s *session) awaitRuns(ctx context.Context) {
	for _, run := range s.runsNow() {
		if run.earlier && !run.isFollowed() {
			continue // it was not asked to end
		}
		select {
		case <-run.Done():
		case <-ctx.Done():
		}
	}
}

// abandon releases a session that was not used yet.
func (s *session) abandon() {
	s.cancel(errClosing)
	s.closeHistory()
	if s.named {
		s.lock.Release()
	} else {
		s.lock.Remove()
	}
}

// closeHistory writes what waits to be written.
func (s *session) closeHistory() {
	if err := s.history.Close(); err != nil {
		s.config.Logger.Warn("history", "session", s.id, "error", err)
	}
}
