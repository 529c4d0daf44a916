package packages

import (
	"context"
	"sync"
)

// maxRequests is how many requests of one session are answered at a time; the others wait. An answer may have megabytes
// that its client does not read, so this bounds what a session costs.
const maxRequests = 16

// seats gives each session its places. The zero value is ready for use by any goroutine.
type seats struct {
	mu       sync.Mutex
	sessions map[string]*places
}

type places struct {
	free  chan struct{}
	users int // who have a place or wait for one
}

// take waits for a place, which is given back by leave. The error is the context's.
func (s *seats) take(ctx context.Context, session string) (leave func(), err error) {
	s.mu.Lock()
	p := s.sessions[session]
	if p == nil {
		if s.sessions == nil {
			s.sessions = make(map[string]*places)
		}
		p = &places{free: make(chan struct{}, maxRequests)}
		s.sessions[session] = p
	}
	p.users++
	s.mu.Unlock()
	done := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(s.sessions, session)
		}
	}
	select {
	case p.free <- struct{}{}:
		return func() { <-p.free; done() }, nil
	case <-ctx.Done():
		done()
		return nil, context.Cause(ctx)
	}
}
