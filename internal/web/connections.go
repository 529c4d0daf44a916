package web

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections bounds how many there are: of those that are not kept, the one that has done nothing for longest gives way to a new
// one. A principal with a name keeps a quarter at most, and its others give way first. Spare ones are kept by nobody, so that whatever
// comes is read, and as many by the user whose server it is alone.
type connections struct {
	most, each, spare int

	mu      sync.Mutex
	waiting *list.List                 // of net.Conn, the first to give way first
	all     map[net.Conn]*list.Element // nil for one that is kept
	kept    map[net.Conn]string        // by whom
	held    map[string]int             // how many, of each
}

func newConnections(most int) *connections {
	return &connections{
		most: most, each: most / 4, spare: max(most/16, 1),
		waiting: list.New(), all: make(map[net.Conn]*list.Element), kept: make(map[net.Conn]string), held: make(map[string]int),
	}
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

// keep has a connection keep its place until its state changes, as one of an owner's.
func (c *connections) keep(conn net.Conn, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// release ends what keep began. c.mu is held.
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
