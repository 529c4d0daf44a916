package packages

import "time"

// SetClock has a handler take the time from elsewhere.
func (h *Handler) SetClock(now func() time.Time) { h.now = now }

// SetAlive changes how often a waiting client gets a sign of it.
func (h *Handler) SetAlive(d time.Duration) { h.alive = d }

// Hurry has a handler wait shorter before it tries again, and for an index that says nothing.
func (h *Handler) Hurry(pause, patience time.Duration) {
	h.pause, h.pypi.patience, h.npm.patience = pause, patience, patience
}

// Waiting is how many requests wait for the index.
func (h *Handler) Waiting() (n int) {
	h.flights.mu.Lock()
	defer h.flights.mu.Unlock()
	for _, f := range h.flights.going {
		n += f.waiting
	}
	return n
}
