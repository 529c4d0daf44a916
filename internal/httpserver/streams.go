// Event streams that clients keep open, and their subscriptions.

package httpserver

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// isStream reports whether what a request is answered with lasts: an event stream, or one of the Connect protocol.
// An MCP message shows only later that it asks for one.
func isStream(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), web.TypeEvents) || strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+")
}

// openStream takes a place among the open streams, in place of the request's room, and reports whether there was one; release gives it back.
func (s *Server) openStream(w http.ResponseWriter, r *http.Request) (release func(), ok bool) {
	if release = s.streams.try(r); release == nil {
		s.busy(w, r)
		return nil, false
	}
	room.Fit(r.Context(), 0)
	return release, true
}

// endWith ends ctx with the server, with the client's session and with the Site.
func (s *Server) endWith(client *client, r *http.Request, cancel context.CancelCauseFunc) (release func()) {
	first := context.AfterFunc(s.ending, func() { cancel(rpc.ErrShutdown) })
	second := context.AfterFunc(client.ctx, func() { cancel(errDisconnected) })
	third := context.AfterFunc(siteOf(r).Ending, func() { cancel(errDisconnected) })
	return func() { first(); second(); third() }
}

// listen serves the stream of a session's messages that belong to no request.
func (s *Server) listen(w http.ResponseWriter, r *http.Request) {
	if !accepts(r, web.TypeEvents) {
		refuse(w, http.StatusNotAcceptable, "what is here is a stream; accept "+web.TypeEvents)
		return
	}
	client := s.clients.enter(r, r.Header.Get(headerSession))
	if client == nil {
		if r.Header.Get(headerSession) == "" {
			notAllowed(w, true)
			return
		}
		refuseSession(w)
		return
	}
	release, ok := s.openStream(w, r)
	if !ok {
		s.clients.leave(client)
		return
	}
	defer s.clients.hangUp(client)
	defer release()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer s.endWith(client, r, cancel)()
	stream := newReply(w, r, func() { cancel(errDisconnected) })
	heard := rpc.NewSession(rand.Text(), s.sendOn(stream, nil))
	heard.Initialize()
	m := siteOf(r).MCP
	if err := m.RegisterSession(ctx, heard); err != nil {
		s.opts.Logger.Error("register a stream", "error", err) // not reached: the name is new
	}
	stream.begin()
	<-ctx.Done()
	m.UnregisterSession(ctx, heard.SessionID())
	heard.End()
	stream.finish(http.StatusOK, nil)
}

// sendOn sends notifications on a stream, for a subscription with its id.
func (s *Server) sendOn(stream *reply, subscription *rpc.ID) func(mcp.JSONRPCNotification) {
	return func(n mcp.JSONRPCNotification) {
		if subscription != nil {
			meta := map[string]any{mcp.MetaKeySubscriptionID: subscription.Raw}
			for name, value := range n.Params.Meta {
				if _, set := meta[name]; !set {
					meta[name] = value
				}
			}
			n.Params.Meta = meta // a copy: a broadcast shares the map
		}
		if line, err := rpc.EncodeNotification(n, rpc.UsualMessageBytes); err == nil {
			stream.event(line)
		}
	}
}

// subscriber is a client as one subscription sees it. Broadcasts reach it only after mcp-go set the subscription's filter.
type subscriber struct {
	*rpc.CallSession
	id string

	mu     sync.Mutex
	filter mcp.SubscriptionFilter
}

var _ server.SessionWithSubscriptionFilter = (*subscriber)(nil)

func (s *subscriber) SessionID() string { return s.id }

func (s *subscriber) SetSubscriptionFilter(filter mcp.SubscriptionFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter = filter
}

func (s *subscriber) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filter, true
}

// subscribe serves subscriptions/listen, which goes on until the client goes.
func (x *post) subscribe(ctx context.Context, call *rpc.Call, cancel context.CancelCauseFunc, gone func()) {
	s := x.server
	release, ok := s.openStream(x.w, x.r)
	if !ok {
		return
	}
	defer release()
	x.giveBack()
	defer s.endWith(x.client, x.r, cancel)()
	stream := newReply(x.w, x.r, gone)
	call.Notify = stream.event
	heard := &subscriber{id: rand.Text(), CallSession: x.client.session.Call(s.sendOn(stream, &call.ID))}
	m := siteOf(x.r).MCP
	if err := m.RegisterSession(ctx, heard); err != nil {
		s.opts.Logger.Error("register a stream", "error", err) // not reached: the name is new
	}
	line, code := rpc.Respond(m.WithContext(rpc.WithCall(ctx, call), heard), m, call, rpc.UsualMessageBytes, s.opts.Logger)
	m.UnregisterSession(ctx, heard.id)
	heard.End()
	if ctx.Err() != nil {
		line = nil
	}
	stream.finish(x.status(code), line)
}
