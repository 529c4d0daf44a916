// Package room shares the server's memory among the requests that make or keep something.
//
// A transport makes one Memory. It gives each request a Share for its message, and by Serve the room for the work on the way: whoever makes
// or keeps something large calls Take with the worst case before it begins. The room comes back with the request, when its answer is
// written.
package room

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

// The memory that requests may take together, in bytes: those of one principal, or of one client of the owner's, known by its address, and
// all. Shares of Small and less come from room of their own, so that a ping, a cancel or an ordinary answer never waits behind large
// messages.
const (
	// Each is the large room of one of them, and holds the longest message.
	Each = 72 << 20
	all  = 4 * Each

	Small = 1 << 20
	// EachSmall is the room of one of them for small shares.
	EachSmall = 16 << 20
	allSmall  = 4 * EachSmall

	// Head is the memory for a request with its head alone.
	Head = 16 << 10
)

// Memory is the memory for requests. Make it with New; the methods are safe for use by several goroutines.
type Memory struct {
	// Wait is the time for which Take waits for room.
	Wait time.Duration

	all room

	mu sync.Mutex
	of map[string]*budget // of those with requests
}

// room is the free memory for large shares and for small ones.
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

// New returns a Memory with all its room free.
func New() *Memory {
	return &Memory{Wait: 10 * time.Second, all: newRoom(all, allSmall), of: make(map[string]*budget)}
}

// IsFree reports whether nothing is taken.
func (m *Memory) IsFree() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.of) > 0 || !m.all.large.TryAcquire(all) {
		return false
	}
	m.all.large.Release(all)
	return true
}

// Share is the memory that one request took.
type Share struct {
	of    *Memory
	whose string
	own   *budget
	size  int64
	large bool // a share that was large once stays so
}

// Share returns a share of somebody's, which is nothing yet. It must be given back.
func (m *Memory) Share(whose string) *Share {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.of[whose]
	if b == nil {
		b = &budget{free: newRoom(Each, EachSmall)}
		m.of[whose] = b
	}
	b.users++
	return &Share{of: m, whose: whose, own: b}
}

// Resize sets the share's size, waiting for room if it grows, and reports whether there was some before ctx ended. A size over Each takes
// all of it.
func (s *Share) Resize(ctx context.Context, size int64) bool {
	size = min(size, Each)
	large := s.large || size > Small
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

func (s *Share) acquire(ctx context.Context, large bool, size int64) bool {
	if s.own.free.of(large).Acquire(ctx, size) != nil {
		return false
	}
	if s.of.all.of(large).Acquire(ctx, size) != nil {
		s.own.free.of(large).Release(size)
		return false
	}
	return true
}

func (s *Share) release(large bool, size int64) {
	s.own.free.of(large).Release(size)
	s.of.all.of(large).Release(size)
}

// Shrink releases the part of the share beyond a size.
func (s *Share) Shrink(size int64) { s.Resize(context.Background(), min(size, s.size)) }

// GiveBack ends the share.
func (s *Share) GiveBack() {
	s.Shrink(0)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.own.users--; s.own.users == 0 {
		delete(s.of.of, s.whose)
	}
}

// served is a request on its way, with the memory taken for it.
type served struct {
	of      *Memory
	address string

	mu    sync.Mutex
	taken []*Share
	over  bool
}

type servedKey struct{}

// Serve returns a context of a request from an address, in which Take takes of m, and the function that gives all of that back.
func (m *Memory) Serve(ctx context.Context, address string) (_ context.Context, giveBack func()) {
	s := &served{of: m, address: address}
	return context.WithValue(ctx, servedKey{}, s), func() {
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
		s.fit(0)
	}
}

// Handler wraps a handler, so that its requests take of m.
func (m *Memory) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, giveBack := m.Serve(r.Context(), AddressOf(r))
		defer giveBack()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// AddressOf returns the address of a request's client, without its port. On a Unix socket all come from one.
func AddressOf(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// WhoseIs returns the key of the share that a request takes of: its principal's, or that of a client of the owner's.
func WhoseIs(r *http.Request) string { return whose(r.Context(), AddressOf(r)) }

func whose(ctx context.Context, address string) string {
	return cmp.Or(principal.Of(ctx).Key(), address)
}

// Take takes room for this many bytes from the share of ctx's request, waiting a while for it. It comes back with release, or when the
// request is answered. If ctx belongs to no request, as in a command, there is always room. The error is a fault: server_busy if others of
// the same owner hold the room, and at once artifact_too_large if the request itself does.
func Take(ctx context.Context, bytes int64) (release func(), err error) {
	s, is := ctx.Value(servedKey{}).(*served)
	if !is {
		return func() {}, nil
	}
	owner := whose(ctx, s.address)
	if min(bytes, Each) > s.free(owner, bytes > Small) {
		return nil, fault.New(fault.ArtifactTooLarge, "Ask for less in one call.", "This takes more of the server's memory than one request may have.")
	}
	waiting, cancel := context.WithTimeout(ctx, s.of.Wait)
	defer cancel()
	share := s.of.Share(owner)
	if !share.Resize(waiting, bytes) {
		share.GiveBack()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fault.New(fault.ServerBusy, "Try again when others of your requests have been answered.", "What you have asked for takes too much of the server's memory at once.")
	}
	s.mu.Lock()
	s.taken = append(s.taken, share)
	over := s.over
	s.mu.Unlock()
	if over {
		s.fit(0)
		return nil, context.Canceled
	}
	return func() {
		s.mu.Lock()
		at := slices.Index(s.taken, share)
		if at >= 0 {
			s.taken = slices.Delete(s.taken, at, at+1)
		}
		s.mu.Unlock()
		if at >= 0 {
			share.GiveBack()
		}
	}, nil
}

// free returns the room of an owner, for large shares or for small ones, that the request does not hold itself.
func (s *served) free(owner string, large bool) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := int64(EachSmall)
	if large {
		bytes = Each
	}
	for _, share := range s.taken {
		if share.whose == owner && share.large == large {
			bytes -= share.size
		}
	}
	return bytes
}

// Growing takes room for growing data in a request, a piece at a time.
type Growing struct{ has, taken int64 }

// Add takes room for so many bytes more.
func (g *Growing) Add(ctx context.Context, bytes int64) error {
	const piece = 2 * Small
	for g.has += bytes; g.taken < g.has; g.taken += piece {
		if _, err := Take(ctx, piece); err != nil {
			return err
		}
	}
	return nil
}

// Fit gives back the room that a request took beyond the bytes of its answer, and returns for how many of them it took none.
func Fit(ctx context.Context, bytes int64) (lacks int64) {
	if s, is := ctx.Value(servedKey{}).(*served); is {
		return s.fit(bytes)
	}
	return bytes
}

func (s *served) fit(bytes int64) (lacks int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.taken[:0]
	for _, share := range s.taken {
		share.Shrink(bytes)
		if bytes -= share.size; share.size > 0 {
			kept = append(kept, share)
		} else {
			share.GiveBack()
		}
	}
	clear(s.taken[len(kept):])
	s.taken = kept
	return bytes
}
