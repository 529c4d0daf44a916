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

// container is the server's end of one container: the connection to its supervisor, and the kernels under that.
type container struct {
	proc   engine.Process
	conn   *channel.Conn // over proc
	limits wireLimits
	log    *slog.Logger

	kernels map[Language]*kernel // of the languages that its supervisor was started for, or may have been

	instead *container // its successor in the same container; set when that is made, under the link's starting
	outbox  chan any   // messages to the supervisor
	// onAttached and onReady are called before any frame after their messages is handled, onAttached once. Set before begin; may be
	// nil.
	onAttached func(protocol.Attached)
	onReady    func(*kernel, protocol.Ready)
	// serveOut serves a connection of the code's egress, and closes it. Set before begin; nil refuses.
	serveOut func(*container, net.Conn)
	out      *outConns // the session's; set before begin if there is egress
	unbound  bool      // it is a spare's, and these two are set before bind; set before begin

	attached chan struct{} // closed when the supervisor answers
	goesOn   []string      // the runs that went on then; set before attached is closed
	earlier  bool          // its supervisor is an earlier version's, which only ends in order; set before attached is closed

	mu   sync.Mutex
	runs map[string]following // the runs that frames are for, by id

	dead   chan struct{} // closed when no more frames come
	frames atomic.Uint64 // frames so far
	// versions is the last message about versions of files; nil: none came.
	versions atomic.Pointer[protocol.Versions]
	// uses is the session's, which records what runs did to files; nil: it has no session yet.
	uses atomic.Pointer[usage]
	// ending reports that the container was told to end, and does so soon.
	ending atomic.Bool
	// cut reports that the connection ended, but not by a protocol violation. Set before dead is closed.
	cut bool
}

// backstop is how much longer than the supervisor the server waits before it enforces a limit by removing the container.
// JavaScript may need four times interruptGrace, see docs/kernel-protocol.md.
const backstop = 20 * time.Second

// answerPatience is how long a supervisor may take to answer a sign-of-life request.
const answerPatience = 10 * time.Second

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

// newContainer returns the server's end of a container for these languages.
func newContainer(proc engine.Process, languages []Language, limits wireLimits, log *slog.Logger) *container {
	c := &container{
		proc: proc, conn: channel.New(proc, channel.Options{MaxControl: protocol.MaxToServer}), limits: limits, log: log,
		kernels: make(map[Language]*kernel), outbox: make(chan any, 32),
		attached: make(chan struct{}), dead: make(chan struct{}), runs: make(map[string]following),
	}
	for _, language := range languages {
		c.kernels[language] = newKernel(c, language)
	}
	return c
}

// following is a run with the channel for its end.
type following struct {
	run    *Run
	answer chan protocol.Done
}

// begin starts the exchange with a supervisor by sending first. It returns no error for a process 1 that already ended: a wait for
// a kernel returns that, with the reason from its stderr.
func (c *container) begin(first any) {
	c.outbox <- first // it is buffered, and nothing else is sent yet
	go c.listen()
	go c.speak()
	if !c.unbound {
		go c.acceptOut()
	}
}

// bind gives a spare's container to a session, by the message bind.
func (c *container) bind(message any) {
	_ = c.send(message) // if that fails it is dying, and its first run notices
	go c.acceptOut()
}

// send queues a message for the writer and never waits: a supervisor that does not read must not delay a call that stops it.
func (c *container) send(message any) error {
	select {
	case c.outbox <- message:
		return nil
	case <-c.dead:
		return errContainerEnded
	default:
		return errUnresponsive
	}
}

// lastWords is the time to read the output of a program that ended before the server wrote to it.
const lastWords = time.Second

// speak writes the messages of send, until the connection ends.
func (c *container) speak() {
	for {
		select {
		case <-c.dead:
			return
		case message := <-c.outbox:
			body, err := encodeMessage(message)
			if err == nil {
				err = c.conn.Send(body)
			}
			if err != nil {
				c.log.Debug("write to supervisor", "error", err)
				select {
				case <-c.dead:
				case <-time.After(lastWords): // it goes on, and only does not read
				}
				c.close()
				return
			}
		}
	}
}

// close ends the connection, but not the container.
func (c *container) close() { _ = c.conn.Close() }

// listen reads messages until the container or the connection ends. A protocol violation ends the connection: hostile code replaced
// the supervisor, and its messages are worth nothing.
func (c *container) listen() {
	defer close(c.dead)
	for {
		body, err := c.conn.Receive()
		cut := err != nil && !isAny(err, channel.ErrFrameTooLarge, channel.ErrUnknownFrame, channel.ErrBrokenStreams)
		c.frames.Add(1)
		if err == nil {
			err = frameLimits.Check(body)
		}
		if err == nil {
			err = c.take(body)
		}
		if err != nil {
			c.cut = cut
			c.log.Debug("connection to supervisor ended", "error", err)
			c.close()
			return
		}
	}
}

// take handles a message: one about a run by the run's id, one about a kernel by its language.
func (c *container) take(body []byte) error {
	var head protocol.Head
	if err := json.Unmarshal(body, &head); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	switch head.Type {
	case "attached":
		return decode(body, c.onAttachedMessage)
	case "log":
		return decode(body, func(m protocol.Log) { c.log.Debug("supervisor", "message", clip(m.Message, maxName)) })
	case "versions":
		return decode(body, c.noteVersions)
	case "ready", "kernel", "twins", "restored", "frozen":
		if head.Type == "ready" && !isClosed(c.attached) { // versions before the message attached began with this one
			c.earlier = true
			close(c.attached)
		}
		if k := c.kernels[Language(head.Language)]; k != nil && !c.earlier {
			return k.take(head, body)
		}
		return nil
	}
	c.mu.Lock()
	f, ok := c.runs[head.ID]
	c.mu.Unlock()
	if !ok {
		return nil
	}
	return f.take(head, body, c.limits.MaxDisplays)
}

// onAttachedMessage notes that the supervisor answers, once; later messages are forged.
func (c *container) onAttachedMessage(m protocol.Attached) {
	if isClosed(c.attached) {
		return
	}
	for _, l := range m.Languages[:min(len(m.Languages), len(Languages))] {
		if k := c.kernels[Language(l.Language)]; k != nil && l.Started {
			k.used.Store(true)
		}
	}
	c.goesOn = m.Runs[:min(len(m.Runs), maxFresh)]
	if c.onAttached != nil {
		c.onAttached(m)
	}
	close(c.attached)
}

// take handles a message about the run.
func (f following) take(head protocol.Head, body []byte, maxDisplays int) error {
	switch head.Type {
	case "progress":
		return decode(body, f.run.advance)
	case "clear":
		f.run.dropShown()
	case "display":
		return decode(body, func(m protocol.Display) { f.run.show(display(m), maxDisplays) })
	case "peek":
		if k := f.run.kernel.Load(); k != nil {
			return decode(body, func(m protocol.Peek) { offer(k.peeks, m) })
		}
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

// awaitAttached waits until the supervisor answers, will not, or ctx is done.
func (c *container) awaitAttached(ctx context.Context) error {
	select {
	case <-c.attached:
		return nil
	case <-c.dead:
		return errContainerEnded
	case <-ctx.Done():
		return errUnresponsive
	}
}

// alive reports whether frames still come.
func (c *container) alive() bool { return !isClosed(c.dead) }

// cameUp reports whether the supervisor ever answered.
func (c *container) cameUp() bool { return isClosed(c.attached) }

// wasCut reports whether a container that came up only lost its connection, as far as is known here.
func (c *container) wasCut() bool { return !c.alive() && c.cut && c.cameUp() }

// used lists the kernels that runs or an earlier server used.
func (c *container) used() (used []*kernel) {
	for _, l := range Languages {
		if k := c.kernels[l.Language]; k != nil && k.used.Load() {
			used = append(used, k)
		}
	}
	return used
}

// ends waits for the imminent end of the container, and reports whether it came.
func (c *container) ends(ctx context.Context, most time.Duration) bool {
	limit := time.NewTimer(most)
	defer limit.Stop()
	select {
	case <-c.dead:
		return true
	case <-limit.C:
	case <-ctx.Done():
	}
	return false
}

// retire asks the supervisor to end, after its kernels wrote their snapshots, and waits for that.
func (c *container) retire(ctx context.Context, most time.Duration) {
	if c.send(protocol.Request{Type: "stop"}) != nil {
		return
	}
	if !c.ends(ctx, most) && ctx.Err() == nil {
		c.log.Warn("container did not end in time")
	}
}

// current returns the id of the running run, of one that keeps its variables if there are several; empty: none.
func (c *container) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	current := ""
	for id, f := range c.runs {
		if current == "" || !f.run.options.apart() {
			current = id
		}
	}
	return current
}

var (
	errContainerEnded = errors.New("container ended")
	// errUnresponsive reports that the supervisor did not enforce a limit itself, so its container must go.
	errUnresponsive = errors.New("supervisor does not answer")
)
