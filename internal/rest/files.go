// Files of sessions: listed, uploaded, downloaded.

package rest

import (
	"net/http"
	"strconv"

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

func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	overwrite := false
	if given := r.URL.Query().Get("overwrite"); given != "" {
		var err error
		if overwrite, err = strconv.ParseBool(given); err != nil {
			s.refuse(w, r, fault.New(fault.InvalidArgument, "Use overwrite=true.", "overwrite is %q and must be true or false.", text.Shorten(given, 40)))
			return
		}
	}
	s.transferred(w, r, s.links.Receive(w, r, r.PathValue("session_id"), r.PathValue("path"), overwrite))
}

// transferred answers with the error that ended a transfer.
func (s *Server) transferred(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		web.Refuse(w)
		s.refuse(w, r, err)
	}
}
