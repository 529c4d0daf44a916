// Package broker is a sandbox's only egress: it serves the connections that code makes to a port of loopback in its
// container, which runs without a network. The broker, on the host, decides which requests leave, and records them.
//
// A connection speaks HTTP/1.1. Proxy requests go to the hosts that are allowed and to the package indexes, others to the databases and to the
// other servers' tools; each kind is served by its own handler.
package broker

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	headerTime     = 30 * time.Second
	idleTime       = 5 * time.Minute
	maxHeaderBytes = 64 << 10
)

// Prefixes for the requests that are for the broker itself.
const (
	SQL = "/sql"
	// Tools are other MCP servers'.
	Tools = "/tools/"
)

// Options are a Broker's services.
type Options struct {
	// Proxy serves proxy requests: CONNECT, and those with a whole URL as target.
	Proxy http.Handler
	// SQL serves queries. Nil: there are none.
	SQL http.Handler
	// Tools serves the paths below Tools: calls to other servers' tools. Nil: there are none.
	Tools http.Handler
	// Log is the handlers' record. May be nil.
	Log *netlog.Log
	// Authority does the work of Trust. Nil: no session needs an authority.
	Authority func(session string, kept []byte) (certificates string, keep []byte, err error)
	// Forgotten is called with each session that ended. May be nil.
	Forgotten func(session string)
}

// Broker implements sandbox.WayOut. Close it in the end.
type Broker struct {
	options Options
	server  *http.Server

	mu     sync.Mutex
	memory map[string]*caller.Budget // by session
}

// New returns a Broker that is ready to serve.
func New(options Options) *Broker {
	b := &Broker{options: options, memory: make(map[string]*caller.Budget)}
	b.server = &http.Server{
		Handler: b, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: log.New(io.Discard, "", 0), // of the code's mistakes
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			from := c.(*caller.Conn) // Serve serves no other
			ctx, cancel := context.WithCancel(ctx)
			context.AfterFunc(from.Ends, cancel) // that of a hijacked connection does not end with it
			return caller.With(ctx, from.Caller)
		},
	}
	return b
}

// Close ends all connections.
func (b *Broker) Close() error { return b.server.Close() }

// Serve implements sandbox.WayOut: it returns when the connection is closed.
func (b *Broker) Serve(ctx context.Context, session, run string, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := caller.NewConn(conn, conn)
	c.Ends = ctx
	c.Caller = caller.Caller{Session: session, Run: run, Memory: b.budget(session)}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = b.server.Serve(c) // which closes it in the end
}

// budget returns the memory for a session's requests.
func (b *Broker) budget(session string) *caller.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.memory[session] == nil {
		b.memory[session] = caller.NewBudget()
	}
	return b.memory[session]
}

// Trust implements sandbox.WayOut.
func (b *Broker) Trust(session string, kept []byte) (string, []byte, error) {
	if b.options.Authority == nil {
		return "", nil, nil
	}
	return b.options.Authority(session, kept)
}

// Forget implements sandbox.WayOut.
func (b *Broker) Forget(session string) {
	b.mu.Lock()
	delete(b.memory, session)
	b.mu.Unlock()
	if b.options.Log != nil {
		b.options.Log.Forget(session)
	}
	if b.options.Forgotten != nil {
		b.options.Forgotten(session)
	}
}

// Environment implements sandbox.WayOut: it leads programs through the broker, and has them trust the session's authority.
func (b *Broker) Environment(port int) map[string]string {
	address := "http://127.0.0.1:" + strconv.Itoa(port)
	env := make(map[string]string)
	for _, name := range []string{"http_proxy", "https_proxy"} {
		env[name], env[strings.ToUpper(name)] = address, address
	}
	env["no_proxy"], env["NO_PROXY"] = "127.0.0.1,localhost,::1", "127.0.0.1,localhost,::1"
	env["YARN_HTTPS_PROXY"] = address
	if b.options.Authority != nil {
		for _, name := range []string{
			"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT",
			"npm_config_cafile", "pnpm_config_cafile", "YARN_HTTPS_CA_FILE_PATH",
		} {
			env[name] = protocol.TrustFile
		}
	}
	return env
}

// ServeHTTP finds a request's handler.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var handler http.Handler
	switch path := r.URL.Path; {
	case r.Method == http.MethodConnect || r.URL.IsAbs():
		handler = b.options.Proxy
	case path == SQL:
		handler = b.options.SQL
	case strings.HasPrefix(path, Tools):
		handler = b.options.Tools
	}
	if handler == nil {
		http.Error(w, "There is nothing of that name here.", http.StatusNotFound)
		return
	}
	handler.ServeHTTP(w, r)
}
