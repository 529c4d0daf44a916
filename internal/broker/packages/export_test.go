package packages

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
)

// Wait does work for a request of a session, as requests for one page do.
func (h *Handler) Wait(ctx context.Context, session string, timeout time.Duration, work func(ctx context.Context) (any, error)) (any, error) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	x := &reply{ResponseWriter: httptest.NewRecorder(), r: r, by: caller.Caller{Session: session}}
	return h.wait(x, "page", timeout, work)
}

// Fail is what a request to an index fails with.
func Fail(ctx context.Context, err error) error { return failure(ctx, "host", err) }

// SetClock has a handler take the time from elsewhere.
func (h *Handler) SetClock(now func() time.Time) { h.now = now }

// SetAlive changes how often a waiting client gets a sign of it.
func (h *Handler) SetAlive(d time.Duration) { h.alive = d }

// SetPageTime changes how long a page may take.
func (h *Handler) SetPageTime(d time.Duration) { h.pageTime = d }

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
