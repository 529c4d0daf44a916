package fair

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Budget is a token bucket. Make it with NewBudget; the methods are safe for use by several goroutines. A nil Budget bounds nothing.
type Budget struct {
	per time.Duration

	mu      sync.Mutex
	most    int64
	limiter *rate.Limiter // nil: nothing is bounded
}

// NewBudget makes one for this time.
func NewBudget(per time.Duration, most int64) *Budget {
	b := &Budget{per: per}
	b.Set(most)
	return b
}

// Set sets the rate from now on; 0: any number. The amount taken before still counts, if it was bounded.
func (b *Budget) Set(most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	limit, burst := rate.Limit(float64(most)/b.per.Seconds()), int(min(most, math.MaxInt))
	switch {
	case most == b.most:
	case most <= 0:
		b.limiter = nil
	case b.limiter == nil:
		b.limiter = rate.NewLimiter(limit, burst)
	default:
		b.limiter.SetLimit(limit)
		b.limiter.SetBurst(burst)
	}
	b.most = most
}

// Take takes n, or returns the time until it could, and takes none.
func (b *Budget) Take(n int) (wait time.Duration) { return b.reserve(n, true) }

// Wait returns the time until one could be taken, and takes none.
func (b *Budget) Wait() time.Duration { return b.reserve(1, false) }

func (b *Budget) reserve(n int, take bool) time.Duration {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limiter == nil {
		return 0
	}
	now := time.Now()
	r := b.limiter.ReserveN(now, n)
	if !r.OK() {
		return b.per // more than there ever is
	}
	wait := r.DelayFrom(now)
	if wait > 0 || !take {
		r.CancelAt(now)
	}
	return wait
}
