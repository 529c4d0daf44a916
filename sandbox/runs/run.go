// Package runs knows one execution of code: its options and limits, its progress, its result, the record of it, and the uses of a
// session that runs count as. It knows no container.
package runs

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
	Timeout   time.Duration // zero: Rules.RunTimeout; clamped to Rules.MaxRunTimeout
	Limits    SessionLimits // of the session, if it has no container yet; lowered to the server's
	Times     Times         // of the session, if nobody used it yet; likewise
	Fresh     bool          // in an interpreter of its own, which ends with the run
	// Before is the server's own code, in one line, that the interpreter runs first: it is not among the run's lines, and in no
	// history.
	Before  string
	Copy    bool // in a copy of the variables, which Manager.Restore can restore; Python
	Program bool // one of Manager.Program: what it changes is undone with no run
	// Unlisted: the code is the server's own, and stays out of the history. Rules.Admit and Rules.Observer still hear of it.
	Unlisted bool
	// Caller is the context of the caller, for Rules.Observer: its values count, and not its end. May be nil.
	Caller context.Context

	notes []string // for the answer
}

// Apart reports whether it runs beside the kernel's own runs, without waiting for their turns.
func (o *RunOptions) Apart() bool { return o.Fresh || o.Copy }

// Check fills in defaults and refuses impossible options.
func (o *RunOptions) Check(c *Rules) error {
	switch {
	case o.Copy && o.Language != Python:
		return ErrNoWayBack("copy works in Python only, and this is %s.", o.Language)
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

// ErrInterrupted ends a run's context on request.
var ErrInterrupted = errors.New("interrupted on request")

// Run is one execution of code, queued, running or over. Its methods may be called from any goroutine.
type Run struct {
	ID        string
	SessionID string
	Language  Language

	Options RunOptions
	Most    time.Duration // the maximum of its session; zero: unknown yet
	Rules   *Rules
	code    string          // with the secrets masked, for histories and other calls
	Earlier bool            // an earlier server began it
	Ahead   func() *RunInfo // the run in the kernel meanwhile; nil, or returns nil: unknown
	// unrecorded reports that this server's outcome of the run is not its end.
	Unrecorded atomic.Bool
	ending     atomic.Bool // its code is over
	Created    time.Time
	Ctx        context.Context // ends with an interrupt, or with the session
	Cancel     context.CancelCauseFunc
	done       chan struct{}
	observed   func(*Result, error) // of the observer; may be nil
	moved      chan struct{}        // buffered for one: new progress

	kernel atomic.Pointer[kernel.Kernel] // while it runs

	mu       sync.Mutex
	progress Progress
	Displays []Display
	Held     int // bytes of the displays' data
	ended    time.Time
	notes    []string
	result   *Result
	err      error
}

// NewRun makes a run that ends with parent at the latest.
func NewRun(parent context.Context, rules *Rules, id, session string, options RunOptions) *Run {
	ctx, cancel := context.WithCancelCause(parent)
	return &Run{
		ID: id, SessionID: session, Language: options.Language,
		Options: options, Rules: rules, code: rules.Mask.Mask(options.Code), notes: options.notes, Created: time.Now(), Ctx: ctx, Cancel: cancel,
		done: make(chan struct{}), moved: make(chan struct{}, 1),
	}
}

// Code is the code. It may contain secrets.
func (r *Run) Code() string { return r.Options.Code }

// Over reports whether the run is over.
func (r *Run) Over() bool { return IsClosed(r.done) }

// IsClosed reports whether a channel without values is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lastEnd is the latest end of the run: it may wait for its turn as long as it may run.
func (r *Run) lastEnd() time.Time { return r.Created.Add(2 * r.Options.Timeout) }

// IsFollowed reports whether a kernel of this server executes the run.
func (r *Run) IsFollowed() bool { return r.kernel.Load() != nil }

// waits reports whether the code of a run is yet to begin.
func (r *Run) waits() bool { return !r.Options.Program && !r.Earlier && !r.IsFollowed() && !r.Over() }

// Done is closed when the run is over.
func (r *Run) Done() <-chan struct{} { return r.done }

// Moved receives after a change of Progress.
func (r *Run) Moved() <-chan struct{} { return r.moved }

// Interrupt asks the code to stop; a run that waits for its turn leaves the queue. It returns at once, before Done. The kernel
// keeps its variables unless the code ignores the interrupt.
func (r *Run) Interrupt() { r.Cancel(ErrInterrupted) }

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
	p.Elapsed = time.Since(r.Created)
	if !r.IsFollowed() {
		if before := r.before(); before != nil {
			p.WaitsFor = before.String()
		} else if r.noted(PreparingNote) {
			p.WaitsFor = "its container. " + PreparingNote
		}
	}
	return p
}

// Times returns the beginning and the end of the run; zero: it goes on.
func (r *Run) Times() (begun, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Created, r.ended
}

// peekTimeout bounds the wait for a supervisor's output so far.
const peekTimeout = 2 * time.Second

// SoFar returns a result with status running and the output so far. ctx bounds the wait for it; if ctx ends first, or the code did
// not begin yet, the streams are empty.
func (r *Run) SoFar(ctx context.Context) *Result {
	k := r.kernel.Load()
	r.mu.Lock()
	displays := slices.Clone(r.Displays)
	r.mu.Unlock()
	res := &Result{
		SessionID: r.SessionID, RunID: r.ID, Language: r.Language, Status: Running,
		Displays: displays, DisplaysTotal: len(displays), Duration: time.Since(r.Created),
	}
	if k == nil {
		res.Notes = []string{"The code has not begun: it waits for its container."}
		if before := r.before(); before != nil {
			res.Notes = []string{"The code has not begun: it waits for " + before.String(), before.WayOut() + "."}
		} else if r.noted(PreparingNote) {
			res.Notes = append(res.Notes, PreparingNote)
		}
		return res
	}
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	if answer, ok := k.Peek(ctx, r.Followed()); ok {
		boundStream(&answer.Stdout, MaxText)
		boundStream(&answer.Stderr, MaxText)
		res.Stdout, res.Stderr = answer.Stdout, answer.Stderr
		res.mask(r.Rules) // its displays are masked already
	}
	return res
}

func (r *Run) before() *RunInfo {
	if r.Ahead == nil {
		return nil
	}
	return r.Ahead()
}

// Note adds a note to the result, once.
func (r *Run) Note(text string) {
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

// PassNotes moves the notes so far to take.
func (r *Run) PassNotes(take func(string)) {
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
	r.progress = Progress{StdoutBytes: m.StdoutBytes, StderrBytes: m.StderrBytes, LastLine: r.Rules.Mask.MaskPart(text.Safe(m.LastLine, MaxName))}
	r.mu.Unlock()
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// Followed returns the run as its kernel sees it.
func (r *Run) Followed() kernel.Run { return followed{r} }

type followed struct{ run *Run }

// Request is the message that begins the run.
func (f followed) Request() protocol.Request {
	o := &f.run.Options
	return protocol.Request{Type: "run", ID: f.run.ID, Code: o.Code, Before: o.Before, Fresh: o.Fresh, Copy: o.Copy}
}

func (f followed) Timeout() time.Duration             { return f.run.Timeout() }
func (f followed) Stop() <-chan struct{}              { return f.run.Ctx.Done() }
func (f followed) Over() <-chan struct{}              { return f.run.done }
func (f followed) Follow(k *kernel.Kernel)            { f.run.kernel.Store(k) }
func (f followed) Advance(m protocol.Progress)        { f.run.advance(m) }
func (f followed) Show(d protocol.Display, limit int) { f.run.show(decodeDisplay(d), limit) }
func (f followed) Clear()                             { f.run.DropShown() }

// heldDisplayBytes bounds the displays that a run keeps; the files contain the rest.
const heldDisplayBytes = 8 << 20

func (r *Run) show(d Display, limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.Displays, func(o Display) bool { return d.key != "" && o.key == d.key })
	if at < 0 {
		if at = len(r.Displays); at >= limit {
			return
		}
		r.Displays = append(r.Displays, Display{})
	}
	d = d.masked(r.Rules)
	for _, data := range r.Displays[at].Data {
		r.Held -= len(data)
	}
	for mime, data := range d.Data {
		if r.Held+len(data) > heldDisplayBytes {
			delete(d.Data, mime)
			continue
		}
		r.Held += len(data)
	}
	r.Displays[at] = d
}

// DropShown drops the displays so far.
func (r *Run) DropShown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Displays, r.Held = nil, 0
}

// dropImages drops the displays of a finished run, except for the paths of their files.
func (r *Run) dropImages() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result == nil || r.Held == 0 {
		return
	}
	slim := *r.result // others may be reading theirs
	slim.Displays = make([]Display, len(r.result.Displays))
	for i, d := range r.result.Displays {
		d.Data = nil
		slim.Displays[i] = d
	}
	r.result, r.Displays, r.Held = &slim, nil, 0
}

// Finish settles the run, with the secrets in res and err masked. The first call counts. It calls record, which may be nil and
// must not wait, once the result is whole and before anybody gets it, so that a server that ends in order still records it.
func (r *Run) Finish(res *Result, err error, record func(*Result, error)) {
	r.mu.Lock()
	if r.result == nil && r.err == nil {
		if res != nil {
			res.Displays = r.Displays
			res.DisplaysTotal = max(res.DisplaysTotal, len(r.Displays))
			res.Notes = append(r.notes, res.Notes...)
			res.mask(r.Rules)
		}
		r.result, r.err = res, maskedFault(r.Rules, err)
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
	r.Cancel(nil)
}

// Unanswered is the result of a run without an answer from a supervisor.
func (r *Run) Unanswered(status Status, exitCode int) *Result {
	return &Result{SessionID: r.SessionID, RunID: r.ID, Language: r.Language, Status: status, ExitCode: exitCode}
}

// Stopped turns the end of the run's context, before its code began, into a result: cancelled is an ordinary end, and a closed
// session a fault.
func (r *Run) Stopped() (*Result, error) {
	if cause := context.Cause(r.Ctx); errors.Is(cause, ErrInterrupted) || errors.Is(cause, ErrLeaving) {
		res := r.Unanswered(Cancelled, 130)
		res.Notes = []string{"Cancelled before the code began."}
		return res, nil
	}
	if errors.Is(context.Cause(r.Ctx), ErrAsleep) {
		return nil, ErrSlept(r.SessionID)
	}
	return nil, errSessionClosed(r.SessionID)
}

func errSessionClosed(id string) *fault.Error {
	return fault.New(fault.SessionNotFound, "Run the code again: a new session starts without its variables.",
		"Session %q was closed before the code was run.", id)
}

// ErrClosing ends everything in a session that is being closed.
var ErrClosing = errors.New("session is closing")

// ErrLeaving ends this server's use of a session that goes on without it.
var ErrLeaving = errors.New("the server is shutting down")

// ErrAsleep ends the kernels of a session that keeps its files and variables.
var ErrAsleep = errors.New("session is put to sleep")

// ErrSlept reports that a session was put to sleep under a call.
func ErrSlept(id string) *fault.Error {
	return fault.New(fault.SessionBusy, "Try again: the next call wakes it, with its variables.", "Session %q was put to sleep meanwhile.", id)
}

// ErrNoWayBack reports that a run cannot be undone.
func ErrNoWayBack(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidArgument, "Try things with fresh: true, which leaves the variables alone.", format, args...)
}

// PreparingNote is for a run that waits while the engine makes an image ready, and reports no progress.
const PreparingNote = "The image is made ready for its first container, which can take minutes."

// The beginnings of ids, of a run and of a restore.
const (
	RunPrefix     = "run-"
	RestorePrefix = "restore-"
)

// IsID reports whether a text begins as the id of a run or a restore.
func IsID(text string) bool {
	return strings.HasPrefix(text, RunPrefix) || strings.HasPrefix(text, RestorePrefix)
}
