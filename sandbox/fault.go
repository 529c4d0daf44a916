package sandbox

import "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"

// Fault is this package's error, for errors.As: a stable code, a message that says the failure, and a hint at the next step. Its
// Error joins code and message.
type Fault = fault.Error
