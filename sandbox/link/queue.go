package link

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// queue gives turns to the runs of one kernel.
type queue struct {
	mu   sync.Mutex
	last <-chan struct{} // closed after the turn of the last in the queue
}

func newQueue() queue { return queue{last: OpenTurn().before} }

// Turn is a place in a queue. Runs take places in the order of the calls, and run in that order.
type Turn struct {
	before <-chan struct{} // closed after the turns before
	over   chan struct{}   // closed after this turn and those before
}

// OpenTurn returns a turn that came already, in no queue.
func OpenTurn() Turn {
	before := make(chan struct{})
	close(before)
	return Turn{before: before, over: make(chan struct{})}
}

// Enqueue takes the last place.
func (q *queue) Enqueue() Turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := Turn{before: q.last, over: make(chan struct{})}
	q.last = t.over
	return t
}

// InUse reports whether a run holds the turn or waits for it.
func (q *queue) InUse() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !runs.IsClosed(q.last)
}

var errTurnTimeout = errors.New("no turn in time")

// Wait waits for the turn, at most for so long, or until ctx ends.
func (t Turn) Wait(ctx context.Context, most time.Duration) error {
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

// Leave passes the turn to the next in the queue. A run that leaves before its turn does not let the next one overtake those
// before it.
func (t Turn) Leave() {
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
