package tools

import (
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// ForPrograms lists the tools under these settings in the form for programs that do not speak MCP: answers carry the fields as
// structuredContent, whatever the settings say, and no images, which are files of the session as well. A request may call several tools and
// counts once; the tools do not count.
func ForPrograms(d *Deps) []server.ServerTool {
	own := *d
	own.StructuredContent, own.Images, own.Calls = true, ImagesOff, nil
	var list []server.ServerTool
	for _, t := range own.list() {
		t.output(&t.definition)
		list = append(list, server.ServerTool{Tool: t.definition, Handler: own.wrap(t)})
	}
	return list
}

// FaultOf returns the fields of the coded error in a tool's answer; nil: it is no error.
func FaultOf(res *mcp.CallToolResult) map[string]any {
	if res.Meta == nil {
		return nil
	}
	fields, _ := res.Meta.AdditionalFields[errorKey].(map[string]any)
	return fields
}
