package caller

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// PerSession is the memory of the server that one session's requests for packages, queries and tools may hold at a time, in bytes. Garbage
// may take as much again for a moment.
const PerSession = 48 << 20

// Budget bounds the memory that one session's requests hold together. A nil one sets no bound. It is safe for use by several goroutines.
type Budget struct{ free *semaphore.Weighted }

// NewBudget returns a budget of PerSession.
func NewBudget() *Budget { return &Budget{semaphore.NewWeighted(PerSession)} }

// Take waits until there is room for this many bytes, and returns a function that releases them, once. A request over PerSession takes all
// of it. The error is the context's cause. A holder must not take more, or two could wait for each other.
func (b *Budget) Take(ctx context.Context, bytes int64) (release func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	bytes = min(bytes, PerSession)
	if b.free.Acquire(ctx, bytes) != nil {
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() { b.free.Release(bytes) }), nil
}
