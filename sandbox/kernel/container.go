// Package kernel is the server's conversation with process 1 of a container, the supervisor, and with the kernels of the languages
// under that: docs/kernel-protocol.md. It bounds all that comes from there, because hostile code may have replaced the supervisor.
package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Limits are the bounds that a supervisor is sent, and that are enforced on it.
type Limits struct {
	OutputBytes  int
	SpoolBytes   int
	ImageBytes   int
	MaxDisplays  int
	MaxArtifacts int
	Linger       time.Duration // how long a run waits for endless-looking background work
	Frozen       time.Duration // how long it may wait for a snapshot to be written or read, before its own time begins
}

// Options configure a Container.
type Options struct {
	Limits Limits
	Logger *slog.Logger
	// OnAttached and OnReady are called before any frame after their messages is handled, OnAttached once. They may be nil.
	OnAttached func(*Container, protocol.Attached)
	OnReady    func(*Kernel, protocol.Ready)
	// Out serves the code's egress; the zero value refuses it. A spare has none before Bind.
	Out   Out
	Spare bool
}

// Container is the server's end of one container: the connection to its supervisor, and the kernels under that. Its methods may be
// called from any goroutine.
type Container struct {
	proc   engine.Process
	conn   *channel.Conn // over proc
	with   Options
	outbox chan any // messages to the supervisor

	languages []Language // those that its supervisor was started for, or may have been
	kernels   map[Language]*Kernel
	is        *identity // of the container, whatever the connection

	attached chan struct{} // closed when the supervisor answers
	goesOn   []string      // the runs that went on then; set before attached is closed

	mu    sync.Mutex
	runs  map[string]following // the runs that frames are for, by id
	begun int                  // so many runs

	dead   chan struct{} // closed when no more frames come
	frames atomic.Uint64 // frames so far
	// versions is the last message about versions of files; nil: none came.
	versions atomic.Pointer[protocol.Versions]
	watch    atomic.Pointer[Watcher] // of Watch
	ending   atomic.Bool

	describing sync.Mutex // one question at a time
	described  chan protocol.Described
	// cut reports that the connection ended, but not by a protocol violation. Set before dead is closed.
	cut bool
}

const (
	maxName     = 1 << 10 // a name, a message's first line
	maxWaysBack = 16      // the restorable runs in a supervisor's message
	maxVersions = 400     // those of files
	maxTouched  = 10      // paths of what a run did
	// maxCheckpoints bounds the checkpoints in a message.
	maxCheckpoints = 32
	// MaxRuns bounds the runs that a supervisor may report as going on.
	MaxRuns = 32
	// maxOver bounds those that it may report as over.
	maxOver = 24
	// MaxNotKept bounds the files in a message of which there is no version.
	MaxNotKept = 20
)

// FrameLimits bound a frame from a supervisor.
var FrameLimits = jsonbound.Limits{Depth: 32, Values: 20_000}

// The ends of a conversation.
var (
	ErrContainerEnded = errors.New("container ended")
	// ErrUnresponsive reports that the supervisor did not enforce a limit itself, so its container must go.
	ErrUnresponsive  = errors.New("supervisor does not answer")
	errFrameTooLarge = errors.New("frame too large")
)

// NewContainer returns the server's end of a container for these languages.
func NewContainer(proc engine.Process, languages []Language, with Options) *Container {
	c := &Container{
		proc: proc, conn: channel.New(proc, channel.Options{MaxControl: protocol.MaxToServer}), with: with, is: new(identity),
		languages: languages, kernels: make(map[Language]*Kernel), outbox: make(chan any, 32),
		attached: make(chan struct{}), dead: make(chan struct{}), runs: make(map[string]following), described: make(chan protocol.Described, 1),
	}
	for _, language := range languages {
		c.kernels[language] = newKernel(c, language)
	}
	return c
}

// Kernel returns that of a language; nil: the container has none.
func (c *Container) Kernel(language Language) *Kernel { return c.kernels[language] }

// Streams opens connections to the supervisor's files and programs.
func (c *Container) Streams() *channel.Conn { return c.conn }

// Stderr is what process 1 wrote there last.
func (c *Container) Stderr() string { return c.proc.Stderr() }

// Begin starts the exchange with a supervisor by sending first. It returns no error for a process 1 that already ended: a wait for
// a kernel returns that, with the reason from its stderr.
func (c *Container) Begin(first any) {
	c.outbox <- first // it is buffered, and nothing else is sent yet
	go c.listen()
	go c.speak()
	if !c.with.Spare {
		go c.acceptOut()
	}
}

// Bind gives a spare to a session, by the message bind.
func (c *Container) Bind(message any, out Out) {
	c.with.Out = out
	_ = c.send(message) // if that fails it is dying, and its first run notices
	go c.acceptOut()
}

// send queues a message for the writer and never waits: a supervisor that does not read must not delay a call that stops it.
func (c *Container) send(message any) error {
	select {
	case c.outbox <- message:
		return nil
	case <-c.dead:
		return ErrContainerEnded
	default:
		return ErrUnresponsive
	}
}

// Ping keeps the container from ending as idle.
func (c *Container) Ping(n int) { _ = c.send(protocol.Request{Type: "ping", N: int64(n)}) }

// describeTime is how long a supervisor may take to describe what its kernels hold; it waits two seconds for them.
const describeTime = 4 * time.Second

// Describe returns what the kernels hold, as far as they answer. The names and their number are the code's words.
func (c *Container) Describe(ctx context.Context) []protocol.Holding {
	c.describing.Lock()
	defer c.describing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	id := state.NewID("describe-")
	if c.send(protocol.Request{Type: "describe", ID: id}) != nil {
		return nil
	}
	for {
		select {
		case answer := <-c.described:
			if answer.ID == id { // none to an earlier question
				return answer.Languages[:min(len(answer.Languages), len(Languages))]
			}
		case <-c.dead:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// Prepare has a language's interpreter start before the first run.
func (c *Container) Prepare(language Language) {
	_ = c.send(protocol.Request{Type: "start", Language: string(language)})
}

// lastWords is the time to read the output of a program that ended before the server wrote to it.
const lastWords = time.Second

// speak writes the messages of send, until the connection ends.
func (c *Container) speak() {
	for {
		select {
		case <-c.dead:
			return
		case message := <-c.outbox:
			body, err := Encode(message)
			if err == nil {
				err = c.conn.Send(body)
			}
			if err != nil {
				c.with.Logger.Debug("write to supervisor", "error", err)
				select {
				case <-c.dead:
				case <-time.After(lastWords): // it goes on, and only does not read
				}
				c.Close()
				return
			}
		}
	}
}

// Encode encodes a message to a supervisor.
func Encode(message any) ([]byte, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	if len(body) > protocol.MaxToSupervisor {
		return nil, fmt.Errorf("%w: %d bytes", errFrameTooLarge, len(body))
	}
	return body, nil
}

// Close ends the connection, but not the container.
func (c *Container) Close() { _ = c.conn.Close() }

// listen reads messages until the container or the connection ends. A protocol violation ends the connection: hostile code replaced
// the supervisor, and its messages are worth nothing.
func (c *Container) listen() {
	defer close(c.dead)
	for {
		body, err := c.conn.Receive()
		violates := errors.Is(err, channel.ErrFrameTooLarge) || errors.Is(err, channel.ErrUnknownFrame) || errors.Is(err, channel.ErrBrokenStreams)
		cut := err != nil && !violates
		c.frames.Add(1)
		if err == nil {
			err = FrameLimits.Check(body)
		}
		if err == nil {
			err = c.take(body)
		}
		if err != nil {
			c.cut = cut
			c.with.Logger.Debug("connection to supervisor ended", "error", err)
			c.Close()
			return
		}
	}
}

// take handles a message: one about a run by the run's id, one about a kernel by its language.
func (c *Container) take(body []byte) error {
	var head protocol.Head
	if err := json.Unmarshal(body, &head); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	switch head.Type {
	case "attached":
		return decode(body, c.noteAttached)
	case "log":
		return decode(body, func(m protocol.Log) { c.with.Logger.Debug("supervisor", "message", text.Safe(m.Message, maxName)) })
	case "versions":
		return decode(body, c.noteVersions)
	case "described":
		return decode(body, func(m protocol.Described) { offer(c.described, m) })
	case "ready", "kernel", "twins", "restored", "frozen":
		if k := c.kernels[Language(head.Language)]; k != nil {
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
	return f.take(head, body)
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

// noteAttached notes that the supervisor answers, once; later messages are forged.
func (c *Container) noteAttached(m protocol.Attached) {
	if c.CameUp() {
		return
	}
	for _, l := range m.Languages[:min(len(m.Languages), len(Languages))] {
		if k := c.kernels[Language(l.Language)]; k != nil && l.Started {
			k.used.Store(true)
		}
	}
	c.goesOn = m.Runs[:min(len(m.Runs), MaxRuns)]
	m.Over = m.Over[:min(len(m.Over), maxOver)]
	if c.with.OnAttached != nil {
		c.with.OnAttached(c, m)
	}
	close(c.attached)
}

// noteVersions keeps a supervisor's list of the runs with versions of files, and of what the last ones did to files.
func (c *Container) noteVersions(m protocol.Versions) {
	v := &protocol.Versions{Runs: boundIDs(m.Runs, maxVersions), NotKept: m.NotKept[:min(len(m.NotKept), MaxNotKept)], NotKeptTotal: m.NotKeptTotal}
	for _, d := range m.Did[:min(len(m.Did), maxWaysBack)] {
		d.Runs, d.Paths = boundIDs(d.Runs, maxWaysBack), d.Paths[:min(len(d.Paths), maxTouched)]
		v.Did = append(v.Did, d)
	}
	v.Checkpoints, v.Gone = boundCheckpoints(m.Checkpoints), m.Gone[:min(len(m.Gone), maxWaysBack*maxTouched)]
	c.versions.Store(v)
	if watch := c.watch.Load(); watch != nil {
		(*watch).RecordDid(v)
	}
}

// Watcher takes what is told of runs that are over: what they did to files, and that they changed no variable.
type Watcher interface {
	RecordDid(v *protocol.Versions)
	RecordLooked(runs []string)
}

// Watch tells of every such message, and first of the last ones.
func (c *Container) Watch(w Watcher) {
	if c.watch.Store(&w); c.Versions() != nil {
		w.RecordDid(c.Versions())
	}
	for _, k := range c.kernels {
		if twins := k.Twins(); twins != nil {
			w.RecordLooked(twins.Looked)
		}
	}
}

// Versions is the last message about versions of files; nil: none came.
func (c *Container) Versions() *protocol.Versions { return c.versions.Load() }

// GoesOn lists the runs that went on when the supervisor answered.
func (c *Container) GoesOn() []string { return c.goesOn }

// identity is shared by all connections to one container; Follows compares it.
type identity struct{ _ byte }

// Succeed notes that c is the next connection to the container of lost. No other method is called meanwhile.
func (c *Container) Succeed(lost *Container) { c.is = lost.is }

// Follows reports whether c is a later connection to the container of lost, however many were between them.
func (c *Container) Follows(lost *Container) bool { return c != lost && c.is == lost.is }

// Dead is closed when no more frames come.
func (c *Container) Dead() <-chan struct{} { return c.dead }

// AwaitAttached waits until the supervisor answers, will not, or ctx is done.
func (c *Container) AwaitAttached(ctx context.Context) error {
	select {
	case <-c.attached:
		return nil
	case <-c.dead:
		return ErrContainerEnded
	case <-ctx.Done():
		return ErrUnresponsive
	}
}

// Alive reports whether frames still come.
func (c *Container) Alive() bool { return !isClosed(c.dead) }

// CameUp reports whether the supervisor ever answered.
func (c *Container) CameUp() bool { return isClosed(c.attached) }

// WasCut reports whether a container that came up only lost its connection, as far as is known here.
func (c *Container) WasCut() bool { return !c.Alive() && c.cut && c.CameUp() }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Used lists the kernels that runs or an earlier server used.
func (c *Container) Used() (used []*Kernel) {
	for _, language := range c.languages {
		if k := c.kernels[language]; k.Used() {
			used = append(used, k)
		}
	}
	return used
}

// Ending reports whether the container was told to end, and does so soon. NoteEnding says so.
func (c *Container) Ending() bool { return c.ending.Load() }

// NoteEnding notes that the container ends soon.
func (c *Container) NoteEnding() { c.ending.Store(true) }

// Ends waits for the imminent end of the container, and reports whether it came.
func (c *Container) Ends(ctx context.Context, most time.Duration) bool {
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

// Retire asks the supervisor to end, after its kernels wrote their snapshots, and waits for that.
func (c *Container) Retire(ctx context.Context, most time.Duration) {
	if c.send(protocol.Request{Type: "stop"}) != nil {
		return
	}
	if !c.Ends(ctx, most) && ctx.Err() == nil {
		c.with.Logger.Warn("container did not end in time")
	}
}

// current returns the id of the run that began last, of those that keep their variables if there are any; empty: none.
func (c *Container) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var current following
	for _, f := range c.runs {
		if current.run == nil || f.keeps != current.keeps && f.keeps || f.keeps == current.keeps && f.place > current.place {
			current = f
		}
	}
	return current.id
}

// boundCheckpoints bounds the last of them.
func boundCheckpoints(list []protocol.Checkpoint) (bound []protocol.Checkpoint) {
	for _, p := range list[max(0, len(list)-maxCheckpoints):] {
		if p.Name = text.Safe(p.Name, maxName); !state.ValidID(p.After) {
			p.After = ""
		}
		p.Languages = p.Languages[:min(len(p.Languages), len(Languages))]
		bound = append(bound, p)
	}
	return bound
}

// boundIDs keeps the possible ids of runs, so many of the last.
func boundIDs(ids []string, most int) []string {
	ids = slices.Clone(ids[max(0, len(ids)-most):])
	return slices.DeleteFunc(ids, func(id string) bool { return !state.ValidID(id) })
}
