package cmd

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

// versionCommand returns the command `version`.
func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(cmd.OutOrStdout(), "code-sandbox-mcp %s (%s, %s/%s)\n", server.CurrentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
