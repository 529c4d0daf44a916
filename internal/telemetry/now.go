package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	// engineAge is how old an answer of the engine may be, and engineTime how long it has for one.
	engineAge  = 5 * time.Second
	engineTime = 3 * time.Second
)

// Now looks at what a server has at the moment. The engine is asked by one goroutine at a time, and every engineAge at most.
type Now struct {
	manager *sandbox.Manager
	log     *slog.Logger

	mu     sync.Mutex
	asked  time.Time
	engine engineState
}

// engineState is what the engine said.
type engineState struct {
	err        error                    // why no code can run; nil: it can
	containers map[sandbox.Language]int // that run
}

// NewNow returns a look at a manager's server.
func NewNow(m *sandbox.Manager, log *slog.Logger) *Now { return &Now{manager: m, log: log} }

// ask returns what the engine said last, and asks it where that is too old. A change goes to the log, as nothing else tells why.
func (n *Now) ask(ctx context.Context) engineState {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.asked.IsZero() && time.Since(n.asked) < engineAge {
		return n.engine
	}
	first, before := n.asked.IsZero(), n.engine.err
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTime) // others wait for it too
	defer cancel()
	n.engine = n.look(ctx)
	n.asked = time.Now()
	switch err := n.engine.err; {
	case err != nil && before == nil:
		n.log.Warn("not ready", "error", err)
	case err == nil && (before != nil || first):
		n.log.Info("ready")
	}
	return n.engine
}

func (n *Now) look(ctx context.Context) engineState {
	config := n.manager.Config()
	list, err := config.Engine.List(ctx, sandbox.LabelHost, config.Host)
	if err != nil {
		return engineState{err: err}
	}
	state := engineState{containers: make(map[sandbox.Language]int)}
	for language := range config.Kernels {
		state.containers[language] = 0
	}
	for _, c := range list.Containers {
		language := sandbox.Language(c.Labels[sandbox.LabelLanguage])
		if _, on := state.containers[language]; on && c.Running {
			state.containers[language]++
		}
	}
	for language, kernel := range config.Kernels {
		if _, err := config.Engine.Image(ctx, kernel.Image); err != nil {
			state.err = fmt.Errorf("image %s for %s: %w", kernel.Image, language, err)
		}
	}
	return state
}

// gauges are the figures of this moment.
func (n *Now) gauges(ctx context.Context) []*family {
	m := &metrics{}
	gauge := func(name, help string, labels ...string) func(value int, values ...string) {
		f := m.family(name, "gauge", help, labels...)
		return func(value int, values ...string) {
			f.set.NewGauge(series(name, labels, values), func() float64 { return float64(value) })
		}
	}
	known := n.manager.Known()
	gauge("sessions", "Sessions that this server has open and that were used.")(len(known))
	type kind struct{ language, state string }
	kernels := make(map[kind]int)
	for _, session := range known {
		for _, k := range session.Kernels {
			kernels[kind{string(k.Language), k.State}]++
		}
	}
	kernel := gauge("kernels", "Interpreters of those sessions that keep variables.", "language", "state")
	for language := range n.manager.Config().Kernels {
		for _, state := range []string{"idle", "running"} {
			kernel(kernels[kind{string(language), state}], string(language), state)
		}
	}
	engine := n.ask(ctx)
	container := gauge("containers", "Containers that run, of all servers that share the state directory; absent where the engine does not answer.", "language")
	for language, count := range engine.containers {
		container(count, string(language))
	}
	ready := 0
	if engine.err == nil {
		ready = 1
	}
	gauge("ready", "1 where the engine answers and the images are there.")(ready)
	return m.families
}

// Ready answers 200 where code can run, and 503 where not. Why, the log tells.
func (n *Now) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if n.ask(r.Context()).err != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
}

// Healthy answers 200 while the process serves at all.
func Healthy() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte("ok\n"))
	})
}
