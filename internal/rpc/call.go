package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Causes of a handler's done context, for context.Cause.
var (
	// ErrCancelledByClient reports that the client cancelled this request: the work should
	// stop, and whatever the handler returns is thrown away.
	ErrCancelledByClient = errors.New("cancelled by the client")
	// ErrShutdown reports that the server is ending. An answer given at once is still sent.
	ErrShutdown = errors.New("the server is shutting down")
)

// Call is a request that runs a handler; the handler's context carries it.
type Call struct {
	ID        ID
	Method    string
	Message   json.RawMessage // for mcp-go
	Arguments json.RawMessage // the large arguments that Message lacks, nil for none
	Token     json.RawMessage // of its progress, as sent; nil for none
	Bytes     int64           // the estimated memory of the message until it is answered
	// Notify sends a line about the progress, without waiting. Not nil if there is a token.
	Notify func(line []byte)
	// Begin begins the answer, if it is a stream of events: the handler starts to work. Nil if it is none.
	Begin func()
	// Settle lets the next call start; nil where calls are not in order.
	Settle func()

	// Request sends the client a request and returns the result of its answer, as Requests.Do does. Nil if that cannot be.
	Request func(ctx context.Context, until <-chan struct{}, method string, params any) (json.RawMessage, error)

	*outcome
	errorCode int             // of an error in the place of mcp-go's, or 0
	instead   any             // the result in the place of the handler's; nil: that stays
	until     <-chan struct{} // closed when the question to the client needs no answer any more; nil: never
}

// NewCall returns the call of a request after its id was parsed. Its slices lie in the envelope's message.
func NewCall(e *Envelope, id ID) Call {
	c := Call{ID: id, Method: e.Method(), Message: e.Message(), Arguments: e.largeArguments(), Bytes: e.MemoryBytes(), outcome: &outcome{id: id, came: time.Now()}}
	if token, err := ParseID(e.ProgressToken); err == nil {
		c.Token = token.Raw // a token may be any value that an id may be
	}
	return c
}

type callKey struct{}

// WithCall returns a context for the handler of a call.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// callFrom is the call that a handler's context belongs to, nil when it came another way.
func callFrom(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// IsLong reports whether the message of ctx's call takes more memory than a small share of its server's.
func IsLong(ctx context.Context) bool {
	c := callFrom(ctx)
	return c != nil && c.Bytes > room.Small
}

// Settled reports that the call of ctx took its place in the order that matters to it, so that the next call's handler may start, if the
// transport keeps an order. Without it that happens when the handler returns. It does nothing if ctx belongs to no call.
func Settled(ctx context.Context) {
	if InOrder(ctx) {
		callFrom(ctx).Settle()
	}
}

// InOrder reports whether the transport keeps the order of calls.
func InOrder(ctx context.Context) bool {
	c := callFrom(ctx)
	return c != nil && c.Settle != nil
}

// Begin reports that the handler of the call to which ctx belongs is at work, so that its client hears of it where the answer is a
// stream of events.
func Begin(ctx context.Context) {
	if Streams(ctx) {
		callFrom(ctx).Begin()
	}
}

// Streams reports whether the answer to the call to which ctx belongs is an event of a stream.
func Streams(ctx context.Context) bool {
	c := callFrom(ctx)
	return c != nil && c.Begin != nil
}

// SetErrorCode gives the JSON-RPC error that answers ctx's request another code. mcp-go answers every
// error of a resource's handler with internal error, also that there is no such resource. It is for
// the handler's own goroutine.
func SetErrorCode(ctx context.Context, code int) {
	if c := callFrom(ctx); c != nil {
		c.errorCode = code
	}
}

// withErrorCode sets the code that the handler asked for.
func withErrorCode(ctx context.Context, response mcp.JSONRPCMessage) mcp.JSONRPCMessage {
	c := callFrom(ctx)
	e, failed := response.(mcp.JSONRPCError)
	if c == nil || c.errorCode == 0 || !failed {
		return response
	}
	e.Error.Code = c.errorCode
	return e
}

// maxProgressText bounds the text of a progress notification, in bytes; the rest is cut.
const maxProgressText = 2048

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
	return c != nil && c.Token != nil
}

// NotifyProgress tells the client the progress of ctx's request. The
// protocol wants progress to grow from call to call; total is left out when it is not
// positive, message when it is empty, and message is cut at 2 KiB.
//
// It never blocks. Notifications reach the client in order and before the answer, each with
// the progress token exactly as the client wrote it. A client that does not read gets only the
// newest. Nothing is sent if the client did not ask for progress, after the request was
// cancelled or answered, or if ctx belongs to no call. It is safe for use by several goroutines.
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
	line, err := encode(progressNotification{
		JSONRPC: mcp.JSONRPC_VERSION,
		Method:  "notifications/progress",
		Params:  progressParams{Token: c.Token, Progress: progress, Total: total, Message: text.Clip(strings.ToValidUTF8(message, "\ufffd"), maxProgressText)},
	})
	if err == nil {
		c.Notify(line)
	}
}

// Respond lets mcp-go serve a request, and returns its answer as a line of at most limit bytes, and the code of the error in it, 0 for none.
// A panic in a handler, or while the result is encoded, goes to the log.
func Respond(ctx context.Context, s *server.MCPServer, c *Call, limit int, log *slog.Logger) (line []byte, code int) {
	Guard(log, c.Method, func() {
		response := withErrorCode(ctx, withPlainWords(c.Method, c.Message, withExtensions(ctx, c, s.HandleMessage(ctx, c.Message))))
		line, code = encodeAnswer(c.ID, response, limit)
	})
	if line == nil {
		return ErrorLine(c.ID, mcp.INTERNAL_ERROR, "internal error"), mcp.INTERNAL_ERROR
	}
	return line, code
}

// Guard survives a panic in f. It is the server's own business: it goes to the log, and the client learns no more than
// that there was one.
func Guard(log *slog.Logger, method string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			log.Error("panic in a handler", "method", method, "panic", r, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// EncodeNotification is the line of a notification of mcp-go's, of at most limit bytes.
func EncodeNotification(n mcp.JSONRPCNotification, limit int) ([]byte, error) {
	line, err := encode(n)
	if err == nil && len(line) > limit {
		err = fmt.Errorf("%d bytes are over the limit of %d", len(line), limit)
	}
	return line, err
}
