package runs

import (
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Status tells how a run ended, or that it did not end yet.
type Status string

// The statuses. Failed: the code itself raised or exited non-zero. Killed: its kernel died under it.
const (
	Completed Status = "completed"
	Failed    Status = "failed"
	TimedOut  Status = "timed_out"
	Cancelled Status = "cancelled"
	Running   Status = "running"
	Killed    Status = "killed"
)

// Words is the status as a sentence has it: "timed out".
func (s Status) Words() string { return strings.ReplaceAll(string(s), "_", " ") }

// CauseClosed is the Cause of a run in a session that was closed meanwhile.
const CauseClosed = "its session was closed"

// The parts of a Result in a supervisor's form, each field bounded and checked.
type (
	// Stream is one output stream of a run. Path is relative to WorkDir, and empty if Head is all of it.
	Stream = protocol.Stream
	// RunError is an exception of the code.
	RunError = protocol.Error
	// Left counts what a kernel left out of a text.
	Left = protocol.Left
	// Artifact is a file that a run created or changed. Path is relative to WorkDir.
	Artifact = protocol.Artifact
	// Background is the end of the output that finished runs printed to one stream.
	Background = protocol.Background
)

// Display is an output of the code: an image, HTML and the like.
type Display struct {
	Data      map[string][]byte // by MIME type; images as their bytes, the rest as text
	Path      string            // file with the whole, relative to WorkDir, or empty
	SizeBytes int64
	Alt       string
	Saved     string // file that the code itself saved it to, relative to WorkDir, or empty
	key       string // a later display with the same key replaces it; or empty
}

// Result is the outcome of a run. Its texts come from hostile code: they are bounded and valid UTF-8, and no more is certain.
type Result struct {
	SessionID string
	RunID     string
	Language  Language
	Status    Status
	ExitCode  int
	Stdout    Stream
	Stderr    Stream
	Value     *string // the last expression's value; nil when there was none
	ValueLeft *Left   // out of Value at its end; nil: nothing
	Error     *RunError
	ErrorLeft *Left // out of its traceback; nil: nothing
	Artifacts []Artifact
	// ArtifactsTotal and DisplaysTotal count those beyond the lists as well.
	ArtifactsTotal int
	// Removed are paths of files that were there when the run began, at most 20 of RemovedTotal.
	Removed       []string
	RemovedTotal  int
	Displays      []Display
	DisplaysTotal int
	Duration      time.Duration
	Drawing       time.Duration // after that, until the pictures of its pages were drawn
	// VariablesLost reports that the kernel died under this run, and Cause why.
	VariablesLost bool
	// Restored reports that it died so, and that the variables of an earlier state came back: a note tells which.
	Restored bool
	// Fresh reports that the run used an interpreter of its own, so that the kernel's variables were never at stake.
	Fresh bool
	// Copy reports that the run used a copy of the variables.
	Copy  bool
	Cause string
	// Background is the output, since the last answer, of processes that earlier runs left.
	Background []Background
	// GoesOn names the background work that the run started and stopped waiting for.
	GoesOn []string
	// Notes are sentences for the reader: an earlier kernel's end, a clamped limit.
	Notes []string
}

// Milliseconds is the run's duration, to the microsecond.
func (r *Result) Milliseconds() float64 { return float64(r.Duration.Microseconds()) / 1000 }
