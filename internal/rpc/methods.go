package rpc

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Method answers a request that mcp-go does not know, by its params, which may be absent. Its result must contain the protocol's common
// fields. An error's text is for the client if it is an *InvalidParams, and for the log otherwise.
type Method func(ctx context.Context, params json.RawMessage) (result any, err error)

// InvalidParams reports an error in a request, in words for its sender.
type InvalidParams struct{ Message string }

func (e *InvalidParams) Error() string { return e.Message }

// Methods are the methods of extensions, by name.
type Methods map[string]Method

type methodsKey struct{}

// WithMethods returns a context for requests that may use these methods.
func WithMethods(ctx context.Context, methods Methods) context.Context {
	if len(methods) == 0 {
		return ctx
	}
	return context.WithValue(ctx, methodsKey{}, methods)
}

// IsExtension reports whether a method is among those of ctx.
func IsExtension(ctx context.Context, method string) bool {
	methods, _ := ctx.Value(methodsKey{}).(Methods)
	return methods[method] != nil
}

// withExtensions answers requests for which mcp-go knows no method, after it checked the envelope and the version.
func withExtensions(ctx context.Context, c *Call, response mcp.JSONRPCMessage) mcp.JSONRPCMessage {
	e, failed := response.(mcp.JSONRPCError)
	if !failed || e.Error.Code != mcp.METHOD_NOT_FOUND || !IsExtension(ctx, c.Method) {
		return response
	}
	var request struct{ Params json.RawMessage }
	_ = json.Unmarshal(c.Message, &request) // mcp-go read it already
	result, err := ctx.Value(methodsKey{}).(Methods)[c.Method](ctx, request.Params)
	var invalid *InvalidParams
	switch {
	case errors.As(err, &invalid):
		e.Error.Code, e.Error.Message = mcp.INVALID_PARAMS, "Invalid params: "+invalid.Message
	case err != nil:
		e.Error.Code, e.Error.Message = mcp.INTERNAL_ERROR, "the request failed"
	default:
		return mcp.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, Result: result}
	}
	return e
}

// Hooks returns a server's hooks, to add to; it makes them if there are none. It is not for a server that serves already.
func Hooks(s *server.MCPServer) *server.Hooks {
	if s.GetHooks() == nil {
		server.WithHooks(&server.Hooks{})(s)
	}
	return s.GetHooks()
}
