package runs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// HistoryEntry is a run in a session's history.
type HistoryEntry struct {
	RunID    string
	Language Language
	Code     string
	Fresh    bool
	Copy     bool
	Program  bool
	// Undone reports that the session's variables no longer include the run's changes, and did before.
	Undone  bool
	Timeout time.Duration
	Started time.Time
	// Ended is zero, and Result and Error are nil, if the run goes on or its server was killed.
	Ended  time.Time
	Result *Result
	// Error is the reason why the code did not run.
	Error *fault.Error
	// Files is what the run did to files; nil: not known.
	Files *FilesDid
	// Looked: it surely changed no variable.
	Looked bool
}

// FilesDid is what a run did to files.
type FilesDid = history.Files

// Over reports whether the run's end is known.
func (e *HistoryEntry) Over() bool { return e.Result != nil || e.Error != nil }

// Status is the run's last known status: running even if its server was killed, or the code of its Error.
func (e *HistoryEntry) Status() string {
	switch {
	case e.Result != nil:
		return string(e.Result.Status)
	case e.Error != nil:
		return string(e.Error.Code)
	}
	return string(Running)
}

// HistoryFields is a run of a history in JSON.
type HistoryFields struct {
	RunID      string    `json:"run_id"`
	Language   Language  `json:"language"`
	Status     string    `json:"status"`
	Started    time.Time `json:"started"`
	DurationMS float64   `json:"duration_ms"`
	// Undone reports that the session's variables no longer include the run's changes.
	Undone bool `json:"undone,omitempty"`
	// Files is what the run did to files; absent: not known.
	Files *FilesDid `json:"files,omitempty"`
}

// Fields returns the run in JSON, without its code and its result.
func (e *HistoryEntry) Fields() HistoryFields {
	f := HistoryFields{RunID: e.RunID, Language: e.Language, Status: e.Status(), Started: e.Started.UTC(), Undone: e.Undone, Files: e.Files}
	if e.Result != nil {
		f.DurationMS = e.Result.Milliseconds()
	}
	return f
}

// ReadHistory returns the runs of a session in the order of the calls, and none for a session without history. It takes no lock:
// the session may be open in any server.
func ReadHistory(stateDir, id string) ([]HistoryEntry, error) {
	return SelectHistory(stateDir, id, func(string, bool, int64) bool { return true })
}

// SelectHistory is ReadHistory for the wanted runs, by their ids, whether they are over, and their files' bytes. It skips the
// others unread, so it costs little to call often.
func SelectHistory(stateDir, id string, wanted func(runID string, over bool, bytes int64) bool) (entries []HistoryEntry, err error) {
	err = EachInHistory(stateDir, id, wanted, func(e *HistoryEntry) { entries = append(entries, *e) })
	return entries, err
}

// EachInHistory is SelectHistory that visits each run as it is read, and keeps none.
func EachInHistory(stateDir, id string, wanted func(runID string, over bool, bytes int64) bool, visit func(*HistoryEntry)) error {
	if err := CheckSessionID(id); err != nil {
		return err
	}
	folder := state.Folder(stateDir, id)
	undone, did := history.ReadMarks(folder).Now(), history.ReadDid(folder)
	return history.Each(folder, wanted, func(run *history.Run) {
		e := EntryOf(run, id)
		e.Undone = undone.Run(&run.Begin)
		e.Files, e.Looked = did[e.RunID].Files, did[e.RunID].Looked
		visit(&e)
	})
}

// Marks returns what restores did to a session's runs. They cost less to read than the runs.
func Marks(stateDir, id string) history.Marks {
	return history.ReadMarks(state.Folder(stateDir, id))
}

// DidOf returns HistoryEntry.Files and Looked of a session's runs, which come after their ends. It costs less to read than the runs.
func DidOf(stateDir, id string) map[string]history.Did {
	return history.ReadDid(state.Folder(stateDir, id))
}

func entriesOf(runs []history.Run, session string) []HistoryEntry {
	entries := make([]HistoryEntry, len(runs))
	for i := range runs {
		entries[i] = EntryOf(&runs[i], session)
	}
	return entries
}

// EntryOf bounds and checks a run that was read: anybody may have written an imported one.
func EntryOf(run *history.Run, session string) HistoryEntry {
	e := HistoryEntry{
		RunID: run.RunID, Language: Language(text.Safe(run.Language, MaxName)), Code: text.Safe(run.Code, MaxText), Fresh: run.Fresh, Copy: run.Copy, Program: run.Program,
		Timeout: time.Duration(max(run.TimeoutMS, 0)) * time.Millisecond, Started: run.Started,
	}
	if run.End == nil {
		return e
	}
	e.Ended = run.End.Ended
	var r resultRecord
	switch f := run.End.Fault; {
	case f != nil:
		e.Error = fault.New(fault.Code(text.Safe(f.Code, MaxName)), text.Safe(f.Hint, MaxText), "%s", text.Safe(f.Message, MaxText))
	case json.Unmarshal(run.End.Result, &r) == nil:
		e.Result = r.result(session, run.RunID)
	default:
		e.Error = fault.From(nil)
	}
	return e
}

func recordBegin(w *history.Writer, run *Run) {
	w.Begin(history.Begin{
		RunID: run.ID, Language: string(run.Language), Fresh: run.Options.Fresh, Copy: run.Options.Copy, Program: run.Options.Program, TimeoutMS: run.Options.Timeout.Milliseconds(),
		Started: run.Created.UTC(), Code: run.code,
	})
}

// recordEnd writes the outcome of a run to the history: the result of Run.Result at its end. Nothing may change the result any
// more.
func recordEnd(w *history.Writer, runID string, res *Result, err error) {
	end := history.End{RunID: runID, Ended: time.Now().UTC()}
	if res == nil {
		f := fault.From(err)
		end.Fault = &history.Fault{Code: string(f.Code), Message: f.Message, Hint: f.Hint}
	}
	w.End(heldBy(res), func(images bool) (history.End, error) {
		if res == nil {
			return end, nil
		}
		end.Result, err = history.EncodeJSON(recordOf(res, images))
		return end, err
	})
}

// heldBy estimates a result's bytes of memory.
func heldBy(res *Result) int {
	if res == nil {
		return 0
	}
	n := len(res.Stdout.Head) + len(res.Stdout.Tail) + len(res.Stderr.Head) + len(res.Stderr.Tail)
	for _, d := range res.Displays {
		for _, data := range d.Data {
			n += len(data)
		}
	}
	return n
}

// resultRecord is a result in a supervisor's form, so that the same code bounds and checks it when it is read.
type resultRecord struct {
	protocol.Done
	Language Language           `json:"language"`
	Fresh    bool               `json:"fresh,omitempty"`
	Copy     bool               `json:"copy,omitempty"`
	Displays []protocol.Display `json:"displays,omitempty"`
	Notes    []string           `json:"notes,omitempty"`
}

// maxNotes bounds the notes of a result from a history.
const maxNotes = 100

func recordOf(res *Result, images bool) *resultRecord {
	r := &resultRecord{
		Done: protocol.Done{
			Status: string(res.Status), ExitCode: res.ExitCode, Result: res.Value, ResultLeft: res.ValueLeft, Error: res.Error, ErrorLeft: res.ErrorLeft,
			Stdout: res.Stdout, Stderr: res.Stderr, Artifacts: res.Artifacts,
			ArtifactsTotal: res.ArtifactsTotal, Removed: res.Removed, RemovedTotal: res.RemovedTotal, DisplaysTotal: res.DisplaysTotal,
			DurationMS: float64(res.Duration) / float64(time.Millisecond), DrawingMS: float64(res.Drawing) / float64(time.Millisecond), Cause: res.Cause, Kernel: "alive",
		},
		Language: res.Language, Fresh: res.Fresh, Copy: res.Copy, Notes: res.Notes,
	}
	switch {
	case res.VariablesLost:
		r.Kernel = "dead"
	case res.Restored:
		r.Kernel = "restored"
	}
	for _, d := range res.Displays {
		r.Displays = append(r.Displays, displayOf(d, images))
	}
	return r
}

// displayOf is the opposite of decodeDisplay.
func displayOf(d Display, images bool) protocol.Display {
	m := protocol.Display{Data: make(protocol.Data, len(d.Data)), Path: d.Path, SizeBytes: d.SizeBytes, Alt: d.Alt}
	for mime, data := range d.Data {
		if !isImageData(mime) {
			m.Data[mime] = string(data)
		} else if images {
			m.Data[mime] = base64.StdEncoding.EncodeToString(data)
		}
	}
	return m
}

// isImageData reports whether a display's data is an image's bytes rather than a text.
func isImageData(mime string) bool {
	return strings.HasPrefix(mime, "image/") && mime != "image/svg+xml"
}

// result reads the record as if a supervisor had sent it.
func (r *resultRecord) result(session, run string) *Result {
	r.Background, r.GoesOn = nil, nil // no history contains them
	res := ResultOf(r.Done, MaxText)
	res.SessionID, res.RunID, res.Language, res.Fresh, res.Copy = session, run, Language(text.Safe(string(r.Language), MaxName)), r.Fresh, r.Copy
	for _, d := range r.Displays[:min(len(r.Displays), MaxDisplays)] {
		res.Displays = append(res.Displays, decodeDisplay(d))
	}
	for _, note := range r.Notes[:min(len(r.Notes), maxNotes)] {
		res.Notes = append(res.Notes, text.Safe(note, MaxText))
	}
	return res
}

// CheckSessionID refuses texts that cannot name a session.
func CheckSessionID(id string) error {
	if state.ValidID(id) {
		return nil
	}
	return fault.New(fault.InvalidSessionID,
		"Use 1 to 64 letters, digits, _ or -, beginning with a letter or digit; or leave session_id out for the default session.",
		"%q is not a session id.", text.Safe(id, 80))
}

// Entry is the run in the form of a history.
func (r *Run) Entry() *HistoryEntry {
	res, _ := r.Result()
	return &HistoryEntry{
		RunID: r.ID, Language: r.Language, Code: r.code, Started: r.Created, Result: res,
		Fresh: r.Options.Fresh, Copy: r.Options.Copy, Program: r.Options.Program, Undone: r.Options.Copy,
	}
}

// Info names the run.
func (e *HistoryEntry) Info() *RunInfo { return infoOf(e.RunID, e.Language, e.Code, e.Started) }

// Run makes a run of a history a run of this server. A run without an end remains to be settled.
func (e *HistoryEntry) Run(parent context.Context, rules *Rules, session string) *Run {
	r := NewRun(parent, rules, e.RunID, session, RunOptions{
		SessionID: session, Language: e.Language, Code: e.Code, Fresh: e.Fresh, Copy: e.Copy, Program: e.Program, Timeout: max(0, min(e.Timeout, rules.MaxRunTimeout)),
	})
	r.Earlier = true
	if e.Started.Before(r.Created) { // a history may come from anybody
		r.Created = e.Started
	}
	if e.Over() {
		var err error
		if e.Error != nil {
			err = e.Error
		}
		if e.Result != nil {
			r.Displays = e.Result.Displays
		}
		r.Finish(e.Result, err, nil)
		r.ended = r.Created
		if e.Result != nil {
			r.ended = r.Created.Add(e.Result.Duration)
		}
	}
	return r
}

// LostResult is for an earlier server's run without a known end. alive reports that its kernel still holds its variables.
func LostResult(run *Run, alive bool) *Result {
	if alive {
		res := run.Unanswered(Cancelled, 130)
		res.Notes = []string{"Its server ended before this code began, or before its end was recorded."}
		return res
	}
	res := run.Unanswered(Killed, 137)
	res.VariablesLost, res.Cause = true, "its server and its container ended"
	return res
}

// InfosOf names the known ones of these runs, in their order.
func InfosOf(ids []string, known map[string]*HistoryEntry) (list []*RunInfo) {
	for _, id := range ids {
		if e := known[id]; e != nil {
			list = append(list, e.Info())
		}
	}
	return list
}
