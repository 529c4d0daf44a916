package setup

import "strings"

const nextEngine = "`code-sandbox-mcp doctor` checks the engine."

// Error is a step of setup that failed, in a form to be shown to a person once: the step, the reason, the end of the log, and the next step.
type Error struct {
	Doing string   // "build the Python image"
	Err   error    // never nil
	Log   []string // the last lines of output; may be empty
	Next  string   // the fix; may be empty
}

// Error returns one line for the failure, the end of the log indented, and one line with the fix.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Doing + ": " + e.Err.Error())
	for _, line := range e.Log {
		b.WriteString("\n  | " + line)
	}
	if e.Next != "" {
		b.WriteString("\nNext: " + e.Next)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }
