// Package rpc is the shared part of the MCP transports: JSON-RPC messages, read with bounds and written as clients
// take them, a client as mcp-go knows it, and the operations of a tool on the request that it serves.
//
// A transport reads a message with Parse, makes a Call of a request, and sends the line that Respond returns. A tool reports
// progress with NotifyProgress and tells a client's cancel from the end of the server with context.Cause
// (ErrCancelledByClient, ErrShutdown).
package rpc

const (
	// MaxMessageBytes is the longest message that is taken: an upload of 50 MB in base64 fits.
	MaxMessageBytes = 72 << 20
	// UsualMessageBytes is the longest message that clients are known to take.
	UsualMessageBytes = 8 << 20
)
