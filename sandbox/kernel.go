package sandbox

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// kernel is the conversation with one language's interpreter in a container. It runs one piece of code at a time, for the holder of
// the turn, and fresh runs beside it.
type kernel struct {
	*container
	language Language

	used atomic.Bool // a run or an earlier server used it, so it has variables
	// recorded: the session's record names the language with the container's settings.
	recorded atomic.Bool
	info     atomic.Pointer[protocol.Ready] // nil before the interpreter is up
	up       chan struct{}                  // closed when it is up, or missing
	// missing reports that the image lacks the interpreter. Set before up is closed.
	missing atomic.Bool
	lost    atomic.Pointer[string] // the cause of death of an idle interpreter, which the next run reports; nil while it lives

	peeking sync.Mutex // one question at a time
	peeks   chan protocol.Peek
	frozen  chan protocol.Frozen // an answer to a question, or forged

	twins     atomic.Pointer[protocol.Twins] // the last message about restorable runs; nil: none came
	restoring atomic.Pointer[string]         // the id of the requested restore
	restoreds chan protocol.Restored
}

func newKernel(in *container, language Language) *kernel {
	return &kernel{
		container: in, language: language, up: make(chan struct{}),
		peeks: make(chan protocol.Peek, 1), frozen: make(chan protocol.Frozen, 1), restoreds: make(chan protocol.Restored, 1),
	}
}

// take handles a message about the kernel.
func (k *kernel) take(head protocol.Head, body []byte) error {
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
func (k *kernel) becomeReady(m protocol.Ready) {
	m.Version = clip(m.Version, maxName)
	if k.missing.Load() || !k.info.CompareAndSwap(nil, &m) {
		return
	}
	if k.onReady != nil {
		k.onReady(k, m)
	}
	close(k.up)
}

// noteState notes the death of an idle interpreter, or that the image lacks it.
func (k *kernel) noteState(m protocol.KernelState) {
	if m.State == "missing" {
		if k.info.Load() == nil && !k.missing.Swap(true) {
			close(k.up)
		}
		return
	}
	cause := clip(m.Cause, maxName)
	k.lost.Store(&cause)
}

// awaitUp waits until the interpreter is up or missing, the container ended, or ctx is done.
func (k *kernel) awaitUp(ctx context.Context) {
	select {
	case <-k.up:
	case <-k.dead:
	case <-ctx.Done():
	}
}

// wasReady reports whether the interpreter ever came up.
func (k *kernel) wasReady() bool { return k.info.Load() != nil }

// run executes the code and waits for its end. When r's context ends, it interrupts the code and goes on waiting. errUnresponsive:
// the caller must remove the container. errContainerEnded: it ended by itself.
func (k *kernel) run(r *Run) (protocol.Done, error) {
	answer := k.follow(r)
	err := k.send(protocol.Request{
		Type: "run", Language: string(k.language), ID: r.ID, Code: r.options.Code, Before: r.options.Before, Fresh: r.options.Fresh, Copy: r.options.Copy,
		TimeoutMS: r.timeout().Milliseconds(), GraceMS: interruptGrace.Milliseconds(), LingerMS: k.limits.Linger.Milliseconds(),
	})
	if err != nil {
		k.leave(r)
		return protocol.Done{}, err
	}
	return k.await(r, answer, r.timeout())
}

// follow registers r to receive its frames.
func (k *kernel) follow(r *Run) chan protocol.Done {
	answer := make(chan protocol.Done, 1)
	k.mu.Lock()
	k.runs[r.ID] = following{r, answer}
	k.mu.Unlock()
	r.kernel.Store(k)
	return answer
}

// answerTo returns the channel for a followed run's end; nil for another run.
func (k *kernel) answerTo(r *Run) chan protocol.Done {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[r.ID].answer
}

func (k *kernel) leave(r *Run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.runs, r.ID)
}

// await waits for the end of a followed run, for at most timeout: longer if its supervisor waits for something first, but only
// answerPatience while that does not answer.
func (k *kernel) await(r *Run, answer chan protocol.Done, timeout time.Duration) (protocol.Done, error) {
	defer k.leave(r)
	limit := time.NewTimer(k.limits.Frozen + timeout + interruptGrace + backstop)
	defer limit.Stop()
	look := time.NewTimer(timeout)
	defer look.Stop()
	asked, heard := false, uint64(0)
	stop := r.ctx.Done()
	for {
		select {
		case done := <-answer:
			return done, nil
		case <-k.dead:
			return lastWord(answer)
		case <-stop:
			stop = nil
			limit.Reset(interruptGrace + backstop)
			asked = false
			look.Reset(0)
			// An error here means that the kernel is dying, which the other cases see.
			_ = k.send(protocol.Request{Type: "interrupt", ID: r.ID, Reason: "cancelled"})
		case <-look.C:
			if asked && k.frames.Load() == heard {
				return protocol.Done{}, errUnresponsive
			}
			asked, heard = true, k.frames.Load()
			_ = k.send(protocol.Request{Type: "ping"})
			look.Reset(answerPatience)
		case <-limit.C:
			return protocol.Done{}, errUnresponsive
		}
	}
}

// lastWord takes an answer that came just before the end.
func lastWord(answer chan protocol.Done) (protocol.Done, error) {
	select {
	case done := <-answer:
		return done, nil
	default:
		return protocol.Done{}, errContainerEnded
	}
}

// peek asks for the output so far of the running run.
func (k *kernel) peek(ctx context.Context, r *Run) (protocol.Peek, bool) {
	k.peeking.Lock()
	defer k.peeking.Unlock()
	select { // a late answer to an earlier question
	case <-k.peeks:
	default:
	}
	if err := k.send(protocol.Request{Type: "peek", ID: r.ID}); err != nil {
		return protocol.Peek{}, false
	}
	select {
	case answer := <-k.peeks:
		return answer, answer.ID == r.ID
	case <-r.done:
	case <-k.dead:
	case <-ctx.Done():
	}
	return protocol.Peek{}, false
}

// freeze makes the kernel write a snapshot, and returns the reason if it did not; empty: it did.
func (k *kernel) freeze(ctx context.Context, most time.Duration) string {
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
				return phrase(answer.Error)
			}
		case <-k.dead:
			return errContainerEnded.Error()
		case <-ctx.Done():
			return errUnresponsive.Error()
		}
	}
}
