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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// egress is the way of code to the outside, with its description for tools.
type egress struct {
	*broker.Broker
	log     *netlog.Log
	proxy   *proxy.Proxy
	network proxy.Options
	policy  *packages.Policy
	indexes *packages.Handler
	// packagesMode is the value of --packages.
	packagesMode string
	// upstream are other MCP servers with tools for code; nil: there are none.
	upstream *upstream.Servers
}

func (e *egress) toolServers() []string {
	if e.upstream == nil {
		return nil
	}
	return e.upstream.Names()
}

// packages returns the dependencies of install_packages; nil: nothing may be installed.
func (e *egress) packages() *tools.Packages {
	if e.packagesMode == packages.Off {
		return nil
	}
	ecosystems := map[sandbox.Language]packages.Ecosystem{sandbox.Python: packages.PyPI, sandbox.JavaScript: packages.NPM}
	return &tools.Packages{
		Summary: e.policy.Summary(), Timeout: installTime,
		Check: func(language sandbox.Language, requirement string) (string, error) {
			checked, refused := e.policy.Check(ecosystems[language], requirement)
			if refused != nil {
				return "", refused
			}
			return checked, nil
		},
	}
}

// installTime bounds one installation, however many its packages.
const installTime = 15 * time.Minute

// hosts returns the allowed hosts, as in the settings.
func (e *egress) hosts() []string {
	hosts := []string{}
	for _, h := range e.network.Hosts {
		hosts = append(hosts, h.String())
	}
	for _, secret := range e.network.Secrets {
		for _, h := range secret.Hosts {
			hosts = append(hosts, h.String())
		}
	}
	return hosts
}

// reach returns the egress that a self-test must find.
func (e *egress) reach() attacks.Egress {
	way := attacks.Egress{Port: sandbox.WayOutPort, Open: e.network.Mode == proxy.Open, Hosts: e.hosts()}
	for _, s := range e.network.Secrets {
		var hosts []string
		for _, h := range s.Hosts {
			hosts = append(hosts, h.String())
		}
		way.Secrets = append(way.Secrets, attacks.NewSecret(s.Name, s.Value, hosts...))
	}
	return way
}

// Environment returns the variables for the proxy and for installers, and the placeholders of secrets. Node.js takes the proxy only where it
// leads to a network, and the certificates only where it needs them: it reads them as it starts, so that its kernels wait for a session's.
func (e *egress) Environment(port int) map[string]string {
	env := e.Broker.Environment(port)
	if e.network.Mode != proxy.None {
		env["NODE_USE_ENV_PROXY"] = "1"
	}
	if e.proxy.EndsForCode() {
		env["NODE_EXTRA_CA_CERTS"], env["GIT_SSL_CAINFO"] = protocol.TrustFile, protocol.TrustFile // over git's own settings
	}
	maps.Copy(env, e.indexes.Environment())
	maps.Copy(env, e.proxy.Environment())
	return env
}

// closedEgress prepares containers for egress, and serves nothing.
type closedEgress struct{ *egress }

func (closedEgress) Serve(_ context.Context, _, _ string, conn net.Conn) { _ = conn.Close() }

// egressNow is a manager's egress, which can be replaced.
type egressNow struct{ now atomic.Pointer[egress] }

var _ sandbox.WayOut = (*egressNow)(nil)

func (e *egressNow) put(now *egress)                        { e.now.Store(now) }
func (e *egressNow) Environment(port int) map[string]string { return e.now.Load().Environment(port) }
func (e *egressNow) Forget(session string)                  { e.now.Load().Forget(session) }
func (e *egressNow) Trust(session string, kept []byte) (string, []byte, error) {
	return e.now.Load().Trust(session, kept)
}

func (e *egressNow) Serve(ctx context.Context, session, run string, conn net.Conn) {
	e.now.Load().Serve(ctx, session, run, conn)
}

// newEgress puts the egress of settings together. sent logs the traffic. asks takes the questions of --ask; nil: nobody is there to answer.
// Close it after the manager that uses it. The error is one of the settings.
func newEgress(s *setting.Settings, lookup func(string) (string, bool), databases *tools.Databases, sent *netlog.Log, asks *ask.Desk, log *slog.Logger) (*egress, error) {
	network, err := s.Network.Options(lookup)
	if err != nil {
		return nil, setting.UsageError{Err: err}
	}
	e := &egress{log: sent, network: network}
	network.Log = e.log
	if s.Network.Ask && asks != nil {
		network.Ask = asks
	}
	indexes, err := s.Packages.Options(setting.StateFolder(s.StateDir))
	if err != nil {
		return nil, setting.UsageError{Err: err}
	}
	indexes.Log, indexes.Received = e.log, func(session string, bytes int) error { return e.proxy.Receive(session, bytes) }
	e.policy, e.packagesMode = indexes.Policy, s.Packages.Rules.Mode
	if e.indexes, err = packages.New(indexes); err != nil {
		return nil, setting.UsageError{Err: err}
	}
	network.Indexes = e.indexes
	e.proxy = proxy.New(network)
	o := broker.Options{Log: e.log, Proxy: e.proxy, Authority: e.proxy.Trust, Forgotten: func(session string) {
		e.proxy.Forget(session)
		if asks != nil {
			asks.Forget(session)
		}
		if e.upstream != nil {
			e.upstream.Forget(session)
		}
	}}
	if codeQueries(&s.SQL, databases) {
		o.SQL = databases.Queries(e.log)
	}
	if e.upstream, err = toolServers(&s.ToolServers, lookup, e.log, log); err != nil {
		return nil, setting.UsageError{Err: err}
	}
	if e.upstream != nil {
		o.Tools = e.upstream
	}
	e.Broker = broker.New(o)
	return e, nil
}

// endToolServers ends the other servers. It returns at once.
func (e *egress) endToolServers(ctx context.Context) (ended <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if e.upstream != nil {
			e.upstream.Close(ctx)
		}
	}()
	return done
}
