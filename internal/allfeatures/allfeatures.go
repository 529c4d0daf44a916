// Package allfeatures lists the features of code-sandbox-server, which are all of this module.
package allfeatures

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/codebox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/librechat"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/openterminal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team"
)

// Program is code-sandbox-server.
var Program = cmd.Program{Name: server.ServerProgram, Features: Features}

// Features returns the features, which no settings have filled yet.
func Features() []server.Feature {
	return append(team.Features(), cluster.Feature(), server.Feature{
		Name: "apis", APIs: func() rest.APIs { return rest.APIs{librechat.New(), openterminal.New(), codebox.New()} },
	})
}
