// Package cmd is the command line: one file for each command. Start with Main.
package cmd

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Exit codes.
const (
	exitWorked = 0
	exitFailed = 1
	exitUsage  = 2
)

// Main runs a command line, without the program's name, and returns its exit code: 0 it worked, 1 it
// failed, 2 wrong use.
func Main(args []string) int {
	root := Command()
	root.SetArgs(withBareConfig(args))
	err := root.Execute()
	var wrong server.UsageError
	var code exitCode
	switch {
	case err == nil:
		return exitWorked
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, server.ErrReported):
		return exitFailed
	case errors.As(err, &wrong):
		fmt.Fprintf(os.Stderr, "code-sandbox-mcp: %v\nRun 'code-sandbox-mcp --help' for usage.\n", err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "code-sandbox-mcp: %v\n", err)
	return exitFailed
}

// Command is the whole command line, for Main and for what describes it.
func Command() *cobra.Command {
	settings := &server.Settings{}
	root := &cobra.Command{
		Use:   "code-sandbox-mcp",
		Short: "An MCP server that runs Python, JavaScript and bash in hardened containers",
		Long: `code-sandbox-mcp is an MCP server over stdio, or over HTTP with --http. It runs
Python, JavaScript and bash in hardened containers that remember variables,
imports and files: Podman's on this machine or, with --engine kubernetes, a
cluster's.

Without a command it serves. Every flag --some-name is also the environment
variable SANDBOX_SOME_NAME and a key some-name in the --config file; a flag
beats the environment, the environment the file, the file the default. Variables
are also read from --env-file and from a .env beside the --config file.
doctor --settings shows what is in force and from where.

Exit status: 0 it worked, 1 it failed, 2 wrong use.`,
		Args:          prewarmArgs(settings),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return settings.Load(cmd.Flags())
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return settings.Serve(cmd.Context(), gcArgs(cmd)) },
	}
	root.SetUsageFunc(printUsage)
	root.SetFlagErrorFunc(flagError)
	settings.Bind(root.PersistentFlags())
	root.AddCommand(serveCommand(settings), setupCommand(settings), doctorCommand(settings), selftestCommand(settings), runCommand(settings), installCommand(), uninstallCommand(), gcCommand(settings), drainCommand(settings), sessionsCommand(settings), auditCommand(settings), tokensCommand(settings), allowedCommand(settings), uiCommand(settings), versionCommand())
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("unknown command or argument %q%s", args[0], meant(cmd, args[0], "")))
	}
	return nil
}

// flagError names the flag that an unknown one is most like, or the command where a mistyped one has taken its flags along.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return noArgs(cmd, args)
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		known := &cobra.Command{}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			known.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}, Hidden: f.Hidden})
		})
		err = fmt.Errorf("%w%s", err, meant(known, unknown.GetSpecifiedName(), "--"))
	}
	return usage(err)
}

// meant asks for the names of known that are most like a word, or begin with it; empty: there are none.
func meant(known *cobra.Command, word, dashes string) string {
	known.SuggestionsMinimumDistance = 2
	near := known.SuggestionsFor(word)
	if len(near) == 0 {
		return ""
	}
	return ": do you mean " + dashes + strings.Join(near[:min(len(near), 3)], " or "+dashes) + "?"
}

// prewarmArgs allows no arguments, but takes `--prewarm python` for `--prewarm=python`: a flag whose value
// may be left out does not take the next word for it, which is not what anybody expects.
func prewarmArgs(s *server.Settings) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		f := cmd.Flags().Lookup("prewarm")
		if len(args) != 1 || !f.Changed || strings.Join(s.Prewarm, ",") != f.NoOptDefVal {
			return noArgs(cmd, args)
		}
		languages := strings.Split(args[0], ",")
		for _, name := range languages {
			if _, known := sandbox.LanguageCalled(name); !known {
				return noArgs(cmd, args)
			}
		}
		s.Prewarm = languages
		return nil
	}
}

// usage marks an error as wrong use of the program.
func usage(err error) error { return server.UsageError{Err: err} }
