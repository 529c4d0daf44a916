package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The time that each phase of a request has. A handler that reads a long body, or writes for long, moves the deadlines on.
const (
	HeaderTime = 10 * time.Second
	BodyTime   = 30 * time.Second
	WriteTime  = 30 * time.Second
	IdleTime   = 2 * time.Minute
)

const (
	maxHeader = 64 << 10
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

// Server returns a server of a handler with at most so many connections. Serving and shutting it down are the caller's.
func Server(handler http.Handler, most int, log *slog.Logger) *http.Server {
	c := newConnections(most)
	return &http.Server{
		Handler:           timed(handler),
		ReadHeaderTimeout: HeaderTime, WriteTimeout: WriteTime, IdleTimeout: IdleTime, MaxHeaderBytes: maxHeader,
		ConnState: c.changed,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, keeper{c, conn})
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
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

// Keep has the connection of a request keep its place until the request has ended, as one of those of a principal with this Key, of
// which a quarter of all is kept at most; empty: of the user whose server it is. It does nothing where there are too many, or where the
// context is of no request to a Server.
func Keep(ctx context.Context, key string) {
	if k, is := ctx.Value(connectionKey{}).(keeper); is {
		k.of.keep(k.conn, key)
	}
}

// Refuse closes the connection after the answer, which is still to be written.
func Refuse(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTime))
}
