package witness

import (
	"sync"
	"time"
)

// maxThrottled bounds the keys that a throttle knows.
const maxThrottled = 10_000

// throttle lets a number of events of a key through in a window of time, and counts the others.
type throttle struct {
	most int
	time time.Duration

	mu      sync.Mutex
	windows map[string]*window
	others  int64 // of dropped windows
}

type window struct {
	ends  time.Time
	taken int
	more  int64 // not let through
}

func newThrottle(most int, time time.Duration) *throttle {
	return &throttle{most: most, time: time, windows: make(map[string]*window)}
}

// take reports whether one more is let through, and how many were not since the last that was.
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

// hold counts events that were let through and are not reported after all.
func (t *throttle) hold(more int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.others += more
}

// makeRoom drops the windows that are over if there are many, and others until half as many remain.
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

// rest returns how many were neither let through nor reported.
func (t *throttle) rest() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.others
	for _, w := range t.windows {
		n += w.more
	}
	return n
}
