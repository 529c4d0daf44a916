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

// Program is a program of this module: the core with the features that it lists.
type Program struct {
	Name     string
	Features func() []server.Feature // makes them anew; nil: the program has none
}

// settings returns settings that nothing has filled yet.
func (p Program) settings() *server.Settings { return server.New(p.features()) }

func (p Program) features() []server.Feature {
	if p.Features == nil {
		return nil
	}
	return p.Features()
}

// Main runs a command line, without the program's name, and returns its exit code: 0 it worked, 1 it
// failed, 2 wrong use.
func (p Program) Main(args []string) int {
	root := p.Command()
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
		fmt.Fprintf(os.Stderr, "%[1]s: %[2]v\nRun '%[1]s --help' for usage.\n", p.Name, err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
	return exitFailed
}

// Command is the whole command line, for Main and for what describes it.
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
	root.AddCommand(serveCommand(settings), setupCommand(settings), doctorCommand(settings), selftestCommand(settings), runCommand(settings), installCommand(p), uninstallCommand(), gcCommand(settings), drainCommand(settings), sessionsCommand(settings), allowedCommand(settings), uiCommand(settings), versionCommand())
	for _, f := range features {
		if f.Commands != nil {
			f.Commands(root, settings)
		}
	}
	refuseElsewhere(root)
	return root
}

// refuseElsewhere adds the commands that only server.ServerProgram has, hidden. They name that program.
func refuseElsewhere(root *cobra.Command) {
	_, names := server.Elsewhere()
	for _, name := range names {
		if found, _, err := root.Find([]string{name}); err == nil && found != root {
			continue
		}
		root.AddCommand(&cobra.Command{
			Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return Usage(fmt.Errorf("this program has no command %q; %s has it", name, server.ServerProgram))
			},
		})
	}
}

func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(fmt.Errorf("unknown command or argument %q%s", args[0], meant(cmd, args[0], "")))
	}
	return nil
}

// flagError names the flag that an unknown one is most like, or the command where a mistyped one has taken its flags along.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return NoArgs(cmd, args)
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		known := &cobra.Command{}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			known.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}, Hidden: f.Hidden})
		})
		err = fmt.Errorf("%w%s", err, meant(known, unknown.GetSpecifiedName(), "--"))
	}
	return Usage(err)
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
			return NoArgs(cmd, args)
		}
		languages := strings.Split(args[0], ",")
		for _, name := range languages {
			if _, known := sandbox.LanguageCalled(name); !known {
				return NoArgs(cmd, args)
			}
		}
		s.Prewarm = languages
		return nil
	}
}

// Usage marks an error as wrong use of the program.
func Usage(err error) error { return server.UsageError{Err: err} }
