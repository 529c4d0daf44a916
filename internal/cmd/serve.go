package cmd

import (
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

func serveCommand(settings *server.Program) *cobra.Command {
	return &cobra.Command{
		Use: "serve", Short: "Serve MCP over stdin and stdout (the default), or over HTTP (--http)", Args: prewarmArgs(settings),
		RunE: func(cmd *cobra.Command, _ []string) error { return settings.Serve(cmd.Context(), gcArgs(cmd)) },
	}
}
