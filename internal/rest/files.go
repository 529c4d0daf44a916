package rest

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Files are served by links that no client sees: they have the ranges, the bounds and the headers.

func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	session := r.PathValue("session_id")
	path, err := sandbox.CleanPath(r.PathValue("path"))
	if err == nil {
		_, err = s.manager.Term(session, false)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.byLink(w, r, s.links.Download(session, path))
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	overwrite := false
	if given := r.URL.Query().Get("overwrite"); given != "" {
		var err error
		if overwrite, err = strconv.ParseBool(given); err != nil {
			s.refuse(w, r, fault.New(fault.InvalidArgument, "Use overwrite=true.", "overwrite is %q and must be true or false.", text.Shorten(given, 40)))
			return
		}
	}
	link, err := s.links.Upload(r.PathValue("session_id"), r.PathValue("path"), overwrite)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.byLink(w, r, link.URL)
}

// byLink answers a request as one for a link.
func (s *Server) byLink(w http.ResponseWriter, r *http.Request, link string) {
	u, err := url.Parse(link)
	if err != nil || link == "" {
		s.refuse(w, r, fault.New(fault.NotFound, "List the files of the session for those that there are.", "There is no such file."))
		return
	}
	to := r.Clone(r.Context())
	to.URL, to.Host = u, u.Host
	refusal := &refusedLink{ResponseWriter: w}
	s.links.ServeHTTP(refusal, to)
	if refusal.status != 0 {
		s.refuseAs(w, r, refusal)
	}
}

// refusedLink keeps what a link answers in words, where it refuses.
type refusedLink struct {
	http.ResponseWriter
	status int
	words  bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (w *refusedLink) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError is for http.ResponseController, and would send a header.
func (w *refusedLink) FlushError() error {
	if w.status != 0 {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// WriteHeader implements http.ResponseWriter.
func (w *refusedLink) WriteHeader(status int) {
	if status >= http.StatusBadRequest && w.status == 0 {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *refusedLink) Write(b []byte) (int, error) {
	if w.status != 0 {
		return w.words.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// refuseAs answers with a link's refusal, in the shape of all others: its first line is CODE: message, its second one a hint.
func (s *Server) refuseAs(w http.ResponseWriter, r *http.Request, refusal *refusedLink) {
	code, message, coded := strings.Cut(strings.TrimSpace(refusal.words.String()), ": ")
	message, hint, _ := strings.Cut(message, "\nHint: ")
	status := statuses[fault.Code(code)]
	if !coded || status == 0 { // of http.ServeContent
		code, hint = string(fault.InvalidArgument), "Ask for bytes that the file has; Content-Range says how many there are."
		message = fmt.Sprintf("The range %q is none of the file's.", text.Shorten(r.Header.Get("Range"), 80))
	}
	w.Header().Del("Content-Length")
	s.write(w, r, refusal.status, fieldsOf(fault.New(fault.Code(code), hint, "%s", message)))
}
