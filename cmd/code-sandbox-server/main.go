// Command code-sandbox-server is code-sandbox-mcp for several people and for clusters: with principals, policies, an audit log, and
// Kubernetes as an engine.
package main

import (
	"os"
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team"
)

// program has every feature of this module.
var program = cmd.Program{Name: server.ServerProgram, Features: func() []server.Feature { return slices.Concat(team.Features(), []server.Feature{cluster.Feature()}) }}

func main() {
	os.Exit(program.Main(os.Args[1:]))
}
