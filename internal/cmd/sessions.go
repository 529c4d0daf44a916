// The command sessions, and what its commands share.

package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

func sessionsCommand(settings *server.Settings) *cobra.Command {
	var whose owner
	cmd := &cobra.Command{
		Use: "sessions", Short: "List, show, close, pin, export and import sessions",
		Long: `sessions tells of the sessions that servers of this user have open or have left,
closes them, and carries them from machine to machine. Nothing is done to a
session that a running server has open. Where a server works for several, list
tells of the sessions of all, and --principal says whose another command means;
without it they are the user's own.

Settings that say where sessions are (--state-dir, --engine-url, --engine and
--namespace with what leads there) must be the server's.`,
		Args: NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return Usage(errors.New("say what to do: sessions list, show, close, pin, unpin, export, import or notebook"))
		},
	}
	cmd.PersistentFlags().StringVar(&whose.name, "principal", "", "whose the session is, where a server works for several (default: the user's own)")
	cmd.AddCommand(listCommand(settings, &whose), showCommand(settings, &whose), closeCommand(settings, &whose), pinCommand(settings, &whose, true),
		pinCommand(settings, &whose, false), exportCommand(settings, &whose), importCommand(settings, &whose), notebookCommand(settings, &whose))
	return cmd
}

// Takes allows so many arguments.
func Takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return Usage(fmt.Errorf("%s: %d arguments are given; usage: %s%s", cmd.Name(), len(args), cmd.CommandPath(), strings.TrimPrefix(cmd.Use, cmd.Name())))
		}
		return nil
	}
}

// leaveManagerTime bounds the end of a shell command's manager.
const leaveManagerTime = 30 * time.Second

// owner is whose sessions a command means. The zero value is the user who calls it.
type owner struct{ name string }

func (o owner) key() string { return principal.Principal{Name: o.name}.Key() }

// dir returns the state directory of the sessions.
func (o owner) dir(s *server.Settings) (string, error) {
	if o.name != "" && !slices.Contains(state.Tenants(s.SessionDir()), o.key()) {
		return "", fault.New(fault.InvalidArgument, "`code-sandbox-mcp sessions list` tells whose there are.", "There are no sessions of %q.", o.name)
	}
	return state.TenantDir(s.SessionDir(), o.key()), nil
}

// nameOf returns whose the sessions of a tenant are; empty: the user's own.
func nameOf(dir, tenant string) string {
	if tenant == "" {
		return ""
	}
	if name, err := state.TenantName(dir, tenant); err == nil {
		return name
	}
	return tenant
}

// withManager runs a shell command's work with a manager of its own, which releases all sessions in the
// end.
func withManager(ctx context.Context, s *server.Settings, whose *owner, work func(context.Context, *sandbox.Manager) error) error {
	if _, err := whose.dir(s); err != nil {
		return Report(err)
	}
	return withPool(ctx, s, func(ctx context.Context, own sandbox.Config) error { return withTenant(ctx, own, whose.key(), work) })
}

// withTenant is withManager for a tenant of a server that has this configuration.
func withTenant(ctx context.Context, own sandbox.Config, tenant string, work func(context.Context, *sandbox.Manager) error) error {
	manager := sandbox.NewManager(own.Of(tenant))
	err := work(ctx, manager)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveManagerTime)
	defer cancel()
	if !manager.Close(ending) {
		own.Logger.Warn("not all was let go of in time")
	}
	return err
}

// withPool runs a shell command's work with what its managers need.
func withPool(ctx context.Context, s *server.Settings, work func(context.Context, sandbox.Config) error) error {
	return WithEngine(ctx, s, func(ctx context.Context, on engine.Engine, log *slog.Logger) error {
		if err := s.Reach(ctx, on, false); err != nil {
			return Report(engineFault(err))
		}
		config := s.VisitConfig(on, log)
		config.Pool = sandbox.NewPool(config)
		defer config.Pool.Close(context.WithoutCancel(ctx))
		return Report(work(ctx, config))
	})
}

// engineFault gives an engine that is not in reach the code that a tool would have for it.
func engineFault(err error) error {
	reason, fix, ok := sandbox.Explain(err)
	if !ok {
		return err
	}
	return fault.New(fault.EngineUnavailable, fix, "%s", reason).Because(err)
}

// Report prints a fault with its hint.
func Report(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %s\nHint: %s\n", f.Code, f.Message, f.Hint)
	return server.ErrReported
}

// findSession returns what is known of a session, without opening it.
func findSession(ctx context.Context, manager *sandbox.Manager, id string) (sandbox.SessionInfo, error) {
	if err := sandbox.CheckSessionID(id); err != nil {
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
