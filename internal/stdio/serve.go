// Package stdio serves an MCP server over a pair of streams, one JSON-RPC message a line.
// mcp-go keeps the protocol, in both its eras; this package is the loop under it.
//
// Serve is the whole of it; package rpc holds the operations of tools on a request. ClaimStdout keeps everything else in the process
// off the protocol's stream.
//
// It promises:
//
//   - Control messages (initialize, server/discover, ping, lists, cancels, notifications)
//     are handled as they are read, and never wait behind calls (tools/call,
//     resources/read, prompts/get, completion/complete, tasks/result), of which a bounded
//     number runs at once and a bounded number waits, first come, first served. A call
//     beyond that is answered with an error at once.
//   - A call's notifications come in order and before its answer. After a cancel, nothing
//     more is sent for it, whether it waited, ran, or its answer was queued.
//   - A client that does not read costs bounded memory: calls wait with their answers,
//     holding their turns, and progress is thinned out. Answers to control messages go on
//     for a while; when those too are left unread, the next one makes the reader wait.
//     Cancels and other notifications need no answer and are handled until then.
//   - Every message in is bounded in length and depth, every message out in length. Bad
//     input is answered with an error, and the next line is served.
//   - The end, whichever way it comes, takes a bounded time.
package stdio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// ErrClientGone is wrapped by Serve's error when the output cannot be written.
var ErrClientGone = errors.New("the client no longer reads")

// Options bounds a Serve. The zero value of each field means its default.
type Options struct {
	// MaxLineBytes is the longest message taken, its newline not counted. Default rpc.MaxMessageBytes.
	MaxLineBytes int
	// MaxMessageBytes is the longest message sent, its newline counted. Default rpc.UsualMessageBytes.
	MaxMessageBytes int
	// MaxRunning is how many calls run at once. Default 32.
	MaxRunning int
	// MaxQueued is how many calls may wait for their turn. Default 1024.
	MaxQueued int
	// MaxPendingBytes bounds the memory of the messages of running and waiting calls together, by rpc.MemoryBytes; one alone is always
	// taken. Default MaxLineBytes.
	MaxPendingBytes int
	// GraceTime is the time, after the end of the input or of the context, in which running calls may answer as usual. Default 300 ms.
	GraceTime time.Duration
	// StopTime is the time after that, with their contexts done, before they are left to themselves; and after that, queued lines get as
	// long again to be written. Default 200 ms.
	StopTime time.Duration
	// InOrder starts a tool's handler only when the one before called rpc.Settled, or returned: for tools with effects that must come in the
	// order of the calls.
	InOrder bool
	// Logger gets events that no client sees. Default: nothing is logged.
	Logger *slog.Logger
}

// sessionID names the one client of a stdio server to mcp-go.
const sessionID = "stdio"

func (o Options) withDefaults() Options {
	o.MaxLineBytes = cmp.Or(o.MaxLineBytes, rpc.MaxMessageBytes)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, rpc.UsualMessageBytes)
	o.MaxRunning = cmp.Or(o.MaxRunning, 32)
	o.MaxQueued = cmp.Or(o.MaxQueued, 1024)
	o.MaxPendingBytes = cmp.Or(o.MaxPendingBytes, o.MaxLineBytes)
	o.GraceTime = cmp.Or(o.GraceTime, 300*time.Millisecond)
	o.StopTime = cmp.Or(o.StopTime, 200*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// errBusyCode is the code of a call refused because too many are waiting, in JSON-RPC's range for servers and outside MCP's reserved codes.
const errBusyCode = -32000

// Serve answers the messages of in on out until in ends (nil), ctx is done (its cause), in
// fails (its error) or out does (ErrClientGone). It then takes no more messages, drops
// waiting calls, gives running ones GraceTime and StopTime, and returns although a handler
// may ignore its context and go on.
//
// One Serve at a time may use s, to which it adds a tool middleware. Arguments of over 256
// KiB reach tools in Params.RawArguments only (so through BindArguments, not GetArguments),
// and must not be written to. Handlers' contexts carry ctx's values, and outlive it by the
// grace time.
//
// A Read or Write that blocks cannot be interrupted: when Serve ends by ctx or out, a
// goroutine stays until in's Read returns, and when a client does not read, another until
// out's Write does. Serve closes neither.
//
// Writing to a pipe that nobody reads kills a process by SIGPIPE where that pipe is its
// descriptor 1 or 2. A program should therefore catch that signal, with signal.Notify on a
// channel that it never reads rather than with signal.Ignore, which its children would
// inherit.
func Serve(ctx context.Context, s *server.MCPServer, in io.Reader, out io.Writer, opts Options) error {
	l := newLoop(ctx, s, out, opts.withDefaults())
	if err := s.RegisterSession(l.ctx, l.client); err != nil {
		return fmt.Errorf("register session: %w", err)
	}
	defer s.UnregisterSession(l.ctx, sessionID)
	s.Use(rpc.RestoreArguments)

	go l.out.run()
	read := make(chan error, 1)
	go func() { read <- l.read(in) }()
	var err error
	select {
	case err = <-read:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-l.out.failed:
		err = fmt.Errorf("%w: %w", ErrClientGone, l.out.err)
	}
	l.shutdown()
	return err
}

type loop struct {
	ctx      context.Context // of handlers: not done when Serve's is
	server   *server.MCPServer
	opts     Options
	client   *rpc.Session
	calls    *calls
	memory   *room.Memory // of the calls' work
	requests rpc.Requests
	out      *outbox
	stopping chan struct{}
}

func newLoop(ctx context.Context, s *server.MCPServer, out io.Writer, opts Options) *loop {
	l := &loop{
		ctx:      context.WithoutCancel(ctx),
		server:   s,
		opts:     opts,
		out:      newOutbox(out),
		memory:   room.New(),
		stopping: make(chan struct{}),
	}
	l.client = rpc.NewSession(sessionID, func(n mcp.JSONRPCNotification) { l.notify(n, nil, l.stopping) })
	l.calls = newCalls(opts, l.run)
	return l
}

// read handles messages until the input ends.
func (l *loop) read(in io.Reader) error {
	lines := newLineReader(in, l.opts.MaxLineBytes)
	for first := true; ; first = false {
		line, overlong, err := lines.next()
		switch {
		case isClosed(l.stopping) || errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read: %w", err)
		case overlong != nil:
			l.refuse(rpc.Fault{ID: overlong.ID(), Code: mcp.INVALID_REQUEST, Message: fmt.Sprintf("Invalid Request: the message is longer than %d bytes", l.opts.MaxLineBytes)})
			continue
		}
		if first {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			l.receive(line)
		}
	}
}

// shutdown ends the running calls, in bounded time, and sends the queued lines.
func (l *loop) shutdown() {
	idle := l.calls.close()
	if !isClosed(l.out.failed) {
		waitFor(idle, l.opts.GraceTime)
	}
	l.calls.stop()
	if !waitFor(idle, l.opts.StopTime) {
		l.opts.Logger.Warn("calls ignored the end of their contexts and were left behind")
	}
	close(l.stopping)
	l.client.End()
	l.out.close()
	if !waitFor(l.out.finished, l.opts.StopTime) {
		l.opts.Logger.Warn("the client did not read its last answers")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitFor waits for a channel to be closed and reports whether it was in time.
func waitFor(c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return isClosed(c)
	}
}
