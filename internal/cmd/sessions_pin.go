package cmd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// pinCommand returns the command `sessions pin`, or `sessions unpin`.
func pinCommand(settings *server.Program, whose *owner, pinned bool) *cobra.Command {
	cmd := &cobra.Command{
		Use: "pin NAME", Short: "Keep a session however long nobody uses it", Args: Takes(1, 1),
		Long: `pin keeps a named session's files, variables and history beyond --keep and
--keep-limit, until unpin. A running server may have it open. close_session and
sessions close end it all the same.`,
	}
	done := "pinned"
	if !pinned {
		cmd.Use, cmd.Short, cmd.Long, done = "unpin NAME", "Keep a session no longer than others", "unpin takes back what pin did.", "unpinned"
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		id := args[0]
		if err := runs.CheckSessionID(id); err != nil {
			return Report(err)
		}
		dir, err := whose.dir(settings)
		if err != nil {
			return Report(err)
		}
		err = noSession(id)
		if state.IsKept(dir, id) {
			err = state.Pin(dir, id, pinned)
		}
		if errors.Is(err, fs.ErrNotExist) { // it is being removed
			err = noSession(id)
		}
		if err == nil {
			fmt.Println(done, id)
		}
		return Report(err)
	}
	return cmd
}
