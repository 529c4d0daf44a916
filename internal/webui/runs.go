package webui

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// figureTypes are images that browsers show.
var figureTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"}

type resultFields struct {
	Stdout    streamFields      `json:"stdout"`
	Stderr    streamFields      `json:"stderr"`
	Value     *string           `json:"value"`
	Error     *sandbox.RunError `json:"error"`
	Displays  []displayFields   `json:"displays"`
	Artifacts []fileFields      `json:"artifacts"`
	Notes     []string          `json:"notes"`
}

type streamFields struct {
	Head         string `json:"head"`
	Tail         string `json:"tail"`
	OmittedBytes int64  `json:"omitted_bytes"`
	Path         string `json:"path"`
}

type displayFields struct {
	Figure  string `json:"figure"`  // its type, where it is an image that is there
	Version string `json:"version"` // of the image: code may draw another one in its place
	Text    string `json:"text"`
	Path    string `json:"path"`
	Alt     string `json:"alt"`
}

func fieldsOf(r *sandbox.Result) resultFields {
	f := resultFields{
		Stdout: streamOf(r.Stdout), Stderr: streamOf(r.Stderr), Value: r.Value, Error: r.Error,
		Displays: []displayFields{}, Artifacts: []fileFields{}, Notes: append([]string{}, r.Notes...),
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
	for _, a := range r.Artifacts {
		f.Artifacts = append(f.Artifacts, fileFields{a.Path, a.SizeBytes, time.UnixMilli(a.ModifiedMS)})
	}
	return f
}

func streamOf(s sandbox.Stream) streamFields {
	return streamFields{s.Head, s.Tail, s.OmittedBytes, s.Path}
}

// displayOf tells of an image by its type, and of anything else by a text, the plain one where there are several.
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

// entry returns a run of a session as far as it has come.
func (h *Handler) entry(ctx context.Context, r *http.Request) (*sandbox.HistoryEntry, error) {
	session, id := r.URL.Query().Get("session"), r.URL.Query().Get("run")
	info, err := h.sessions.find(ctx, session)
	if err != nil {
		return nil, err
	}
	entries, err := sandbox.SelectHistory(h.o.Sandbox.Config().StateDir, session, func(run string, _ bool) bool { return run == id })
	if len(entries) == 0 {
		if err == nil {
			err = fault.New(fault.RunNotFound, "The list has those that there are.", "There is no run %q in this session.", id)
		}
		return nil, err
	}
	e := &entries[0]
	if e.Result == nil && e.Error == nil && info.Owner == sandbox.OwnerThis {
		if run, err := h.o.Sandbox.FindRun(id); err == nil && run.SessionID == session {
			e.Result = run.SoFar(ctx)
		}
	}
	return e, nil
}

// run tells all of a run.
func (h *Handler) run(w http.ResponseWriter, r *http.Request) {
	e, err := h.entry(r.Context(), r)
	if err != nil {
		h.fail(w, err)
		return
	}
	f := struct {
		runFields
		resultFields
		Hint string `json:"hint,omitempty"`
	}{runFields: listed(e), resultFields: fieldsOf(&sandbox.Result{})}
	f.Code = e.Code
	if e.Result != nil {
		f.resultFields = fieldsOf(e.Result)
	}
	if e.Error != nil {
		f.Notes, f.Hint = append(f.Notes, e.Error.Message), e.Error.Hint
	}
	writeJSON(w, http.StatusOK, f)
}

// figure sends an image that a run has shown, by its place.
func (h *Handler) figure(w http.ResponseWriter, r *http.Request) {
	e, err := h.entry(r.Context(), r)
	if err != nil {
		h.fail(w, err)
		return
	}
	at, err := strconv.Atoi(r.URL.Query().Get("at"))
	if err != nil || e.Result == nil || at < 0 || at >= len(e.Result.Displays) {
		h.fail(w, errNoFigure())
		return
	}
	shown := &e.Result.Displays[at]
	kind := displayOf(shown).Figure
	if kind == "" {
		h.fail(w, errNoFigure())
		return
	}
	w.Header().Set("Content-Security-Policy", policyFigure)
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(shown.Data[kind])
}

func errNoFigure() error {
	return fault.New(fault.NotFound, "The run tells which there are.", "There is no such figure.")
}

// statuses of what goes wrong, where it is not 500.
var statuses = map[fault.Code]int{
	fault.InvalidSessionID: http.StatusBadRequest, fault.InvalidArgument: http.StatusBadRequest,
	fault.NotFound: http.StatusNotFound, fault.SessionNotFound: http.StatusNotFound, fault.RunNotFound: http.StatusNotFound,
	fault.SessionBusy: http.StatusConflict, fault.EngineUnavailable: http.StatusServiceUnavailable,
}

// fail answers with what went wrong, in words.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	f := fault.From(err)
	h.o.Logger.Info("page", "code", f.Code, "message", f.Message, "cause", f.Unwrap())
	status, known := statuses[f.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	writeJSON(w, status, map[string]string{"code": string(f.Code), "message": f.Message, "hint": f.Hint})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
