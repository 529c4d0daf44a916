// Shared by commands: an engine under signals, and the verdict of checks and attacks.

package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
)

// WithEngine runs a shell command's work with an engine, under a context that ends with a signal.
func WithEngine(ctx context.Context, s *server.Program, work func(context.Context, engine.Engine, *slog.Logger) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	log, err := s.Logger(os.Stderr)
	if err != nil {
		return err
	}
	on := s.Engine(log)
	defer func() { _ = on.Close() }()
	return explain(work(ctx, on, log))
}

// verdict is the result of checks or attacks.
type verdict interface {
	WriteTable(w io.Writer) error
	WriteJSON(w io.Writer) error
	OK() bool
}

// PrintReport prints the report, and returns an exit status by its verdict.
func PrintReport(report verdict, asJSON bool) error {
	write := report.WriteTable
	if asJSON {
		write = report.WriteJSON
	}
	if err := write(os.Stdout); err != nil {
		return err
	}
	if !report.OK() {
		return server.ErrReported
	}
	return nil
}

// NoArgs refuses arguments, and names the command that a mistyped one is most like.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(fmt.Errorf("unknown command or argument %q%s", args[0], meant(cmd, args[0], "")))
	}
	return nil
}

// flagError names the known flag most like an unknown one. If a mistyped command left its flags behind, it names the command.
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

// unknownVariables returns the variables that look like settings and are none, with the most similar names.
func unknownVariables(cmd *cobra.Command, environ []string) (unknown []string) {
	known := &cobra.Command{}
	cmd.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		known.AddCommand(&cobra.Command{Use: setting.VariableOf(f.Name), Run: func(*cobra.Command, []string) {}, Hidden: f.Hidden})
	})
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		isSetting := slices.ContainsFunc(known.Commands(), func(c *cobra.Command) bool { return c.Use == name })
		if strings.HasPrefix(name, setting.VariableOf("")) && !isSetting && !setting.IsKnownVariable(name) {
			unknown = append(unknown, name+meant(known, name, ""))
		}
	}
	return unknown
}

// meant suggests the known names most like a word, or beginning with it; empty: none.
func meant(known *cobra.Command, word, dashes string) string {
	known.SuggestionsMinimumDistance = max(1, min(2, len(word)/3))
	near := known.SuggestionsFor(word)
	if len(near) == 0 {
		return ""
	}
	return ": do you mean " + dashes + strings.Join(near[:min(len(near), 3)], " or "+dashes) + "?"
}

// prewarmArgs allows no arguments, but takes `--prewarm python` for `--prewarm=python`: a flag with an optional value does not take the
// next word as its value, which surprises everybody.
func prewarmArgs(s *server.Program) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		f := cmd.Flags().Lookup("prewarm")
		if len(args) != 1 || !f.Changed || strings.Join(s.Prewarm, ",") != f.NoOptDefVal {
			return NoArgs(cmd, args)
		}
		languages := strings.Split(args[0], ",")
		for _, name := range languages {
			if _, known := kernel.LanguageCalled(name); !known {
				return NoArgs(cmd, args)
			}
		}
		s.Prewarm = languages
		return nil
	}
}

// Usage marks an error as wrong use of the program.
func Usage(err error) error { return setting.UsageError{Err: err} }

// Program is a program of this module: the core with its features.
type Program struct {
	Name     string
	Features func() []server.Feature // makes them anew; nil: none
}

func (p Program) features() []server.Feature {
	if p.Features == nil {
		return nil
	}
	return p.Features()
}

// Takes allows between least and most arguments.
func Takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return Usage(fmt.Errorf("%s: %d arguments are given; usage: %s%s", cmd.Name(), len(args), cmd.CommandPath(), strings.TrimPrefix(cmd.Use, cmd.Name())))
		}
		return nil
	}
}

// Report prints a fault with its hint.
func Report(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %s\nHint: %s\n", f.Code, f.Message, f.Hint)
	return server.ErrReported
}

// engineFault gives an error about an unreachable engine the code that tools return for it.
func engineFault(err error) error {
	reason, fix, ok := place.Explain(err)
	if !ok {
		return err
	}
	return fault.New(fault.EngineUnavailable, fix, "%s", reason).Because(err)
}

// leaveManagerTime bounds the end of a shell command's manager.
const leaveManagerTime = 30 * time.Second

// explain splits an engine's error into a reason and its remedy, one line each.
func explain(err error) error {
	if reason, fix, ok := place.Explain(err); ok {
		return fmt.Errorf("%s\n  fix: %s", reason, fix)
	}
	return err
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Printable returns a text's beginning in one line, without control characters for a terminal.
func Printable(text string) string { return PrintableTo(text, 60) }
