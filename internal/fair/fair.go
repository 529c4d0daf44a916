// Package fair shares places among sessions, or other named users, and bounds their rates.
package fair

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Places are shared by the sessions of a server. Make them with New; the methods are safe for use by several goroutines.
type Places struct {
	total, each int

	mu      sync.Mutex
	taken   int
	held    map[string]int
	waiting []*waiter // the first to come first
}

type waiter struct {
	session string
	turn    chan struct{} // closed when it gets a place
	since   time.Time
}

// New makes total places. One session gets half at the most.
func New(total int) *Places {
	return &Places{total: total, each: (total + 1) / 2, held: make(map[string]int)}
}

// NewFew makes total places. One session gets few at the most.
func NewFew(total, few int) *Places {
	return &Places{total: total, each: few, held: make(map[string]int)}
}

// NewOpen makes total places. One session may get all that no other waits for.
func NewOpen(total int) *Places {
	return &Places{total: total, each: total, held: make(map[string]int)}
}

// Taken returns the number of taken places.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Waited returns the longest present wait; zero: none waits.
func (p *Places) Waited() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return 0
	}
	return time.Since(p.waiting[0].since)
}

// Each returns the most places of one session.
func (p *Places) Each() int { return p.each }

// Take waits for a place; leave gives it back. A free place goes to the session with the fewest, and among those to the one that waits
// longest. The error is the context's cause.
func (p *Places) Take(ctx context.Context, session string) (leave func(), err error) {
	w := &waiter{session, make(chan struct{}), time.Now()}
	p.mu.Lock()
	p.waiting = append(p.waiting, w)
	p.assign()
	p.mu.Unlock()
	leave = sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
		if p.held[session]--; p.held[session] == 0 {
			delete(p.held, session)
		}
		p.assign()
	})
	select {
	case <-w.turn:
		return leave, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	at := slices.Index(p.waiting, w)
	if at >= 0 {
		p.waiting = slices.Delete(p.waiting, at, at+1)
	}
	p.mu.Unlock()
	if at < 0 { // its turn came at the same time
		leave()
	}
	return nil, context.Cause(ctx)
}

// assign fills the places that are free.
func (p *Places) assign() {
	for p.taken < p.total {
		next := -1
		for i, w := range p.waiting {
			if held := p.held[w.session]; held < p.each && (next < 0 || held < p.held[p.waiting[next].session]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := p.waiting[next]
		p.waiting = slices.Delete(p.waiting, next, next+1)
		p.taken++
		p.held[w.session]++
		close(w.turn)
	}
}
