// The owner of a command's sessions, and the manager that looks after them.

package cmd

import (
	"context"
	"log/slog"
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// owner names the owner of a command's sessions. The zero value is the user who calls it.
type owner struct{ name string }

func (o owner) key() string { return principal.Principal{Name: o.name}.Key() }

// dir returns the state directory of the sessions.
func (o owner) dir(s *server.Program) (string, error) {
	if o.name != "" && !slices.Contains(state.Tenants(s.SessionDir()), o.key()) {
		return "", fault.New(fault.InvalidArgument, "`code-sandbox-mcp sessions list` tells whose there are.", "There are no sessions of %q.", o.name)
	}
	return state.TenantDir(s.SessionDir(), o.key()), nil
}

// withManager runs a shell command's work with a manager of its own, which releases all sessions at the end.
func withManager(ctx context.Context, s *server.Program, whose *owner, work func(context.Context, *sandbox.Manager) error) error {
	if _, err := whose.dir(s); err != nil {
		return Report(err)
	}
	return withPool(ctx, s, func(ctx context.Context, pool *sandbox.Pool) error { return withTenant(ctx, pool, whose.key(), work) })
}

// withPool runs a shell command's work with the pool of its managers.
func withPool(ctx context.Context, s *server.Program, work func(context.Context, *sandbox.Pool) error) error {
	return WithEngine(ctx, s, func(ctx context.Context, on engine.Engine, log *slog.Logger) error {
		if err := s.Reach(ctx, on, false); err != nil {
			return Report(engineFault(err))
		}
		pool := sandbox.NewPool(s.VisitConfig(on, log))
		defer pool.Close(context.WithoutCancel(ctx))
		return Report(work(ctx, pool))
	})
}

// withTenant is withManager for a tenant of a server.
func withTenant(ctx context.Context, pool *sandbox.Pool, tenant string, work func(context.Context, *sandbox.Manager) error) error {
	own := pool.Config()
	manager := pool.NewManager(own.Of(tenant))
	err := work(ctx, manager)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveManagerTime)
	defer cancel()
	if !manager.Close(ending) {
		own.Logger.Warn("not all was let go of in time")
	}
	return err
}

// nameOf returns the owner of a tenant's sessions; empty: the user.
func nameOf(dir, tenant string) string {
	if tenant == "" {
		return ""
	}
	if name, err := state.TenantName(dir, tenant); err == nil {
		return name
	}
	return tenant
}

// findSession describes a session without opening it.
func findSession(ctx context.Context, manager *sandbox.Manager, id string) (sandbox.SessionInfo, error) {
	if err := runs.CheckSessionID(id); err != nil {
		return sandbox.SessionInfo{}, err
	}
	for _, info := range manager.Sessions(ctx) {
		if info.ID == id {
			return info, nil
		}
	}
	return sandbox.SessionInfo{}, noSession(id)
}

func noSession(id string) error {
	return fault.New(fault.SessionNotFound, "`code-sandbox-mcp sessions list` tells which there are; --principal says whose.", "There is no session %q.", id)
}
