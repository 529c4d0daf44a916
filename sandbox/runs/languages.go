package runs

import "github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"

// Language names a language with kernels.
type Language = kernel.Language

// The languages. Their values appear in JSON, labels and container names.
const (
	Python     = kernel.Python
	JavaScript = kernel.JavaScript
	Bash       = kernel.Bash
)
