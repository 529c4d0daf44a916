// Package cmd is the command line: one file for each command. Start with Main.
package cmd

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
)

// Exit codes.
const (
	exitWorked = 0
	exitFailed = 1
	exitUsage  = 2
)

// Main runs a command line, without the program's name, and returns its exit code: 0 it worked, 1 it
// failed, 2 wrong use.
func (p Program) Main(args []string) int {
	fault.Program = p.Name
	root := p.Command()
	root.SetArgs(args)
	err := root.Execute()
	var wrong setting.UsageError
	var code exitCode
	switch {
	case err == nil:
		return exitWorked
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, server.ErrReported):
		return exitFailed
	case errors.As(err, &wrong):
		fmt.Fprintf(os.Stderr, "%[1]s: %[2]v\nRun '%[1]s --help' for usage.\n", p.Name, err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
	return exitFailed
}

// Command returns the whole command line, for Main and for its documentation.
func (p Program) Command() *cobra.Command {
	features := p.features()
	settings := server.New(features)
	root := &cobra.Command{
		Use:   p.Name,
		Short: "An MCP server that runs Python, JavaScript and bash in hardened containers",
		Long: p.Name + ` is an MCP server over stdio, or over HTTP with --http. It runs
Python, JavaScript and bash in hardened containers that remember variables,
imports and files.

Without a command it serves. Every flag --some-name is also the environment
variable SANDBOX_SOME_NAME and a key some-name in the --config file; a flag
beats the environment, the environment the file, the file the default. Variables
are also read from --env-file and from a .env beside the --config file.
doctor --settings shows what is in force and from where.

Exit status: 0 it worked, 1 it failed, 2 wrong use.`,
		Args:          prewarmArgs(settings),
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			err := settings.Load(cmd.Flags())
			if unknown := unknownVariables(cmd, settings.Env.Environ()); err == nil && len(unknown) > 0 {
				if log, err := settings.Logger(os.Stderr); err == nil {
					log.Warn("there is no such setting: " + strings.Join(unknown, "; "))
				}
			}
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if settings.HTTP.Address == "" && term.IsTerminal(int(os.Stdin.Fd())) {
				fmt.Fprintf(os.Stderr, "%s waits on stdin for an AI client's messages; `%[1]s install` puts it into a client. Ctrl-C ends it, --help lists commands.\n", p.Name)
			}
			return settings.Serve(cmd.Context(), gcArgs(cmd))
		},
	}
	root.SetUsageFunc(printUsage)
	root.SetFlagErrorFunc(flagError)
	settings.Bind(root.PersistentFlags())
	root.AddCommand(serveCommand(settings), setupCommand(settings), doctorCommand(settings), selftestCommand(settings), runCommand(settings), installCommand(p), uninstallCommand(), gcCommand(settings), drainCommand(settings), sessionsCommand(settings), allowedCommand(settings), uiCommand(settings), versionCommand())
	for _, f := range features {
		if f.Commands != nil {
			f.Commands(root, settings)
		}
	}
	refuseElsewhere(root)
	complete(root, settings)
	return root
}

// refuseElsewhere adds the commands of setting.ServerProgram alone, hidden. They name that program.
func refuseElsewhere(root *cobra.Command) {
	_, names := setting.Elsewhere()
	for _, name := range names {
		if found, _, err := root.Find([]string{name}); err == nil && found != root {
			continue
		}
		root.AddCommand(&cobra.Command{
			Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return Usage(fmt.Errorf("this program has no command %q; %s has it", name, setting.ServerProgram))
			},
		})
	}
}
