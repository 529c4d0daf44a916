package packages

import (
	"context"
	"sync"
)

// flights are works that requests share, by a key. The zero value is ready for use by any goroutine.
type flights struct {
	mu    sync.Mutex
	going map[string]*flight
}

type flight struct {
	waiting int // requests
	cancel  context.CancelFunc
	done    chan struct{}
	value   any
	err     error
}

// do returns work's result. It begins work unless it is going on, and ends it when no request waits for it any more. It returns after its
// work ends, so that a request holds its memory for as long as it costs something.
func (s *flights) do(asked context.Context, key string, work func(context.Context) (any, error)) (any, error) {
	f := s.join(asked, key, work)
	select {
	case <-f.done:
	case <-asked.Done():
		if s.leave(key, f) {
			<-f.done
		}
		return nil, context.Cause(asked)
	}
	s.leave(key, f)
	return f.value, f.err
}

func (s *flights) join(asked context.Context, key string, work func(context.Context) (any, error)) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.going[key]
	if f == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(asked))
		f = &flight{cancel: cancel, done: make(chan struct{})}
		if s.going == nil {
			s.going = make(map[string]*flight)
		}
		s.going[key] = f
		go func() {
			defer cancel()
			f.value, f.err = work(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.drop(key, f)
			close(f.done)
		}()
	}
	f.waiting++
	return f
}

// leave reports whether no request waits any more, in which case the work is cancelled.
func (s *flights) leave(key string, f *flight) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return false
	}
	s.drop(key, f)
	f.cancel()
	return true
}

func (s *flights) drop(key string, f *flight) {
	if s.going[key] == f {
		delete(s.going, key)
	}
}
