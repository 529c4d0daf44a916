package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// closeCommand returns the command `sessions close`.
func closeCommand(settings *server.Program, whose *owner) *cobra.Command {
	var keepFiles bool
	cmd := &cobra.Command{
		Use: "close NAME", Short: "End a session that no running server has open", Args: Takes(1, 1),
		Long: `close removes a session's containers, and its files and history unless
--keep-files is given. One that a running server has open is closed there, with
close_session.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withManager(cmd.Context(), settings, whose, func(ctx context.Context, manager *sandbox.Manager) error {
				if _, err := findSession(ctx, manager, args[0]); err != nil {
					return err
				}
				id, err := manager.CloseSession(ctx, args[0], keepFiles)
				if err != nil {
					return err
				}
				if keepFiles {
					fmt.Printf("closed %s; its files are kept\n", id)
				} else {
					fmt.Printf("closed %s\n", id)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&keepFiles, "keep-files", false, "remove the containers alone; the next use finds the files and the variables")
	return cmd
}
