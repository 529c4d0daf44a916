package kernel

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxOut bounds the served connections of one session. More connections wait.
	maxOut = 128
	// outIdle is how long a connection must be without a byte, after one to the code, before it makes room for another: clients
	// keep connections that they may never use again. It is long because a busy machine is slower than hosts.
	outIdle = 10 * time.Second
	// outAgain is the pause before the next look for a connection that makes room.
	outAgain = 100 * time.Millisecond
)

// outConn is a served connection of the code.
type outConn struct {
	net.Conn
	idleSince atomic.Int64 // in Unix nanoseconds; 0: the code waits for an answer, or an answer for the code
}

func (c *outConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.idleSince.Store(0)
	}
	return n, err
}

func (c *outConn) Write(p []byte) (int, error) {
	c.idleSince.Store(0) // it may wait for the code to read
	n, err := c.Conn.Write(p)
	c.idleSince.Store(time.Now().UnixNano())
	return n, err
}

// Conns are the served connections of one session. Each may hold bytes that the server did not read yet.
type Conns struct {
	semaphore chan struct{}
	idle      time.Duration // after which a connection makes room
	mu        sync.Mutex
	open      map[*outConn]struct{}
}

// NewConns returns those of a session.
func NewConns() *Conns { return newConns(maxOut, outIdle) }

func newConns(most int, idle time.Duration) *Conns {
	return &Conns{semaphore: make(chan struct{}, most), idle: idle, open: make(map[*outConn]struct{})}
}

// enter waits for a slot, which the longest idle connection gives up.
func (o *Conns) enter(conn net.Conn) *outConn {
	c := &outConn{Conn: conn}
	c.idleSince.Store(time.Now().UnixNano())
	for entered := false; !entered; {
		if len(o.semaphore) == cap(o.semaphore) {
			o.makeRoom()
		}
		select {
		case o.semaphore <- struct{}{}:
			entered = true
		case <-time.After(outAgain):
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[c] = struct{}{}
	return c
}

func (o *Conns) leave(c *outConn) {
	o.mu.Lock()
	delete(o.open, c)
	o.mu.Unlock()
	<-o.semaphore
}

// makeRoom closes the longest idle connection, if it is idle for long enough.
func (o *Conns) makeRoom() {
	o.mu.Lock()
	defer o.mu.Unlock()
	var idlest *outConn
	since := time.Now().Add(-o.idle).UnixNano()
	for c := range o.open {
		if at := c.idleSince.Load(); at != 0 && at < since {
			idlest, since = c, at
		}
	}
	if idlest != nil {
		delete(o.open, idlest)
		go func() { _ = idlest.Close() }() // waits for a container that does not read
	}
}

// Out serves the egress of a session's code.
type Out struct {
	Conns *Conns // of all containers of the session
	// Serve serves a connection, and closes it. run is the run going on in the container, or empty. Nil refuses.
	Serve func(run string, conn net.Conn)
}

// acceptOut serves the container's streams, until the connection ends. Waiting streams here and in the multiplexer are bounded, so
// the supervisor opens no more until there is room.
func (c *Container) acceptOut() {
	for {
		conn, err := c.conn.Accept()
		if err != nil {
			return
		}
		if c.with.Out.Serve == nil {
			_ = conn.Close()
			continue
		}
		out := c.with.Out.Conns.enter(conn)
		go func() {
			defer c.with.Out.Conns.leave(out)
			c.with.Out.Serve(c.current(), out)
		}()
	}
}
