// Package app is this server's MCP App (the extension io.modelcontextprotocol/ui, version 2026-01-26): one page that a client
// shows beside the answer of a tool, with its tables and figures.
//
// Clients that do not declare that they show such pages see nothing of it. The page holds no data: the client gives it the
// answer that the model gets too, and it reads files of the answer's session with read_artifact.
package app

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// URI is the page's address, MIMEType its type.
const (
	URI      = "ui://code-sandbox-mcp/view"
	MIMEType = "text/html;profile=mcp-app"
)

const (
	extension = "io.modelcontextprotocol/ui"
	uiKey     = "ui" // of _meta
)

//go:embed page/app.html
var frame string

//go:embed page/app.css
var style string

//go:embed page/app.js
var script string

// Page returns the whole page, which loads nothing.
var Page = sync.OnceValue(func() string {
	// The parts that a browser does not need: indentation, empty lines and comments on lines of their own.
	leftOut := regexp.MustCompile(`(?m)^(\t+|//.*\n|\n)`)
	return strings.NewReplacer(
		"/*app.css*/\n", leftOut.ReplaceAllString(style, ""),
		"/*app.js*/\n", leftOut.ReplaceAllString(leftOut.ReplaceAllString(script, ""), ""),
	).Replace(frame)
})

// declares reports whether the client of a request declares that it shows such pages. A request of the stateless protocol declares it
// itself; earlier requests of its connection do not count.
func declares(ctx context.Context) bool {
	var can mcp.ClientCapabilities
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern {
		if info.ClientCapabilities != nil {
			can = *info.ClientCapabilities
		}
	} else if session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		can = session.GetClientCapabilities()
	}
	settings, _ := can.Extensions[extension].(map[string]any)
	types, _ := settings["mimeTypes"].([]any)
	return slices.Contains(types, any(MIMEType))
}

// Register adds the page, for the answers of these tools, to s. Only clients that declare it see it.
func Register(s *server.MCPServer, tools ...string) {
	server.WithToolFilter(func(ctx context.Context, list []mcp.Tool) []mcp.Tool {
		if !declares(ctx) {
			return list
		}
		list = slices.Clone(list)
		for i, t := range list {
			if slices.Contains(tools, t.Name) {
				list[i].Meta = with(t.Meta, map[string]any{"resourceUri": URI})
			}
		}
		return list
	})(s)
	// Nothing that it could load is named: a client allows nothing then.
	look := map[string]any{"csp": map[string]any{}, "prefersBorder": true}
	page := mcp.NewResource(URI, "Tables and figures", mcp.WithMIMEType(MIMEType))
	page.Meta = with(nil, look)
	s.AddResource(page, func(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		if !declares(ctx) {
			return nil, unknown(ctx, request.Params.URI)
		}
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: URI, MIMEType: MIMEType, Text: Page(), Meta: map[string]any{uiKey: look}}}, nil
	})
	hooks := rpc.Hooks(s)
	serve := func(can *mcp.ServerCapabilities) {
		all := map[string]any{extension: map[string]any{}}
		maps.Copy(all, can.Extensions)
		can.Extensions = all
	}
	hooks.AddAfterInitialize(func(ctx context.Context, _ any, _ *mcp.InitializeRequest, told *mcp.InitializeResult) {
		if declares(ctx) {
			serve(&told.Capabilities)
		}
	})
	hooks.AddAfterDiscover(func(ctx context.Context, _ any, _ *mcp.DiscoverRequest, told *mcp.DiscoverResult) {
		if declares(ctx) {
			serve(&told.Capabilities)
		}
	})
	hooks.AddAfterListResources(func(ctx context.Context, _ any, _ *mcp.ListResourcesRequest, list *mcp.ListResourcesResult) {
		if !declares(ctx) {
			list.Resources = slices.DeleteFunc(list.Resources, func(r mcp.Resource) bool { return r.URI == URI })
		}
	})
}

// with returns a copy of a tool's or a resource's _meta with the page's part added.
func with(meta *mcp.Meta, ui map[string]any) *mcp.Meta {
	fields := map[string]any{}
	if meta != nil {
		maps.Copy(fields, meta.AdditionalFields)
	}
	fields[uiKey] = ui
	return mcp.NewMetaFromMap(fields)
}

// unknown returns mcp-go's error for a resource that does not exist.
func unknown(ctx context.Context, uri string) error {
	code := mcp.RESOURCE_NOT_FOUND
	if mcp.IsModernProtocol(server.RequestProtocolVersion(ctx)) {
		code = mcp.INVALID_PARAMS
	}
	rpc.SetErrorCode(ctx, code)
	return fmt.Errorf("handler not found for resource URI '%s': %w", uri, server.ErrResourceNotFound)
}
