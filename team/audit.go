// The audit log: its settings, and its use by a server and commands.

package team

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit/witness"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// auditSettings configure the audit log.
type auditSettings struct {
	File     string
	Code     string
	Required bool
}

// auditFeature records calls, runs and changes in the audit log.
func auditFeature() server.Feature {
	a := &auditSettings{Code: "hash"}
	return server.Feature{
		Name: "audit", Settings: a.rows, Check: a.check,
		Commands: func(root *cobra.Command, _ *server.Program) { root.AddCommand(auditCommand(a)) },
		Record: func(s *server.Program, log *slog.Logger) (server.RecordCloser, error) {
			if l, err := a.open(s, log); l != nil || err != nil {
				return l, err
			}
			return nil, nil
		},
		Witness: func(s *server.Program, log *slog.Logger) (server.Witness, error) {
			l, err := a.open(s, log)
			if l == nil || err != nil {
				return nil, err
			}
			return beginAudit(l, s, a.Required), nil
		},
	}
}

func (a *auditSettings) rows() []setting.Group {
	return []setting.Group{{Title: "Audit log", Settings: []setting.Setting{
		setting.Row("audit-log", "FILE", &a.File, 0, 0, "file for the audit log: a line for all that was done, by whom, each with the hash of the one before; several servers may share it (default: none)"),
		setting.Row("audit-code", "MODE", &a.Code, 0, 0, "what it has of code that ran: hash, its SHA-256, or full, the code"),
		setting.Row("audit-required", "", &a.Required, 0, 0, "run no code while the audit log cannot be written"),
	}}}
}

func (a *auditSettings) check(*server.Program) error {
	var found setting.Problems
	found.Wrong(a.Code != "hash" && a.Code != "full", "--audit-code %q is neither hash nor full", a.Code)
	found.Wrong(a.Required && a.File == "", "--audit-required has no effect without --audit-log; name a file there")
	return errors.Join(found...)
}

// open opens the audit log, which servers and commands share; nil: none. The error is a setting.UsageError.
func (a *auditSettings) open(s *server.Program, log *slog.Logger) (*audit.Log, error) {
	if a.File == "" {
		return nil, nil
	}
	l, err := audit.Open(audit.Options{
		Path: a.File, FullCode: a.Code == "full", Required: a.Required,
		Mask: s.Mask(), Logger: log,
	})
	if err != nil {
		return nil, setting.UsageError{Err: fmt.Errorf("--audit-log: %w; name a file in a folder that exists and that this user may write to", err)}
	}
	return l, nil
}

// auditGrace is the time that the last lines get to reach the disk.
const auditGrace = 200 * time.Millisecond

// audited is a server's audit log. It implements server.Witness.
type audited struct {
	*audit.Log
	witness  *witness.Witness
	required bool
}

func beginAudit(l *audit.Log, s *server.Program, required bool) *audited {
	served := "stdio"
	if s.HTTP.Address != "" {
		served = s.HTTP.Address
	}
	l.Record(audit.Event{Kind: audit.KindServer, Action: "Start", Outcome: audit.Success, Detail: map[string]any{"version": server.CurrentVersion(), "pid": os.Getpid(), "serves": served}})
	return &audited{l, witness.New(l), required}
}

// Required implements server.Witness.
func (a *audited) Required() bool { return a.required }

// Close implements server.Witness.
func (a *audited) Close(ctx context.Context) error {
	a.witness.Close()
	a.Record(audit.Event{Kind: audit.KindServer, Action: "Stop", Outcome: audit.Success, Detail: map[string]any{"pid": os.Getpid()}})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditGrace)
	defer cancel()
	return a.Log.Close(ctx)
}

// Watch implements server.Witness.
func (a *audited) Watch(p principal.Principal, config *sandbox.Config, network *netlog.Log) {
	of, first := a.witness.For(p, config.Mask), network.Added
	config.Observer, config.Admit = sandbox.Observers{config.Observer, of}, of.Admit
	network.Added = func(e netlog.Entry) {
		first(e)
		of.Network(e)
	}
}

// Calls implements server.Witness.
func (a *audited) Calls(p principal.Principal, deps *tools.Deps) func(context.Context, mcp.CallToolRequest) (context.Context, func(code string)) {
	return a.witness.For(p, deps.Secrets).Calls(deps.SessionOf)
}

// Requests implements server.Witness.
func (a *audited) Requests(next http.Handler) http.Handler { return a.witness.Requests(next) }
