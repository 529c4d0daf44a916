// The runs of a session by its history: the list, one run, a figure of one.

package rest

import (
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// figureTypes are images that browsers show.
var figureTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"}

// resultFields are a run's result, final or so far.
type resultFields struct {
	Stdout    sandbox.Stream     `json:"stdout"`
	Stderr    sandbox.Stream     `json:"stderr"`
	Result    *string            `json:"result"`
	Error     *sandbox.RunError  `json:"error"`
	Displays  []displayFields    `json:"displays"`
	Artifacts []sandbox.Artifact `json:"artifacts"`
	Notes     []string           `json:"notes"`
}

type displayFields struct {
	Figure  string `json:"figure"`  // its type, where it is an image that is there
	Version string `json:"version"` // of the image: code may draw another one in its place
	Text    string `json:"text"`
	Path    string `json:"path"`
	Alt     string `json:"alt"`
}

func resultFieldsOf(r *sandbox.Result) resultFields {
	f := resultFields{
		Stdout: r.Stdout, Stderr: r.Stderr, Result: r.Value, Error: r.Error,
		Displays: []displayFields{}, Artifacts: append([]sandbox.Artifact{}, r.Artifacts...), Notes: append([]string{}, r.Notes...),
	}
	if r.Cause != "" {
		f.Notes = append(f.Notes, "Ended because "+r.Cause+".")
	}
	if len(r.GoesOn) > 0 {
		f.Notes = append(f.Notes, "Goes on: "+strings.Join(r.GoesOn, ", ")+".")
	}
	for _, b := range r.Background {
		f.Notes = append(f.Notes, "Earlier runs have printed: "+b.Text)
	}
	for i := range r.Displays {
		f.Displays = append(f.Displays, displayOf(&r.Displays[i]))
	}
	return f
}

// displayOf describes an image by its type, and anything else by a text, the plain one if there are several.
func displayOf(d *sandbox.Display) displayFields {
	f := displayFields{Path: d.Path, Alt: d.Alt}
	for _, kind := range figureTypes {
		if image := d.Data[kind]; len(image) > 0 {
			f.Figure, f.Version = kind, strconv.FormatUint(uint64(crc32.ChecksumIEEE(image)), 36)
			return f
		}
	}
	kinds := slices.Sorted(maps.Keys(d.Data))
	if slices.Contains(kinds, "text/plain") {
		kinds = []string{"text/plain"}
	}
	for _, kind := range kinds {
		if !strings.HasPrefix(kind, "image/") {
			f.Text = string(d.Data[kind])
			break
		}
	}
	return f
}

const (
	// maxListedRuns limits the runs in a list: each is read as a whole, with its figures.
	maxListedRuns = 100
	// maxListedCode is the most characters of code in a list: they are searched.
	maxListedCode = 1000
	// historyRoom is the memory for a byte of a run's file until its figures are decoded: in a buffer that grew, as JSON and as base64.
	historyRoom = 5
	// maxReaders limits the lists that are read at a time.
	maxReaders = 4
)

// listedRun is a run of a history.
type listedRun struct {
	sandbox.HistoryFields
	Title string `json:"title" jsonschema:"The line of the code that says what it does."`
	Code  string `json:"code" jsonschema:"The code; its beginning in a list."`
	Copy  bool   `json:"copy,omitempty" jsonschema:"It ran in a copy of the variables; without undone the session went on with that."`
	// FilesUndone is what Undone is for variables.
	FilesUndone bool   `json:"files_undone,omitempty" jsonschema:"The files are as before the run again."`
	Figure      string `json:"figure,omitempty" jsonschema:"The first image that it has shown: a path below its own."`
}

func (s *Server) listed(e *sandbox.HistoryEntry) listedRun {
	code := s.secrets.Mask(e.Code)
	f := listedRun{HistoryFields: e.Fields(), Title: strings.Clone(title(code)), Code: code, Copy: e.Copy}
	if start := []rune(code); len(start) > maxListedCode {
		f.Code = string(start[:maxListedCode]) + "…"
	}
	for at := 0; e.Result != nil && at < len(e.Result.Displays) && f.Figure == ""; at++ {
		if d := displayOf(&e.Result.Displays[at]); d.Figure != "" {
			f.Figure = fmt.Sprintf("displays/%d?version=%s", at, d.Version)
		}
	}
	return f
}

// listedRuns is a part of a history.
type listedRuns struct {
	Runs  []listedRun `json:"runs" jsonschema:"The newest first."`
	Total int         `json:"total" jsonschema:"How many there are."`
}

// runList holds the entries read of a history. They are not read again.
type runList map[string]listedRun

// read returns the newest runs, of those before a run if one is named.
func (l *runList) read(ctx context.Context, s *Server, session, before string, limit int) (list listedRuns, err error) {
	list.Runs = []listedRun{}
	if err := s.readers.Acquire(ctx, 1); err != nil {
		return list, err
	}
	defer s.readers.Release(1)
	dir := s.manager.Config().StateDir
	var names []string // in the order of the calls
	over := make(map[string]bool)
	if err := runs.EachInHistory(dir, session, func(id string, isOver bool, _ int64) bool {
		names = append(names, id)
		over[id] = isOver
		return false
	}, nil); err != nil {
		return list, err
	}
	list.Total = len(names)
	if before != "" {
		at := slices.Index(names, before)
		if at < 0 {
			return list, errNoRun(before)
		}
		names = names[:at]
	}
	names = names[max(0, len(names)-limit):]
	known := make(runList)
	for _, id := range names {
		if run, has := (*l)[id]; has && (run.Status != string(sandbox.Running) || !over[id]) {
			known[id] = run
		}
	}
	release, full := func() {}, error(nil)
	err = runs.EachInHistory(dir, session, func(id string, _ bool, bytes int64) bool {
		if _, has := known[id]; has || full != nil || !slices.Contains(names, id) {
			return false
		}
		release() // the last one's memory: runs are not kept, because their figures may be large
		release, full = room.Take(ctx, historyRoom*bytes)
		return full == nil
	}, func(e *sandbox.HistoryEntry) { known[e.RunID] = s.listed(e) })
	if full != nil {
		return list, full
	}
	release()
	*l = known
	undone, did := runs.Marks(dir, session).Now(), runs.DidOf(dir, session)
	for _, id := range slices.Backward(names) {
		if run, has := known[id]; has {
			if is, marked := undone.Variables[id]; marked {
				run.Undone = is
			}
			if f := did[id].Files; f != nil {
				run.Files, run.FilesUndone = f, undone.Files[id]
			}
			list.Runs = append(list.Runs, run)
		}
	}
	return list, err
}

func errNoRun(id string) error {
	return fault.New(fault.RunNotFound, "GET /v1/sessions/{session_id}/runs lists those that there are.", "There is no run %q in this session.", text.Shorten(id, 80))
}

// CheckOpen returns the fault of a session that a request must not open here. It opens none.
func (s *Server) CheckOpen(ctx context.Context, session string) error {
	if err := runs.CheckSessionID(session); err != nil {
		return err
	}
	if found := s.Find(ctx, session); found != nil && s.isHere(found) {
		return nil
	}
	info, err := s.manager.Session(ctx, session)
	if err == nil && info.Owner != sandbox.OwnerThis {
		err = fault.New(fault.SessionBusy, "Look at the page of the server that has it open, or of `"+fault.Program+" ui`.", "Session %q is not open in this server.", session)
	}
	return err
}

// Wake opens a session that sleeps, in this server.
func (s *Server) Wake(ctx context.Context, session string) error {
	err := runs.CheckSessionID(session)
	if err == nil {
		_, err = s.manager.Resume(ctx, session)
	}
	return err
}

// listRuns answers with the runs of a session, in whichever server it is.
func (s *Server) listRuns(w http.ResponseWriter, r *http.Request) {
	session, query := r.PathValue("session_id"), r.URL.Query()
	limit := maxListedRuns
	var err error
	if given := query.Get("limit"); given != "" {
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > maxListedRuns {
			err = fault.New(fault.InvalidArgument, "Leave it out, or ask for more with before.", "limit is %q and must be a number from 1 to %d.", text.Shorten(given, 40), maxListedRuns)
		}
	}
	if err == nil {
		_, err = s.manager.Session(r.Context(), session)
	}
	var list listedRuns
	if err == nil {
		list, err = new(runList).read(r.Context(), s, session, query.Get("before"), limit)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	web.JSON(w, r, http.StatusOK, list)
}

// entry returns a run of a session so far, and answers the request if there is none.
func (s *Server) entry(w http.ResponseWriter, r *http.Request) *sandbox.HistoryEntry {
	session, id := r.PathValue("session_id"), r.PathValue("run_id")
	var full error
	var entries []sandbox.HistoryEntry
	var err error
	for try := 0; try < 2 && len(entries) == 0 && full == nil; try++ { // its file has another name once it is over
		entries, err = runs.SelectHistory(s.manager.Config().StateDir, session, func(run string, _ bool, bytes int64) bool {
			if run == id && full == nil {
				_, full = room.Take(r.Context(), historyRoom*bytes)
			}
			return run == id && full == nil
		})
	}
	if len(entries) == 0 {
		if full != nil {
			err = full
		}
		if err == nil {
			_, err = s.manager.Session(r.Context(), session) // which may ask the engine
		}
		if err == nil {
			err = errNoRun(id)
		}
		s.refuse(w, r, err)
		return nil
	}
	e := &entries[0]
	isOpen := func(info sandbox.SessionInfo) bool { return info.ID == session }
	if e.Result == nil && e.Error == nil && slices.ContainsFunc(s.manager.Known(), isOpen) {
		if run, err := s.manager.FindRun(id); err == nil && run.SessionID == session {
			e.Result = run.SoFar(r.Context())
		}
	}
	return e
}

// pastRun is a history's whole record of a run.
type pastRun struct {
	listedRun
	resultFields
	Hint string `json:"hint,omitempty"`
}

// textBytes returns the approximate bytes of text of a run.
func textBytes(e *sandbox.HistoryEntry) int64 {
	n := len(e.Code)
	if res := e.Result; res != nil {
		n += len(res.Stdout.Head) + len(res.Stdout.Tail) + len(res.Stderr.Head) + len(res.Stderr.Tail)
		if res.Value != nil {
			n += len(*res.Value)
		}
		for i := range res.Displays {
			n += len(displayOf(&res.Displays[i]).Text)
		}
	}
	return int64(n)
}

// readRun answers with a run of a history.
func (s *Server) readRun(w http.ResponseWriter, r *http.Request) {
	e := s.entry(w, r)
	if e == nil {
		return
	}
	if _, err := room.Take(r.Context(), 2*JSONRoom*textBytes(e)); err != nil {
		s.refuse(w, r, err)
		return
	}
	f := pastRun{listedRun: s.listed(e)}
	f.Code = e.Code
	result := e.Result
	if result == nil {
		result = &sandbox.Result{}
	}
	f.resultFields = resultFieldsOf(result)
	if e.Error != nil {
		f.Notes, f.Hint = append(f.Notes, e.Error.Message), e.Error.Hint
	}
	web.JSON(w, r, http.StatusOK, s.secrets.MaskJSON(f))
}

// policyFigure is for an image that is opened by itself: one in SVG is a document.
const policyFigure = "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

// readFigure sends an image of a run, by its index.
func (s *Server) readFigure(w http.ResponseWriter, r *http.Request) {
	e := s.entry(w, r)
	if e == nil {
		return
	}
	at, err := strconv.Atoi(r.PathValue("at"))
	var data []byte
	var kind string
	if err == nil && e.Result != nil && at >= 0 && at < len(e.Result.Displays) {
		kind = displayOf(&e.Result.Displays[at]).Figure
		data = e.Result.Displays[at].Data[kind]
	}
	if kind == "" {
		s.refuse(w, r, fault.New(fault.NotFound, "The run's displays say which are figures.", "There is no such figure."))
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policyFigure)
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(web.WriteTime))
	_, _ = w.Write(data)
}
