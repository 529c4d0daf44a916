package sandbox

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxOut is how many connections of one session are served at a time. The next ones wait.
	maxOut = 128
	// outIdle is how long a connection is without a byte, after one to the code, before it makes room for another: clients
	// keep connections that they may never use again. A busy machine is slower than hosts.
	outIdle = 10 * time.Second
	// outAgain is the time after which it is looked once more for one that makes room.
	outAgain = 100 * time.Millisecond
)

// outConn is a connection of code that is served.
type outConn struct {
	net.Conn
	idleSince atomic.Int64 // in Unix nanoseconds; 0: the code waits for an answer, or one for the code
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

// outConns are the connections of one session that are served. Each may hold what the server has not read.
type outConns struct {
	semaphore chan struct{}
	idle      time.Duration // after which one makes room
	mu        sync.Mutex
	open      map[*outConn]struct{}
}

func newOutConns(most int, idle time.Duration) *outConns {
	return &outConns{semaphore: make(chan struct{}, most), idle: idle, open: make(map[*outConn]struct{})}
}

// enter waits for a place, which the connection that has been idle for longest leaves.
func (o *outConns) enter(conn net.Conn) *outConn {
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

func (o *outConns) leave(c *outConn) {
	o.mu.Lock()
	delete(o.open, c)
	o.mu.Unlock()
	<-o.semaphore
}

// makeRoom closes the connection that has been idle for longest, if one has for long enough.
func (o *outConns) makeRoom() {
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
		go func() { _ = idlest.Close() }() // which waits for a container that does not read
	}
}
