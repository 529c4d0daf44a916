// The command run: a file of code.

package cmd

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/runcmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// exitCode ends the program with a code that needs no words, or no further ones.
type exitCode int

func (exitCode) Error() string { return "exit code" }

func runCommand(settings *server.Program) *cobra.Command {
	var request runcmd.Request
	var session, code string
	cmd := &cobra.Command{
		Use: "run FILE|-|-c CODE [INPUT…] [-- ARGUMENT…]", Short: "Run code from a shell",
		Long: `run runs a file of code in a sandbox and passes on its output and exit code. The
language is what the file's ending says; - reads the code from stdin, and -c has
the code itself: Python, unless --language says otherwise. Input files come into
the folder that the code runs in, under their own names. What follows -- are the
code's arguments, and it reads what is piped into this command.

The session ends with the run, unless --session names one, which keeps variables
and files for the next time, and which the server's tools can use too. Files
that the code makes are saved to the folder --out, replacing what is there, and
nothing is written elsewhere. --forward lets this machine connect to a port that
the code listens on, until the code ends. Ctrl-C interrupts the code, saves what
it has made and ends; a second one ends at once.

Output is what a terminal would show of it, and exactly what was written where
it is longer than --output-limit. Exit status: the code's own, 124 timed out,
130 interrupted, 137 killed; 2 it could not be run, 1 it failed or its files
could not be saved.`,
		Example: `  code-sandbox-mcp run script.py data.csv --out results
  sort data.csv | code-sandbox-mcp run script.py -- --top 10
  echo 'console.log(6 * 7)' | code-sandbox-mcp run - --language js
  code-sandbox-mcp run -c "x += 1; print(x)" --session work
  code-sandbox-mcp run --language bash -c "python -m http.server" --forward 8000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, request.Given = args[:dash], args[dash:]
			}
			request.Args, request.Stdin = args, os.Stdin
			isCode := cmd.Flags().Changed("code")
			if isCode {
				request.Args, request.Stdin = append([]string{"-"}, args...), strings.NewReader(code)
			}
			const piped = os.ModeNamedPipe | os.ModeSocket
			if info, err := os.Stdin.Stat(); err == nil && (info.Mode().IsRegular() || info.Mode()&piped != 0) && (isCode || len(args) > 0 && args[0] != "-") {
				request.Data = os.Stdin
			}
			if len(request.Args) == 0 {
				return Usage(errors.New("run: name a file of code, or - for stdin, or give code with -c"))
			}
			return run(cmd, settings, request, session)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.Out, "out", "", "`folder` that files are saved to (default: they are only listed)")
	flags.StringVar(&request.Language, "language", "", "`language` of the code (default: by the file's ending)")
	flags.StringVar(&session, "session", "", "`name` of a session that lasts (default: one that ends with the run)")
	flags.StringSliceVar(&request.Forwards, "forward", nil, "`port`, or LOCAL:PORT, of the session that 127.0.0.1 leads to while the code runs (several)")
	flags.StringVarP(&code, "code", "c", "", "the `code`")
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
	ctx, stop := interruptible(cmd.Context())
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
	code := runner.Run(ctx)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveManagerTime)
	defer cancel()
	box.Close(ending)
	return exitCode(code)
}

// interruptible returns a context that ends with a signal. A second one ends the program at once; the process that keepEngine started
// removes the leftovers.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	caught := make(chan os.Signal, 3)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-caught
		cancel()
		<-caught
		os.Exit(runcmd.ExitInterrupted)
	}()
	return ctx, cancel
}

func notRun(err error) error {
	if !errors.Is(Report(err), server.ErrReported) {
		_ = Report(fault.From(err).Because(err))
	}
	return exitCode(runcmd.ExitNotRun)
}
