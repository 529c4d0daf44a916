package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// historyRecord is a line of a history: one of the two is there.
type historyRecord struct {
	Begin *beginRecord `json:"begin,omitempty"`
	End   *endRecord   `json:"end,omitempty"`
}

type beginRecord struct {
	RunID     string    `json:"run_id"` // the first field: lineRun finds it there
	Language  Language  `json:"language"`
	Fresh     bool      `json:"fresh,omitempty"`
	TimeoutMS int64     `json:"timeout_ms"`
	Started   time.Time `json:"started"`
	Code      string    `json:"code"`
}

type endRecord struct {
	RunID  string        `json:"run_id"` // the first field
	Ended  time.Time     `json:"ended"`
	Fault  *faultRecord  `json:"fault,omitempty"`
	Result *resultRecord `json:"result,omitempty"`
}

type faultRecord struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
	Hint    string     `json:"hint"`
}

// resultRecord is a result in the form in which a supervisor tells of it, so that what is read is bounded
// and checked by the same code.
type resultRecord struct {
	protocol.Done
	Language Language           `json:"language"`
	Fresh    bool               `json:"fresh,omitempty"`
	Displays []protocol.Display `json:"displays,omitempty"`
	Notes    []string           `json:"notes,omitempty"`
}

// maxNotes bounds the notes of a result that is read.
const maxNotes = 100

var errNoRecord = errors.New("no record of a history")

// decodeLine reads a line and refuses what has no run.
func decodeLine(text []byte) (historyRecord, error) {
	var line historyRecord
	if err := json.Unmarshal(text, &line); err != nil {
		return line, err
	}
	if (line.Begin == nil) == (line.End == nil) || !sessionID.MatchString(line.run()) {
		return line, errNoRecord
	}
	return line, nil
}

func (r historyRecord) run() string {
	if r.Begin != nil {
		return r.Begin.RunID
	}
	return r.End.RunID
}

func beginOf(e *HistoryEntry) *beginRecord {
	return &beginRecord{
		RunID: e.RunID, Language: e.Language, Fresh: e.Fresh, TimeoutMS: e.Timeout.Milliseconds(),
		Started: e.Started.UTC(), Code: e.Code,
	}
}

func (r *beginRecord) entry() HistoryEntry {
	return HistoryEntry{
		RunID: r.RunID, Language: Language(clip(string(r.Language), maxName)), Code: clip(r.Code, maxText), Fresh: r.Fresh,
		Timeout: time.Duration(max(r.TimeoutMS, 0)) * time.Millisecond, Started: r.Started,
	}
}

// endOf makes the record of a run that is over: with its result, or with the error that kept it from one.
func endOf(runID string, ended time.Time, res *Result, err error) *endRecord {
	end := &endRecord{RunID: runID, Ended: ended.UTC()}
	if res != nil {
		end.Result = recordOf(res)
		return end
	}
	f := fault.From(err)
	end.Fault = &faultRecord{Code: f.Code, Message: f.Message, Hint: f.Hint}
	return end
}

// settle puts the end into its entry.
func (r *endRecord) settle(e *HistoryEntry, session string) {
	e.Ended = r.Ended
	switch {
	case r.Result != nil:
		e.Result = r.Result.result(session, r.RunID)
	case r.Fault != nil:
		e.Error = fault.New(fault.Code(clip(string(r.Fault.Code), maxName)), clip(r.Fault.Hint, maxText), "%s", clip(r.Fault.Message, maxText))
	default:
		e.Error = fault.From(errNoRecord)
	}
}

func recordOf(res *Result) *resultRecord {
	r := &resultRecord{
		Done: protocol.Done{
			Status: string(res.Status), ExitCode: res.ExitCode, Result: res.Value, Error: (*protocol.Error)(res.Error),
			Stdout: protocol.Stream(res.Stdout), Stderr: protocol.Stream(res.Stderr),
			ArtifactsTotal: res.ArtifactsTotal, DisplaysTotal: res.DisplaysTotal,
			DurationMS: float64(res.Duration) / float64(time.Millisecond), Cause: res.Cause, Kernel: "alive",
		},
		Language: res.Language, Fresh: res.Fresh, Notes: res.Notes,
	}
	if res.VariablesLost {
		r.Kernel = "dead"
	}
	for _, a := range res.Artifacts {
		r.Artifacts = append(r.Artifacts, protocol.Artifact{Path: a.Path, SizeBytes: a.SizeBytes, ModifiedMS: a.Modified.UnixMilli()})
	}
	for _, d := range res.Displays {
		r.Displays = append(r.Displays, displayOf(d))
	}
	return r
}

// displayOf is the opposite of display.
func displayOf(d Display) protocol.Display {
	m := protocol.Display{Data: make(protocol.Data, len(d.Data)), Path: d.Path, SizeBytes: d.SizeBytes, Alt: d.Alt}
	for mime, data := range d.Data {
		m.Data[mime] = string(data)
		if isImageData(mime) {
			m.Data[mime] = base64.StdEncoding.EncodeToString(data)
		}
	}
	return m
}

// isImageData reports whether a display's data is an image's bytes, and not a text.
func isImageData(mime string) bool {
	return strings.HasPrefix(mime, "image/") && mime != "image/svg+xml"
}

// result reads the record as if a supervisor had sent it.
func (r *resultRecord) result(session, run string) *Result {
	res := resultOf(r.Done, maxText)
	res.SessionID, res.RunID, res.Language, res.Fresh = session, run, Language(clip(string(r.Language), maxName)), r.Fresh
	for _, d := range r.Displays[:min(len(r.Displays), maxDisplays)] {
		res.Displays = append(res.Displays, display(d))
	}
	for _, note := range r.Notes[:min(len(r.Notes), maxNotes)] {
		res.Notes = append(res.Notes, clip(note, maxText))
	}
	return res
}
