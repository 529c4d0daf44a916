// Command code-sandbox-server is code-sandbox-mcp for several people and for clusters: with principals, policies, an audit log, and
// Kubernetes as an engine.
package main

import (
	"os"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/allfeatures"
)

func main() { os.Exit(allfeatures.Program.Main(os.Args[1:])) }
