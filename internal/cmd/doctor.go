// The command doctor, and its view of the settings.

package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

func doctorCommand(settings *server.Program) *cobra.Command {
	var asJSON, fix, yes, inForce bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check what this machine has and can enforce, and how to mend what is missing", Args: NoArgs,
		Long: `doctor looks for Podman, its service, the OCI runtime, the limits that the
machine can hold and the images, starts one container of each language, and says
of everything that is missing what it costs and what mends it. With another
--engine it looks at that instead of Podman.

With --fix it then offers to run the commands that mend what is missing, one by
one, and looks again: they install Podman, start its virtual machine, give you
subordinate ids, make the images. Where the fix is a sentence instead of a
command, it is for you.

With --settings it checks nothing and prints every setting in force, its value,
and where that comes from. Secrets are not shown.

Exit status: 0 all that is needed is there, 1 something needed is missing.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if inForce {
				return PrintReport(settings.InForce(cmd.Root().PersistentFlags()), asJSON)
			}
			report, err := Examine(cmd.Context(), settings)
			if err != nil {
				return err
			}
			if fixes := report.Fixes(); fix && len(fixes) > 0 {
				if err := report.WriteTable(os.Stderr); err != nil {
					return err
				}
				if err := runFixes(cmd.Context(), fixes, yes); err != nil {
					return err
				}
				if report, err = Examine(cmd.Context(), settings); err != nil {
					return err
				}
			}
			return PrintReport(report, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the checks, or the settings, as JSON")
	cmd.Flags().BoolVar(&inForce, "settings", false, "print the settings in force and where each comes from, and check nothing")
	cmd.Flags().BoolVar(&fix, "fix", false, "offer to run the commands that mend what is missing, and look again")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --fix, run those commands without asking")
	return cmd
}

// Examine returns doctor's findings. It connects anew, since a fix may have started another service.
func Examine(ctx context.Context, s *server.Program) (report doctor.Report, err error) {
	err = WithEngine(ctx, s, func(ctx context.Context, on engine.Engine, log *slog.Logger) error {
		report = s.Examine(ctx, on, log)
		return nil
	})
	return report, err
}

var thisProgram = regexp.MustCompile(`^code-sandbox-(mcp|server)\b`)

// runFixes runs the commands that the user agrees to. The next look still reports a defect if its fix failed.
func runFixes(ctx context.Context, fixes []string, yes bool) error {
	if !yes && !term.IsTerminal(int(os.Stdin.Fd())) {
		return Usage(errors.New("--fix asks before each command, which takes a terminal; --yes runs them without asking"))
	}
	answers := bufio.NewReader(os.Stdin)
	for _, fix := range fixes {
		fmt.Fprintf(os.Stderr, "\n$ %s\n", fix)
		if !yes {
			fmt.Fprint(os.Stderr, "Run this? [y/N] ")
			if answer, _ := answers.ReadString('\n'); !strings.EqualFold(strings.TrimSpace(answer), "y") {
				continue
			}
		}
		command := exec.CommandContext(ctx, "sh", "-c", fix)
		if own, err := os.Executable(); err == nil && thisProgram.MatchString(fix) { // it may not be on the PATH
			command = exec.CommandContext(ctx, "sh", "-c", thisProgram.ReplaceAllLiteralString(fix, `"$0"`), own)
		}
		command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stderr, os.Stderr
		if err := command.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "code-sandbox-mcp: that failed: %v\n", err)
		}
	}
	return nil
}
