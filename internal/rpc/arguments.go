package rpc

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// RestoreArguments is a middleware that hands a tool the arguments that were too large to go through mcp-go,
// which decodes a message several times and keeps copies: an upload of 50 MB would take
// hundreds. They are the message's own bytes, so the handler must not write to them.
func RestoreArguments(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if c := callFrom(ctx); c != nil && c.Arguments != nil {
			request.Params.RawArguments = c.Arguments
		}
		return next(ctx, request)
	}
}
