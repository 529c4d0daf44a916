// The command selftest and its progress.

package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

func selftestCommand(settings *server.Program) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "selftest", Short: "Attack a session from inside and show what holds", Args: NoArgs,
		Long: `selftest starts sessions with the settings in force, attacks them from inside,
and prints for each promise of the sandbox whether it held, what was tried and
what refused it:

  proven             the attack was made and failed
  not enforced here  this machine cannot hold the promise, and why (doctor too)
  BROKEN             the attack came through
  not tried          the attack could not be made: the image lacks a program

The attacks are in Python: the machine, the engine and the supervisor are the
same for every language. The sessions are removed afterwards; others are left
alone.

Exit status: 0 nothing is broken, 1 something is, or an attack could not be made
in an image of this program's own.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.AddCanaries(); err != nil {
				return err
			}
			return WithEngine(cmd.Context(), settings, func(ctx context.Context, on engine.Engine, log *slog.Logger) error {
				report, err := settings.SelfTest(ctx, on, gcArgs(cmd), progressTo(os.Stderr), log)
				if err != nil {
					return err
				}
				return PrintReport(report, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the rows as JSON")
	return cmd
}

// progressTo shows the present attack: on a terminal in one line that is redrawn, elsewhere every tenth one in its own line.
func progressTo(f *os.File) func(name string, done, total int) {
	if !term.IsTerminal(int(f.Fd())) {
		return func(name string, done, total int) {
			if done%10 == 0 {
				fmt.Fprintf(f, "%d/%d %s\n", done+1, total, name)
			}
		}
	}
	return func(name string, done, total int) {
		end := ""
		if done == total-1 {
			end = "\r\033[K"
		}
		fmt.Fprintf(f, "\r\033[K%d/%d %s%s", done+1, total, name, end)
	}
}
