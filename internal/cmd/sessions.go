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
		Use: "sessions", Short: "List sessions, copy their files, close, pin, export and import them",
		Long: `sessions tells of the sessions that servers of this user have open or have left,
closes them, and carries them and their files from machine to machine. A running
server that has a session open is asked for it, over a socket that it has for
this user in the state folder. Where a server works for several, list
tells of the sessions of all, and --principal says whose another command means;
without it they are the user's own.

Settings that say where sessions are (--state-dir, --engine-url, --engine and
--namespace with what leads there) must be the server's.`,
		Args: NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return Usage(errors.New("say what to do: sessions list, show, files, get, put, close, pin, unpin, export, import or notebook"))
		},
	}
	cmd.PersistentFlags().StringVar(&whose.name, "principal", "", "whose the session is, where a server works for several (default: the user's own)")
	cmd.AddCommand(listCommand(settings, &whose), showCommand(settings, &whose), filesCommand(settings, &whose), getCommand(settings, &whose), putCommand(settings, &whose),
		closeCommand(settings, &whose), pinCommand(settings, &whose, true),
		pinCommand(settings, &whose, false), exportCommand(settings, &whose), importCommand(settings, &whose), notebookCommand(settings, &whose))
	return cmd
}
