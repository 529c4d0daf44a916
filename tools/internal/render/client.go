package render

import (
	"context"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// client describes a client program that needs answers of its own.
type client struct {
	name string // a part of the client's name, in lower case
	// answerBytes is the longest answer as JSON, without images, that it passes to its model whole; 0: longer than any of ours. It cuts
	// longer ones in the middle, or shows only the beginning.
	answerBytes int
	textImages  bool // an image would reach the model as base64 text
	smallImages bool // it may, and costs less then
	showsMeta   bool // _meta reaches the model
	wrapsMeta   bool // a text with _meta reaches the model as JSON of both
	opensLinks  bool // it lets its user open a resource link
	// patience is how long it waits for an answer over stdio.
	patience time.Duration
}

// pythonSDK is the default name of programs that use the SDK for Python. Some of them make text of images.
const pythonSDK = "mcp"

// clients were measured with a scripted model, each a little below where it begins to cut; see docs/clients.md.
var clients = []client{
	{name: pythonSDK, smallImages: true},
	{name: "cline", answerBytes: 7_400, textImages: true, showsMeta: true},
	{name: "codex", answerBytes: 11_500},
	{name: "github-copilot", answerBytes: 20_000},
	{name: "qwen", answerBytes: 26_000, showsMeta: true},
	{name: "gemini-cli", answerBytes: 39_000, showsMeta: true},
	{name: "claude-code", answerBytes: 48_000},
	{name: "opencode", answerBytes: 51_000},
	{name: "continue", textImages: true},
	{name: "ai-sdk", textImages: true},
	{name: "genai", textImages: true, showsMeta: true},
	{name: "google-adk", textImages: true, showsMeta: true, patience: 5 * time.Second},
	{name: "@langchain/mcp-adapters", wrapsMeta: true},
	{name: "mastra", textImages: true, showsMeta: true},
	{name: "mcpclienttool", textImages: true}, // n8n's node for agents; its node for workflows makes files of images
	{name: "visual studio code", opensLinks: true},
}

// clientOf returns the client that a call comes from; the zero value if nothing is known of it.
func clientOf(ctx context.Context) client {
	session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
	if !ok {
		return client{}
	}
	name := strings.ToLower(session.GetClientInfo().Name)
	for _, c := range clients {
		if name == c.name || c.name != pythonSDK && strings.Contains(name, c.name) {
			return c
		}
	}
	return client{}
}

// FaultFields returns the fields of a coded error for programs, without its text for a client that shows its model both.
func FaultFields(ctx context.Context, f *fault.Error) map[string]any {
	fields := f.JSON()
	if clientOf(ctx).showsMeta {
		delete(fields, "message")
		delete(fields, "hint")
	}
	return fields
}

// TakesMeta reports whether the client of a call is given _meta.
func TakesMeta(ctx context.Context) bool { return !clientOf(ctx).wrapsMeta }

// Patience returns how long the client of a call waits for an answer; zero: not known.
func Patience(ctx context.Context) time.Duration {
	if rpc.Streams(ctx) {
		return 0
	}
	return clientOf(ctx).patience
}

// OpensLinks reports whether the client that a call comes from lets its user open a resource link.
func OpensLinks(ctx context.Context) bool { return clientOf(ctx).opensLinks }
