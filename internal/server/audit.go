// The audit log of a server: its settings, and who tells it.

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit/witness"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// AuditSettings say whether and how an audit log is kept.
type AuditSettings struct {
	File     string
	Code     string
	Required bool
	MaxSize  int64
	Keep     int
}

func (s *AuditSettings) check() error {
	var found problems
	found.wrong(s.Code != "hash" && s.Code != "full", "--audit-code %q is neither hash nor full", s.Code)
	found.wrong(s.Required && s.File == "", "--audit-required has no effect without --audit-log; name a file there")
	return errors.Join(found...)
}

// OpenAudit opens the audit log, which servers and commands share; nil: there is none. The error is of UsageError.
func (s *Settings) OpenAudit(log *slog.Logger) (*audit.Log, error) {
	if s.Audit.File == "" {
		return nil, nil
	}
	l, err := audit.Open(audit.Options{
		Path: s.Audit.File, FullCode: s.Audit.Code == "full", Required: s.Audit.Required, MaxBytes: s.Audit.MaxSize, Keep: s.Audit.Keep,
		Mask: s.maskOfAll(), Logger: log,
	})
	if err != nil {
		return nil, UsageError{Err: fmt.Errorf("--audit-log: %w; name a file in a folder that exists and that this user may write to", err)}
	}
	return l, nil
}

// Change is something that a command does to what principals may do.
type Change struct {
	ctx context.Context
	log *audit.Log
}

// BeginChange opens the audit log for a Change, so that none is made that could not be told of.
func (s *Settings) BeginChange(ctx context.Context) (*Change, error) {
	l, err := s.OpenAudit(slog.New(slog.DiscardHandler))
	return &Change{ctx, l}, err
}

// End tells what was changed, of whom, and what came of it. Its error is that one, or the log's.
func (c *Change) End(what, whose string, changed error, detail map[string]any) error {
	e := audit.Event{Kind: audit.KindPolicy, Action: what, Outcome: audit.Success, Detail: detail}
	if changed != nil {
		e.Outcome, e.Detail = "failed", make(map[string]any)
	}
	e.Detail["of"] = whose
	c.log.Record(e)
	if err := c.log.Close(c.ctx); err != nil && changed == nil {
		return fmt.Errorf("it is done, and not in the audit log: %w", err)
	}
	return changed
}

// auditGrace is what the last lines have to get to the disk in.
const auditGrace = 200 * time.Millisecond

// audited is a server's audit log with what tells it; a nil one is told nothing.
type audited struct {
	log     *audit.Log
	witness *witness.Witness
}

// audit begins the server's audit log; nil: there is none.
func (s *Settings) audit(log *slog.Logger) (*audited, error) {
	l, err := s.OpenAudit(log)
	if l == nil || err != nil {
		return nil, err
	}
	a := &audited{l, witness.New(l)}
	served := "stdio"
	if s.HTTP.Address != "" {
		served = s.HTTP.Address
	}
	a.record(audit.Event{Kind: audit.KindServer, Outcome: audit.Success, Detail: map[string]any{"version": CurrentVersion(), "pid": os.Getpid(), "serves": served}})
	return a, nil
}

func (a *audited) record(e audit.Event) {
	if a != nil {
		a.log.Record(e)
	}
}

// err reports why the log cannot be written.
func (a *audited) err() error {
	if a == nil {
		return nil
	}
	return a.log.Err()
}

// recorder is what others tell; nil: nobody listens.
func (a *audited) recorder() audit.Recorder {
	if a == nil {
		return nil
	}
	return a.log
}

// end tells of the server's end, and writes what is left.
func (a *audited) end(ctx context.Context) {
	if a == nil {
		return
	}
	a.witness.Close()
	a.record(audit.Event{Kind: audit.KindServer, Action: "Stop", Outcome: audit.Success, Detail: map[string]any{"pid": os.Getpid()}})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditGrace)
	defer cancel()
	_ = a.log.Close(ctx) // which has told of it
}

// tenant has the log told of what a principal's code does.
func (a *audited) tenant(p principal.Principal, config *sandbox.Config, network *netlog.Log) {
	if a == nil {
		return
	}
	of, first := a.witness.For(p, config.Mask), network.Added
	config.Observer, config.Admit = sandbox.Observers{config.Observer, of}, of.Admit
	network.Added = func(e netlog.Entry) {
		first(e)
		of.Network(e)
	}
}

// called is tools.Deps.Called.
type called = func(context.Context, mcp.CallToolRequest) (context.Context, func(code string))

// called is told of a principal's calls; nil: nobody is.
func (a *audited) called(p principal.Principal, deps *tools.Deps) called {
	if a == nil {
		return nil
	}
	return a.witness.For(p, deps.Secrets).Calls(deps.SessionOf)
}

// bothCalled tells two; the second may be nil.
func bothCalled(first, second called) called {
	if second == nil {
		return first
	}
	return func(ctx context.Context, request mcp.CallToolRequest) (context.Context, func(string)) {
		ctx, ended := first(ctx, request)
		ctx, also := second(ctx, request)
		return ctx, func(code string) {
			ended(code)
			also(code)
		}
	}
}

// around has the log told of requests, outside of what is around them already, which may be nil and needs to see their routes.
func (a *audited) around(others func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	if a == nil {
		return others
	}
	return func(next http.Handler) http.Handler {
		if others != nil {
			next = others(next)
		}
		return a.witness.Requests(next)
	}
}
