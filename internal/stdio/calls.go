package stdio

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// call is a request that runs on a goroutine of its own, or waits to.
type call struct {
	rpc.Call
	stream  bool // stays open at the client's will and takes no one's turn
	ctx     context.Context
	cancel  context.CancelCauseFunc
	lane    lane
	out     *outbox
	before  <-chan struct{} // closed when the call before is settled
	settled chan struct{}   // closed when this one is; nil for a call without order
	settle  sync.Once
}

// wait ends when the call before is settled, or with this call.
func (a *call) wait() {
	select {
	case <-a.before:
	case <-a.ctx.Done():
	}
}

func (a *call) letNext() {
	a.settle.Do(func() {
		select {
		case <-a.before:
			close(a.settled)
		default:
			// A call that was cancelled while it waited does not let the next one overtake.
			go func() {
				<-a.before
				close(a.settled)
			}()
		}
	})
}

var (
	errInFlight = errors.New("a request with this id is in flight")
	errBusy     = errors.New("too many requests are waiting")
	errTooMuch  = errors.New("the calls that are being served take too much memory")
	errClosed   = errors.New("the server is shutting down")
)

// maxStreams bounds the requests that stay open, which take no turn of the calls.
const maxStreams = 16

// calls starts requests in the order in which they came, a bounded number at once, and
// knows them by id until their answers are on the wire.
type calls struct {
	start      func(*call) // runs a call; must end in done
	maxRunning int
	maxQueued  int
	maxBytes   int64 // of all calls together

	mu       sync.Mutex
	inFlight map[string]*call
	queue    []*call
	active   map[*call]struct{} // running calls and open streams
	streams  int
	bytes    int64
	last     <-chan struct{} // the newest ordered call's settled
	closed   bool
	idle     chan struct{} // closed when closed and nothing is active

	recent rpc.Recent
}

func newCalls(opts Options, start func(*call)) *calls {
	first := make(chan struct{})
	close(first) // nothing comes before the first call
	return &calls{
		start:      start,
		maxRunning: opts.MaxRunning,
		maxQueued:  opts.MaxQueued,
		maxBytes:   int64(opts.MaxPendingBytes),
		inFlight:   make(map[string]*call),
		active:     make(map[*call]struct{}),
		idle:       make(chan struct{}),
		last:       first,
	}
}

// add runs the call now or later, or says why it cannot. It never blocks.
func (c *calls) add(a *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusal(a); err != nil {
		return err
	}
	c.inFlight[a.ID.Key] = a
	c.bytes += a.Bytes
	if a.stream || len(c.active)-c.streams < c.maxRunning {
		c.activate(a)
	} else {
		c.queue = append(c.queue, a)
	}
	return nil
}

// refusal is why a call cannot be taken. c.mu is held.
func (c *calls) refusal(a *call) error {
	_, known := c.inFlight[a.ID.Key]
	switch {
	case c.closed:
		return errClosed
	case known:
		return errInFlight
	case a.stream && c.streams >= maxStreams, !a.stream && len(c.queue) >= c.maxQueued:
		return errBusy
	case c.bytes > 0 && c.bytes+a.Bytes > c.maxBytes:
		return errTooMuch
	}
	return nil
}

// activate starts a call. c.mu is held.
func (c *calls) activate(a *call) {
	c.active[a] = struct{}{}
	if a.stream {
		c.streams++
	}
	if a.settled != nil {
		a.before, c.last = c.last, a.settled
	}
	go func() {
		growStack()
		c.start(a)
	}()
}

// done ends a call and passes its turn to the next one.
func (c *calls) done(a *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.active, a)
	c.bytes -= a.Bytes
	if a.stream {
		c.streams--
	}
	if len(c.queue) > 0 && len(c.active)-c.streams < c.maxRunning {
		next := c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
		c.activate(next)
	}
	c.checkIdle()
}

func (c *calls) forget(a *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inFlight[a.ID.Key] == a {
		delete(c.inFlight, a.ID.Key)
	}
}

// cancel ends the request with this id for the client's sake: not a word of it is sent from
// now on, and its context is done. An id that is not known is ignored.
func (c *calls) cancel(id rpc.ID, reason []byte) {
	a := c.remove(id)
	if a == nil {
		c.recent.Cancel(id, reason)
		return
	}
	a.out.silence(&a.lane)
	cause := a.CancelCause(reason)
	a.cancel(cause)
	a.Answered(cause)
}

// remove takes a call out of those in flight, and out of the queue if it waits there.
func (c *calls) remove(id rpc.ID) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.inFlight[id.Key]
	if a == nil {
		return nil
	}
	delete(c.inFlight, id.Key)
	if i := slices.Index(c.queue, a); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
		c.bytes -= a.Bytes
	}
	return a
}

// close takes no more calls, drops the waiting ones and ends the streams, none of which can come to an end by itself. The channel is closed
// when the running ones are done too.
func (c *calls) close() (idle <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, a := range c.queue {
		a.cancel(rpc.ErrShutdown)
	}
	c.queue = nil
	for a := range c.active {
		if a.stream {
			a.cancel(rpc.ErrShutdown)
		}
	}
	c.checkIdle()
	return c.idle
}

func (c *calls) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.active {
		a.cancel(rpc.ErrShutdown)
	}
}

// checkIdle lets close's caller know that the last call is done. c.mu is held.
func (c *calls) checkIdle() {
	if !c.closed || len(c.active) > 0 {
		return
	}
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

// growStack makes room for a call on its goroutine's stack. Grown from call to call, as Go does it,
// each time to twice its size and as a copy, it took a third of the time of a tool that does nothing.
//
//go:noinline
func growStack() {
	var room [16 << 10]byte
	runtime.KeepAlive(&room)
}
