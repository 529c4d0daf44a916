package httpserver

import (
	"context"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"
)

// places bounds concurrent requests. A principal with a name gets a quarter at the most, so that some remain for others.
type places struct {
	all  *semaphore.Weighted
	each int

	mu   *sync.Mutex
	held map[string]int // by ownerOf
}

func newPlaces(total int) places {
	return places{all: semaphore.NewWeighted(int64(total)), each: total / 4, mu: new(sync.Mutex), held: make(map[string]int)}
}

// take waits for a place while ctx lasts, and returns the function that releases it; nil: there is none, or the request's principal used up
// its share.
func (p places) take(ctx context.Context, r *http.Request) (giveBack func()) {
	return p.enter(r, func() bool { return p.all.Acquire(ctx, 1) == nil })
}

// try is take that does not wait.
func (p places) try(r *http.Request) (giveBack func()) {
	return p.enter(r, func() bool { return p.all.TryAcquire(1) })
}

func (p places) enter(r *http.Request, acquire func() bool) (giveBack func()) {
	owner := ownerOf(r)
	if !p.count(owner, 1) {
		return nil
	}
	if !acquire() {
		p.count(owner, -1)
		return nil
	}
	return func() {
		p.all.Release(1)
		p.count(owner, -1)
	}
}

// count adds to an owner's count, and reports whether it is within the share.
func (p places) count(owner string, n int) bool {
	if owner == "" {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > 0 && p.held[owner] >= p.each {
		return false
	}
	if p.held[owner] += n; p.held[owner] == 0 {
		delete(p.held, owner)
	}
	return true
}
