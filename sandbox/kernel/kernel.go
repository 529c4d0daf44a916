package kernel

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

const (
	// Grace is how long code may ignore an interrupt before its kernel is killed.
	Grace = 5 * time.Second
	// backstop is how much longer than the supervisor the server waits before it enforces a limit by removing the container.
	// JavaScript may need four times Grace, see docs/kernel-protocol.md.
	backstop = 20 * time.Second
	// AnswerPatience is how long a supervisor may take to answer a sign-of-life request.
	AnswerPatience = 10 * time.Second
)

// Run is a run as its kernel sees it. What is told about it comes from one goroutine, in order.
type Run interface {
	// Request is the message run, without what its kernel knows itself.
	Request() protocol.Request
	Timeout() time.Duration
	// Stop is closed when the code is to be interrupted, and Over when nobody waits for the run any more.
	Stop() <-chan struct{}
	Over() <-chan struct{}
	// Follow tells that k executes the run from now on.
	Follow(k *Kernel)
	Advance(protocol.Progress)
	// Show shows at most so many displays, and Clear takes them back.
	Show(d protocol.Display, most int)
	Clear()
}

// Kernel is the conversation with one language's interpreter in a container. It runs one piece of code at a time, for the holder of
// the turn, and fresh runs beside it.
type Kernel struct {
	*Container
	language Language

	used     atomic.Bool
	recorded atomic.Bool
	info     atomic.Pointer[protocol.Ready]
	up       chan struct{} // closed when it is up, or missing
	missing  atomic.Bool   // set before up is closed
	lost     atomic.Pointer[string]

	peeking sync.Mutex // one question at a time
	peeks   chan protocol.Peek
	frozen  chan protocol.Frozen // an answer to a question, or forged

	twins     atomic.Pointer[protocol.Twins]
	restoring atomic.Pointer[string] // the id of the requested restore
	restoreds chan protocol.Restored
}

func newKernel(in *Container, language Language) *Kernel {
	return &Kernel{
		Container: in, language: language, up: make(chan struct{}),
		peeks: make(chan protocol.Peek, 1), frozen: make(chan protocol.Frozen, 1), restoreds: make(chan protocol.Restored, 1),
	}
}

// take handles a message about the kernel.
func (k *Kernel) take(head protocol.Head, body []byte) error {
	switch head.Type {
	case "ready":
		return decode(body, k.becomeReady)
	case "kernel":
		return decode(body, k.noteState)
	case "twins":
		return decode(body, k.noteTwins)
	case "restored":
		if id := k.restoring.Load(); id == nil || *id != head.ID {
			return nil // it came too late, or is forged
		}
		return decode(body, func(m protocol.Restored) { offer(k.restoreds, m) })
	case "frozen":
		return decode(body, func(m protocol.Frozen) { offer(k.frozen, m) })
	}
	return nil
}

// becomeReady notes once that the interpreter is up; later messages are forged.
func (k *Kernel) becomeReady(m protocol.Ready) {
	m.Version = text.Safe(m.Version, maxName)
	if k.missing.Load() || !k.info.CompareAndSwap(nil, &m) {
		return
	}
	if k.with.OnReady != nil {
		k.with.OnReady(k, m)
	}
	close(k.up)
}

// noteState notes the death of an idle interpreter, or that the image lacks it.
func (k *Kernel) noteState(m protocol.KernelState) {
	if m.State == "missing" {
		if k.info.Load() == nil && !k.missing.Swap(true) {
			close(k.up)
		}
		return
	}
	cause := text.Safe(m.Cause, maxName)
	k.lost.Store(&cause)
}

// noteTwins keeps a supervisor's list of restorable runs.
func (k *Kernel) noteTwins(m protocol.Twins) {
	looked := boundIDs(m.Looked, maxWaysBack)
	k.twins.Store(&protocol.Twins{Runs: boundIDs(m.Runs, maxWaysBack), Copies: boundIDs(m.Copies, maxWaysBack), Why: text.Safe(m.Why, maxName), Present: m.Present, Looked: looked})
	if watch := k.watch.Load(); watch != nil {
		(*watch).RecordLooked(looked)
	}
}

// Language is the kernel's.
func (k *Kernel) Language() Language { return k.language }

// Use notes that a run uses the kernel, so that it has variables, and reports whether the session's record is to name it.
func (k *Kernel) Use() (unrecorded bool) {
	k.used.Store(true)
	return !k.recorded.Swap(true)
}

// Used reports whether a run or an earlier server used it.
func (k *Kernel) Used() bool { return k.used.Load() }

// Info is the interpreter's first message; nil: it never came up.
func (k *Kernel) Info() *protocol.Ready { return k.info.Load() }

// Missing reports that the image lacks the interpreter.
func (k *Kernel) Missing() bool { return k.missing.Load() }

// TakeDeath returns, once, why the interpreter died while idle; empty: it lives, or the cause was told.
func (k *Kernel) TakeDeath() string {
	if cause := k.lost.Swap(nil); cause != nil {
		return *cause
	}
	return ""
}

// Twins is the last message about restorable runs; nil: none came.
func (k *Kernel) Twins() *protocol.Twins { return k.twins.Load() }

// NoTwin says why the present variables could not be restored later; empty: they could, or nothing is known.
func (k *Kernel) NoTwin() string {
	if twins := k.Twins(); twins != nil {
		return strings.TrimRight(twins.Why, ".")
	}
	return ""
}

// AwaitUp waits until the interpreter is up or missing, the container ended, or ctx is done.
func (k *Kernel) AwaitUp(ctx context.Context) {
	select {
	case <-k.up:
	case <-k.dead:
	case <-ctx.Done():
	}
}

// Runs ---------------------------------------------------------------------------------

// following is a run with the channel for its end.
type following struct {
	id     string
	run    Run
	kernel *Kernel // that executes it
	keeps  bool    // its variables
	place  int     // in the order of the runs
	answer chan protocol.Done
}

// take handles a message about the run.
func (f following) take(head protocol.Head, body []byte) error {
	switch head.Type {
	case "progress":
		return decode(body, f.run.Advance)
	case "clear":
		f.run.Clear()
	case "display":
		return decode(body, func(m protocol.Display) { f.run.Show(m, f.kernel.with.Limits.MaxDisplays) })
	case "peek":
		return decode(body, func(m protocol.Peek) { offer(f.kernel.peeks, m) })
	case "done":
		return decode(body, func(m protocol.Done) { offer(f.answer, m) })
	}
	return nil
}

// Run executes the code and waits for its end. When it is to stop, it interrupts the code and goes on waiting. ErrUnresponsive: the
// caller must remove the container. ErrContainerEnded: it ended by itself.
func (k *Kernel) Run(r Run) (protocol.Done, error) {
	answer := k.Follow(r)
	m := r.Request()
	m.Language, m.GraceMS, m.LingerMS = string(k.language), Grace.Milliseconds(), k.with.Limits.Linger.Milliseconds()
	m.TimeoutMS = r.Timeout().Milliseconds()
	if err := k.send(m); err != nil {
		k.leave(m.ID)
		return protocol.Done{}, err
	}
	return k.Await(r, answer, r.Timeout())
}

// Follow has r receive its frames, and returns the channel for its end.
func (k *Kernel) Follow(r Run) chan protocol.Done {
	m := r.Request()
	f := following{id: m.ID, run: r, kernel: k, keeps: !m.Fresh && !m.Copy, answer: make(chan protocol.Done, 1)}
	k.mu.Lock()
	k.begun++
	f.place = k.begun
	k.runs[m.ID] = f
	k.mu.Unlock()
	r.Follow(k)
	return f.answer
}

// AnswerTo returns the channel for a followed run's end; nil for another run.
func (k *Kernel) AnswerTo(runID string) chan protocol.Done {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[runID].answer
}

func (k *Kernel) leave(runID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.runs, runID)
}

// Await waits for the end of a followed run, for at most timeout: longer if its supervisor waits for something first, but only
// AnswerPatience while that does not answer.
func (k *Kernel) Await(r Run, answer chan protocol.Done, timeout time.Duration) (protocol.Done, error) {
	id := r.Request().ID
	defer k.leave(id)
	limit := time.NewTimer(k.with.Limits.Frozen + timeout + Grace + backstop)
	defer limit.Stop()
	look := time.NewTimer(timeout)
	defer look.Stop()
	asked, heard := false, uint64(0)
	stop := r.Stop()
	for {
		select {
		case done := <-answer:
			return done, nil
		case <-k.dead:
			return lastWord(answer)
		case <-stop:
			stop = nil
			limit.Reset(Grace + backstop)
			asked = false
			look.Reset(0)
			// An error here means that the kernel is dying, which the other cases see.
			_ = k.send(protocol.Request{Type: "interrupt", ID: id, Reason: "cancelled"})
		case <-look.C:
			if asked && k.frames.Load() == heard {
				return protocol.Done{}, ErrUnresponsive
			}
			asked, heard = true, k.frames.Load()
			_ = k.send(protocol.Request{Type: "ping"})
			look.Reset(AnswerPatience)
		case <-limit.C:
			return protocol.Done{}, ErrUnresponsive
		}
	}
}

// lastWord takes an answer that came just before the end.
func lastWord(answer chan protocol.Done) (protocol.Done, error) {
	select {
	case done := <-answer:
		return done, nil
	default:
		return protocol.Done{}, ErrContainerEnded
	}
}

// Peek asks for the output so far of the running run.
func (k *Kernel) Peek(ctx context.Context, r Run) (protocol.Peek, bool) {
	k.peeking.Lock()
	defer k.peeking.Unlock()
	select { // a late answer to an earlier question
	case <-k.peeks:
	default:
	}
	id := r.Request().ID
	if err := k.send(protocol.Request{Type: "peek", ID: id}); err != nil {
		return protocol.Peek{}, false
	}
	select {
	case answer := <-k.peeks:
		return answer, answer.ID == id
	case <-r.Over():
	case <-k.dead:
	case <-ctx.Done():
	}
	return protocol.Peek{}, false
}

// Variables ----------------------------------------------------------------------------

// Freeze makes the kernel write a snapshot, and returns the reason if it did not; empty: it did.
func (k *Kernel) Freeze(ctx context.Context, most time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	id := state.NewID("freeze-")
	if err := k.send(protocol.Request{Type: "freeze", Language: string(k.language), ID: id}); err != nil {
		return err.Error()
	}
	for {
		select {
		case answer := <-k.frozen:
			if answer.ID == id {
				return text.Phrase(answer.Error)
			}
		case <-k.dead:
			return ErrContainerEnded.Error()
		case <-ctx.Done():
			return ErrUnresponsive.Error()
		}
	}
}

// Restore sends the request restore, checkpoint or settle, whose id is new, and waits for its answer. The caller holds the turn.
func (k *Kernel) Restore(m protocol.Request, patience time.Duration) (protocol.Restored, error) {
	m.Type, m.Language = cmp.Or(m.Type, "restore"), string(k.language)
	k.restoring.Store(&m.ID)
	defer k.restoring.Store(nil)
	select { // an answer that came as the wait for it ended
	case <-k.restoreds:
	default:
	}
	if err := k.send(m); err != nil {
		return protocol.Restored{}, err
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case m := <-k.restoreds:
		m.Error, m.Runs, m.Copies = text.Safe(m.Error, maxName), boundIDs(m.Runs, maxWaysBack), boundIDs(m.Copies, maxWaysBack)
		m.Checkpoints, m.Dropped = boundCheckpoints(m.Checkpoints), m.Dropped[:min(len(m.Dropped), maxCheckpoints)]
		return m, nil
	case <-k.dead:
		return protocol.Restored{}, ErrContainerEnded
	case <-limit.C:
		return protocol.Restored{}, ErrUnresponsive
	}
}
