package stdio

import (
	"errors"
	"io"
	"sync"
)

var (
	errSilenced = errors.New("the request is cancelled or answered")
	errStopped  = errors.New("the output is closed")
)

// maxQueuedProgress is how many unsent messages there may be before a call's progress
// notifications begin to replace one another.
const maxQueuedProgress = 1024

// outgoing is one line on its way out.
type outgoing struct {
	line    []byte
	lane    *lane  // the request that it belongs to, nil for none
	last    bool   // an answer: nothing of the lane may follow it
	sent    func() // called, if not nil, right before the line is written; and written right after
	written func()
}

// lane is the outbox's state of one request. The zero value is ready.
type lane struct {
	closed   bool      // guarded by outbox.mu: answered or cancelled
	progress *outgoing // guarded by outbox.mu: the newest progress line still queued
}

// outbox is the one ordered way out: lines are written in the order in which they were put,
// by a goroutine of its own, so that a client that does not read blocks nobody who did not
// choose to wait.
type outbox struct {
	out io.Writer

	mu       sync.Mutex
	queue    []*outgoing
	bytes    int // of the queued lines
	room     chan struct{}
	closing  bool
	wake     chan struct{} // one token: the queue or closing changed
	finished chan struct{} // run returned
	failed   chan struct{} // err is set
	err      error
}

func newOutbox(out io.Writer) *outbox {
	return &outbox{
		out:      out,
		room:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		finished: make(chan struct{}),
		failed:   make(chan struct{}),
	}
}

// run writes until close is called and the queue is empty, or a write fails.
func (o *outbox) run() {
	defer close(o.finished)
	for {
		m, closing := o.take()
		if m == nil {
			if closing {
				return
			}
			<-o.wake
			continue
		}
		if m.sent != nil {
			m.sent()
		}
		if _, err := o.out.Write(m.line); err != nil {
			o.fail(err)
			return
		}
		if m.written != nil {
			m.written()
		}
	}
}

// take removes the first line from the queue and lets those go on who wait for room.
func (o *outbox) take() (m *outgoing, closing bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return nil, o.closing
	}
	m = o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.shrunk(len(m.line))
	if m.lane != nil && m.lane.progress == m {
		m.lane.progress = nil
	}
	return m, false
}

// shrunk accounts for bytes that left the queue. o.mu is held.
func (o *outbox) shrunk(bytes int) {
	o.bytes -= bytes
	close(o.room)
	o.room = make(chan struct{})
}

func (o *outbox) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
	o.queue, o.bytes = nil, 0
	close(o.failed)
}

// put queues a line, waiting while more than limit bytes are queued before it. It gives up with errStopped when stop is closed while it
// waits or when the output failed, and with errSilenced as soon as the line's request was cancelled.
func (o *outbox) put(m *outgoing, limit int, stop <-chan struct{}) error {
	for {
		room, err := o.tryPut(m, limit)
		if room == nil {
			return err
		}
		select {
		case <-room:
		case <-stop:
			return errStopped
		case <-o.failed:
			return errStopped
		}
	}
}

// tryPut queues a line, or returns a channel to wait on.
func (o *outbox) tryPut(m *outgoing, limit int) (room <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil || o.closing:
		return nil, errStopped
	case m.lane != nil && m.lane.closed:
		return nil, errSilenced
	case o.bytes > 0 && o.bytes+len(m.line) > limit:
		return o.room, nil
	}
	if m.last && m.lane != nil {
		m.lane.closed = true
	}
	o.push(m)
	return nil, nil
}

// push queues a line. o.mu is held.
func (o *outbox) push(m *outgoing) {
	o.queue = append(o.queue, m)
	o.bytes += len(m.line)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// putProgress queues a progress line of a request, and never waits: if too much is unsent, it replaces the request's newest queued line, so
// that each request adds one at most to the client's unread lines.
func (o *outbox) putProgress(l *lane, line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.closing || l.closed {
		return
	}
	if l.progress != nil && len(o.queue) >= maxQueuedProgress {
		o.bytes += len(line) - len(l.progress.line)
		l.progress.line = line
		return
	}
	l.progress = &outgoing{line: line, lane: l}
	o.push(l.progress)
}

// silence makes sure that nothing more is written for a request: queued lines are removed, new ones refused. A line that is being written is
// out already.
func (o *outbox) silence(l *lane) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.closed, l.progress = true, nil
	kept := o.queue[:0]
	bytes := 0
	for _, m := range o.queue {
		if m.lane == l {
			bytes += len(m.line)
			continue
		}
		kept = append(kept, m)
	}
	clear(o.queue[len(kept):])
	o.queue = kept
	if bytes > 0 {
		o.shrunk(bytes)
	}
}

// close takes no more lines and lets run end once all are written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
