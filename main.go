// Command code-sandbox-mcp is an MCP server over stdio that runs Python and JavaScript in Podman
// containers, and the shell commands around it.
package main

import (
	"os"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

func main() {
	os.Exit(server.Main(os.Args[1:]))
}
