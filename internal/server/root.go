// Package server is the command line: one file per command, and the settings, which are read here and
// nowhere else. Start with Main.
package server

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Exit codes.
const (
	exitWorked = 0
	exitFailed = 1
	exitUsage  = 2
)

// errReported says that a command has failed and has said why itself.
var errReported = errors.New("reported")

// usageError is a mistake in the command line or in another place that settings come from.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Main runs a command line, without the program's name, and returns its exit code: 0 it worked, 1 it
// failed, 2 wrong use.
func Main(args []string) int {
	root := Command()
	root.SetArgs(withBareConfig(args))
	err := root.Execute()
	var usage usageError
	var code exitCode
	switch {
	case err == nil:
		return exitWorked
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "code-sandbox-mcp: %v\nRun 'code-sandbox-mcp --help' for usage.\n", err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "code-sandbox-mcp: %v\n", err)
	return exitFailed
}

// Command is the whole command line, for Main and for what describes it.
func Command() *cobra.Command {
	settings := &Settings{}
	root := &cobra.Command{
		Use:   "code-sandbox-mcp",
		Short: "An MCP server that runs Python and JavaScript in Podman containers",
		Long: `code-sandbox-mcp is an MCP server over stdio, or over HTTP with --http. It runs
Python and JavaScript in hardened Podman containers that remember variables,
imports and files.

Without a command it serves. Every flag --some-name is also the environment
variable SANDBOX_SOME_NAME and a key some-name in the --config file; a flag
beats the environment, the environment the file, the file the default. Variables
are also read from --env-file and from a .env beside the --config file.
doctor --settings shows what is in force and from where.

Exit status: 0 it worked, 1 it failed, 2 wrong use.`,
		Args:          settings.prewarmArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return wrapUsage(settings.load(cmd.Flags(), os.LookupEnv))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, settings) },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	settings.bind(root.PersistentFlags())
	settings.bindForeignFlags(root.PersistentFlags())
	root.AddCommand(serveCommand(settings), setupCommand(settings), doctorCommand(settings), selftestCommand(settings), runCommand(settings), installCommand(), uninstallCommand(), gcCommand(settings), sessionsCommand(settings), uiCommand(settings), versionCommand())
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command or argument %q", args[0])}
	}
	return nil
}

// prewarmArgs allows no arguments, but takes `--prewarm python` for `--prewarm=python`: a flag whose value
// may be left out does not take the next word for it, which is not what anybody expects.
func (s *Settings) prewarmArgs(cmd *cobra.Command, args []string) error {
	f := cmd.Flags().Lookup("prewarm")
	if len(args) != 1 || !f.Changed || strings.Join(s.Prewarm, ",") != prewarmAll {
		return noArgs(cmd, args)
	}
	for _, name := range strings.Split(args[0], ",") {
		if _, known := sandbox.LanguageCalled(name); !known {
			return noArgs(cmd, args)
		}
	}
	s.Prewarm = strings.Split(args[0], ",")
	return nil
}

func wrapUsage(err error) error {
	if err != nil {
		return usageError{err}
	}
	return nil
}
