// Command code-sandbox-mcp is an MCP server over stdio that runs Python and JavaScript in Podman
// containers, and the shell commands around it.
package main

import (
	"os"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}
