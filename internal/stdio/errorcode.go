package stdio

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
)

// SetErrorCode gives the JSON-RPC error that answers ctx's request another code. mcp-go answers every
// error of a resource's handler with internal error, also that there is no such resource. It is for
// the handler's own goroutine.
func SetErrorCode(ctx context.Context, code int) {
	if c := callFrom(ctx); c != nil {
		c.errorCode = code
	}
}

// withErrorCode puts the code in that the handler has asked for.
func withErrorCode(ctx context.Context, response mcp.JSONRPCMessage) mcp.JSONRPCMessage {
	c := callFrom(ctx)
	e, failed := response.(mcp.JSONRPCError)
	if c == nil || c.errorCode == 0 || !failed {
		return response
	}
	e.Error.Code = c.errorCode
	return e
}
