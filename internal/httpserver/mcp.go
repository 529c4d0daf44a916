package httpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// errDisconnected ends a session's request after its client went away, which is no cancel in that era.
var errDisconnected = errors.New("the client has disconnected")

func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	modern := mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	switch {
	case r.Method == http.MethodPost:
		s.post(w, r)
	case r.Method == http.MethodGet && !modern:
		s.listen(w, r)
	case r.Method == http.MethodDelete && !modern:
		s.delete(w, r)
	default:
		notAllowed(w, modern)
	}
}

func notAllowed(w http.ResponseWriter, modern bool) {
	allowed := "POST"
	if !modern {
		allowed = "GET, POST, DELETE"
	}
	w.Header().Set("Allow", allowed)
	refuse(w, http.StatusMethodNotAllowed, "use one of "+allowed)
}

// take waits for a place among the requests that are served at once, and returns the function that releases it; nil: there is none.
func (s *Server) take(r *http.Request) (giveBack func()) {
	waiting, cancel := context.WithTimeout(r.Context(), slotTime)
	defer cancel()
	return s.requests.take(waiting, r)
}

func (s *Server) busy(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "1")
	s.refuse(w, r, http.StatusServiceUnavailable, "too many requests at once", "try again later")
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "send the message as application/json")
		return
	}
	giveBack := s.take(r)
	if giveBack == nil {
		s.busy(w, r)
		return
	}
	giveBack = sync.OnceFunc(giveBack)
	defer giveBack()
	body, taken, err := s.readBody(w, r, messageBounds)
	defer taken.GiveBack()
	if err != nil {
		s.refuseBody(w, r, err)
		return
	}
	e, fault := rpc.Parse(body)
	if fault != nil {
		sendError(w, fault.ID, fault.Code, fault.Message)
		return
	}
	taken.Shrink(e.MemoryBytes())
	x := &post{server: s, w: w, r: r, e: &e, body: body, id: rpc.NullID, giveBack: giveBack, taken: taken}
	if e.ID != nil {
		x.id, _ = rpc.ParseID(e.ID) // Parse checked it
	}
	x.serve()
}

func (s *Server) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the message is longer than %d bytes", long.Limit))
	case errors.Is(err, errTooMuch):
		s.busy(w, r)
	case errors.Is(err, os.ErrDeadlineExceeded):
		refuse(w, http.StatusRequestTimeout, "the message did not come in time")
	default:
		refuse(w, http.StatusBadRequest, "the message did not come whole")
	}
}

func sendError(w http.ResponseWriter, id rpc.ID, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(rpc.ErrorLine(id, code, message)) //nolint:gosec // JSON, and said to be
}

// post serves one POST: it finds its client, runs it and writes the reply.
type post struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	e      *rpc.Envelope
	body   []byte
	id     rpc.ID // NullID for a notification
	modern bool
	client *client
	// giveBack gives its place among the requests to another, at its end at the latest.
	giveBack func()
	taken    *room.Share
}

func (x *post) refuse(code int, message string) {
	sendError(x.w, x.id, code, message)
}

// serve finds a message's client, and answers it.
func (x *post) serve() {
	header := x.r.Header.Get(mcp.HeaderProtocolVersion)
	var version string
	_ = json.Unmarshal(x.e.Version, &version) // a value that is no text is no version
	x.modern = mcp.IsModernProtocol(header) || mcp.IsModernProtocol(version)
	method := x.e.Method()
	begins := !x.modern && method == string(mcp.MethodInitialize) && x.e.ID != nil
	switch {
	case x.modern && !x.agrees(header, version):
		return
	case !x.modern && !begins && header != "" && !mcp.IsValidProtocolVersion(header):
		refuse(x.w, http.StatusBadRequest, fmt.Sprintf("%q is not a protocol version that is spoken here; there are %v", header, mcp.ValidProtocolVersions))
		return
	}
	leave, err := x.turn(method)
	if err != nil {
		return
	}
	defer leave()
	if !x.findClient(begins) {
		return
	}
	defer x.server.clients.leave(x.client)
	switch {
	case x.e.IsResponse():
		if x.client.begun { // others are sent no requests
			x.client.requests.Answered(x.body)
		}
		x.w.WriteHeader(http.StatusAccepted)
	case x.e.ID == nil:
		x.notification(method)
	default:
		x.request(begins)
	}
}

// turn waits for the principal's turn to send a message that waits for no run or event: a flood of those then takes its own principal's
// time.
func (x *post) turn(method string) (leave func(), err error) {
	owner := ownerOf(x.r)
	if owner == "" || x.e.ID != nil && method != string(mcp.MethodInitialize) && method != string(mcp.MethodPing) && !strings.HasSuffix(method, "/list") {
		return func() {}, nil
	}
	return x.server.turns.Take(x.r.Context(), owner)
}

// agrees reports whether the headers of a message without a handshake match its body, and refuses it otherwise.
func (x *post) agrees(header, version string) bool {
	switch {
	case x.e.IsResponse():
		x.refuse(mcp.INVALID_REQUEST, "Invalid Request: answers are not expected, as nothing is asked")
	case header == "":
		x.refuse(mcp.HEADER_MISMATCH, "the header MCP-Protocol-Version is missing")
	case version == "" && x.e.ID != nil:
		x.refuse(mcp.INVALID_PARAMS, "Invalid params: _meta lacks "+mcp.MetaKeyProtocolVersion)
	case version != "" && version != header:
		x.refuse(mcp.HEADER_MISMATCH, fmt.Sprintf("the header MCP-Protocol-Version is %q, and the message's version %q", header, version))
	default:
		var message struct{ Params json.RawMessage }
		_ = json.Unmarshal(x.e.Message(), &message) // made of parts that were parsed
		if err := mcp.ValidateStandardHeaders(x.r.Header.Get, header, mcp.MCPMethod(x.e.Method()), message.Params); err != nil {
			x.refuse(mcp.HEADER_MISMATCH, err.Error())
			return false
		}
		return true
	}
	return false
}

// findClient finds a message's client, marks it as in use, and refuses an unknown session.
func (x *post) findClient(begins bool) bool {
	clients := x.server.clients
	session := x.r.Header.Get(headerSession)
	switch {
	case begins:
		x.client = clients.begin(x.r)
	case x.modern || session == "":
		x.client = x.stateless()
	default:
		if x.client = clients.enter(x.r, session); x.client == nil {
			refuseSession(x.w)
			return false
		}
	}
	return true
}

func refuseSession(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, "there is no such session, or it has ended; begin another one with initialize")
}

// clientCookie identifies a client without a handshake. Its name, address and token may be other programs' too.
const clientCookie = "code-sandbox-client"

// statelessName begins the names of clients without a handshake.
const statelessName = "stateless-"

// stateless finds a message's client without a handshake by the cookie that it was given. Without one it is unknown.
func (x *post) stateless() *client {
	cookie, err := x.r.Cookie(clientCookie)
	known := err == nil && len(cookie.Value) == len(rand.Text())
	if !known {
		cookie = &http.Cookie{Name: clientCookie, Value: rand.Text(), HttpOnly: true, Secure: x.r.TLS != nil, SameSite: http.SameSiteStrictMode} //nolint:gosec // plain HTTP does not allow secure cookies, and this one is no key
		http.SetCookie(x.w, cookie)
	}
	// The hash includes the principal. For the owner it includes the credential, which differs if the server asks for no token and a proxy
	// in front of it does.
	sum := sha256.Sum256([]byte(cookie.Value + "\x00" + cmp.Or(ownerOf(x.r), x.r.Header.Get("Authorization"))))
	name := statelessName + hex.EncodeToString(sum[:16])
	if known {
		return x.server.clients.stateless(x.r, name)
	}
	return newClient(x.r, name)
}

// notification passes on a message without an answer.
func (x *post) notification(method string) {
	if method == "notifications/cancelled" {
		if id, err := rpc.ParseID(x.e.RequestID); err == nil {
			x.client.cancel(id, x.e.Reason)
		}
	} else {
		m := siteOf(x.r).MCP
		rpc.Guard(x.server.opts.Logger, method, func() { m.HandleMessage(m.WithContext(x.r.Context(), x.client.session), x.e.Message()) })
	}
	x.w.WriteHeader(http.StatusAccepted)
}

func (x *post) request(begins bool) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(x.r.Context()))
	defer cancel(nil)
	call := rpc.NewCall(x.e, x.id)
	giveUp := func(cause error) {
		cancel(cause)
		call.Answered(cause)
	}
	gone := sync.OnceFunc(func() { x.lose(ctx, &call, giveUp) })
	defer context.AfterFunc(x.r.Context(), gone)()
	if x.client.begun && !x.client.track(x.id, func(reason []byte) { giveUp(call.CancelCause(reason)) }) {
		x.refuse(mcp.INVALID_REQUEST, "Invalid Request: a request with this id is in flight")
		return
	}
	defer x.client.untrack(x.id)
	if call.Method == string(mcp.MethodSubscriptionsListen) {
		x.subscribe(ctx, &call, cancel, gone)
		return
	}
	answer := newReply(x.w, x.r, gone)
	call.Notify = answer.event
	if answer.events {
		call.Begin = answer.begin
	}
	if x.client.begun && answer.events {
		call.Request = func(ctx context.Context, until <-chan struct{}, method string, params any) (json.RawMessage, error) {
			return x.client.requests.Do(ctx, until, answer.event, method, params)
		}
	}
	limit := rpc.UsualMessageBytes
	session := x.client.session.Call(func(n mcp.JSONRPCNotification) {
		if line, err := rpc.EncodeNotification(n, limit); err == nil {
			answer.event(line)
		}
	})
	if call.Method == string(mcp.MethodResourcesRead) && !x.room(2*int64(limit)) { // a file, and its encoding
		answer.finish(x.status(busyCode), x.tooMuch())
		return
	}
	m := siteOf(x.r).MCP
	serving := siteOf(x.r).Context(rpc.WithCall(ctx, &call), x.client.name, x.client.listed, x.r)
	var line []byte
	var code int
	if begins {
		line, code = rpc.Respond(m.WithContext(serving, x.client.session), m, &call, limit, x.server.opts.Logger)
		x.began(code)
	} else {
		line, code = rpc.Respond(m.WithContext(serving, session), m, &call, limit, x.server.opts.Logger)
	}
	session.End()
	if errors.Is(context.Cause(ctx), rpc.ErrCancelledByClient) {
		answer.drop()
		return
	}
	if !x.room(int64(len(line))) {
		line, code = rpc.ErrorLine(x.id, busyCode, "the call was carried out, but there is no room for its answer while others have not been read: "+
			"do not repeat it; session_info and list_artifacts show what it did"), busyCode
	}
	x.client.recent.Add(&call)
	answer.finish(x.status(code), line)
	if x.r.Context().Err() != nil {
		call.Answered(errDisconnected)
	}
	call.Answered(nil)
}

// busyCode is that of a request without room for its answer, in JSON-RPC's range for servers.
const busyCode = -32000

func (x *post) tooMuch() []byte {
	return rpc.ErrorLine(x.id, busyCode, "too much of what was asked has not been read yet; read those answers, and try again")
}

// smallAnswer is the size up to which an answer takes no more room than its request, in bytes.
const smallAnswer = 64 << 10

// room waits until there is room for an answer in place of its request and its work's memory, and reports whether there was.
func (x *post) room(size int64) bool {
	if size = room.Fit(x.r.Context(), size); size <= smallAnswer {
		return true
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), slotTime)
	defer cancel()
	return x.taken.Resize(ctx, size)
}

// began tells the client its session, or forgets one that failed to begin.
func (x *post) began(code int) {
	if code != 0 {
		x.server.clients.remove(x.client)
		return
	}
	x.w.Header().Set(headerSession, x.client.name)
}

// lose ends a request after its connection ended. Without a session that is the only way to cancel. With one it is no cancel, but some
// clients close the connection of a request that they cancel: their notification is waited for.
func (x *post) lose(ctx context.Context, call *rpc.Call, cancel context.CancelCauseFunc) {
	switch {
	case errors.Is(context.Cause(x.r.Context()), rpc.ErrShutdown):
		cancel(rpc.ErrShutdown)
	case !x.client.begun:
		cancel(call.HangUpCause())
	default:
		timer := time.AfterFunc(lostTime, func() { cancel(errDisconnected) })
		forget := context.AfterFunc(x.server.base, func() { cancel(rpc.ErrShutdown) })
		context.AfterFunc(ctx, func() { timer.Stop(); forget() })
	}
}

// status is the HTTP status for an answer with this error. Before 2026-07-28 that is in the message alone.
func (x *post) status(code int) int {
	if !x.modern {
		return http.StatusOK
	}
	switch code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case mcp.PARSE_ERROR, mcp.INVALID_REQUEST, mcp.INVALID_PARAMS,
		mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	client := s.clients.enter(r, r.Header.Get(headerSession))
	if client == nil {
		refuseSession(w)
		return
	}
	s.clients.leave(client)
	s.clients.remove(client)
	w.WriteHeader(http.StatusNoContent)
}
