// Package history keeps the runs of a session: a file for each run in a folder on the host, where code in the sandbox cannot
// change it.
//
// Start with NewWriter and Select. The holder of the session's lock alone writes; anybody may read without a lock, because a file
// gets its name once it is whole. An unreadable file costs its own run only. The package does not look into results: they are JSON
// of the caller, which bounds and checks them when they are read.
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Run is a run in the form of its file.
type Run struct {
	Begin
	End *End // nil: the run goes on, or its server was killed
}

// Begin describes a run at its beginning.
type Begin struct {
	RunID     string    `json:"run_id"`
	Language  string    `json:"language"`
	Fresh     bool      `json:"fresh,omitempty"`
	Copy      bool      `json:"copy,omitempty"`
	Program   bool      `json:"program,omitempty"`
	TimeoutMS int64     `json:"timeout_ms"`
	Started   time.Time `json:"started"`
	Code      string    `json:"code"`
}

// End is the outcome of a run: a result, or the fault that kept its code from running.
type End struct {
	RunID  string          `json:"run_id"`
	Ended  time.Time       `json:"ended"`
	Fault  *Fault          `json:"fault,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Fault is a fault.Error on disk.
type Fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// The bounds of a history.
const (
	maxBytes = 128 << 20 // of the files; the oldest go beyond that
	maxRuns  = 10_000
	keepRuns = maxRuns * 3 / 4
	maxLine  = 32 << 20
	maxLines = 3 * maxRuns // of an import: two of a run, and broken ones
)

// imageBytes bounds the files as long as images are kept.
func imageBytes(most int64) int64 { return most / 2 }

// keepBytes is the size left when the oldest files go: so little that images are kept again, and that it does not happen with
// every run.
func keepBytes(most int64) int64 { return most * 3 / 8 }

// onDisk is a file's size on the disk.
func onDisk(bytes int64) int64 { return (bytes + 4095) &^ 4095 }

// record is a line: a run's begin or its end. A file contains the line of the begin, and then that of the end; an export contains
// the files one after another. Before there was a file for each run, one file contained the lines of all in the order of events.
type record struct {
	Begin *Begin         `json:"begin,omitempty"`
	End   *End           `json:"end,omitempty"`
	did   map[string]Did // for the file beside the runs'
}

var (
	errNoRecord = errors.New("no record of a history")
	errLongLine = errors.New("a run's result is too large to be kept")
)

// decode reads a line and refuses one that is not of a run.
func decode(line []byte) (record, error) {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if (r.Begin == nil) == (r.End == nil) || !state.ValidID(r.runID()) {
		return r, errNoRecord
	}
	return r, nil
}

func (r record) runID() string {
	if r.Begin != nil {
		return r.Begin.RunID
	}
	return r.End.RunID
}

func (r record) encode() ([]byte, error) {
	line, err := EncodeJSON(r)
	switch {
	case err != nil:
		return nil, err
	case len(line) >= maxLine:
		return nil, errLongLine
	}
	return line, nil
}

// EncodeJSON returns a value as a line of JSON, without making six bytes of each angle bracket.
func EncodeJSON(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return b.Bytes(), err
}
