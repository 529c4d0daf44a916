package web

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections bounds how many there are: of those that are not kept, the one that has done nothing for longest gives way to a new
// one.
type connections struct {
	most int

	mu      sync.Mutex
	waiting *list.List                 // of net.Conn, the longest first
	all     map[net.Conn]*list.Element // nil for one that is kept
}

func newConnections(most int) *connections {
	return &connections{most: most, waiting: list.New(), all: make(map[net.Conn]*list.Element)}
}

// changed is http.Server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	extra := c.note(conn, state)
	if extra == nil {
		return
	}
	if secure, ok := extra.(*tls.Conn); ok {
		extra = secure.NetConn() // TLS' own Close may wait for a client that does not read, and this is the accept loop
	}
	_ = extra.Close()
}

// keep has a connection keep its place until its state changes.
func (c *connections) keep(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.all[conn]; e != nil {
		c.waiting.Remove(e)
		c.all[conn] = nil
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
	c.waiting.Remove(longest)
	delete(c.all, extra)
	return extra
}
