package cmd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

// closeCommand returns the command `sessions close`.
func closeCommand(settings *server.Program, whose *owner) *cobra.Command {
	var keepFiles bool
	cmd := &cobra.Command{
		Use: "close NAME", Short: "End a session", Args: Takes(1, 1),
		Long: `close removes a session's containers, and its files and history unless
--keep-files is given. A running server that has it open stops the code in it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withSessions(cmd.Context(), settings, whose, func(ctx context.Context, v *visit) error {
				kept := url.Values{"keep_files": {strconv.FormatBool(keepFiles)}}
				answer, err := v.ask(ctx, http.MethodDelete, args[0], "", kept, nil)
				if err != nil {
					return err
				}
				_ = answer.Body.Close()
				if keepFiles {
					fmt.Printf("closed %s; its files are kept\n", args[0])
				} else {
					fmt.Printf("closed %s\n", args[0])
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&keepFiles, "keep-files", false, "remove the containers alone; the next use finds the files and the variables")
	return cmd
}
