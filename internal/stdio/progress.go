package stdio

import (
	"context"
	"encoding/json"
	"math"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// maxProgressText bounds the text of a progress notification, in bytes; the rest is cut.
const maxProgressText = 2048

type callKey struct{}

// callFrom is the call that a handler's context belongs to, nil when it came another way.
func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

type progressParams struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Total    float64         `json:"total,omitempty"`
	Message  string          `json:"message,omitempty"`
}

type progressNotification struct {
	JSONRPC string         `json:"jsonrpc"`
	Method  string         `json:"method"`
	Params  progressParams `json:"params"`
}

// WantsProgress reports whether the client asked for the progress of the request to which ctx belongs.
func WantsProgress(ctx context.Context) bool {
	c := callFrom(ctx)
	return c != nil && c.token != nil
}

// NotifyProgress tells the client how far the request has come to which ctx belongs. The
// protocol wants progress to grow from call to call; total is left out when it is not
// positive, message when it is empty, and message is cut at 2 KiB.
//
// It never blocks. Notifications reach the client in order and before the answer, each with
// the progress token exactly as the client wrote it. A client that has left more than 1024
// messages unread gets only the newest of each request. Nothing is sent where the client
// did not ask for progress, after the request was cancelled or answered, and where ctx does
// not come from Serve. It may be used by several goroutines.
//
// The official TypeScript client loses progress that it reads in one piece with the answer,
// so a report right before the end of a call is best left out.
func NotifyProgress(ctx context.Context, progress, total float64, message string) {
	c := callFrom(ctx)
	if !WantsProgress(ctx) || math.IsNaN(progress) || math.IsInf(progress, 0) {
		return
	}
	if !(total > 0) || math.IsInf(total, 0) {
		total = 0
	}
	line, err := encodeLine(progressNotification{
		JSONRPC: mcp.JSONRPC_VERSION,
		Method:  "notifications/progress",
		Params:  progressParams{Token: c.token, Progress: progress, Total: total, Message: text.Clip(strings.ToValidUTF8(message, "\ufffd"), maxProgressText)},
	})
	if err == nil {
		c.out.putProgress(&c.lane, line)
	}
}
