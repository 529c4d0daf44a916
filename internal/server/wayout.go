package server

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/upstream"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// wayOut is the egress of code, with its description for tools.
type wayOut struct {
	*broker.Broker
	log     *netlog.Log
	proxy   *proxy.Proxy
	network proxy.Options
	policy  *packages.Policy
	// packagesMode is the value of --packages.
	packagesMode string
	// upstream are other MCP servers with tools for code; nil: there are none.
	upstream *upstream.Servers
}

// toolServers returns the names of the servers with tools for code.
func (w *wayOut) toolServers() []string {
	if w.upstream == nil {
		return nil
	}
	return w.upstream.Names()
}

// packages returns the dependencies of install_packages; nil: nothing may be installed.
func (w *wayOut) packages() *tools.Packages {
	if w.packagesMode == packages.Off {
		return nil
	}
	ecosystems := map[sandbox.Language]packages.Ecosystem{sandbox.Python: packages.PyPI, sandbox.JavaScript: packages.NPM}
	return &tools.Packages{
		Summary: w.policy.Summary(), Timeout: installTime,
		Check: func(language sandbox.Language, requirement string) (string, error) {
			r, refused := w.policy.Check(ecosystems[language], requirement)
			if refused != nil {
				return "", refused
			}
			return r.String(), nil
		},
	}
}

// installTime bounds one installation, however many its packages.
const installTime = 15 * time.Minute

// hosts returns the allowed hosts, as in the settings.
func (w *wayOut) hosts() []string {
	hosts := []string{}
	for _, h := range w.network.Hosts {
		hosts = append(hosts, h.String())
	}
	for _, secret := range w.network.Secrets {
		for _, h := range secret.Hosts {
			hosts = append(hosts, h.String())
		}
	}
	return hosts
}

// reach returns the egress that a self-test must find.
func (w *wayOut) reach() attacks.WayOut {
	way := attacks.WayOut{Port: sandbox.WayOutPort, Open: w.network.Mode == proxy.Open, Hosts: w.hosts()}
	for _, s := range w.network.Secrets {
		var hosts []string
		for _, h := range s.Hosts {
			hosts = append(hosts, h.String())
		}
		way.Secrets = append(way.Secrets, attacks.NewSecret(s.Name, s.Value, hosts...))
	}
	return way
}

// Environment returns the variables for the proxy, if it lets anything through, and the placeholders of secrets.
func (w *wayOut) Environment(port int) map[string]string {
	env := w.Broker.Environment(port)
	if w.network.Mode != proxy.None {
		maps.Copy(env, broker.ProxyEnvironment(port))
	}
	maps.Copy(env, w.proxy.Environment())
	return env
}

// closedWayOut prepares containers for egress, and serves nothing.
type closedWayOut struct{ *wayOut }

func (closedWayOut) Serve(_ context.Context, _, _ string, conn net.Conn) { _ = conn.Close() }

// wayOutNow is a manager's egress, which can be replaced.
type wayOutNow struct{ now atomic.Pointer[wayOut] }

var _ sandbox.WayOut = (*wayOutNow)(nil)

func (w *wayOutNow) put(now *wayOut)                        { w.now.Store(now) }
func (w *wayOutNow) Environment(port int) map[string]string { return w.now.Load().Environment(port) }
func (w *wayOutNow) Forget(session string)                  { w.now.Load().Forget(session) }
func (w *wayOutNow) Trust(session string, kept []byte) (string, []byte, error) {
	return w.now.Load().Trust(session, kept)
}

func (w *wayOutNow) Serve(ctx context.Context, session, run string, conn net.Conn) {
	w.now.Load().Serve(ctx, session, run, conn)
}

// newWayOut puts the egress of settings together. sent logs the traffic. asks takes the questions of --ask; nil: nobody is there to answer. Close it after
// the manager that uses it. The error is one of the settings.
func newWayOut(s *Settings, lookup func(string) (string, bool), databases *tools.Databases, sent *netlog.Log, asks *ask.Desk, log *slog.Logger) (*wayOut, error) {
	network, err := s.Network.options(lookup)
	if err != nil {
		return nil, UsageError{Err: err}
	}
	w := &wayOut{log: sent, network: network}
	network.Log = w.log
	if s.Network.Ask && asks != nil {
		network.Ask = asks
	}
	w.proxy = proxy.New(network)
	indexes, err := s.Packages.options(StateFolder(s.StateDir))
	if err != nil {
		return nil, UsageError{Err: err}
	}
	indexes.Log, indexes.Received = w.log, w.proxy.Receive
	w.policy, w.packagesMode = indexes.Policy, s.Packages.Rules.Mode
	served, err := packages.New(indexes)
	if err != nil {
		return nil, UsageError{Err: err}
	}
	o := broker.Options{Log: w.log, Proxy: w.proxy, Packages: served, Authority: w.proxy.Trust, Forgotten: func(session string) {
		w.proxy.Forget(session)
		if asks != nil {
			asks.Forget(session)
		}
		if w.upstream != nil {
			w.upstream.Forget(session)
		}
	}}
	if s.SQL.codeQueries(databases) {
		o.SQL = databases.Queries(w.log)
	}
	if w.upstream, err = s.ToolServers.servers(lookup, w.log, log); err != nil {
		return nil, UsageError{Err: err}
	}
	if w.upstream != nil {
		o.Tools = w.upstream
	}
	w.Broker = broker.New(o)
	return w, nil
}

// endToolServers ends the other servers. It returns at once.
func (w *wayOut) endToolServers(ctx context.Context) (ended <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if w.upstream != nil {
			w.upstream.Close(ctx)
		}
	}()
	return done
}
