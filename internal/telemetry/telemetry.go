// Package telemetry gives operators a view of a server: figures for Prometheus, a line of the log for each run, and whether the
// server is ready.
//
// Start with New, and connect its methods to the sources: an Observer of the sandbox, a hook around each tool call, one for
// each entry of the network log, and one around each HTTP request. For returns the Recorder
// of a principal. Labels of figures come from fixed sets, but for a bounded number of principals: no label quotes a client
// or its code. The log names the ids of sessions and runs.
package telemetry

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Options select the records, and their target.
type Options struct {
	Version string
	// Principals selects the label of a principal: ByName, ByKey, or Off, which counts all together.
	Principals string
	Logger     *slog.Logger
}

// Recorder counts and logs events. Its methods are safe for use by several goroutines.
type Recorder struct {
	metrics *metrics
	log     *slog.Logger
	who     string // the label of its principal
}

// New returns a recorder without a server, for the owner.
func New(o Options) *Recorder {
	return &Recorder{metrics: newMetrics(o.Version, o.Principals), log: o.Logger}
}

// For returns a recorder for a principal's events.
func (rec *Recorder) For(p principal.Principal) *Recorder {
	if p.IsUser() {
		return rec
	}
	own := *rec
	own.who, own.log = rec.metrics.principals.label(p), rec.log.With("principal", p.Name)
	return &own
}

// Call is tools.Deps.Called.
func (rec *Recorder) Call(ctx context.Context, request mcp.CallToolRequest) (in context.Context, ended func(code string)) {
	return ctx, func(code string) {
		rec.metrics.calls.add(rec.who, 1, request.Params.Name, code)
		if code != tools.CodeOK && code != tools.CodeCancelled {
			rec.metrics.refusals.add(rec.who, 1, "tool", code)
		}
	}
}

// RunBegan is part of sandbox.Observer.
func (rec *Recorder) RunBegan(_ context.Context, run *sandbox.Run) (over func(*sandbox.Result, error)) {
	began, language := time.Now(), string(run.Language)
	log := rec.log.With("session", run.SessionID, "run", run.ID, "language", language)
	log.Debug("run began")
	return func(res *sandbox.Result, err error) {
		took, status := time.Since(began), statusError
		if err != nil {
			log = log.With("code", fault.From(err).Code)
		} else {
			status = string(res.Status)
		}
		rec.metrics.runs.add(rec.who, 1, language, status)
		rec.metrics.runSeconds.observe(rec.who, took.Seconds(), language)
		log.Info("run ended", "status", status, "seconds", took.Round(time.Millisecond).Seconds())
	}
}

// statusError is the status of a run that did not come to run.
const statusError = "error"

// FileMoved is part of sandbox.Observer.
func (rec *Recorder) FileMoved(_ context.Context, t sandbox.Transfer) {
	if t.Bytes > 0 {
		rec.metrics.fileBytes.add(rec.who, t.Bytes, string(t.Direction))
	}
}

// Network is told of each entry of the network log.
func (rec *Recorder) Network(e netlog.Entry) {
	rec.metrics.networkRequests.add(rec.who, 1, e.Kind, strconv.FormatBool(e.Allowed))
	rec.metrics.networkBytes.add(rec.who, e.SentBytes, e.Kind, "sent")
	rec.metrics.networkBytes.add(rec.who, e.ReceivedBytes, e.Kind, "received")
	if !e.Allowed {
		rec.metrics.refusals.add(rec.who, 1, "network", e.Kind)
	}
}
