package sandbox

import "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"

// Fault is what errors of this package are, for errors.As: a code that stays the same, a message with what was wrong,
// and a hint of what to do next. Its Error is the code and the message.
type Fault = fault.Error
