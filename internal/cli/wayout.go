package cli

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// wayOut is how code reaches anything outside its container, and what tools say of that.
type wayOut struct {
	*broker.Broker
	log *netlog.Log
}

// wayOut puts it together. Close it after the manager that uses it.
func (s *Settings) wayOut(databases *tools.Databases) *wayOut {
	w := &wayOut{log: &netlog.Log{}}
	o := broker.Options{Log: w.log}
	if s.SQLFromCode && databases != nil && len(databases.Connections.Sources()) > 0 {
		o.SQL = databases.Queries(w.log)
	}
	w.Broker = broker.New(o)
	return w
}
