package cmd

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "code-sandbox-mcp", versionText())
		},
	}
}

func versionText() string {
	return fmt.Sprintf("%s (%s, %s/%s)", server.CurrentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
