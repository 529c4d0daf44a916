package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/install"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// completed are the words of flags with few values.
var completed = map[string][]string{
	"client": install.Names(), "language": {"python", "javascript", "bash"}, "prewarm": {"python", "javascript", "bash"}, "scope": {"user", "project"},
	"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"}, "network": {"none", "allowlist", "open"},
	"packages": {"off", "listed", "on"}, "images": {"on", "path", "off"},
}

// complete gives a shell these words and the names of sessions, for a command and those below it.
func complete(cmd *cobra.Command, settings *server.Program) {
	sessions := func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || settings.Load(cmd.Flags()) != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		isSpare := func(id string) bool { return strings.HasPrefix(id, place.SparePrefix) }
		return slices.DeleteFunc(state.IDs(settings.SessionDir()), isSpare), cobra.ShellCompDirectiveNoFileComp
	}
	for name, words := range completed {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // else it has no such flag
	}
	_ = cmd.RegisterFlagCompletionFunc("session", sessions)
	if cmd.HasParent() && cmd.Parent().Name() == "sessions" && cmd.Name() != "import" {
		cmd.ValidArgsFunction = sessions
	}
	for _, child := range cmd.Commands() {
		complete(child, settings)
	}
}
