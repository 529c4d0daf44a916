// Definitions of tools, and what their parts have in common.

package tools

import (
	"context"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

type handler func(context.Context, *params) (*render.Answer, error)

// tool is a tool: its definition and its handler.
type tool struct {
	definition mcp.Tool
	output     mcp.ToolOption // the schema of the answer's fields
	handle     handler
	// runs: a call starts a run of its own
	runs bool
	// ordered reports that the handler calls settled itself, when its place in the order of calls is taken.
	ordered bool
	// long reports that a call may take minutes: a client that declares tasks gets one.
	long bool
	// uses are the header purposes that apply to the tool: its answers hold their notes
	uses []clientheader.Use
}

func sentences(list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), " ")
}

// nullable marks an optional parameter of common calls: some clients, such as smolagents, cannot omit any other. It costs every model
// tokens, so it is not used everywhere.
func nullable(schema map[string]any) { schema["nullable"] = true }

// sessionParam is described only in the tools that make sessions: a description costs every model tokens in every conversation.
func sessionParam() mcp.ToolOption { return mcp.WithString("session_id") }

// loadedAtOnce keeps a tool from being hidden behind a client's search for tools, which costs a turn.
func loadedAtOnce(t *mcp.Tool) {
	t.Meta = mcp.NewMetaFromMap(map[string]any{"anthropic/alwaysLoad": true})
}

// hints sets the annotations of a tool that reaches only its own session and replaces only files that can be made again. Other tools change
// them. Only a tool that can be repeated for a non-obvious reason says so.
func hints(readOnly bool) mcp.ToolOption {
	return func(t *mcp.Tool) {
		t.Annotations = mcp.ToolAnnotation{
			ReadOnlyHint: mcp.ToBoolPtr(readOnly), DestructiveHint: mcp.ToBoolPtr(false),
			OpenWorldHint: mcp.ToBoolPtr(false),
		}
	}
}
