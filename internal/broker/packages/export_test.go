package packages

import "time"

// SetClock has a handler take the time from elsewhere.
func (h *Handler) SetClock(now func() time.Time) { h.now = now }

// SetAlive changes how often a waiting client gets a sign of it.
func (h *Handler) SetAlive(d time.Duration) { h.alive = d }

// Hurry has a handler wait shorter before it tries again, and for an index that says nothing.
func (h *Handler) Hurry(pause, patience time.Duration) { h.pause, h.patience = pause, patience }
