// Command code-sandbox-mcp is an MCP server over stdio that runs Python, JavaScript and bash in containers. Its other commands are for the
// shell.
package main

import (
	"os"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
)

func main() {
	os.Exit(cmd.Program{Name: "code-sandbox-mcp"}.Main(os.Args[1:]))
}
