// The command run: a file of code, or a prompt.

package cmd

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/runcmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// exitCode ends the program with a code that needs no words, or no further ones.
type exitCode int

func (exitCode) Error() string { return "exit code" }

func runCommand(settings *server.Program) *cobra.Command {
	var request runcmd.Request
	var session string
	cmd := &cobra.Command{
		Use: "run FILE|- [INPUT…]", Short: "Run a file of code, or a prompt, from a shell",
		Long: `run runs a file of code in a sandbox and passes on its output and exit code. The
language is what the file's ending says; - reads the code from stdin, as Python
unless --language says otherwise. Input files come into the folder that the code
runs in, under their own names.

The session ends with the run, unless --session names one, which keeps variables
and files for the next time, and which the server's tools can use too. Files
that the code makes are saved to the folder --out, replacing what is there, and
nothing is written elsewhere. Figures are shown in kitty, Ghostty, iTerm2 and
WezTerm.

With -i there is a prompt, after the file where one is given. An empty line ends
a block, Ctrl-C interrupts what runs, Ctrl-D ends. Else Ctrl-C interrupts the
code, saves what it has made and ends; a second one ends at once.

Output is what a terminal would show of it, and exactly what was written where
it is longer than --output-limit. Exit status: the code's own, 124 timed out,
130 interrupted, 137 killed; 2 it could not be run, 1 it failed or its files
could not be saved.`,
		Example: `  code-sandbox-mcp run script.py data.csv --out results
  echo 'console.log(6 * 7)' | code-sandbox-mcp run - --language js
  code-sandbox-mcp run -i --session work`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !request.Interactive {
				return Usage(errors.New("run: name a file of code, or - for stdin; or ask for a prompt with -i"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Args, request.Stdin = args, os.Stdin
			return run(cmd, settings, request, session)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.Out, "out", "", "`folder` that files are saved to (default: they are only listed)")
	flags.StringVar(&request.Language, "language", "", "`language` of the code (default: by the file's ending)")
	flags.StringVar(&session, "session", "", "`name` of a session that lasts (default: one that ends with the run)")
	flags.BoolVarP(&request.Interactive, "interactive", "i", false, "a prompt")
	return cmd
}

// run runs the request of the command line, and cleans up.
func run(cmd *cobra.Command, s *server.Program, request runcmd.Request, session string) error {
	s.Sandbox.MaxRunTimeout = max(s.Sandbox.MaxRunTimeout, s.Sandbox.RunTimeout) // both belong to this person
	request.CodeBytes, request.InputBytes, request.Kernels = int64(s.Sandbox.CodeBytes), s.Tools.DownloadBytes, s.Kernels()
	job, err := runcmd.Read(request)
	if err == nil && session != "" {
		err = runs.CheckSessionID(session)
	}
	if err != nil {
		return notRun(err)
	}
	job.History = filepath.Join(server.StateFolder(s.StateDir), "prompt-history")
	ctx, stop := interruptible(cmd.Context(), request.Interactive)
	defer stop()
	log, err := s.Logger(os.Stderr)
	if err != nil {
		return err
	}
	on := s.Engine(log)
	defer func() { _ = on.Close() }()
	if err := s.Reach(ctx, on, true); err != nil {
		return notRun(engineFault(err))
	}
	box, err := s.NewSandbox(on, gcArgs(cmd), log)
	if err != nil {
		return err
	}
	runner := &runcmd.Runner{
		Manager: box.Manager, Job: job, SessionID: session, Stdout: os.Stdout, Stderr: os.Stderr,
		Install:  box.InstallNeeds,
		Complain: func(err error) { _ = notRun(err) },
	}
	if term.IsTerminal(int(os.Stdout.Fd())) && (s.Tools.Images == "" || s.Tools.Images == tools.ImagesOn) {
		runner.Draw = runcmd.DrawIn(os.Getenv)
	}
	code := runner.Run(ctx)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveManagerTime)
	defer cancel()
	box.Close(ending)
	return exitCode(code)
}

// interruptible returns a context that ends with a signal. A second one ends the program at once; the process that keepEngine started
// removes the leftovers. At a prompt an interrupt is no such signal.
func interruptible(ctx context.Context, prompt bool) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
	if !prompt {
		signals = append(signals, os.Interrupt)
	}
	caught := make(chan os.Signal, len(signals))
	signal.Notify(caught, signals...)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-caught
		cancel()
		<-caught
		os.Exit(runcmd.ExitInterrupted)
	}()
	return ctx, cancel
}

// notRun reports the error and its remedy.
func notRun(err error) error {
	if !errors.Is(Report(err), server.ErrReported) {
		_ = Report(fault.From(err).Because(err))
	}
	return exitCode(runcmd.ExitNotRun)
}
