package sandbox

import (
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Status reports how a run ended, or that it has not.
type Status string

// The statuses. Failed means that the code itself raised or exited non-zero; Killed that its
// kernel died under it.
const (
	Completed Status = "completed"
	Failed    Status = "failed"
	TimedOut  Status = "timed_out"
	Cancelled Status = "cancelled"
	Running   Status = "running"
	Killed    Status = "killed"
)

// causeClosed is the Cause of a run whose session was closed under it.
const causeClosed = "its session was closed"

// The parts of a Result that are as a supervisor reports them, each field bounded and checked.
type (
	// Stream is one output stream of a run. Path is relative to WorkDir, and empty when Head is all of it.
	Stream = protocol.Stream
	// RunError is an exception of the code.
	RunError = protocol.Error
	// Artifact is a file that a run created or changed. Path is relative to WorkDir.
	Artifact = protocol.Artifact
	// Background is the last that runs which are over have printed to one stream.
	Background = protocol.Background
)

// Display is something that the code showed: an image, HTML and the like.
type Display struct {
	Data      map[string][]byte // by MIME type; images as their bytes, the rest as text
	Path      string            // file with the whole, relative to WorkDir, or empty
	SizeBytes int64
	Alt       string
	Saved     string // file that the code itself has saved it to, relative to WorkDir, or empty
	key       string // of a display that one with the same key takes the place of; or empty
}

// Result is what a run came to. Texts come from hostile code: bounded and valid UTF-8, and
// nothing else can be said of them.
type Result struct {
	SessionID string
	RunID     string
	Language  Language
	Status    Status
	ExitCode  int
	Stdout    Stream
	Stderr    Stream
	Value     *string // the last expression's value; nil when there was none
	Error     *RunError
	Artifacts []Artifact
	// ArtifactsTotal and DisplaysTotal count also what is not in the lists.
	ArtifactsTotal int
	Displays       []Display
	DisplaysTotal  int
	Duration       time.Duration
	// VariablesLost reports that the kernel died under this run, and Cause why.
	VariablesLost bool
	// Restored reports that it died so, and that the variables are those from before: a note tells which.
	Restored bool
	// Fresh reports that the run had an interpreter of its own, so that the kernel's variables were
	// never at stake.
	Fresh bool
	// Copy reports that the run had a copy of the variables.
	Copy  bool
	Cause string
	// Background is what earlier runs have left behind and has printed since the last answer.
	Background []Background
	// GoesOn names what the run has started, and was not waited for any longer.
	GoesOn []string
	// Notes are sentences for the reader: an earlier kernel's end, a clamped limit.
	Notes []string
}

// Milliseconds is how long the run took, to the microsecond.
func (r *Result) Milliseconds() float64 { return float64(r.Duration.Microseconds()) / 1000 }
