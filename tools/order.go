// The order of a client's calls for one session.

package tools

import (
	"context"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// lanes keep the calls of a client in order, each session's apart: a call that waits for long lets those for other sessions pass. Nil keep
// none.
type lanes struct {
	mu   sync.Mutex
	last map[string]<-chan struct{} // by session: closed when its newest call is settled
}

// enter takes a place behind the calls for the session that came before. before is closed when those are settled; settle settles this one.
func (o *lanes) enter(session string) (before <-chan struct{}, settle func()) {
	own := make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	if before = o.last[session]; before == nil {
		first := make(chan struct{})
		close(first)
		before = first
	}
	if o.last == nil {
		o.last = make(map[string]<-chan struct{})
	}
	o.last[session] = own
	leave := func() {
		<-before // a call that is cancelled while it waits does not let the next one overtake
		close(own)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.last[session] == own {
			delete(o.last, session)
		}
	}
	return before, sync.OnceFunc(func() {
		select {
		case <-before:
			leave()
		default:
			go leave()
		}
	})
}

type settleKey struct{}

// inOrder waits for the calls before this one for its session, and returns the context of its handler, which calls settled, and a function
// for its end. While it waits, calls for other sessions start.
func (d *Deps) inOrder(ctx context.Context, t tool, p *params) (in context.Context, end func()) {
	_, isOfSession := t.definition.InputSchema.Properties["session_id"]
	o := lanesOf(ctx)
	if o == nil || !isOfSession {
		return ctx, func() {}
	}
	before, settle := o.enter(d.sessionOfCall(p))
	select {
	case <-before:
	default:
		rpc.Settled(ctx)
		select {
		case <-before:
		case <-ctx.Done():
		}
	}
	return context.WithValue(ctx, settleKey{}, settle), settle
}

// sessionOfCall returns the id of the session of a call, which is always the same for the client's own.
func (d *Deps) sessionOfCall(p *params) string {
	id, _ := p.given["session_id"].(string)
	if run, _ := p.given["run_id"].(string); id == "" && run != "" {
		id = d.Manager.SessionOfRun(run)
	}
	if id == "" || id == d.Manager.Named(p.own.id) {
		return p.own.id
	}
	return id
}

// settled reports that a call's place in the order is taken, so that the next one may start.
func settled(ctx context.Context) {
	if settle, is := ctx.Value(settleKey{}).(func()); is {
		settle()
	}
	rpc.Settled(ctx)
}
