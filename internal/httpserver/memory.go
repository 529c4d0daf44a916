package httpserver

import (
	"context"
	"net"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// What requests may take of the memory together: those of one client, which are known by its address, and all.
const (
	clientMemory = rpc.MaxMessageBytes
	allMemory    = 4 * clientMemory
)

// memory is what requests may take.
type memory struct {
	all *semaphore.Weighted

	mu sync.Mutex
	of map[string]*budget // of clients that have requests, by their addresses
}

type budget struct {
	free  *semaphore.Weighted
	users int
}

func newMemory() *memory {
	return &memory{all: semaphore.NewWeighted(allMemory), of: make(map[string]*budget)}
}

// share is what one request has taken.
type share struct {
	of     *memory
	client string
	own    *budget
	size   int64
}

// share returns the share of a client's request, which is nothing yet. It must be given back.
func (m *memory) share(client string) *share {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.of[client]
	if b == nil {
		b = &budget{free: semaphore.NewWeighted(clientMemory)}
		m.of[client] = b
	}
	b.users++
	return &share{of: m, client: client, own: b}
}

// resize makes the share so large, waiting for room where it grows, and reports whether there was some before ctx ended. What exceeds
// clientMemory takes all of it.
func (s *share) resize(ctx context.Context, size int64) bool {
	size = min(size, clientMemory)
	more := size - s.size
	if more > 0 {
		if s.own.free.Acquire(ctx, more) != nil {
			return false
		}
		if s.of.all.Acquire(ctx, more) != nil {
			s.own.free.Release(more)
			return false
		}
	} else {
		s.own.free.Release(-more)
		s.of.all.Release(-more)
	}
	s.size = size
	return true
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
