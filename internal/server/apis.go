package server

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/codebox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/librechat"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/openterminal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
)

// newAPIs returns the APIs of other systems that a tenant is served beside /v1.
func newAPIs() rest.APIs { return rest.APIs{librechat.New(), openterminal.New(), codebox.New()} }
