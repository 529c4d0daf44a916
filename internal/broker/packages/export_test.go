package packages

import "time"

// SetClock has a handler take the time from elsewhere.
func (h *Handler) SetClock(now func() time.Time) { h.now = now }

// SetAlive changes how often a waiting client gets a sign of it.
func (h *Handler) SetAlive(d time.Duration) { h.alive = d }
