package httpserver

import (
	"container/list"
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// A silent client makes room for others after quietTime, or after hungUpTime if it closed its stream: many clients end so, without DELETE,
// and one with a broken stream opens another after a second. It is forgotten after clientTime.
const (
	quietTime  = time.Minute
	hungUpTime = 2 * time.Second
	clientTime = 24 * time.Hour
)

// client is one that began a session, or a source for stateless requests.
type client struct {
	listed  bool // among the clients, where its next requests find it; set when it is made
	name    string
	owner   string       // its principal's Key
	site    *Site        // that it came to last, under clients.mu: its principal may be served anew meanwhile
	session *rpc.Session // its handshake's data
	// requests are those that the server sent it.
	requests rpc.Requests
	ctx      context.Context
	end      context.CancelFunc

	mu     sync.Mutex
	calls  map[string]func(reason []byte) // cancels the session's cancellable calls, by their ids' keys
	recent rpc.Recent

	// Under clients.mu.
	begun  bool // with a handshake
	using  int  // requests and streams
	hungUp bool // the last that was heard of it is a stream's end
	seen   time.Time
	place  *list.Element // among its owner's idle ones; nil: in use, or forgotten
	unused *time.Timer   // forgets a client that begins and says no more; nil: it began without a handshake
}

// clients holds the known clients, by name. A name that begins a session is its client's own secret.
type clients struct {
	mu   sync.Mutex
	list map[string]*client
	idle map[string]*list.List // those not in use by their owners, the one first that was not heard of for longest
}

func newClients() *clients {
	return &clients{list: make(map[string]*client), idle: make(map[string]*list.List)}
}

// begin makes a client for a handshake. It is in use, as by enter.
func (c *clients) begin(r *http.Request) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.add(r, rand.Text(), true)
	n.unused = time.AfterFunc(quietTime, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n.using == 0 && c.list[n.name] == n {
			c.forget(n)
		}
	})
	return n
}

// add makes a client, and forgets those that were not heard of for long. c.mu is held.
func (c *clients) add(r *http.Request, name string, begun bool) *client {
	now := time.Now()
	most := new(list.List)
	for _, idle := range c.idle {
		for old := idle.Front(); old != nil && now.Sub(old.Value.(*client).seen) > clientTime; old = idle.Front() {
			c.forget(old.Value.(*client))
		}
		if idle.Len() > most.Len() {
			most = idle
		}
	}
	if len(c.list) >= maxClients && most.Len() > 0 {
		c.forget(most.Front().Value.(*client)) // the owner with the most loses one
	}
	n := newClient(r, name)
	n.begun, n.listed = begun, true
	c.list[name] = n
	return n
}

// newClient makes a client that is in use, as by enter.
func newClient(r *http.Request, name string) *client {
	// Broadcasts go to streams, and each stream owns a session.
	n := &client{name: name, owner: ownerOf(r), site: siteOf(r), session: rpc.NewSession(name, func(mcp.JSONRPCNotification) {}), using: 1, seen: time.Now(),
		calls: make(map[string]func(reason []byte))}
	n.ctx, n.end = context.WithCancel(context.Background())
	return n
}

// use marks a client as in use. c.mu is held.
func (c *clients) use(n *client) {
	n.using++
	if n.place == nil {
		return
	}
	idle := c.idle[n.owner]
	idle.Remove(n.place)
	n.place = nil
	if idle.Len() == 0 {
		delete(c.idle, n.owner)
	}
}

// forget ends a client's session. c.mu is held.
func (c *clients) forget(n *client) {
	c.use(n)
	delete(c.list, n.name)
	if n.unused != nil {
		n.unused.Stop()
	}
	n.end()
	if n.site.Ended != nil {
		go n.site.Ended(n.name)
	}
}

func ownerOf(r *http.Request) string { return principal.Of(r.Context()).Key() }

// enter returns a session's client and marks it as in use until leave; nil: the request's principal owns no such session.
func (c *clients) enter(r *http.Request, session string) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.list[session]
	if n == nil || !n.begun || n.owner != ownerOf(r) {
		return nil
	}
	n.unused.Stop()
	c.use(n)
	n.hungUp, n.site = false, siteOf(r)
	return n
}

// stateless is enter for a client that its requests' cookie identifies.
func (c *clients) stateless(r *http.Request, name string) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.list[name]; n != nil {
		c.use(n)
		n.site = siteOf(r)
		return n
	}
	return c.add(r, name, false)
}

func (c *clients) leave(n *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.using--
	n.seen = time.Now()
	switch {
	case !n.listed:
		n.end()
	case n.using == 0:
		if c.idle[n.owner] == nil {
			c.idle[n.owner] = list.New()
		}
		n.place = c.idle[n.owner].PushBack(n)
	}
}

// hangUp is leave for a stream that ended.
func (c *clients) hangUp(n *client) {
	c.leave(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	n.hungUp = n.using == 0
}

func (c *clients) remove(n *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list[n.name] == n {
		c.forget(n)
	}
}

// gone reports whether a client is gone, after its session was unused for a time.
func (c *clients) gone(name string, idle time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.list[name]
	if n == nil { // one without a cookie is not listed
		return !strings.HasPrefix(name, statelessName) || idle > quietTime
	}
	after := quietTime
	if n.hungUp {
		after = hungUpTime
	}
	return n.using == 0 && time.Since(n.seen) > after
}

// track makes a request one that its client can cancel, and reports whether it is the only one with its id.
func (n *client) track(id rpc.ID, cancel func(reason []byte)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.calls[id.Key]; known {
		return false
	}
	n.calls[id.Key] = cancel
	return true
}

func (n *client) untrack(id rpc.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.calls, id.Key)
}

// cancel cancels a request. An id that is not known is ignored.
func (n *client) cancel(id rpc.ID, reason []byte) {
	n.mu.Lock()
	cancel := n.calls[id.Key]
	n.mu.Unlock()
	if cancel == nil {
		n.recent.Cancel(id, reason)
		return
	}
	cancel(reason)
}
