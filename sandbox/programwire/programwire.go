// Package programwire is the format of the streams that carry a program's input and output between a server and the supervisor of a
// container: docs/kernel-protocol.md, "Programs: streams". Both ends use it, with the messages of filewire.
package programwire

// Op is the op of a request for a program, beside those of filewire.
const Op = "program"

// MaxMessage bounds a message in either direction, in bytes; MaxData bounds the bytes in it.
const (
	MaxMessage = 64 << 10
	MaxData    = 32 << 10
)

// Size is a terminal's size in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Start begins a server's stream.
type Start struct {
	Op   string            `json:"op"`
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env,omitempty"`
	Dir  string            `json:"dir,omitempty"` // empty: the work directory
	PTY  *Size             `json:"pty,omitempty"` // nil: pipes
	// NoGrowth: it makes no files larger, so that no limit of them refuses it. NoChange: it changes none, so that files may go back meanwhile.
	NoGrowth bool `json:"no_growth,omitempty"`
	NoChange bool `json:"no_change,omitempty"`
}

// Input is any later message of a server. One of its fields is set. Data and Close wait for Took of the one before.
type Input struct {
	Data   []byte `json:"data,omitempty"`
	Close  bool   `json:"close,omitempty"`  // of the standard input
	Signal int    `json:"signal,omitempty"` // to the program's process group
	Size   *Size  `json:"size,omitempty"`
}

// The streams of Output.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	PTY    = "pty"
)

// Output is a message of a supervisor: PID when the program runs, then Data of Streams, at last Exit. Error alone: it does not run.
type Output struct {
	Error  string `json:"error,omitempty"`
	Full   bool   `json:"full,omitempty"` // the error is that there is no room for files
	PID    int    `json:"pid,omitempty"`
	Stream string `json:"stream,omitempty"`
	Data   []byte `json:"data,omitempty"`
	Took   bool   `json:"took,omitempty"` // the last Data or Close
	Exit   *Exit  `json:"exit,omitempty"`
}

// Exit is a program's end. Signal is 0 if none ended it. Cause is CauseMemory if the supervisor stopped it for that.
type Exit struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
	Cause  string `json:"cause,omitempty"`
}

// CauseMemory is the cause of an end for want of memory.
const CauseMemory = "memory"
