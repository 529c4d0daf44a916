package rpc

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
)

// Method answers a request that mcp-go does not serve, by its params, which may be absent: with a result that contains the protocol's common
// fields, or an error for the client.
type Method func(ctx context.Context, params json.RawMessage) (result any, failed *mcp.JSONRPCErrorDetails)

// Methods are the methods of extensions, by name.
type Methods map[string]Method

type methodsKey struct{}

// WithMethods returns a context for requests that may use these methods.
func WithMethods(ctx context.Context, methods Methods) context.Context {
	return context.WithValue(ctx, methodsKey{}, methods)
}

// methodOf returns the method of an extension; nil: ctx has none of this name.
func methodOf(ctx context.Context, name string) Method {
	methods, _ := ctx.Value(methodsKey{}).(Methods)
	return methods[name]
}

// IsExtension reports whether a method is among those of ctx.
func IsExtension(ctx context.Context, name string) bool { return methodOf(ctx, name) != nil }

// AnswerWith replaces the result of ctx's call, which its handler returns without an error, by one that mcp-go has no type for. It is for
// the handler's own goroutine.
func AnswerWith(ctx context.Context, result any) {
	if c := callFrom(ctx); c != nil {
		c.instead = result
	}
}

// withExtensions returns the answer of an extension in the place of mcp-go's, which has checked the envelope and the version.
func withExtensions(ctx context.Context, c *Call, response mcp.JSONRPCMessage) mcp.JSONRPCMessage {
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		if c.instead != nil {
			r.Result = c.instead
		}
		return r
	case mcp.JSONRPCError:
		method := methodOf(ctx, c.Method)
		if r.Error.Code != mcp.METHOD_NOT_FOUND || method == nil {
			return r
		}
		var request struct{ Params json.RawMessage }
		_ = json.Unmarshal(c.Message, &request) // mcp-go has read it
		result, failed := method(ctx, request.Params)
		if failed == nil {
			return mcp.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, Result: result}
		}
		r.Error = *failed
		return r
	}
	return response
}
