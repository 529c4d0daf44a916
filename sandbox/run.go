package sandbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// RunOptions describes a run.
type RunOptions struct {
	SessionID string // empty: the default session
	Language  Language
	Code      string
	Timeout   time.Duration // zero: Config.RunTimeout; clamped to Config.MaxRunTimeout
	Limits    SessionLimits // of the session, if it has no container yet; lowered to the server's
	Times     Times         // of the session, if nobody used it yet; likewise
	Fresh     bool          // in an interpreter of its own, which ends with the run
	// Before is the server's own code, in one line, that the interpreter runs first: it is not among the run's lines, and in no
	// history.
	Before string
	Copy   bool // in a copy of the variables, which Manager.Restore can restore; Python
	// Unlisted: the code is the server's own, and stays out of the history. Config.Admit and Config.Observer still hear of it.
	Unlisted bool
	// Caller is the context of the caller, for Config.Observer: its values count, and not its end. May be nil.
	Caller context.Context

	notes []string // for the answer
}

// apart reports whether it runs beside the kernel's own runs, without waiting for their turns.
func (o *RunOptions) apart() bool { return o.Fresh || o.Copy }

// check fills in defaults and refuses impossible options.
func (o *RunOptions) check(c *Config) error {
	if _, ok := c.Kernels[o.Language]; !ok {
		return fault.New(fault.InvalidArgument, "Use a language that session_info lists.", "There is no language %q here.", text.Safe(string(o.Language), 40))
	}
	switch {
	case o.Copy && o.Language != Python:
		return errNoWayBack("copy works in Python only, and this is %s.", o.Language)
	case o.Copy && o.Fresh:
		return fault.New(fault.InvalidArgument, "Pass one of them.", "copy runs in a copy of the variables, and fresh without them.")
	}
	var note string
	if o.Code, note = withoutFence(o.Code, o.Language.Info()); note != "" {
		o.notes = append(o.notes, note)
	}
	if strings.TrimSpace(o.Code) == "" {
		return fault.New(fault.InvalidArgument, "Pass the code to run as text.", "The code is empty.")
	}
	if length := len(o.Before) + len(o.Code); length > c.CodeBytes {
		return TooMuchCode(length, c.CodeBytes)
	}
	if o.Timeout <= 0 {
		o.Timeout = c.RunTimeout
	}
	// A supervisor takes milliseconds, and 0 for no limit.
	o.Timeout = max(time.Millisecond, min(o.Timeout, c.MaxRunTimeout))
	return nil
}

// TooMuchCode refuses code for its length, in bytes.
func TooMuchCode(length, most int) *fault.Error {
	return fault.New(fault.CodeTooLarge, "Split the code over several calls (variables are kept), or put data into a file.",
		"The code has %d bytes and may have %d.", length, most).With("size_bytes", length).With("limit_bytes", most)
}

// Progress is the progress of a run.
type Progress struct {
	Elapsed     time.Duration
	StdoutBytes int64
	StderrBytes int64
	LastLine    string // the last line of output so far
	WaitsFor    string // the run in the kernel, or a slow engine, before the code begins
}

// errInterrupted ends a run's context on request.
var errInterrupted = errors.New("interrupted on request")

// Run is one execution of code, queued, running or over. Its methods may be called from any goroutine.
type Run struct {
	ID        string
	SessionID string
	Language  Language

	options RunOptions
	most    time.Duration // the maximum of its session; zero: unknown yet
	config  *Config
	code    string          // with the secrets masked, for histories and other calls
	earlier bool            // an earlier server began it
	ahead   func() *RunInfo // the run in the kernel meanwhile; nil, or returns nil: unknown
	// unrecorded reports that this server's outcome of the run is not its end.
	unrecorded atomic.Bool
	ending     atomic.Bool // its code is over
	created    time.Time
	ctx        context.Context // ends with an interrupt, or with the session
	cancel     context.CancelCauseFunc
	done       chan struct{}
	observed   func(*Result, error) // of the observer; may be nil
	moved      chan struct{}        // buffered for one: new progress

	kernel atomic.Pointer[kernel.Kernel] // while it runs

	mu       sync.Mutex
	progress Progress
	displays []Display
	held     int // bytes of the displays' data
	ended    time.Time
	notes    []string
	result   *Result
	err      error
}

func newRun(parent context.Context, config *Config, id, session string, options RunOptions) *Run {
	ctx, cancel := context.WithCancelCause(parent)
	return &Run{
		ID: id, SessionID: session, Language: options.Language,
		options: options, config: config, code: config.Mask.Mask(options.Code), notes: options.notes, created: time.Now(), ctx: ctx, cancel: cancel,
		done: make(chan struct{}), moved: make(chan struct{}, 1),
	}
}

// Code is the code. It may contain secrets.
func (r *Run) Code() string { return r.options.Code }

// over reports whether the run is over.
func (r *Run) over() bool { return isClosed(r.done) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lastEnd is the latest end of the run: it may wait for its turn as long as it may run.
func (r *Run) lastEnd() time.Time { return r.created.Add(2 * r.options.Timeout) }

// isFollowed reports whether a kernel of this server executes the run.
func (r *Run) isFollowed() bool { return r.kernel.Load() != nil }

// Done is closed when the run is over.
func (r *Run) Done() <-chan struct{} { return r.done }

// Moved receives after a change of Progress.
func (r *Run) Moved() <-chan struct{} { return r.moved }

// Interrupt asks the code to stop; a run that waits for its turn leaves the queue. It returns at once, before Done. The kernel
// keeps its variables unless the code ignores the interrupt.
func (r *Run) Interrupt() { r.cancel(errInterrupted) }

// Result returns the outcome of a finished run, or the fault that kept it from running. Before Done it returns nil, nil.
func (r *Run) Result() (*Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result, r.err
}

// Progress returns the progress so far.
func (r *Run) Progress() Progress {
	r.mu.Lock()
	p := r.progress
	r.mu.Unlock()
	p.Elapsed = time.Since(r.created)
	if !r.isFollowed() {
		if before := r.before(); before != nil {
			p.WaitsFor = before.String()
		} else if r.noted(preparingNote) {
			p.WaitsFor = "its container. " + preparingNote
		}
	}
	return p
}

// Times returns the beginning and the end of the run; zero: it goes on.
func (r *Run) Times() (begun, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.created, r.ended
}

// peekTimeout bounds the wait for a supervisor's output so far.
const peekTimeout = 2 * time.Second

// SoFar returns a result with status running and the output so far. ctx bounds the wait for it; if ctx ends first, or the code did
// not begin yet, the streams are empty.
func (r *Run) SoFar(ctx context.Context) *Result {
	k := r.kernel.Load()
	r.mu.Lock()
	displays := slices.Clone(r.displays)
	r.mu.Unlock()
	res := &Result{
		SessionID: r.SessionID, RunID: r.ID, Language: r.Language, Status: Running,
		Displays: displays, DisplaysTotal: len(displays), Duration: time.Since(r.created),
	}
	if k == nil {
		res.Notes = []string{"The code has not begun: it waits for its container."}
		if before := r.before(); before != nil {
			res.Notes = []string{"The code has not begun: it waits for " + before.String(), before.wayOut() + "."}
		} else if r.noted(preparingNote) {
			res.Notes = append(res.Notes, preparingNote)
		}
		return res
	}
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	if answer, ok := k.Peek(ctx, followed{r}); ok {
		boundStream(&answer.Stdout, maxText)
		boundStream(&answer.Stderr, maxText)
		res.Stdout, res.Stderr = answer.Stdout, answer.Stderr
		res.mask(r.config) // its displays are masked already
	}
	return res
}

func (r *Run) before() *RunInfo {
	if r.ahead == nil {
		return nil
	}
	return r.ahead()
}

func (r *Run) note(text string) {
	r.mu.Lock()
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
	r.mu.Unlock()
}

func (r *Run) noted(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.notes, text)
}

// passNotes moves the notes so far to take.
func (r *Run) passNotes(take func(string)) {
	r.mu.Lock()
	notes := r.notes
	r.notes = nil
	r.mu.Unlock()
	for _, text := range notes {
		take(text)
	}
}

func (r *Run) advance(m protocol.Progress) {
	r.mu.Lock()
	r.progress = Progress{StdoutBytes: m.StdoutBytes, StderrBytes: m.StderrBytes, LastLine: r.config.Mask.MaskPart(text.Safe(m.LastLine, maxName))}
	r.mu.Unlock()
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// followed is a run as its kernel sees it.
type followed struct{ run *Run }

// Request is the message that begins the run.
func (f followed) Request() protocol.Request {
	o := &f.run.options
	return protocol.Request{Type: "run", ID: f.run.ID, Code: o.Code, Before: o.Before, Fresh: o.Fresh, Copy: o.Copy}
}

func (f followed) Timeout() time.Duration             { return f.run.timeout() }
func (f followed) Stop() <-chan struct{}              { return f.run.ctx.Done() }
func (f followed) Over() <-chan struct{}              { return f.run.done }
func (f followed) Follow(k *kernel.Kernel)            { f.run.kernel.Store(k) }
func (f followed) Advance(m protocol.Progress)        { f.run.advance(m) }
func (f followed) Show(d protocol.Display, limit int) { f.run.show(decodeDisplay(d), limit) }
func (f followed) Clear()                             { f.run.dropShown() }

// heldDisplayBytes bounds the displays that a run keeps; the files contain the rest.
const heldDisplayBytes = 8 << 20

func (r *Run) show(d Display, limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.displays, func(o Display) bool { return d.key != "" && o.key == d.key })
	if at < 0 {
		if at = len(r.displays); at >= limit {
			return
		}
		r.displays = append(r.displays, Display{})
	}
	d = d.masked(r.config)
	for _, data := range r.displays[at].Data {
		r.held -= len(data)
	}
	for mime, data := range d.Data {
		if r.held+len(data) > heldDisplayBytes {
			delete(d.Data, mime)
			continue
		}
		r.held += len(data)
	}
	r.displays[at] = d
}

// dropShown drops the displays so far.
func (r *Run) dropShown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.displays, r.held = nil, 0
}

// dropImages drops the displays of a finished run, except for the paths of their files.
func (r *Run) dropImages() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result == nil || r.held == 0 {
		return
	}
	slim := *r.result // others may be reading theirs
	slim.Displays = make([]Display, len(r.result.Displays))
	for i, d := range r.result.Displays {
		d.Data = nil
		slim.Displays[i] = d
	}
	r.result, r.displays, r.held = &slim, nil, 0
}

// finish settles the run, with the secrets in res and err masked. The first call counts. It calls record, which may be nil and
// must not wait, once the result is whole and before anybody gets it, so that a server that ends in order still records it.
func (r *Run) finish(res *Result, err error, record func(*Result, error)) {
	r.mu.Lock()
	if r.result == nil && r.err == nil {
		if res != nil {
			res.Displays = r.displays
			res.DisplaysTotal = max(res.DisplaysTotal, len(r.displays))
			res.Notes = append(r.notes, res.Notes...)
			res.mask(r.config)
		}
		r.result, r.err = res, maskedFault(r.config, err)
		r.kernel.Store(nil)
		r.ended = time.Now()
		if record != nil {
			record(r.result, r.err)
		}
		if r.observed != nil {
			r.observed(r.result, r.err)
		}
		close(r.done)
	}
	r.mu.Unlock()
	r.cancel(nil)
}

// unanswered is the result of a run without an answer from a supervisor.
func (r *Run) unanswered(status Status, exitCode int) *Result {
	return &Result{SessionID: r.SessionID, RunID: r.ID, Language: r.Language, Status: status, ExitCode: exitCode}
}

// stopped turns the end of the run's context, before its code began, into a result: cancelled is an ordinary end, and a closed
// session a fault.
func (r *Run) stopped() (*Result, error) {
	if cause := context.Cause(r.ctx); errors.Is(cause, errInterrupted) || errors.Is(cause, errLeaving) {
		res := r.unanswered(Cancelled, 130)
		res.Notes = []string{"Cancelled before the code began."}
		return res, nil
	}
	if errors.Is(context.Cause(r.ctx), errAsleep) {
		return nil, errSlept(r.SessionID)
	}
	return nil, errSessionClosed(r.SessionID)
}

func errSessionClosed(id string) *fault.Error {
	return fault.New(fault.SessionNotFound, "Run the code again: a new session starts without its variables.",
		"Session %q was closed before the code was run.", id)
}

// errClosing ends everything in a session that is being closed.
var errClosing = errors.New("session is closing")

// errLeaving ends this server's use of a session that goes on without it.
var errLeaving = errors.New("the server is shutting down")

// errAsleep ends the kernels of a session that keeps its files and variables.
var errAsleep = errors.New("session is put to sleep")

func errSlept(id string) *fault.Error {
	return fault.New(fault.SessionBusy, "Try again: the next call wakes it, with its variables.", "Session %q was put to sleep meanwhile.", id)
}

func errNoWayBack(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidArgument, "Try things with fresh: true, which leaves the variables alone.", format, args...)
}

// preparingNote is for a run that waits while the engine makes an image ready, and reports no progress.
const preparingNote = "The image is made ready for its first container, which can take minutes."

const (
	runPrefix     = "run-"     // of the id of a run
	restorePrefix = "restore-" // of the id of a restore
)
