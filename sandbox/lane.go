package sandbox

import (
	"context"
	"errors"
	"time"
)

// lane is one language of a session: its kernel, and whose turn it is to use it.
type lane struct {
	language Language
	last     <-chan struct{} // closed when the last in the queue has had its turn; under the session's lock
	// The rest is written with both the turn and the session's lock held.
	kernel *kernel
	had    bool // a kernel existed before, whose variables somebody may expect
}

func newLane(language Language) *lane {
	free := make(chan struct{})
	close(free)
	return &lane{language: language, last: free}
}

// turn is a place in a lane's queue. Places are taken in the order of the calls, so runs are
// executed in it.
type turn struct {
	before <-chan struct{} // closed when those before have had their turns
	over   chan struct{}   // closed when this one, and those before, have
}

// enqueue takes the last place. The caller holds the session's lock.
func (l *lane) enqueue() turn {
	t := turn{before: l.last, over: make(chan struct{})}
	l.last = t.over
	return t
}

// inUse reports whether anybody has the turn or waits for it. The caller holds the session's lock.
func (l *lane) inUse() bool {
	select {
	case <-l.last:
		return false
	default:
		return true
	}
}

var errTurnTimeout = errors.New("no turn in time")

// wait waits for the turn: as long as the run may itself take, or until its context ends.
func (t turn) wait(run *Run) error {
	limit := time.NewTimer(run.options.Timeout)
	defer limit.Stop()
	select {
	case <-t.before:
		return nil
	case <-run.ctx.Done():
		return context.Cause(run.ctx)
	case <-limit.C:
		return errTurnTimeout
	}
}

// leave gives the turn to the next in the queue. Who leaves before the turn came does not let the
// next one overtake those who are still before.
func (t turn) leave() {
	select {
	case <-t.before:
		close(t.over)
	default:
		go func() {
			<-t.before
			close(t.over)
		}()
	}
}
