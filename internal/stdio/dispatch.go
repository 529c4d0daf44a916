package stdio

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/mark3labs/mcp-go/mcp"
)

// receive handles one message on the reader's goroutine. The line is the loop's to keep.
func (l *loop) receive(line []byte) {
	e, f := parseEnvelope(line)
	if f != nil {
		l.refuse(*f)
		return
	}
	if e.isResponse() {
		return // the loop sends no requests, so it waits for no answers
	}
	method := e.name()
	switch {
	case method == "notifications/cancelled" && e.id == nil:
		if id, err := parseRequestID(e.requestID); err == nil {
			l.calls.cancel(id)
		}
	case e.id == nil:
		l.guard(method, func() { l.server.HandleMessage(l.server.WithContext(l.ctx, l.client), e.message()) })
	default:
		l.request(&e, method)
	}
}

// request answers a control message or sends a call on its way.
func (l *loop) request(e *envelope, method string) {
	id, err := parseRequestID(e.id)
	if err != nil {
		return // not reached: check has parsed it
	}
	switch mcp.MCPMethod(method) {
	case mcp.MethodToolsCall, mcp.MethodResourcesRead, mcp.MethodPromptsGet,
		mcp.MethodCompletionComplete, mcp.MethodTasksResult, mcp.MethodSubscriptionsListen:
		l.call(e, id, method)
	case mcp.MethodInitialize:
		l.send(l.respond(l.server.WithContext(l.ctx, l.client), id, method, e.message()))
	default:
		s := &callSession{client: l.client}
		s.send = func(n mcp.JSONRPCNotification) { l.notify(n, nil, l.stopping) }
		line := l.respond(l.server.WithContext(l.ctx, s), id, method, e.message())
		s.end()
		l.send(line)
	}
}

func (l *loop) call(e *envelope, id requestID, method string) {
	c := &call{
		id:        id,
		method:    method,
		message:   e.message(),
		arguments: e.largeArguments(),
		stream:    method == string(mcp.MethodSubscriptionsListen),
		out:       l.out,
	}
	if l.opts.InOrder && method == string(mcp.MethodToolsCall) {
		c.settled = make(chan struct{})
	}
	c.bytes = len(c.message) + len(c.arguments)
	if token, err := parseRequestID(e.progressToken); err == nil {
		c.token = token.raw // a token may be what an id may be
	}
	c.ctx, c.cancel = context.WithCancelCause(context.WithValue(l.ctx, callKey{}, c))
	err := l.calls.add(c)
	switch {
	case err == nil:
		return
	case errors.Is(err, errBusy):
		l.refuse(fault{id, errBusyCode, fmt.Sprintf(
			"the server is busy: %d calls run at once, and too many are waiting; try again later", l.opts.MaxRunning)})
	case errors.Is(err, errInFlight):
		l.refuse(fault{id, mcp.INVALID_REQUEST, "Invalid Request: " + err.Error()})
	}
	c.cancel(err)
}

// run serves a call on its own goroutine.
func (l *loop) run(c *call) {
	defer c.cancel(nil)
	defer l.calls.done(c)
	if c.settled != nil {
		defer c.letNext()
		c.wait()
	}
	answered := false
	defer func() {
		if !answered {
			l.calls.forget(c)
		}
	}()
	if c.ctx.Err() != nil {
		return // cancelled between its turn and its start
	}
	s := &callSession{client: l.client}
	s.send = func(n mcp.JSONRPCNotification) { l.notify(n, &c.lane, c.ctx.Done()) }
	line := l.respond(l.server.WithContext(c.ctx, s), c.id, c.method, c.message)
	s.end()
	answered = l.answer(c, line) == nil
}

// respond has mcp-go serve a request, and returns the line that answers it.
func (l *loop) respond(ctx context.Context, id requestID, method string, message []byte) []byte {
	var line []byte
	l.guard(method, func() {
		response := withPlainWords(method, message, l.server.HandleMessage(ctx, message))
		line = encodeAnswer(id, withErrorCode(ctx, response), l.opts.MaxMessageBytes)
	})
	if line == nil {
		return errorAnswer(id, mcp.INTERNAL_ERROR, "internal error")
	}
	return line
}

// guard survives a panic in a handler, or in what encodes its result. It is the server's own
// business: it goes to the log, and the client learns no more than that there was one.
func (l *loop) guard(method string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			l.opts.Logger.Error("panic in a handler", "method", method, "panic", r, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// answer puts a call's answer out, waiting for the client to read where it must. The id is
// free as soon as the answer is on its way: the client may use it again once it has it.
func (l *loop) answer(c *call, line []byte) error {
	m := &outgoing{line: line, lane: &c.lane, last: true, sent: func() { l.calls.forget(c) }}
	return l.out.put(m, 2*l.opts.MaxMessageBytes, c.ctx.Done())
}

func (l *loop) refuse(f fault) {
	l.opts.Logger.Debug("message refused", "id", string(f.id.raw), "reason", f.message)
	l.send(errorAnswer(f.id, f.code, f.message))
}

// send puts an answer of the reader's out. Its limit is higher than the calls', so that only
// a client that has ignored them all can make the reader wait.
func (l *loop) send(line []byte) {
	if err := l.out.put(&outgoing{line: line}, 3*l.opts.MaxMessageBytes, l.stopping); err != nil {
		l.opts.Logger.Debug("answer not sent", "reason", err)
	}
}

// notify sends a notification of mcp-go's on, in a call's lane if it has one.
func (l *loop) notify(n mcp.JSONRPCNotification, in *lane, stop <-chan struct{}) {
	line, err := encodeLine(n)
	if err == nil && len(line) > l.opts.MaxMessageBytes {
		err = fmt.Errorf("%d bytes are over the limit of %d", len(line), l.opts.MaxMessageBytes)
	}
	if err == nil {
		err = l.out.put(&outgoing{line: line, lane: in}, 2*l.opts.MaxMessageBytes, stop)
	}
	if err != nil {
		l.opts.Logger.Debug("notification not sent", "method", n.Method, "reason", err)
	}
}
