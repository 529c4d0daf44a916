// Files of sessions: listed, uploaded, downloaded.

package rest

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Files are served as by links, with their ranges, bounds and headers.

func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	session := r.PathValue("session_id")
	path, err := sandbox.CleanPath(r.PathValue("path"))
	if err == nil {
		_, err = s.manager.Lease(session, false)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.transferred(w, r, s.links.Send(w, r, session, path))
}

func (s *Server) archive(w http.ResponseWriter, r *http.Request) {
	s.transferred(w, r, s.links.SendAll(w, r, r.PathValue("session_id")))
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
	err := s.links.Receive(w, r, r.PathValue("session_id"), r.PathValue("path"), overwrite)
	if err != nil && s.export != nil {
		_, _ = io.Copy(io.Discard, r.Body) // a client that is still sending misses the answer
	}
	s.transferred(w, r, err)
}

// transferred answers with the error that ended a transfer.
func (s *Server) transferred(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		web.Refuse(w)
		s.refuse(w, r, err)
	}
}

// versionFields is a file as it was before a run that changed it.
type versionFields struct {
	Before    string    `json:"before" jsonschema:"The run's id."`
	How       string    `json:"how" jsonschema:"What the run did: added, changed or removed."`
	Path      string    `json:"path,omitempty" jsonschema:"To read it; absent: there was no file, or its content is not kept."`
	SizeBytes int64     `json:"size_bytes"`
	Modified  time.Time `json:"modified,omitzero"`
	Why       string    `json:"why,omitempty" jsonschema:"Why its content is not kept."`
}

type versionList struct {
	Versions []versionFields `json:"versions"`
}

func (s *Server) listVersions(w http.ResponseWriter, r *http.Request) {
	path, err := sandbox.CleanPath(r.PathValue("path"))
	var versions []sandbox.Version
	if err == nil {
		versions, err = s.manager.Versions(r.Context(), r.PathValue("session_id"), path)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	list := versionList{[]versionFields{}}
	for _, v := range versions {
		f := versionFields{Before: v.Before, How: v.How, SizeBytes: v.File.SizeBytes, Why: v.Why}
		if v.How != sandbox.Added {
			f.Modified = v.File.Modified.UTC()
		}
		if v.How != sandbox.Added && v.Why == "" {
			f.Path = v.File.Name()
		}
		list.Versions = append(list.Versions, f)
	}
	web.JSON(w, r, http.StatusOK, s.secrets.MaskJSON(list))
}
