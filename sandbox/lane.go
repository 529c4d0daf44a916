package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// lane is one language of a session: its kernel, and whose turn it is to use it.
type lane struct {
	language Language
	last     <-chan struct{} // closed when the last in the queue has had its turn; under the session's lock

	// starting is held by whoever starts or removes the container.
	starting sync.Mutex
	reached  bool // a container of an earlier server was looked for; under starting
	tried    bool // a container was asked for, and may be there although that failed; under starting

	mu     sync.Mutex
	kernel *kernel
	had    bool     // a kernel existed before, whose variables somebody may expect
	notes  []string // what the next run should tell
	// adopted is a run of an earlier server that the kernel was busy with when it was taken over.
	adopted *Run
}

func (l *lane) kernelNow() *kernel {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kernel
}

// setKernel exchanges the kernel; nil: it is gone.
func (l *lane) setKernel(k *kernel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kernel = k
	l.had = l.had || k != nil
}

func (l *lane) hadKernel() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.had
}

// noteLater keeps a note for the next run, where something else came across it.
func (l *lane) noteLater(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// noteLost tells once that the kernel had died before the run came to it.
func (l *lane) noteLost(k *kernel, note func(string)) {
	if cause := k.takeLost(); cause != "" {
		note(fmt.Sprintf("The %s kernel had ended since the last run (%s): its variables are gone, the files are there.", l.language, cause))
	}
}

func (l *lane) takeNotes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	notes := l.notes
	l.notes = nil
	return notes
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

// openTurn is a turn that has come, in no queue.
func openTurn() turn {
	before := make(chan struct{})
	close(before)
	return turn{before: before, over: make(chan struct{})}
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

func (l *lane) setAdopted(r *Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.adopted = r
}

func (l *lane) adoptedNow() *Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.adopted
}

// waitAdopted lets a run wait until the kernel has done with the run that it was taken over with.
func (l *lane) waitAdopted(run *Run) error {
	before := l.adoptedNow()
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
