package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// The time limits of a request's phases. A handler that reads a long body, or writes for long, extends the deadlines.
const (
	headerTime = 10 * time.Second
	BodyTime   = 30 * time.Second
	WriteTime  = 30 * time.Second
	IdleTime   = 2 * time.Minute
)

const (
	// http.Server adds 4 KB to maxHeader; maxFields limits the fields in the head of a request.
	maxHeader = 12 << 10
	maxFields = 100
	// allHeads is the memory for the heads of requests of unknown principals together, in bytes, and headBytes that for a byte of an
	// unfinished one: of fields of a letter.
	allHeads  = 16 << 20
	headBytes = 20
	// In HTTP/2, a connection may run maxStreams requests at once, each of which takes streamBytes beside its head, and its window of unread
	// bodies.
	maxStreams  = 32
	streamBytes = 16 << 10
	unreadBytes = 128 << 10
	// refusedTime is how long the body of a refused request is read on: closing at once would reset the connection, and its client
	// could lose the answer.
	refusedTime = time.Second
)

type connectionKey struct{}

// keeper keeps a connection in its place.
type keeper struct {
	of   *connections
	conn net.Conn
}

// Serving is an http.Server that bounds its clients' resources.
type Serving struct {
	*http.Server
	of *connections
}

// Serve is http.Server's.
func (s *Serving) Serve(l net.Listener) error { return s.Server.Serve(accepting{l, s.of}) }

// ServeTLS is http.Server's.
func (s *Serving) ServeTLS(l net.Listener, certificate, key string) error {
	return s.Server.ServeTLS(accepting{l, s.of}, certificate, key)
}

// Server returns a server of a handler with at most so many connections. Serving and shutting it down are the caller's.
func Server(handler http.Handler, most int, log *slog.Logger) *Serving {
	c := newConnections(most)
	return &Serving{&http.Server{
		Handler:           headed(timed(handler)),
		ReadHeaderTimeout: headerTime, WriteTimeout: WriteTime, IdleTimeout: IdleTime, MaxHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: 16 << 10, MaxReceiveBufferPerConnection: unreadBytes, MaxReceiveBufferPerStream: unreadBytes,
		},
		ConnState: c.changed,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, keeper{c, below(conn)})
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}, c}
}

// headed refuses heads of too many fields, and counts those that are nobody's yet.
func headed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields, bytes := 0, len(r.URL.Path)+len(r.URL.RawQuery)
		for name, values := range r.Header {
			fields += len(values)
			for _, value := range values {
				bytes += len(name) + len(value)
			}
		}
		k := r.Context().Value(connectionKey{}).(keeper)
		switch {
		case fields > maxFields:
			Refuse(w)
			http.Error(w, "the request has too many headers", http.StatusRequestHeaderFieldsTooLarge)
			return
		case r.ProtoMajor == 1:
			k.of.readHead(k.conn)
		default: // a request of many on its connection
			takes := int64(2*bytes + streamBytes)
			if !k.of.takesHead(k.conn, takes) {
				http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
				return
			}
			stream := &stream{keeper: k, takes: takes}
			defer stream.known()
			r = r.WithContext(context.WithValue(r.Context(), connectionKey{}, stream))
		}
		next.ServeHTTP(w, r)
	})
}

// stream is a request by HTTP/2.
type stream struct {
	keeper
	takes int64
	once  sync.Once
}

// known stops counting a request's head.
func (s *stream) known() {
	s.once.Do(func() {
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		s.of.forgetHead(s.conn, s.takes)
	})
}

// timed gives bodies their time. That of the server's own ReadTimeout would end a request without one as well.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(BodyTime))
		}
		next.ServeHTTP(w, r)
	})
}

// Keep exempts a request's connection from eviction until the request ends, as one of those of a principal with this Key, who keeps a
// quarter of all at most; empty: of the owner. It does nothing if there are too many, or if ctx belongs to no request to a Server.
func Keep(ctx context.Context, key string) {
	switch k := ctx.Value(connectionKey{}).(type) {
	case keeper:
		k.of.keep(k.conn, key)
	case *stream:
		k.known()
		k.of.keep(k.conn, key)
	}
}

// Refuse closes the connection after the answer, which is still to be written.
func Refuse(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTime))
}
