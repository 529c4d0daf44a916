package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// backstop is how much longer than the supervisor the server waits before it enforces a limit by removing the container.
// JavaScript may need four times interruptGrace, see docs/kernel-protocol.md.
const backstop = 20 * time.Second

// answerPatience is how long a supervisor may take to answer a sign-of-life request.
const answerPatience = 10 * time.Second

// kernel is the server's end of one container: a supervisor and the interpreter under it. It runs one piece of code at a time, for
// the holder of the turn, and fresh runs beside it.
type kernel struct {
	proc   engine.Process
	conn   *channel.Conn // over proc
	limits wireLimits
	log    *slog.Logger

	instead *kernel  // its successor in the same container; set when that is made, under the link's starting
	outbox  chan any // messages to the supervisor
	// onReady is called once, before any frame after ready is handled. Set before begin; may be nil.
	onReady func(protocol.Ready)
	// serveOut serves a connection of the code's egress, and closes it. Set before begin; nil refuses.
	serveOut func(*kernel, net.Conn)
	out      *outConns     // the session's; set before begin if there is egress
	unbound  bool          // it is a spare's, and these two are set before bind; set before begin
	ready    chan struct{} // closed when the supervisor is up

	mu   sync.Mutex
	runs map[string]following // the runs that frames are for, by id

	info atomic.Pointer[protocol.Ready] // nil before the supervisor is up
	lost atomic.Pointer[string]         // the cause of death of an idle interpreter, which the next run reports; nil while it lives

	peeking sync.Mutex // one question at a time
	peeks   chan protocol.Peek
	frozen  chan protocol.Frozen // an answer to a question, or forged

	twins     atomic.Pointer[protocol.Twins] // the last message about restorable runs; nil: none came
	restoring atomic.Pointer[string]         // the id of the requested restore
	restoreds chan protocol.Restored

	dead   chan struct{} // closed when no more frames come
	frames atomic.Uint64 // frames so far
	// ending reports that the container was told to end, and does so soon.
	ending atomic.Bool
	// missing reports that the image lacks the interpreter.
	missing atomic.Bool
	// cut reports that the connection ended, but not by a protocol violation. Set before dead is closed.
	cut bool
}

// wireLimits are the bounds that the server sends to the supervisor and enforces on it.
type wireLimits struct {
	OutputBytes  int
	SpoolBytes   int
	ImageBytes   int
	MaxDisplays  int
	MaxArtifacts int
	Linger       time.Duration // how long a run waits for endless-looking background work
	Frozen       time.Duration // how long it may wait for a snapshot to be written or read, before its own time begins
}

func (c *Config) wireLimits() wireLimits {
	return wireLimits{
		OutputBytes: c.OutputBytes, SpoolBytes: c.SpoolBytes,
		ImageBytes: maxImageBytes, MaxDisplays: maxDisplays, MaxArtifacts: MaxArtifacts, Linger: c.Linger, Frozen: c.retireTime(),
	}
}

func newKernel(proc engine.Process, limits wireLimits, log *slog.Logger) *kernel {
	return &kernel{
		proc: proc, conn: channel.New(proc, channel.Options{MaxControl: protocol.MaxToServer}), limits: limits, log: log,
		outbox: make(chan any, 32), peeks: make(chan protocol.Peek, 1), frozen: make(chan protocol.Frozen, 1), restoreds: make(chan protocol.Restored, 1),
		ready: make(chan struct{}), dead: make(chan struct{}), runs: make(map[string]following),
	}
}

// following is a run with the channel for its end.
type following struct {
	run    *Run
	answer chan protocol.Done
}

// begin starts the exchange with a supervisor by sending first. It returns no error for a process 1 that already ended: awaitReady
// returns that, with the reason from its stderr.
func (k *kernel) begin(first any) {
	k.outbox <- first // it is buffered, and nothing else is sent yet
	go k.listen()
	go k.speak()
	if !k.unbound {
		go k.acceptOut()
	}
}

// bind gives a spare's kernel to a session, by the message bind.
func (k *kernel) bind(message any) {
	_ = k.send(message) // if that fails it is dying, and its first run notices
	go k.acceptOut()
}

// send queues a message for the writer and never waits: a supervisor that does not read must not delay a call that stops it.
func (k *kernel) send(message any) error {
	select {
	case k.outbox <- message:
		return nil
	case <-k.dead:
		return errKernelGone
	default:
		return errUnresponsive
	}
}

// lastWords is the time to read the output of a program that ended before the server wrote to it.
const lastWords = time.Second

// speak writes the messages of send, until the connection ends.
func (k *kernel) speak() {
	for {
		select {
		case <-k.dead:
			return
		case message := <-k.outbox:
			body, err := encodeMessage(message)
			if err == nil {
				err = k.conn.Send(body)
			}
			if err != nil {
				k.log.Debug("write to supervisor", "error", err)
				select {
				case <-k.dead:
				case <-time.After(lastWords): // it goes on, and only does not read
				}
				k.close()
				return
			}
		}
	}
}

// close ends the connection, but not the container.
func (k *kernel) close() { _ = k.conn.Close() }

// listen reads messages until the container or the connection ends. A protocol violation ends the kernel: hostile code replaced
// its supervisor, and its messages are worth nothing.
func (k *kernel) listen() {
	defer close(k.dead)
	for {
		body, err := k.conn.Receive()
		cut := err != nil && !isAny(err, channel.ErrFrameTooLarge, channel.ErrUnknownFrame, channel.ErrBrokenStreams)
		k.frames.Add(1)
		if err == nil {
			err = frameLimits.Check(body)
		}
		if err == nil {
			err = k.take(body)
		}
		if err != nil {
			k.cut = cut
			k.log.Debug("kernel connection ended", "error", err)
			k.close()
			return
		}
	}
}

func (k *kernel) take(body []byte) error {
	var head protocol.Head
	if err := json.Unmarshal(body, &head); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	switch head.Type {
	case "ready":
		return decode(body, k.becomeReady)
	case "kernel":
		return k.onKernel(body)
	case "twins":
		return decode(body, k.noteTwins)
	case "restored":
		if id := k.restoring.Load(); id == nil || *id != head.ID {
			return nil // it came too late, or is forged
		}
		return decode(body, func(m protocol.Restored) { offer(k.restoreds, m) })
	case "frozen":
		return decode(body, func(m protocol.Frozen) { offer(k.frozen, m) })
	case "log":
		return decode(body, func(m protocol.Log) { k.log.Debug("supervisor", "message", clip(m.Message, maxName)) })
	}
	k.mu.Lock()
	f, ok := k.runs[head.ID]
	k.mu.Unlock()
	if !ok {
		return nil
	}
	run := f.run
	switch head.Type {
	case "progress":
		return decode(body, run.advance)
	case "clear":
		run.dropShown()
	case "display":
		return decode(body, func(m protocol.Display) { run.show(display(m), k.limits.MaxDisplays) })
	case "peek":
		return decode(body, func(m protocol.Peek) { offer(k.peeks, m) })
	case "done":
		return decode(body, func(m protocol.Done) { offer(f.answer, m) })
	}
	return nil
}

func decode[T any](body []byte, use func(T)) error {
	var m T
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	use(m)
	return nil
}

// offer puts a message into a channel of capacity one, or drops it: a second answer to the same question is forged.
func offer[T any](c chan T, m T) {
	select {
	case c <- m:
	default:
	}
}

// becomeReady notes that the supervisor is up. It reports true once; later messages are forged.
func (k *kernel) becomeReady(m protocol.Ready) {
	m.Version = clip(m.Version, maxName)
	if !k.info.CompareAndSwap(nil, &m) {
		return
	}
	if k.onReady != nil {
		k.onReady(m)
	}
	close(k.ready)
}

// awaitReady waits until the supervisor is up, will not come up, or ctx is done.
func (k *kernel) awaitReady(ctx context.Context) error {
	select {
	case <-k.ready:
		return nil
	case <-k.dead:
		return errKernelGone
	case <-ctx.Done():
		return errUnresponsive
	}
}

// onKernel notes the death of an interpreter. If the image lacks it, the connection is useless.
func (k *kernel) onKernel(body []byte) error {
	var m protocol.KernelState
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	if m.State == "missing" {
		k.missing.Store(true)
		return engine.ErrNoInterpreter
	}
	cause := clip(m.Cause, maxName)
	k.lost.Store(&cause)
	return nil
}

// alive reports whether frames still come.
func (k *kernel) alive() bool { return !isClosed(k.dead) }

// wasCut reports whether a kernel that came up only lost its connection, as far as is known here.
func (k *kernel) wasCut() bool { return !k.alive() && k.cut && k.wasReady() }

// wasReady reports whether the supervisor ever came up.
func (k *kernel) wasReady() bool { return k.info.Load() != nil }

// errUnresponsive reports that the supervisor did not enforce a limit itself, so its container must go.
var errUnresponsive = errors.New("supervisor does not answer")

// run executes the code and waits for its end. When r's context ends, it interrupts the code and goes on waiting. errUnresponsive:
// the caller must remove the container. errKernelGone: it ended by itself.
func (k *kernel) run(r *Run) (protocol.Done, error) {
	answer := k.follow(r)
	err := k.send(protocol.Request{
		Type: "run", ID: r.ID, Code: r.options.Code, Before: r.options.Before, Fresh: r.options.Fresh, Copy: r.options.Copy,
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

var errKernelGone = errors.New("container ended")

// lastWord takes an answer that came just before the end.
func lastWord(answer chan protocol.Done) (protocol.Done, error) {
	select {
	case done := <-answer:
		return done, nil
	default:
		return protocol.Done{}, errKernelGone
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
