package setup

import (
	"regexp"
	"slices"
	"strings"
)

const nextEngine = "`code-sandbox-mcp doctor` checks the engine."

var noRoom = regexp.MustCompile(`(?i)no space left|disk quota exceeded`)

// nextStep is next, unless one of the lines that a failure left tells of a full disk.
func nextStep(next string, lines ...string) string {
	if slices.ContainsFunc(lines, noRoom.MatchString) {
		return "A disk is full: make room where the engine keeps images (`podman info --format '{{.Store.GraphRoot}}'` names it) and temporary files (/var/tmp, or TMPDIR). The image takes 2.2 GB, and several times as much while it is made. Then run the same command again."
	}
	return next
}

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
