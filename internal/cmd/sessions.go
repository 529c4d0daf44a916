// The command sessions, and of its commands close, pin and unpin.

package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
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

// closeCommand returns the command `sessions close`.
func closeCommand(settings *server.Program, whose *owner) *cobra.Command {
	var keepFiles bool
	cmd := &cobra.Command{
		Use: "close NAME", Short: "End a session", Args: Takes(1, 1),
		Long: `close removes a session's containers, and its files and history unless
--keep-files is given. A running server that has it open stops the code in it.`,
		RunE: onSessions(settings, whose, func(ctx context.Context, v *visit, args []string) error {
			var closed any
			err := v.read(ctx, http.MethodDelete, args[0], "", url.Values{"keep_files": {strconv.FormatBool(keepFiles)}}, &closed)
			if err == nil && keepFiles {
				fmt.Printf("closed %s; its files are kept\n", args[0])
			} else if err == nil {
				fmt.Printf("closed %s\n", args[0])
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&keepFiles, "keep-files", false, "remove the containers alone; the next use finds the files and the variables")
	return cmd
}

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
		dir, err := whose.dir(settings)
		if err = errors.Join(runs.CheckSessionID(id), err); err != nil {
			return Report(err)
		}
		err = fs.ErrNotExist
		if state.IsKept(dir, id) {
			err = state.Pin(dir, id, pinned)
		}
		if errors.Is(err, fs.ErrNotExist) { // or it is being removed
			err = noSession(id)
		}
		if err == nil {
			fmt.Println(done, id)
		}
		return Report(err)
	}
	return cmd
}
