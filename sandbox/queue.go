package sandbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// queue has the turns of the runs that one kernel executes.
type queue struct {
	mu   sync.Mutex
	last <-chan struct{} // closed when the last in the queue has had its turn
}

func newQueue() queue { return queue{last: openTurn().before} }

// turn is a place in a queue. Places are taken in the order of the calls, so runs are
// executed in it.
type turn struct {
	before <-chan struct{} // closed when those before have had their turns
	over   chan struct{}   // closed when this one, and those before, have
}

// openTurn is a turn that has come, in no queue.
func openTurn() turn {
	before := make(chan struct{})
	close(before)
	return turn{before: before, over: make(chan struct{})}
}

// enqueue takes the last place.
func (q *queue) enqueue() turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := turn{before: q.last, over: make(chan struct{})}
	q.last = t.over
	return t
}

// inUse reports whether a run has the turn or waits for it.
func (q *queue) inUse() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !isClosed(q.last)
}

var errTurnTimeout = errors.New("no turn in time")

// wait waits for the turn, for so long at the most, or until ctx ends.
func (t turn) wait(ctx context.Context, most time.Duration) error {
	limit := time.NewTimer(most)
	defer limit.Stop()
	select {
	case <-t.before:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-limit.C:
		return errTurnTimeout
	}
}

// leave passes the turn to the next in the queue. One that leaves before its turn does not let the
// next one overtake those before it.
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
