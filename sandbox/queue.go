package sandbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// queue gives turns to the runs of one kernel.
type queue struct {
	mu   sync.Mutex
	last <-chan struct{} // closed after the turn of the last in the queue
}

func newQueue() queue { return queue{last: openTurn().before} }

// turn is a place in a queue. Runs take places in the order of the calls, and run in that order.
type turn struct {
	before <-chan struct{} // closed after the turns before
	over   chan struct{}   // closed after this turn and those before
}

// openTurn returns a turn that came already, in no queue.
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

// inUse reports whether a run holds the turn or waits for it.
func (q *queue) inUse() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !isClosed(q.last)
}

var errTurnTimeout = errors.New("no turn in time")

// wait waits for the turn, at most for so long, or until ctx ends.
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

// leave passes the turn to the next in the queue. A run that leaves before its turn does not let the next one overtake those
// before it.
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
