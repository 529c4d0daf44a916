package webui

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// shownFiles is how many files are listed, the newest.
const shownFiles = 1000

type fileFields struct {
	Path      string    `json:"path"`
	SizeBytes int64     `json:"size_bytes"`
	Modified  time.Time `json:"modified"`
}

// files lists the files of a session.
func (h *Handler) files(w http.ResponseWriter, r *http.Request) {
	session := r.URL.Query().Get("session")
	if err := h.sessions.checkOwn(r.Context(), session); err != nil {
		h.fail(w, err)
		return
	}
	found := []fileFields{}
	end, err := h.o.Sandbox.WalkFiles(r.Context(), session, false, func(e sandbox.Entry) error {
		found = append(found, fileFields(e.File))
		return nil
	})
	if err != nil {
		h.fail(w, err)
		return
	}
	slices.SortFunc(found, func(a, b fileFields) int { return b.Modified.Compare(a.Modified) })
	writeJSON(w, http.StatusOK, struct {
		Files    []fileFields `json:"files"`
		Total    int          `json:"total"`
		Complete bool         `json:"complete"`
		Skipped  int64        `json:"skipped"` // names that no list has
		Links    bool         `json:"links"`   // whether the files can be had
	}{found[:min(len(found), shownFiles)], len(found), end.Complete, end.Skipped, h.o.FileLink != nil})
}

// file leads to a file of a session.
func (h *Handler) file(w http.ResponseWriter, r *http.Request) {
	session, path := r.URL.Query().Get("session"), r.URL.Query().Get("path")
	err := h.sessions.checkOwn(r.Context(), session)
	link := ""
	if err == nil && h.o.FileLink != nil {
		link = h.o.FileLink(session, path)
	}
	switch {
	case err != nil:
		h.fail(w, err)
	case link == "":
		h.fail(w, fault.New(fault.NotFound, "read_artifact reads it.", "No link can lead to this file."))
	default:
		http.Redirect(w, r, link, http.StatusSeeOther)
	}
}

// asked is what a page wants done.
type asked struct {
	Session   string `json:"session"`
	Run       string `json:"run"`
	KeepFiles bool   `json:"keep_files"`
}

func readAsked(w http.ResponseWriter, r *http.Request) (a asked, err error) {
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, maxForm)).Decode(&a) != nil {
		err = fault.New(fault.InvalidArgument, "Load the page once more.", "The request is not what the page sends.")
	}
	return a, err
}

// cancel interrupts a run of a session that this server has open.
func (h *Handler) cancel(w http.ResponseWriter, r *http.Request) {
	a, err := readAsked(w, r)
	if err == nil {
		err = h.sessions.checkOwn(r.Context(), a.Session)
	}
	var run *sandbox.Run
	if err == nil {
		run, err = h.o.Sandbox.FindRun(a.Run)
	}
	if err == nil && run.SessionID != a.Session {
		err = fault.New(fault.RunNotFound, "The list has those that there are.", "There is no run %q in this session.", a.Run)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	run.Interrupt()
	h.o.Logger.Info("cancelled on the page", "session", a.Session, "run", a.Run)
	w.WriteHeader(http.StatusNoContent)
}

// close ends a session that no other server has open.
func (h *Handler) close(w http.ResponseWriter, r *http.Request) {
	a, err := readAsked(w, r)
	if err == nil {
		_, err = h.sessions.find(r.Context(), a.Session) // which a default one of a client is not
	}
	if err == nil {
		_, err = h.o.Sandbox.CloseSession(r.Context(), a.Session, a.KeepFiles)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	h.o.Logger.Info("closed on the page", "session", a.Session)
	w.WriteHeader(http.StatusNoContent)
}
