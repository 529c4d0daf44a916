package cli

import (
	"maps"
	"os"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// wayOut is how code reaches anything outside its container, and what tools say of that.
type wayOut struct {
	*broker.Broker
	log   *netlog.Log
	proxy *proxy.Proxy
}

// Environment adds the placeholders of secrets to the variables of the way out itself.
func (w *wayOut) Environment() map[string]string {
	env := w.Broker.Environment()
	maps.Copy(env, w.proxy.Environment())
	return env
}

// codeQueries reports whether code can query databases.
func (s *Settings) codeQueries(databases *tools.Databases) bool {
	return s.SQLFromCode && databases != nil && len(databases.Connections.Sources()) > 0
}

// wayOut puts it together. Close it after the manager that uses it. The error is of the settings.
func (s *Settings) wayOut(databases *tools.Databases) (*wayOut, error) {
	network, err := s.networkOptions(os.LookupEnv)
	if err != nil {
		return nil, usageError{err}
	}
	w := &wayOut{log: &netlog.Log{}}
	network.Log = w.log
	w.proxy = proxy.New(network)
	o := broker.Options{Log: w.log, Proxy: w.proxy, Authority: w.proxy.Trust, Forgotten: w.proxy.Forget}
	if s.codeQueries(databases) {
		o.SQL = databases.Queries(w.log)
	}
	w.Broker = broker.New(o)
	return w, nil
}
