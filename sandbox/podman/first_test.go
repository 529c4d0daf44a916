//go:build unix

package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// slowEngine is a rootless service whose answer to the request for the first container waits for ready, and fails where
// that is closed before a value came. It counts containers made and removed.
type slowEngine struct {
	ready         chan struct{}
	asked         chan struct{} // has one for each of the first requests for a container
	made, removed atomic.Int64
	e             *Engine
}

func newSlowEngine(t *testing.T) *slowEngine {
	t.Helper()
	s := &slowEngine{ready: make(chan struct{}, 1), asked: make(chan struct{}, 9)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Libpod-API-Version", "5.4.2")
		switch {
		case path.Base(r.URL.Path) == "info":
			const ids = `[{"container_id":0,"host_id":1000,"size":1},{"container_id":1,"host_id":100000,"size":65536}]`
			fmt.Fprintf(w, `{"host":{"security":{"rootless":true},"idMappings":{"uidmap":%s,"gidmap":%s}}}`, ids, ids)
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			select {
			case s.asked <- struct{}{}:
			default: // on a busy machine there are any number of tries
			}
			if s.made.Load() == 0 {
				if _, ok := <-s.ready; !ok {
					w.WriteHeader(http.StatusInternalServerError)
					fmt.Fprint(w, `{"message":"no space left on device","response":500}`)
					return
				}
			}
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"Id":"c%d"}`, s.made.Add(1))
		case r.Method == http.MethodDelete:
			s.removed.Add(1)
			fmt.Fprint(w, "[]")
		case strings.HasSuffix(r.URL.Path, "/images/other/json"): // waits for a lock
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	s.e = own(t, service.Options{URL: "tcp://" + server.Listener.Addr().String()})
	s.e.firsts.patience = time.Millisecond
	return s
}

// A call that asks for the first container of an image hears that this takes long, all wait for the same one, and none is
// left.
func TestAnImageIsPreparedOnce(t *testing.T) {
	s := newSlowEngine(t)
	slow, done := make(chan struct{}, 9), make(chan error, 2)
	for range 2 {
		go func() { done <- s.e.Prepare(t.Context(), "large", func() { slow <- struct{}{} }) }()
	}
	<-slow
	<-slow
	if <-s.asked; len(s.asked) > 0 {
		t.Error("a container was asked for while the first one was being made")
	}
	s.ready <- struct{}{}
	for range 2 {
		should.OK(t, <-done)
	}
	if len(slow) > 0 || s.made.Load() != 3 || s.removed.Load() != 3 {
		t.Errorf("told %d times more; %d containers were made, %d removed", len(slow), s.made.Load(), s.removed.Load())
	}
	should.OK(t, s.e.Prepare(t.Context(), "large", func() { t.Error("it is said to take long again") }))
}

func TestWhoWaitsForAnImageMayLeave(t *testing.T) {
	s := newSlowEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.e.Prepare(ctx, "large", cancel)
	if u := unavailable(t, err); !errors.Is(err, engine.ErrPreparing) || !strings.Contains(u.Reason, "once") {
		t.Errorf("%+v", u)
	}
	s.ready <- struct{}{}
	// What nobody waited for is removed, and nothing is in the way of the next one.
	if err := s.e.Prepare(t.Context(), "large", func() {}); err != nil || s.made.Load() != s.removed.Load() {
		t.Errorf("%v; %d containers were made, %d removed", err, s.made.Load(), s.removed.Load())
	}
}

// What another request waits for then is told too.
func TestCallsWhileAnImageIsPrepared(t *testing.T) {
	s := newSlowEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	_ = s.e.Prepare(ctx, "large", cancel)
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.e.Image(limited, "other"); !errors.Is(err, engine.ErrPreparing) || !errors.Is(err, engine.ErrEngineUnavailable) {
		t.Errorf("while it is being prepared: %v", err)
	}
	s.ready <- struct{}{}
	should.OK(t, s.e.Prepare(t.Context(), "large", func() {}))
	limited, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.e.Image(limited, "other"); errors.Is(err, engine.ErrPreparing) || !errors.Is(err, engine.ErrEngineUnavailable) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAnImageThatCannotBePrepared(t *testing.T) {
	s := newSlowEngine(t)
	err := s.e.Prepare(t.Context(), "large", func() { close(s.ready) })
	if err == nil || errors.Is(err, engine.ErrPreparing) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("it failed with %v", err)
	}
}
