package httpserver

import (
	"context"
	"net"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// What requests may take of the memory together, in bytes: those of one principal, or of one client of the user's, which is known by its address, and all. Shares of
// smallShare and less have room of their own, so that a ping, a cancel or an ordinary answer never waits behind large messages.
const (
	clientMemory = rpc.MaxMessageBytes
	allMemory    = 4 * clientMemory

	smallShare  = 1 << 20
	clientSmall = 16 << 20
	allSmall    = 4 * clientSmall
)

// memory is what requests may take.
type memory struct {
	all room

	mu sync.Mutex
	of map[string]*budget // of those that have requests
}

// room is what is free for large shares and for small ones.
type room struct{ large, small *semaphore.Weighted }

func newRoom(large, small int64) room {
	return room{semaphore.NewWeighted(large), semaphore.NewWeighted(small)}
}

func (r room) of(large bool) *semaphore.Weighted {
	if large {
		return r.large
	}
	return r.small
}

type budget struct {
	free  room
	users int
}

func newMemory() *memory {
	return &memory{all: newRoom(allMemory, allSmall), of: make(map[string]*budget)}
}

// share is what one request has taken.
type share struct {
	of     *memory
	client string
	own    *budget
	size   int64
	large  bool // a share that was large once stays so
}

// share returns the share of a client's request, which is nothing yet. It must be given back.
func (m *memory) share(client string) *share {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.of[client]
	if b == nil {
		b = &budget{free: newRoom(clientMemory, clientSmall)}
		m.of[client] = b
	}
	b.users++
	return &share{of: m, client: client, own: b}
}

// resize makes the share so large, waiting for room where it grows, and reports whether there was some before ctx ended. What exceeds
// clientMemory takes all of it.
func (s *share) resize(ctx context.Context, size int64) bool {
	size = min(size, clientMemory)
	large := s.large || size > smallShare
	more := size
	if large == s.large {
		more -= s.size
	}
	if more > 0 && !s.acquire(ctx, large, more) {
		return false
	}
	if large != s.large {
		s.release(s.large, s.size)
	} else if more < 0 {
		s.release(large, -more)
	}
	s.size, s.large = size, large
	return true
}

func (s *share) acquire(ctx context.Context, large bool, size int64) bool {
	if s.own.free.of(large).Acquire(ctx, size) != nil {
		return false
	}
	if s.of.all.of(large).Acquire(ctx, size) != nil {
		s.own.free.of(large).Release(size)
		return false
	}
	return true
}

func (s *share) release(large bool, size int64) {
	s.own.free.of(large).Release(size)
	s.of.all.of(large).Release(size)
}

// shrink releases what the share has beyond a size.
func (s *share) shrink(size int64) { s.resize(context.Background(), min(size, s.size)) }

// giveBack ends the share.
func (s *share) giveBack() {
	s.shrink(0)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.own.users--; s.own.users == 0 {
		delete(s.of.of, s.client)
	}
}

// addressOf is where a request comes from, without its port. On a Unix socket all come from one.
func addressOf(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
