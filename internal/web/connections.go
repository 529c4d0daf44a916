package web

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// connections bounds the connections: of those that are not kept, the one idle for longest gives way to a new one. A principal with a name
// keeps a quarter at most, and its others give way first. Some spare places are never kept, so that every new connection is read, and as
// many are kept by the owner alone. The memory of unfinished heads is bounded for all together, in the same way.
type connections struct {
	most, each, spare int
	mostHeads         int64

	mu      sync.Mutex
	waiting *list.List                 // of net.Conn, the first to give way first
	all     map[net.Conn]*list.Element // nil for one that is kept
	kept    map[net.Conn]string        // by whom
	held    map[string]int             // how many, of each
	heads   map[net.Conn]int64         // their memory at the most, in bytes
	inHeads int64                      // all of them
}

func newConnections(most int) *connections {
	return &connections{
		most: most, each: most / 4, spare: max(most/16, 1), mostHeads: allHeads,
		waiting: list.New(), all: make(map[net.Conn]*list.Element), kept: make(map[net.Conn]string), held: make(map[string]int),
		heads: make(map[net.Conn]int64),
	}
}

// below returns the connection that a listener accepted. TLS' own Close may wait for a client that does not read.
func below(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}

// changed is http.Server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	conn = below(conn)
	if counted, is := conn.(*counted); is {
		counted.inHead.Store(state == http.StateNew || state == http.StateIdle)
	}
	if extra := c.note(conn, state); extra != nil {
		_ = extra.Close()
	}
}

// accepting is a listener with connections that count the bytes of heads.
type accepting struct {
	net.Listener
	of *connections
}

func (a accepting) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &counted{Conn: conn, of: a.of}
	c.inHead.Store(true)
	return c, nil
}

type counted struct {
	net.Conn
	of     *connections
	inHead atomic.Bool
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.inHead.Load() && !c.of.takesHead(c, int64(n)*headBytes) {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// takesHead counts a head's bytes, and reports whether there is room; the oldest unfinished heads give way for it.
func (c *connections) takesHead(conn net.Conn, bytes int64) bool {
	extra, fits := c.addHead(conn, bytes)
	for _, longest := range extra {
		_ = longest.Close()
	}
	return fits
}

func (c *connections) addHead(conn net.Conn, bytes int64) (extra []net.Conn, fits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, is := c.all[conn]; !is { // it gave way
		return nil, false
	}
	c.heads[conn] += bytes
	c.inHeads += bytes
	for e := c.waiting.Front(); e != nil && c.inHeads > c.mostHeads; {
		longest := e.Value.(net.Conn)
		e = e.Next()
		if c.heads[longest] > 0 && longest != conn {
			c.drop(longest)
			extra = append(extra, longest)
		}
	}
	if fits = c.inHeads <= c.mostHeads; !fits {
		c.forgetHead(conn, bytes)
	}
	return extra, fits
}

// forgetHead counts so much less. c.mu is held.
func (c *connections) forgetHead(conn net.Conn, bytes int64) {
	bytes = min(bytes, c.heads[conn])
	c.inHeads -= bytes
	if c.heads[conn] -= bytes; c.heads[conn] == 0 {
		delete(c.heads, conn)
	}
}

// readHead counts a head by its final size.
func (c *connections) readHead(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetHead(conn, c.heads[conn]-c.heads[conn]/headBytes*2)
}

// drop stops counting a connection that gives way. c.mu is held.
func (c *connections) drop(conn net.Conn) {
	c.waiting.Remove(c.all[conn])
	delete(c.all, conn)
	c.forgetHead(conn, c.heads[conn])
}

// keep exempts a connection, as one of an owner's, from giving way until its state changes.
func (c *connections) keep(conn net.Conn, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetHead(conn, c.heads[conn])
	e, room := c.all[conn], c.most-c.spare
	if owner != "" {
		room -= c.spare
	}
	switch {
	case e == nil: // it is kept, or closed
	case owner != "" && c.held[owner] >= c.each:
		c.waiting.MoveToFront(e)
	case len(c.kept) < room:
		c.waiting.Remove(e)
		c.all[conn], c.kept[conn] = nil, owner
		c.held[owner]++
	}
}

// release undoes keep. c.mu is held.
func (c *connections) release(conn net.Conn) {
	if owner, kept := c.kept[conn]; kept {
		delete(c.kept, conn)
		if c.held[owner]--; c.held[owner] == 0 {
			delete(c.held, owner)
		}
	}
}

// note keeps account of a connection, and returns one that is to be closed, if there are too many.
func (c *connections) note(conn net.Conn, state http.ConnState) (extra net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known := c.all[conn]
	if e != nil {
		c.waiting.Remove(e)
	}
	c.release(conn)
	if state != http.StateActive {
		c.forgetHead(conn, c.heads[conn])
	}
	switch {
	case state == http.StateHijacked || state == http.StateClosed:
		delete(c.all, conn)
	case known || state == http.StateNew: // any other was closed to make room
		c.all[conn] = c.waiting.PushBack(conn)
	}
	if len(c.all) <= c.most {
		return nil
	}
	longest := c.waiting.Front() // the new one at the least
	if longest == nil {
		return nil
	}
	extra = longest.Value.(net.Conn)
	c.drop(extra)
	return extra
}
