package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	// engineAge is the age up to which an engine's answer is used, and engineTime the time limit of asking it.
	engineAge  = 5 * time.Second
	engineTime = 3 * time.Second
)

// Now reads a server's present state. The engine is asked by one goroutine at a time, and every engineAge at most.
type Now struct {
	o       NowOptions
	machine func() (memory, disk room)

	mu     sync.Mutex
	asked  time.Time
	engine engineState

	overloaded atomic.Bool // as the log has it
}

// NowOptions are the sources of Now.
type NowOptions struct {
	// Tenants returns those that there are, the user's first, who is always there.
	Tenants func() []Tenant
	// Draining reports whether the server takes no new sessions. Nil: it always does.
	Draining func() bool
	// StartWait returns the longest present wait of a container for its turn to be started. Nil: none waits.
	StartWait func() time.Duration
	// Audit reports why the audit log cannot be written. Nil: there is none.
	Audit func() error
	// AuditRequired says that no code runs then.
	AuditRequired bool
	// StateDir is where the server writes.
	StateDir string
	Logger   *slog.Logger
}

// Tenant holds the present figures of a principal.
type Tenant struct {
	Of      principal.Principal
	Manager *sandbox.Manager
}

type engineState struct {
	err        error // why no code can run; nil: it can
	containers int   // that run; below 0: not known
}

// NewNow returns a look at a server.
func NewNow(o NowOptions) *Now {
	return &Now{o: o, machine: func() (room, room) { return memory(), disk(o.StateDir) }}
}

// ask returns the engine's last answer, and asks it again if that is too old. A change goes to the log, as nothing else gives the reason.
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
		n.o.Logger.Warn("not ready", "error", err)
	case err == nil && (before != nil || first):
		n.o.Logger.Info("ready")
	}
	return n.engine
}

// config is the server's own.
func (n *Now) config() sandbox.Config { return n.o.Tenants()[0].Manager.Config() }

func (n *Now) look(ctx context.Context) engineState {
	config := n.config()
	list, err := config.Engine.List(ctx, sandbox.LabelHost, config.Host)
	if err != nil {
		return engineState{err: err, containers: -1}
	}
	state := engineState{}
	for _, c := range list.Containers {
		if c.Running {
			state.containers++
		}
	}
	for language, kernel := range config.Kernels {
		if _, err := config.Engine.Image(ctx, kernel.Image); err != nil {
			state.err = fmt.Errorf("image %s for %s: %w", kernel.Image, language, err)
		}
	}
	return state
}

// gauges are the figures of this moment. label is that of a principal.
func (n *Now) gauges(ctx context.Context, label func(principal.Principal) string) []*family {
	m := &metrics{}
	gauge := func(name, help string, labels ...string) func(who string, value float64, values ...string) {
		f := m.family(name, "gauge", help, labels...)
		return func(who string, value float64, values ...string) {
			f.set.GetOrCreateGauge(series(name, labels, values, who), nil).Add(value)
		}
	}
	sessions := gauge("sessions", "Sessions that this server has open and that were used.")
	kernel := gauge("kernels", "Interpreters of those sessions that keep variables.", "language", "state")
	onNode := gauge("sessions_on_node", "Of those sessions, where their containers are; absent on an engine of one machine.", "node")
	most := gauge("memory_limit_bytes", "What the containers of those sessions may take together.")
	for _, tenant := range n.o.Tenants() {
		who, known, memory := label(tenant.Of), tenant.Manager.Known(), int64(0)
		for _, session := range known {
			if session.Place.Node != "" {
				onNode(who, 1, session.Place.Node)
			}
			for _, k := range session.Kernels {
				kernel(who, 1, string(k.Language), k.State)
			}
			memory += int64(session.Containers) * session.Limits.MemoryBytes
		}
		sessions(who, float64(len(known)))
		most(who, float64(memory))
		for language := range tenant.Manager.Config().Kernels {
			for _, state := range []string{"idle", "running"} {
				kernel(who, 0, string(language), state)
			}
		}
	}
	engine := n.ask(ctx)
	container := gauge("containers", "Containers that run, of all servers that share the state directory; absent where the engine does not answer.")
	if engine.containers >= 0 {
		container("", float64(engine.containers))
	}
	state := n.state(engine)
	ready := gauge("ready", "1 where the server can be sent new sessions, as /readyz says: the engine answers, the images are there, an audit log that is required can be written, and it neither drains nor has too little of something.")
	gauge("draining", "1 where the server takes no new sessions.")("", oneIf(state.State == draining))
	gauge("overloaded", "1 where containers wait long to be started, or little memory or disk is left.")("", oneIf(state.State == overloaded))
	ready("", oneIf(state.State == isReady))
	gauge("audit_log_failing", "1 where the audit log cannot be written; 0 also where there is none.")("", oneIf(n.o.Audit != nil && n.o.Audit() != nil))
	gauge("start_wait_seconds", "How long the container waits that waits longest for its turn to be started.")("", state.StartWait)
	return m.families
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// States of a server, as /readyz says them.
const (
	isReady    = "ready"
	notReady   = "not ready"
	draining   = "draining"
	overloaded = "overloaded"
)

// longWait is the wait of a container for its turn to be started that shows a server with too much to do.
const longWait = 10 * time.Second

// load is a server's state for operators.
type load struct {
	State   string   `json:"state"`
	Reasons []string `json:"reasons,omitempty"` // why it is overloaded, or not ready where the log does not say it
	sandbox.Load
	StartWait float64 `json:"start_wait_seconds"`
}

// Overload returns why this server has too much to do for new sessions; none: it can take them. A change goes to the log.
func (n *Now) Overload() []string { return n.measure(&load{}) }

// measure is Overload with its figures.
func (n *Now) measure(l *load) []string {
	memory, disk := n.machine()
	reasons := []string{memory.shortage("memory"), disk.shortage("the disk of the state directory")}
	if n.o.StartWait != nil {
		wait := n.o.StartWait()
		l.StartWait = wait.Seconds()
		if wait >= longWait {
			reasons = append(reasons, fmt.Sprintf("a container has waited %v for its turn to be started", wait.Round(time.Second)))
		}
	}
	reasons = slices.DeleteFunc(reasons, func(reason string) bool { return reason == "" })
	switch is := len(reasons) > 0; {
	case n.overloaded.Swap(is) == is:
	case is:
		n.o.Logger.Warn("overloaded: new sessions are refused", "why", strings.Join(reasons, "; "))
	default:
		n.o.Logger.Info("no longer overloaded")
	}
	return reasons
}

// state returns the server's load, and whether it can take new sessions, by its engine's answer.
func (n *Now) state(engine engineState) load {
	l := load{State: isReady}
	for _, tenant := range n.o.Tenants() {
		own := tenant.Manager.Load()
		l.Sessions, l.Busy, l.Clients = l.Sessions+own.Sessions, l.Busy+own.Busy, l.Clients+own.Clients
	}
	l.Reasons = n.measure(&l)
	noAudit := n.o.AuditRequired && n.o.Audit != nil && n.o.Audit() != nil
	if noAudit {
		l.Reasons = append(l.Reasons, "the audit log cannot be written")
	}
	switch {
	case engine.err != nil || noAudit:
		l.State = notReady
	case n.o.Draining != nil && n.o.Draining():
		l.State = draining
	case len(l.Reasons) > 0:
		l.State = overloaded
	}
	return l
}

// Ready answers 200 if the server can take new sessions, and 503 if not, with its state in a word. With ?exclude=overloaded an overloaded
// server is ready too: for a balancer of this server alone, whose sessions have no other. An operator who accepts JSON gets the details; for
// an engine that does not answer the log gives the reason.
func (n *Now) Ready(isOperator func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		l, status := n.state(n.ask(r.Context())), http.StatusOK
		if l.State != isReady && (l.State != overloaded || r.URL.Query().Get("exclude") != overloaded) {
			status = http.StatusServiceUnavailable
		}
		if strings.Contains(r.Header.Get("Accept"), "application/json") && isOperator(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(l)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(l.State + "\n"))
	})
}

// Healthy answers 200 while the process serves at all.
func Healthy() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte("ok\n"))
	})
}
