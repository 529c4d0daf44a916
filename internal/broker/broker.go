// Package broker is the only egress of a sandbox: it serves the connections that code makes to a port of loopback in its
// container, which runs without a network. The broker, on the host, decides which requests leave, and records them.
//
// A connection speaks HTTP/1.1. Proxy requests go to the hosts that are allowed, others to the package indexes, to the
// databases and to the tools of other servers; each kind is served by a handler of its own.
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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const (
	headerTime     = 30 * time.Second
	idleTime       = 5 * time.Minute
	maxHeaderBytes = 64 << 10
)

// Prefixes of the requests that are for the broker itself.
const (
	PyPI = "/pypi/"
	NPM  = "/npm/"
	SQL  = "/sql"
	// Tools are those of other MCP servers.
	Tools = "/tools/"
)

// Options are the services of a Broker.
type Options struct {
	// Proxy serves proxy requests: CONNECT, and those with a whole URL as target.
	Proxy http.Handler
	// Packages serves the paths below PyPI and NPM.
	Packages http.Handler
	// SQL serves queries. Nil: there are none.
	SQL http.Handler
	// Tools serves the paths below Tools: calls of other servers' tools. Nil: there are none.
	Tools http.Handler
	// Log is the record of the handlers. May be nil.
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

// budget returns the memory of a session's requests.
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

// ownAddress returns the broker's address for code in a container.
func ownAddress(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port) }

// Environment implements sandbox.WayOut.
func (b *Broker) Environment(port int) map[string]string {
	address := ownAddress(port)
	return map[string]string{
		// A session's installations are in its volume.
		"PYTHONUSERBASE": engine.WorkDir + "/.local", "npm_config_prefix": engine.WorkDir + "/.local",
		"PIP_INDEX_URL": address + PyPI + "simple/", "UV_DEFAULT_INDEX": address + PyPI + "simple/",
		// One answer is enough from an index that is this near; it retries by itself.
		"PIP_RETRIES": "0", "npm_config_fetch_retries": "0", "UV_HTTP_RETRIES": "0",
		// The server sends a file once it received all of it; uv would wait 30 seconds for that, and --package-timeout is 5 minutes.
		"UV_HTTP_TIMEOUT": "330",
		// The broker's cache serves every session; one in the container would only fill its /tmp. uv unpacks into its own, and makes hard
		// links from there.
		"PIP_NO_CACHE_DIR": "1", "UV_CACHE_DIR": engine.WorkDir + "/.cache/uv",
		"npm_config_registry": address + NPM, "npm_config_audit": "false", "npm_config_fund": "false",
		// pnpm 12 and Yarn 4 read variables of their own. A lock file that names this address is of no use elsewhere.
		"pnpm_config_registry": address + NPM, "YARN_NPM_REGISTRY_SERVER": address + NPM, "YARN_UNSAFE_HTTP_WHITELIST": "127.0.0.1",
		"npm_config_omit_lockfile_registry_resolved": "true",
	}
}

// ProxyEnvironment returns the variables that lead requests to internet hosts through the broker. Without them they fail as without a
// network, in each program's own way.
func ProxyEnvironment(port int) map[string]string {
	env := map[string]string{"NODE_USE_ENV_PROXY": "1"}
	for _, name := range []string{"http_proxy", "https_proxy"} {
		env[name], env[strings.ToUpper(name)] = ownAddress(port), ownAddress(port)
	}
	for _, name := range []string{"no_proxy", "NO_PROXY"} {
		env[name] = "127.0.0.1,localhost,::1"
	}
	return env
}

// ServeHTTP finds the handler of a request.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var handler http.Handler
	switch path := r.URL.Path; {
	case r.Method == http.MethodConnect || r.URL.IsAbs():
		handler = b.options.Proxy
	case strings.HasPrefix(path, PyPI), strings.HasPrefix(path, NPM):
		handler = b.options.Packages
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
