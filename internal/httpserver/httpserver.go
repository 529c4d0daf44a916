// Package httpserver serves an MCP server over streamable HTTP, in both protocol eras: sessions that begin with
// an initialize handshake (up to 2025-11-25), and requests that each stand alone (2026-07-28).
//
// Start with New and Serve. mcp-go keeps the protocol; this package is the transport around its HandleMessage, as package
// stdio is the one for pipes, so that both read the same messages and answer with the same words.
//
// It promises:
//
//   - Without a token a client learns the metadata's address alone. A page of
//     another origin, and a name that leads here by DNS rebinding, are refused before that.
//   - A request is served by the Site of its principal alone, and a protocol session is only its principal's.
//   - Everything is bounded: connections, requests at once, streams, sessions, a message's length, the memory
//     of one client's messages, and of all messages, and the time for a client to send or to read. An idle
//     client makes room for a new one.
//   - A request is answered with JSON, or with an event stream once there is progress to tell or it takes long, if the
//     client accepts one. A silent stream is kept alive by comments.
//   - A request without a handshake is cancelled when its client closes the connection; one of a session by
//     notifications/cancelled alone, as its era demands: its work goes on. A cancelled request gets no answer.
//   - The end takes a bounded time, whatever clients do.
package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// Path is MCP's path.
const Path = "/mcp"

// Bounds of the clients' concurrent use.
const (
	// maxConnections is far below the file descriptors that a process usually has.
	maxConnections = 2048
	// maxRequests bounds the POSTs that are served at once; further ones wait for slotTime.
	maxRequests = 1024
	// maxStreams limits the open event streams that end with no request.
	maxStreams = 1024
	// maxClients limits the remembered clients.
	maxClients = 4096
)

// Time limits for clients.
const (
	slotTime = 10 * time.Second
	// lostTime is the time for which a session's request goes on after its connection is gone.
	lostTime = 5 * time.Second
	// graceTime is the time at the server's end in which running requests may answer as usual, and stopTime the time after that, interrupted.
	graceTime = 300 * time.Millisecond
	stopTime  = 200 * time.Millisecond
)

// Site holds one principal's services.
type Site struct {
	// MCP is served at Path; nil: only Options.Open is served.
	MCP *server.MCPServer
	// Context returns the context of a client's request, by the client's unique name. known: its next requests will come with that name,
	// which all clients send but those that return no cookie or session id.
	Context func(ctx context.Context, client string, known bool, r *http.Request) context.Context
	// Routes are further handlers for whoever may use MCP, by patterns of http.ServeMux. A POST's body is read before, within the
	// bounds of messages; an error in that is its reader's error. A form (multipart) is left to the handler, to be bounded as it is
	// read. The patterns of the owner's Site count.
	Routes map[string]http.Handler
	// Ended is called when a client ends its session, from its own goroutine. May be nil.
	Ended func(client string)
	// Ending ends the streams that end with no request; their clients then open others. Nil: they end with the server.
	Ending context.Context
}

// Options are the sites and their authentication.
type Options struct {
	// Site is the owner's.
	Site
	// Token is the credential of the owner's clients; empty: they need none.
	Token string
	// Authenticate identifies the principals of other requests. Nil: others are refused.
	Authenticate principal.Authenticator
	// Translate moves a credential in a client's own header to the usual one, for Routes. Nil: no header is moved.
	Translate func(*http.Request)
	// Of returns the Site of a principal that Authenticate knows. Its error goes to the log alone.
	Of func(principal.Principal) (*Site, error)
	// AllowHosts are names by which clients may reach the server, beside addresses, localhost and the names in the certificate.
	AllowHosts []string
	// AllowOrigins are the origins of pages that may use the server, such as https://example.com; "*": any.
	AllowOrigins []string
	// Certificate is for TLS; nil: none.
	Certificate *tls.Certificate
	// Issuer gives out tokens that Authenticate knows, and clients are told so. Empty: none does.
	Issuer string
	// URL is the server's address for clients and browsers, without a slash at its end. Empty: as a request names it.
	URL string
	// Refuse answers requests for Routes that do not get there, such as those without the token. Nil: a line of text does, as it
	// does for all others.
	Refuse refuser
	// Open are handlers by their pattern that need no token, such as links that are signed.
	Open map[string]http.Handler
	// Around wraps the whole handler, for example to count requests. May be nil.
	Around func(http.Handler) http.Handler
	// Memory is shared with another Server; nil: it has its own.
	Memory *room.Memory
	Logger *slog.Logger
}

// refuser answers a request with a status, the problem and advice.
type refuser func(w http.ResponseWriter, r *http.Request, status int, problem, advice string)

// Server serves MCP over HTTP.
type Server struct {
	opts    Options
	guard   guard
	clients *clients
	routes  *http.ServeMux // those of Options, to find a request's pattern

	requests places       // of POSTs that are served
	turns    *fair.Places // of a named principal's short messages, such as those that begin a session
	streams  places       // of those that no request ends
	memory   *room.Memory

	// base is the context of all requests; ending ends streams, which no client would end in time.
	base   context.Context
	stop   context.CancelCauseFunc
	ending context.Context
	end    context.CancelFunc
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	s := &Server{
		opts: o, clients: newClients(), routes: http.NewServeMux(),
		requests: newPlaces(maxRequests), streams: newPlaces(maxStreams),
		turns:  fair.NewFew(math.MaxInt, max(1, runtime.GOMAXPROCS(0)/4)),
		memory: cmp.Or(o.Memory, room.New()),
	}
	for pattern, handler := range o.Routes {
		s.routes.Handle(pattern, handler)
	}
	s.guard = newGuard(&s.opts, s.refuse)
	s.base, s.stop = context.WithCancelCause(context.Background())
	s.ending, s.end = context.WithCancel(context.Background())
	s.opts.Prepare()
	return s
}

// Prepare makes a Site ready to be served, once.
func (s *Site) Prepare() {
	if s.MCP != nil {
		s.MCP.Use(rpc.RestoreArguments)
	}
	if s.Ending == nil {
		s.Ending = context.Background()
	}
	if s.Context == nil {
		s.Context = func(ctx context.Context, _ string, _ bool, _ *http.Request) context.Context { return ctx }
	}
}

// Memory is what its requests take of.
func (s *Server) Memory() *room.Memory { return s.memory }

// Gone reports whether a client ended its session, or is without a stream and silent for a minute, or for two seconds since it closed its
// stream.
func (s *Server) Gone(client string, idle time.Duration) bool { return s.clients.gone(client, idle) }

// Serve serves a listener's clients, which it closes, until ctx is done, and returns nil then. It is called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.guard.listensOn(l.Addr())
	listening := web.Server(s.memory.Handler(s.handler()), maxConnections, s.opts.Logger)
	listening.BaseContext = func(net.Listener) context.Context { return s.base }
	failed := make(chan error, 1)
	go func() {
		if s.opts.Certificate == nil {
			failed <- listening.Serve(l)
			return
		}
		listening.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*s.opts.Certificate}, MinVersion: tls.VersionTLS12}
		failed <- listening.ServeTLS(l, "", "")
	}()
	select {
	case err := <-failed:
		s.stop(rpc.ErrShutdown)
		s.end()
		return err
	case <-ctx.Done():
		s.shutdown(listening.Server)
		return nil
	}
}

// shutdown ends running requests, in bounded time.
func (s *Server) shutdown(web *http.Server) {
	s.end()
	if !finished(web, graceTime) {
		s.stop(rpc.ErrShutdown)
		if !finished(web, stopTime) {
			s.opts.Logger.Debug("requests were left behind")
		}
	}
	s.stop(rpc.ErrShutdown)
	_ = web.Close()
}

func finished(web *http.Server, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return !errors.Is(web.Shutdown(ctx), context.DeadlineExceeded)
}

// handler returns the whole handler, behind its guard.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	words := "there is nothing here"
	if s.opts.MCP != nil {
		words += "; MCP is served at " + Path
	}
	nothing := func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, words) }
	if s.opts.MCP != nil {
		mux.HandleFunc(metadataPath, s.guard.metadata)
		mux.HandleFunc(metadataPath+Path, s.guard.metadata)
		mcp := s.guard.authenticated(http.HandlerFunc(s.serveMCP))
		mux.Handle(Path, mcp)
		mux.Handle(Path+"/{$}", mcp)
	}
	for pattern := range s.opts.Routes {
		mux.Handle(pattern, s.translated(s.guard.authenticated(s.bounded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler := siteOf(r).Routes[pattern]
			if handler == nil {
				handler = http.HandlerFunc(nothing)
			}
			handler.ServeHTTP(w, r)
		})))))
	}
	for pattern, handler := range s.opts.Open {
		mux.Handle(pattern, handler)
	}
	mux.HandleFunc("/", nothing)
	if s.opts.Around != nil {
		return s.opts.Around(s.guard.admitted(mux))
	}
	return s.guard.admitted(mux)
}

// translated is a request handler after Translate.
func (s *Server) translated(next http.Handler) http.Handler {
	if s.opts.Translate == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.opts.Translate(r)
		next.ServeHTTP(w, r)
	})
}

// refuse answers a request that no Site serves with a status, the problem and advice.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, problem, advice string) {
	web.Refuse(w)
	if _, pattern := s.routes.Handler(r); pattern != "" && s.opts.Refuse != nil {
		s.opts.Refuse(w, r, status, problem, advice)
		return
	}
	refuse(w, status, problem+"; "+advice)
}

// refuse answers a request with a status and the reason, and closes the connection.
func refuse(w http.ResponseWriter, status int, reason string) {
	web.Refuse(w)
	http.Error(w, reason, status)
}
