package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// receive handles one message on the reader's goroutine. The line is the loop's to keep.
func (l *loop) receive(line []byte) {
	e, f := rpc.Parse(line)
	if f != nil {
		l.refuse(*f)
		return
	}
	if e.IsResponse() {
		l.requests.Answered(line)
		return
	}
	method := e.Method()
	switch {
	case method == "notifications/cancelled" && e.ID == nil:
		if id, err := rpc.ParseID(e.RequestID); err == nil {
			l.calls.cancel(id, e.Reason)
		}
	case e.ID == nil:
		rpc.Guard(l.opts.Logger, method, func() { l.server.HandleMessage(l.server.WithContext(l.ctx, l.client), e.Message()) })
	default:
		l.request(&e, method)
	}
}

// request answers a control message or sends a call on its way.
func (l *loop) request(e *rpc.Envelope, method string) {
	id, err := rpc.ParseID(e.ID)
	if err != nil {
		return // not reached: check parsed it
	}
	if rpc.IsExtension(l.ctx, method) {
		l.call(e, id, method)
		return
	}
	switch mcp.MCPMethod(method) {
	case mcp.MethodToolsCall, mcp.MethodResourcesRead, mcp.MethodPromptsGet,
		mcp.MethodCompletionComplete, mcp.MethodTasksResult, mcp.MethodSubscriptionsListen:
		l.call(e, id, method)
	case mcp.MethodInitialize:
		c := rpc.NewCall(e, id)
		l.send(l.respond(l.server.WithContext(l.ctx, l.client), &c))
	default:
		c := rpc.NewCall(e, id)
		s := l.client.Call(func(n mcp.JSONRPCNotification) { l.notify(n, nil, l.stopping) })
		line := l.respond(l.server.WithContext(l.ctx, s), &c)
		s.End()
		l.send(line)
	}
}

func (l *loop) call(e *rpc.Envelope, id rpc.ID, method string) {
	c := &call{Call: rpc.NewCall(e, id), stream: method == string(mcp.MethodSubscriptionsListen), out: l.out}
	c.Notify = func(line []byte) { l.out.putProgress(&c.lane, line) }
	c.Request = func(ctx context.Context, until <-chan struct{}, method string, params any) (json.RawMessage, error) {
		return l.requests.Do(ctx, until, func(line []byte) {
			_ = l.out.put(&outgoing{line: line, lane: &c.lane}, 2*l.opts.MaxMessageBytes, ctx.Done()) // a client that is gone does not answer
		}, method, params)
	}
	if l.opts.InOrder && method == string(mcp.MethodToolsCall) {
		c.settled, c.Settle = make(chan struct{}), c.letNext
	}
	c.ctx, c.cancel = context.WithCancelCause(rpc.WithCall(l.ctx, &c.Call))
	err := l.calls.add(c)
	switch {
	case err == nil:
		return
	case errors.Is(err, errBusy):
		l.refuse(rpc.Fault{ID: id, Code: errBusyCode, Message: fmt.Sprintf(
			"the server is busy: %d calls run at once, and too many are waiting; try again later", l.opts.MaxRunning)})
	case errors.Is(err, errTooMuch):
		l.refuse(rpc.Fault{ID: id, Code: errBusyCode, Message: "the calls that are being served take too much memory for this one beside them; send it again when one of them is answered"})
	case errors.Is(err, errInFlight):
		l.refuse(rpc.Fault{ID: id, Code: mcp.INVALID_REQUEST, Message: "Invalid Request: " + err.Error()})
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
	s := l.client.Call(func(n mcp.JSONRPCNotification) { l.notify(n, &c.lane, c.ctx.Done()) })
	ctx, giveBack := l.memory.Serve(c.ctx, "")
	defer giveBack()
	line := l.respond(l.server.WithContext(ctx, s), &c.Call)
	s.End()
	answered = l.answer(c, line) == nil
}

// respond lets mcp-go serve a request, and returns its answer as a line.
func (l *loop) respond(ctx context.Context, c *rpc.Call) []byte {
	line, _ := rpc.Respond(ctx, l.server, c, l.opts.MaxMessageBytes, l.opts.Logger)
	return line
}

// answer puts a call's answer out, waiting for the client to read if it must. The id is free as soon as the answer is on its way: the client
// may use it again once it receives it.
func (l *loop) answer(c *call, line []byte) error {
	m := &outgoing{line: line, lane: &c.lane, last: true, sent: func() { l.calls.recent.Add(&c.Call); l.calls.forget(c) }, written: func() { c.Answered(nil) }}
	return l.out.put(m, 2*l.opts.MaxMessageBytes, c.ctx.Done())
}

func (l *loop) refuse(f rpc.Fault) {
	l.opts.Logger.Debug("message refused", "id", string(f.ID.Raw), "reason", f.Message)
	l.send(rpc.ErrorLine(f.ID, f.Code, f.Message))
}

// send puts an answer of the reader's out. Its limit is higher than the calls', so that only a client that ignored them all can make the
// reader wait.
func (l *loop) send(line []byte) {
	if err := l.out.put(&outgoing{line: line}, 3*l.opts.MaxMessageBytes, l.stopping); err != nil {
		l.opts.Logger.Debug("answer not sent", "reason", err)
	}
}

// notify sends a notification of mcp-go's on, in a call's lane if there is one.
func (l *loop) notify(n mcp.JSONRPCNotification, in *lane, stop <-chan struct{}) {
	line, err := rpc.EncodeNotification(n, l.opts.MaxMessageBytes)
	if err == nil {
		err = l.out.put(&outgoing{line: line, lane: in}, 2*l.opts.MaxMessageBytes, stop)
	}
	if err != nil {
		l.opts.Logger.Debug("notification not sent", "method", n.Method, "reason", err)
	}
}
