package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slot is one language of a session: its kernel, and whose turn it is to use it.
type slot struct {
	language Language
	last     <-chan struct{} // closed when the last in the queue has had its turn; under the session's lock

	// starting is held while the container is started or removed.
	starting sync.Mutex
	reached  bool // a container of an earlier server was looked for; under starting
	tried    bool // a container was asked for, and may be there although that failed; under starting

	kernel atomic.Pointer[kernel]
	had    atomic.Bool // there was a kernel, whose variables code may expect
	// adopted is a run of an earlier server that the kernel was busy with when it was taken over.
	adopted atomic.Pointer[Run]

	mu    sync.Mutex
	notes []string // for the next run's result
}

// setKernel replaces the kernel.
func (l *slot) setKernel(k *kernel) {
	l.kernel.Store(k)
	l.had.Store(true)
}

// noteLater keeps a note for the next run, where something else came across it.
func (l *slot) noteLater(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// noteLost notes once that the kernel had died before the run came to it.
func (l *slot) noteLost(k *kernel, note func(string)) {
	if cause := k.lost.Swap(nil); cause != nil && *cause != "" {
		note(fmt.Sprintf("The %s kernel had ended since the last run (%s): its variables are gone, the files are there.", l.language, *cause))
	}
}

func (l *slot) takeNotes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	notes := l.notes
	l.notes = nil
	return notes
}

func newSlot(language Language) *slot {
	return &slot{language: language, last: openTurn().before}
}

// turn is a place in a slot's queue. Places are taken in the order of the calls, so runs are
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

// enqueue takes the last place. The caller holds the session's lock.
func (l *slot) enqueue() turn {
	t := turn{before: l.last, over: make(chan struct{})}
	l.last = t.over
	return t
}

// inUse reports whether a run has the turn or waits for it. The caller holds the session's lock.
func (l *slot) inUse() bool { return !isClosed(l.last) }

// waitAdopted lets a run wait until the kernel has done with the run that it was taken over with.
func (l *slot) waitAdopted(run *Run) error {
	before := l.adopted.Load()
	if before == nil {
		return nil
	}
	return turn{before: before.done}.wait(run)
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
