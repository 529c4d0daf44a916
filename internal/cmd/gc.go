// The command gc, and the process that sweeps after a server.

package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
)

// lateRequest is how long an engine may go on with a request after its client is gone.
const lateRequest = 10 * time.Second

// lateSweeps bounds the repeated sweeps after a server's end, while a busy engine refuses a removal.
const lateSweeps = 6

// gcTimeout bounds a sweep; an engine that needs longer is broken.
const gcTimeout = 2 * time.Minute

func gcCommand(settings *server.Program) *cobra.Command {
	var afterParent bool
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove what servers that no longer live left behind", Args: NoArgs,
		Long: `gc removes the containers and files of sessions that no live server has open:
all of an unnamed session, and of a named one the containers that have ended,
and all of it once nobody has used it for --keep, or earlier where sleeping
sessions take more than --keep-limit and it is not pinned; the containers that
wait for new sessions (--spares); and the volumes that other versions of this
program made for themselves and that no container uses. A process that waits for
the end of each server does the same, and servers do after their first answer,
but for containers that wait, so this is only needed where that process was
killed too and no server will be started again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			once := func() error {
				return WithEngine(cmd.Context(), settings, func(ctx context.Context, on engine.Engine, log *slog.Logger) error {
					return sweep(ctx, settings, on, log)
				})
			}
			if !afterParent {
				place.DropSpares(settings.SessionDir())
			}
			err := once()
			if !afterParent {
				return err
			}
			for range lateSweeps {
				// The engine may still work on our parent's last request, and make a container after this.
				time.Sleep(lateRequest)
				if err = once(); err == nil {
					break
				}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&afterParent, afterParentFlag, false, "")
	_ = cmd.Flags().MarkHidden(afterParentFlag)
	return cmd
}

const afterParentFlag = "after-parent"

// sweep removes the leftovers of dead servers, and prints the names of their sessions.
func sweep(ctx context.Context, s *server.Program, on engine.Engine, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, gcTimeout)
	defer cancel()
	config := s.SweepConfig(on, log)
	swept, err := sandbox.Sweep(ctx, &config)
	for _, left := range swept {
		whose := ""
		if left.Tenant != "" {
			whose = " of " + Printable(nameOf(config.StateDir, left.Tenant))
		}
		fmt.Printf("removed what was left of session %s%s: %s\n", left.ID, whose, left.Why)
	}
	volumes, err2 := server.Tidy(ctx, on)
	for _, name := range volumes {
		fmt.Println("removed what this program made for itself and no container uses:", name)
	}
	err = errors.Join(err, err2)
	if err == nil && len(swept)+len(volumes) == 0 {
		fmt.Println("nothing to remove")
	}
	return err
}

// gcArgs returns the command line of a gc that waits for the end of this process. It repeats all settings of the command: without one of
// them the others may be refused.
func gcArgs(cmd *cobra.Command) []string {
	return append([]string{"gc", "--" + afterParentFlag}, changedFlags(cmd.Root().PersistentFlags(), masked)...)
}
