package tools

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// ForPrograms lists the tools that exist under these settings, as programs want them that speak no MCP: their answers have the
// fields as structuredContent, whatever the settings say, and no images, which are files of the session as well. A request may call
// several: it is what counts, and they do not.
func ForPrograms(d *Deps) []server.ServerTool {
	own := *d
	own.StructuredContent, own.Images, own.Calls = true, ImagesOff, nil
	var list []server.ServerTool
	for _, t := range own.list() {
		if own.exists(t.definition.Name) {
			t.output(&t.definition)
			list = append(list, server.ServerTool{Tool: t.definition, Handler: own.wrap(t)})
		}
	}
	return list
}

// FaultOf returns the fields of the coded error in a tool's answer, nil where it has none.
func FaultOf(res *mcp.CallToolResult) map[string]any {
	if res.Meta == nil {
		return nil
	}
	fields, _ := res.Meta.AdditionalFields[errorKey].(map[string]any)
	return fields
}

type waitKey struct{}

// WithWait returns a context whose calls wait for a run no longer than this, and than Deps.SoftWait.
func WithWait(ctx context.Context, wait time.Duration) context.Context {
	return context.WithValue(ctx, waitKey{}, wait)
}

type beforeKey struct{}

// WithBefore returns a context whose calls have code run behind other code, as sandbox.RunOptions has it.
func WithBefore(ctx context.Context, code string) context.Context {
	return context.WithValue(ctx, beforeKey{}, code)
}

func before(ctx context.Context) string {
	code, _ := ctx.Value(beforeKey{}).(string)
	return code
}
