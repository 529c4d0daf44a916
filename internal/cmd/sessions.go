// The command sessions, and code that its commands share.

package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

func sessionsCommand(settings *server.Program) *cobra.Command {
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
