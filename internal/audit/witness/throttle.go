package witness

import (
	"sync"
	"time"
)

// maxThrottled bounds the keys that a throttle knows.
const maxThrottled = 10_000

// throttle lets so many things of a key through in a time, and counts the others.
type throttle struct {
	most int
	time time.Duration

	mu      sync.Mutex
	windows map[string]*window
	others  int64 // of windows that were dropped
}

type window struct {
	ends  time.Time
	taken int
	more  int64 // that were not let through
}

func newThrottle(most int, time time.Duration) *throttle {
	return &throttle{most: most, time: time, windows: make(map[string]*window)}
}

// take reports whether one more is let through, and how many were not since the last one that was.
func (t *throttle) take(key string) (more int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	w := t.windows[key]
	if w == nil {
		t.makeRoom(now)
		w = &window{ends: now.Add(t.time)}
		t.windows[key] = w
	}
	if now.After(w.ends) {
		w.ends, w.taken = now.Add(t.time), 0
	}
	if w.taken++; w.taken > t.most {
		w.more++
		return 0, false
	}
	more = w.more + t.others
	w.more, t.others = 0, 0
	return more, true
}

// makeRoom drops the windows that are over where there are many, and others until there are half as many.
func (t *throttle) makeRoom(now time.Time) {
	if len(t.windows) < maxThrottled {
		return
	}
	for key, w := range t.windows {
		if now.After(w.ends) || len(t.windows) > maxThrottled/2 {
			t.others += w.more
			delete(t.windows, key)
		}
	}
}

// rest returns how many were not let through and not told of.
func (t *throttle) rest() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.others
	for _, w := range t.windows {
		n += w.more
	}
	return n
}
