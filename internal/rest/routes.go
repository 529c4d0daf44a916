package rest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Route is one way to ask for something.
type Route struct {
	Method, Path string
	ID, Summary  string // for the document; the first part of the id is its group
	// Tool serves the route, which exists only if the tool does. RunTool is that of the language.
	Tool string
	// Serve answers in the place of the tool, in an API beside /v1.
	Serve   func(h Host, w http.ResponseWriter, r *http.Request) error
	Query   map[string]any // schemas of parameters
	Request Content        // the body
	Answer  Content
	Status  int // 0: 200

	// always are arguments that no request gives.
	always map[string]any
	// waits marks a route with wait_seconds in its query: the time to wait for a run, by default zero, or the longest if it is patient.
	waits, patient bool
	also           map[int]string // other statuses with the same answer, and their descriptions
	serve          func(s *Server, w http.ResponseWriter, r *http.Request)
	// answerOf is the tool that provides the answer's fields instead.
	answerOf string
}

// RunTool stands for the tool of the language that the argument language names.
const RunTool = "run"

const (
	inSession = "/v1/sessions/{session_id}"
	ofRun     = "/v1/runs/{run_id}"
)

// own returns the routes of /v1.
func own() []Route {
	return []Route{
		{Method: "GET", Path: "/v1/sessions", ID: "sessions.list", Summary: "List the sessions.", Tool: "list_sessions",
			Query: object{"all": object{"type": "boolean", "description": "For the owner: what the sessions of all principals take that running servers have open."}}},
		{Method: "POST", Path: "/v1/sessions", ID: "sessions.create", Summary: "Make a session, or describe the one of that session_id.", Tool: "session_info",
			serve: (*Server).createSession, Request: Schema[newSession], answerOf: "session_info", Status: http.StatusCreated, also: map[int]string{http.StatusOK: "It was there."}},
		{Method: "GET", Path: inSession, ID: "sessions.get", Summary: "Describe a session.", Tool: "session_info"},
		{Method: "DELETE", Path: inSession, ID: "sessions.close", Summary: "End a session.", Tool: "close_session"},
		{Method: "POST", Path: inSession + "/restore", ID: "sessions.restore", Summary: "Undo runs: files and variables become those from before a run or at a checkpoint, or variables those of its copy; or name the present state.", Tool: "restore_session"},
		{Method: "POST", Path: inSession + "/runs", ID: "runs.start", Summary: "Run code. 202 and a run_id where it goes on; a session that does not exist is made.", Tool: RunTool, waits: true},
		{Method: "GET", Path: inSession + "/runs", ID: "runs.list", Summary: "List what ran in a session, the newest first, also of one that is closed or that another server has.", Tool: "wait_for_run",
			serve: (*Server).listRuns, Answer: Schema[listedRuns], Query: object{
				"limit":  object{"type": "integer", "minimum": 1, "maximum": maxListedRuns, "default": maxListedRuns, "description": "How many."},
				"before": object{"type": "string", "description": "A run_id: list those that came before it."}}},
		{Method: "GET", Path: inSession + "/runs/{run_id}", ID: "runs.read", Summary: "Read a run of a session's history: its code, and what it came to.", Tool: "wait_for_run",
			serve: (*Server).readRun, Answer: Schema[pastRun]},
		{Method: "GET", Path: inSession + "/runs/{run_id}/displays/{at}", ID: "runs.figure", Summary: "Read an image that a run has shown, by its place among its displays.", Tool: "wait_for_run",
			serve: (*Server).readFigure, Answer: Media("image/*", object{})},
		{Method: "GET", Path: ofRun, ID: "runs.get", Summary: "Status and result of a run, or its output so far.", Tool: "wait_for_run", always: object{"cancel": false}, waits: true},
		{Method: "GET", Path: ofRun + "/output", ID: "runs.output", Summary: "Output of a run as it comes, then its result, as server-sent events: output, result, error.", Tool: "wait_for_run",
			serve: (*Server).follow, Answer: Media("text/event-stream", object{"type": "string"})},
		{Method: "POST", Path: ofRun + "/cancel", ID: "runs.cancel", Summary: "Interrupt a run, and return its result. Variables stay.", Tool: "wait_for_run", always: object{"cancel": true}, waits: true, patient: true},
		{Method: "GET", Path: inSession + "/files", ID: "files.list", Summary: "List files.", Tool: "list_artifacts"},
		{Method: "POST", Path: inSession + "/files", ID: "files.add", Summary: "Put a file into input/, by its text, as base64 or from an address.", Tool: "upload_file", Status: http.StatusCreated},
		{Method: "GET", Path: inSession + "/files/{path...}", ID: "files.read", Summary: "Read a file as it is, or a range of it.", Tool: "read_artifact",
			serve: (*Server).download, Answer: Media("application/octet-stream", object{}), also: map[int]string{http.StatusPartialContent: "The range that was asked for."}},
		{Method: "PUT", Path: inSession + "/files/{path...}", ID: "files.upload", Summary: "Upload a file as it is, with a Content-Length.", Tool: "upload_file",
			serve: (*Server).upload, Query: object{"overwrite": object{"type": "boolean", "description": "Replace a file of that name."}},
			Request: Media("application/octet-stream", object{}), answerOf: "upload_file", Status: http.StatusCreated},
		{Method: "GET", Path: inSession + "/archive", ID: "files.archive", Summary: "Download all files in one archive (tar.gz), without links and hidden ones.", Tool: "read_artifact",
			serve: (*Server).archive, Answer: Media("application/gzip", object{})},
		{Method: "GET", Path: inSession + "/versions/{path...}", ID: "files.versions", Summary: "List the versions of a file, the newest first: as it was before each of the last runs that changed it. PATH@RUN_ID reads one.", Tool: "read_artifact",
			serve: (*Server).listVersions, Answer: Schema[versionList]},
		{Method: "GET", Path: inSession + "/packages", ID: "packages.list", Summary: "Describe a session with the packages that there are.", Tool: "session_info", always: object{"packages": true}},
		{Method: "POST", Path: inSession + "/packages", ID: "packages.install", Summary: "Install packages.", Tool: "install_packages"},
		{Method: "GET", Path: "/v1/events", ID: "events.follow", Summary: "Sessions, and runs, output and requests of the one that is named, as they come: server-sent events sessions, runs, live, network.", Tool: "list_sessions",
			serve: (*Server).tellEvents, Answer: Media("text/event-stream", object{"type": "string"}), Query: object{
				"session_id": object{"type": "string", "description": "The session that is looked at."}}},
		{Method: "POST", Path: inSession + "/sql", ID: "sql.query", Summary: "Query a database. Many rows become a file of the session.", Tool: "exec_sql"},
		{Method: "GET", Path: "/v1/sql", ID: "sql.describe", Summary: "Describe the databases.", Tool: "describe_sql"},
	}
}

// routes returns the routes of /v1 and of the other APIs.
func (s *Server) routes() []Route {
	all := own()
	for _, api := range s.apis {
		all = append(all, api.Routes...)
	}
	return s.existing(all)
}

// existing returns the routes that exist under these settings.
func (b *backend) existing(routes []Route) (list []Route) {
	for _, r := range routes {
		_, exists := b.tools[r.Tool]
		if exists || r.Tool == RunTool && len(languagesOf(b.tools)) > 0 {
			list = append(list, r)
		}
	}
	return list
}

// languagesOf returns the languages that code may be in.
func languagesOf(tools map[string]server.ServerTool) (list []kernel.LanguageInfo) {
	for _, l := range kernel.Languages {
		if _, exists := tools[l.Tool()]; exists {
			list = append(list, l)
		}
	}
	return list
}

func (r *Route) isByTool() bool { return r.serve == nil && r.Serve == nil }

func (r *Route) group() string {
	group, _, _ := strings.Cut(r.ID, ".")
	return group
}

var wildcard = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// names returns the names of the arguments in a route's path.
func (r *Route) names() (names []string) {
	for _, found := range wildcard.FindAllStringSubmatch(r.Path, -1) {
		names = append(names, found[1])
	}
	return names
}

func (s *Server) serve(w http.ResponseWriter, request *http.Request, r Route) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a run may take long; web.JSON sets one again
	if err := s.count(request); err != nil {
		s.refuse(w, request, err)
		return
	}
	if id := request.PathValue("session_id"); id != "" {
		if err := runs.CheckSessionID(id); err != nil { // an empty text would be another session
			s.refuse(w, request, err)
			return
		}
	}
	if all, _ := strconv.ParseBool(request.URL.Query().Get("all")); all && s.uses != nil && r.ID == "sessions.list" {
		list, err := s.uses(request.Context())
		if err != nil {
			s.refuse(w, request, err)
			return
		}
		web.JSON(w, request, http.StatusOK, map[string]any{"sessions": list})
		return
	}
	if r.serve != nil {
		r.serve(s, w, request)
		return
	}
	if r.Serve != nil {
		if err := r.Serve(&s.backend, w, request); err != nil {
			s.refuse(w, request, err)
		}
		return
	}
	given, err := read(request, r.names())
	ctx, lowered := request.Context(), ""
	if wait := request.URL.Query().Get("wait_seconds"); err == nil && r.waits && (wait != "" || !r.patient) {
		ctx, lowered, err = s.waiting(ctx, wait)
		delete(given, "wait_seconds")
	}
	tool := r.Tool
	if err == nil && tool == RunTool {
		var language kernel.LanguageInfo
		if language, err = s.Language(given.Text("language")); err == nil {
			tool = language.Tool()
		}
		delete(given, "language")
	}
	if err != nil {
		s.refuse(w, request, err)
		return
	}
	for name, value := range r.always {
		given.Set(name, value)
	}
	o, err := s.call(ctx, tool, given)
	if lowered != "" {
		o.notes = append(o.notes, lowered)
	}
	s.send(w, request, o, err, max(r.Status, http.StatusOK))
}

// count counts a request as one call, whatever its route does.
func (s *Server) count(request *http.Request) error {
	if s.freeReads && (request.Method == http.MethodGet || request.Method == http.MethodHead) {
		return nil
	}
	return s.countCall()
}

// waiting returns a context in which calls wait for runs for the time in a parameter, and a note if that is too long.
func (s *Server) waiting(ctx context.Context, given string) (_ context.Context, lowered string, err error) {
	if given == "" {
		given = "0"
	}
	seconds, err := strconv.ParseFloat(given, 64)
	if err != nil || !(seconds >= 0) {
		return ctx, "", fault.New(fault.InvalidArgument, "Leave it out, or pass a number such as 10.", "wait_seconds is %q and must be a number of seconds.", text.Shorten(given, 40))
	}
	if most := s.softWait.Seconds(); seconds > most {
		lowered = fmt.Sprintf("wait_seconds was lowered from %v to %v, the most that this server allows.", seconds, most)
	}
	return tools.WithWait(ctx, time.Duration(min(seconds, 1e6)*float64(time.Second))), lowered, nil
}

func sorted[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
