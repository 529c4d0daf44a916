// Package runcmd runs files of code in a sandbox: for people and for scripts.
//
// Read makes a Job of a command line and touches nothing but the files that it names; Runner.Run does it.
package runcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/term"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// Exit codes beside the code's own. A supervisor gives a run that did not end by itself 124 for timed out, 130 for interrupted and 137 for
// killed.
const (
	exitUnsaved     = 1   // the code ran, and its files could not be saved
	ExitNotRun      = 2   // the code could not be run
	ExitInterrupted = 130 // before the code began
)

// Runner does a Job in a session. All of its fields but SessionID are required.
type Runner struct {
	Manager        *sandbox.Manager
	Job            *Job
	SessionID      string // empty: the manager's default session
	Stdout, Stderr *os.File
	// Install installs the packages that code declares.
	Install        func(ctx context.Context, o sandbox.RunOptions, tell func(format string, args ...any)) error
	Complain       func(error) // reports an error, most often a fault
	stdout, stderr io.Writer   // harmless to a terminal
}

// Run does the job and returns the exit code. When ctx ends, it interrupts the run and saves its files.
func (r *Runner) Run(ctx context.Context) int {
	r.stdout, r.stderr = harmless(r.Stdout), harmless(r.Stderr)
	stop, err := r.listen(ctx)
	if err != nil {
		return r.notRun(ctx, err)
	}
	defer stop()
	if err := r.upload(ctx); err != nil {
		return r.notRun(ctx, err)
	}
	return r.run(ctx)
}

// harmless writes control characters as their pictures where a terminal would obey them.
func harmless(f *os.File) io.Writer {
	if !term.IsTerminal(int(f.Fd())) {
		return f
	}
	return transform.NewWriter(f, runes.Map(text.Visible))
}

func (r *Runner) notRun(ctx context.Context, err error) int {
	if ctx.Err() != nil {
		return ExitInterrupted
	}
	r.Complain(err)
	return ExitNotRun
}

func (r *Runner) upload(ctx context.Context) error {
	for _, path := range r.Job.inputs {
		if err := r.uploadFile(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// before returns the code that gives the job its arguments and its data, which becomes a hidden file of the session.
func (r *Runner) before(ctx context.Context) (code string, err error) {
	stdin := ""
	if r.Job.data != nil {
		defer time.AfterFunc(2*time.Second, func() { r.say("reading the code's data from stdin; < /dev/null gives it none") }).Stop()
		stdin = engine.WorkDir + "/.stdin"
		_, _, err = r.Manager.Upload(ctx, sandbox.Upload{SessionID: r.SessionID, Path: ".stdin", Overwrite: true, Content: r.Job.data})
	}
	return runs.Arguments(r.Job.Language, r.Job.file, r.Job.given, stdin), err
}

// cellName matches the name of a run's code in an error.
var cellName = regexp.MustCompile(`<cell \d+>|\bcell-\d+\.[cm]?[jt]s\b`)

// named returns a traceback with the name of the job's file. The last run of several has the highest number.
func (j *Job) named(traceback string) string {
	cells := cellName.FindAllString(traceback, -1)
	if j.file == "" || len(cells) == 0 {
		return traceback
	}
	own := slices.MaxFunc(cells, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return strings.ReplaceAll(traceback, own, j.file)
}

// run runs the code and returns its exit code.
func (r *Runner) run(ctx context.Context) int {
	before, err := r.filesNow(ctx)
	if err != nil {
		return r.notRun(ctx, err)
	}
	options := sandbox.RunOptions{SessionID: r.SessionID, Language: r.Job.Language, Code: r.Job.Code}
	if err := r.Install(ctx, options, r.say); err != nil {
		return r.notRun(ctx, err)
	}
	if options.Before, err = r.before(ctx); err != nil {
		return r.notRun(ctx, err)
	}
	run, err := r.Manager.Run(options)
	if err != nil {
		return r.notRun(ctx, err)
	}
	res, err := r.follow(ctx, run)
	if err != nil {
		return r.notRun(ctx, err)
	}
	r.show(res)
	if r.Job.Out == "" {
		r.listFiles(context.WithoutCancel(ctx), res)
		return res.ExitCode
	}
	if err := r.save(context.WithoutCancel(ctx), before, res); err != nil {
		r.Complain(err)
		return cmp.Or(res.ExitCode, exitUnsaved)
	}
	return res.ExitCode
}

// lookEvery is the interval at which new output is read.
const lookEvery = 200 * time.Millisecond

// follow prints the run's output as it comes, and returns its result.
func (r *Runner) follow(ctx context.Context, run *sandbox.Run) (*sandbox.Result, error) {
	open := func(path string, offset int64) (io.ReadCloser, error) {
		return r.Manager.OpenFile(context.WithoutCancel(ctx), run.SessionID, path, sandbox.ReadOptions{Offset: offset, Limit: -1})
	}
	mask := r.Manager.Config().Mask
	stdout, stderr := &printer{to: r.stdout, open: open, mask: mask}, &printer{to: r.stderr, open: open, mask: mask}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case <-interrupted:
			run.Interrupt()
			interrupted = nil
		case <-tick.C:
			soFar := run.SoFar(context.WithoutCancel(ctx))
			stdout.soFar(soFar.Stdout)
			stderr.soFar(soFar.Stderr)
		case <-run.Done():
			res, err := run.Result()
			if err != nil {
				return nil, err
			}
			for _, p := range []struct {
				*printer
				stream sandbox.Stream
				name   string
			}{{stdout, res.Stdout, "stdout"}, {stderr, res.Stderr, "stderr"}} {
				if missing := p.rest(p.stream); missing > 0 {
					r.say("%d of %d bytes of %s were not kept", missing, p.stream.Bytes, p.name)
				}
			}
			return res, nil
		}
	}
}

// say writes a message of this program to stderr.
func (r *Runner) say(format string, args ...any) {
	fmt.Fprintf(r.stderr, "code-sandbox-mcp: "+format+"\n", args...)
}

// show prints a run's result beside its output.
func (r *Runner) show(res *sandbox.Result) {
	for _, b := range res.Background {
		r.say("printed meanwhile by an earlier run:\n%s", b.Text)
	}
	for _, d := range res.Displays {
		if text := d.Data["text/plain"]; d.Path == "" && len(text) > 0 { // others are files
			fmt.Fprintln(r.stdout, string(text))
		}
	}
	if e := res.Error; e != nil {
		fmt.Fprintln(r.stderr, strings.TrimRight(r.Job.named(cmp.Or(e.Traceback, e.Name+": "+e.Message)), "\n"))
	}
	for _, note := range res.Notes {
		r.say("%s", note)
	}
	for _, what := range res.GoesOn {
		r.say("not waited for any longer: %s", what)
	}
	config := r.Manager.Config()
	switch took := res.Duration.Round(time.Millisecond); {
	case res.Status == sandbox.TimedOut:
		r.say("timed out after %v; --run-timeout sets how long it may take", took)
	case res.Status == sandbox.Cancelled:
		r.say("interrupted after %v", took)
	case res.Status == sandbox.Killed && res.Cause == "memory":
		r.say("killed: it ran out of memory; --memory-limit (%s) sets how much it may have", units.BytesSize(float64(config.Limits.MemoryBytes)))
	case res.Status == sandbox.Killed:
		r.say("killed after %v: the interpreter died (%s)", took, cmp.Or(res.Cause, "nobody knows why"))
	}
	if res.VariablesLost && r.SessionID != "" {
		r.say("variables are gone, files are kept")
	}
}
