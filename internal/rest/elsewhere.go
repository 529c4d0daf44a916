// Sessions that other servers of the user have open, and what only the user's own processes may ask.

package rest

import (
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// look lists the sessions, with what their servers say of them.
func (s *Server) look(ctx context.Context) []door.Known {
	var others map[string]*door.Neighbour
	if s.others != nil {
		others = s.others(ctx)
	}
	return door.Join(s.manager.Sessions(ctx), others)
}

// Find returns a session, by a list that is no older than listTime; nil: there is none.
func (s *Server) Find(ctx context.Context, session string) *door.Known {
	list := s.sessions.get(ctx, s)
	if i := slices.IndexFunc(list, func(k door.Known) bool { return k.ID == session }); i >= 0 {
		return &list[i]
	}
	return nil
}

// isHere reports whether requests about a session are answered here. A sleeping one is not opened, as another server may want it, unless
// it gets it then at once.
func (s *Server) isHere(k *door.Known) bool {
	return k.At != nil || k.Owner == sandbox.OwnerThis || k.Owner == sandbox.OwnerNone && s.manager.Drains()
}

// elsewhere returns the server that has the session of a request open; nil: none other.
func (s *Server) elsewhere(r *http.Request) *door.Neighbour {
	if s.others == nil || r.Header.Values(door.TenantHeader) != nil { // one has been asked already
		return nil
	}
	session, inSession := strings.CutPrefix(r.URL.Path, "/v1/sessions/")
	switch {
	case inSession:
		session, _, _ = strings.Cut(session, "/")
	case strings.HasPrefix(r.URL.Path, "/v1/runs/"):
		session = r.URL.Query().Get("session_id")
	default:
		return nil
	}
	if found := s.Find(r.Context(), session); found != nil {
		return found.At
	}
	return nil
}

// pass has another server answer a request.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, to *door.Neighbour) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	proxy := httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: to, FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			for name := range answer.Header { // as if the handler were here
				w.Header().Del(name)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			s.refuse(w, r, fault.New(fault.SessionBusy, "Try again in a moment.", "The server that has the session open does not answer.").Because(err))
		},
	}
	proxy.ServeHTTP(w, r)
}

// ReportTrailer has the report of an export, or its error, as JSON. Without it the export is not whole.
const ReportTrailer = "Sandbox-Report"

// counted counts the bytes that are written.
type counted struct {
	io.Writer
	bytes int
}

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return c.Writer.Write(p)
}

func (s *Server) sendExport(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	w.Header().Set("Trailer", ReportTrailer)
	to := &counted{Writer: w}
	report, err := s.export(r.Context(), r.PathValue("session_id"), to, r.URL.Query())
	if err != nil && to.bytes == 0 {
		w.Header().Del("Trailer")
		s.refuse(w, r, err)
		return
	}
	if err != nil {
		report = fault.From(err).JSON()
	}
	w.Header().Set(ReportTrailer, string(web.Encode(report)))
}
