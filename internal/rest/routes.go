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
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// route is one way to ask for something.
type route struct {
	method, path string
	id, summary  string // for the document; the first part of the id is its group
	// tool serves the route, which exists only if the tool does. runTool is that of the language.
	tool string
	// always are arguments that no request gives.
	always map[string]any
	// waits marks a route whose request says how long it waits for a run, by wait_seconds in its query: not at all by default, or where
	// it is patient as long as it may.
	waits, patient bool

	// idle marks a route that does no work: a request for it is no call.
	idle bool

	status int            // 0: 200
	also   map[int]string // other statuses with the same answer, and what they say
	// serve answers in the place of a tool; what it takes and gives is described by itself.
	serve   func(s *Server, w http.ResponseWriter, r *http.Request)
	query   object // schemas of parameters
	needs   string // the one of them that has to be there
	request object // the body
	answer  object // the media types of the answer
	// answerOf is the tool whose fields the answer has instead.
	answerOf string
}

// runTool stands for the tool of the language that the argument language names.
const runTool = "run"

const (
	inSession = "/v1/sessions/{session_id}"
	ofRun     = "/v1/runs/{run_id}"
)

// table has all routes, in the order of the document. They are made once: their schemas take a while.
func table() []route {
	tableOnce.Do(func() { allRoutes = makeTable() })
	return slices.Clone(allRoutes)
}

var (
	tableOnce sync.Once
	allRoutes []route
)

func makeTable() []route {
	all := own()
	for _, api := range foreigns() {
		all = append(all, api.routes...)
	}
	return all
}

// own are those of ours.
func own() []route {
	return []route{
		{method: "GET", path: "/v1/sessions", id: "sessions.list", summary: "List the sessions.", tool: "list_sessions"},
		{method: "POST", path: "/v1/sessions", id: "sessions.create", summary: "Make a session, or describe the one of that session_id.", tool: "session_info",
			serve: (*Server).createSession, request: schemaOf[newSession](), answerOf: "session_info", status: http.StatusCreated, also: map[int]string{http.StatusOK: "It was there."}},
		{method: "GET", path: inSession, id: "sessions.get", summary: "Describe a session.", tool: "session_info"},
		{method: "DELETE", path: inSession, id: "sessions.close", summary: "End a session.", tool: "close_session"},
		{method: "POST", path: inSession + "/restore", id: "sessions.restore", summary: "Undo runs: variables become those from before a run, or those of its copy. Files stay.", tool: "restore_session"},
		{method: "POST", path: inSession + "/runs", id: "runs.start", summary: "Run code. 202 and a run_id where it goes on; a session that does not exist is made.", tool: runTool, waits: true},
		{method: "GET", path: inSession + "/runs", id: "runs.list", summary: "List what ran in a session, the newest first, also of one that is closed or that another server has.", tool: "wait_for_run",
			serve: (*Server).listRuns, answer: schemaOf[listedRuns](), query: object{
				"limit":  object{"type": "integer", "minimum": 1, "maximum": maxListedRuns, "default": maxListedRuns, "description": "How many."},
				"before": object{"type": "string", "description": "A run_id: list those that came before it."}}},
		{method: "GET", path: inSession + "/runs/{run_id}", id: "runs.read", summary: "Read a run of a session's history: its code, and what it came to.", tool: "wait_for_run",
			serve: (*Server).readRun, answer: schemaOf[pastRun]()},
		{method: "GET", path: inSession + "/runs/{run_id}/displays/{at}", id: "runs.figure", summary: "Read an image that a run has shown, by its place among its displays.", tool: "wait_for_run",
			serve: (*Server).readFigure, answer: media("image/*", object{})},
		{method: "GET", path: ofRun, id: "runs.get", summary: "Status and result of a run, or its output so far.", tool: "wait_for_run", always: object{"cancel": false}, waits: true},
		{method: "GET", path: ofRun + "/output", id: "runs.output", summary: "Output of a run as it comes, then its result, as server-sent events: output, result, error.", tool: "wait_for_run",
			serve: (*Server).follow, answer: media("text/event-stream", object{"type": "string"})},
		{method: "POST", path: ofRun + "/cancel", id: "runs.cancel", summary: "Interrupt a run, and return its result. Variables stay.", tool: "wait_for_run", always: object{"cancel": true}, waits: true, patient: true},
		{method: "GET", path: inSession + "/files", id: "files.list", summary: "List files.", tool: "list_artifacts"},
		{method: "POST", path: inSession + "/files", id: "files.add", summary: "Put a file into input/, by its text, as base64 or from an address.", tool: "upload_file", status: http.StatusCreated},
		{method: "GET", path: inSession + "/files/{path...}", id: "files.read", summary: "Read a file as it is, or a range of it.", tool: "read_artifact",
			serve: (*Server).download, answer: media("application/octet-stream", object{}), also: map[int]string{http.StatusPartialContent: "The range that was asked for."}},
		{method: "PUT", path: inSession + "/files/{path...}", id: "files.upload", summary: "Upload a file as it is, with a Content-Length.", tool: "upload_file",
			serve: (*Server).upload, query: object{"overwrite": object{"type": "boolean", "description": "Replace a file of that name."}},
			request: media("application/octet-stream", object{}), answerOf: "upload_file", status: http.StatusCreated},
		{method: "GET", path: inSession + "/packages", id: "packages.list", summary: "Describe a session with the packages that there are.", tool: "session_info", always: object{"packages": true}},
		{method: "POST", path: inSession + "/packages", id: "packages.install", summary: "Install packages.", tool: "install_packages"},
		{method: "GET", path: "/v1/events", id: "events.follow", summary: "Sessions, and runs, output and requests of the one that is named, as they come: server-sent events sessions, runs, live, network.", tool: "list_sessions",
			serve: (*Server).tellEvents, answer: media("text/event-stream", object{"type": "string"}), query: object{
				"session_id": object{"type": "string", "description": "The session that is looked at."}}},
		{method: "POST", path: inSession + "/sql", id: "sql.query", summary: "Query a database. Many rows become a file of the session.", tool: "exec_sql"},
		{method: "GET", path: "/v1/sql", id: "sql.describe", summary: "Describe the databases.", tool: "describe_sql"},
	}
}

// routes are those that exist under these settings.
func (s *Server) routes() []route {
	return slices.DeleteFunc(table(), func(r route) bool {
		if r.tool == runTool {
			return len(languagesOf(s.tools)) == 0
		}
		_, exists := s.tools[r.tool]
		return !exists
	})
}

// languagesOf are those that code may be in.
func languagesOf(tools map[string]server.ServerTool) (list []sandbox.LanguageInfo) {
	for _, l := range sandbox.Languages {
		if _, exists := tools[l.Tool()]; exists {
			list = append(list, l)
		}
	}
	return list
}

// language finds the language of a name; none is the first that there is.
func (s *Server) language(name string) (sandbox.LanguageInfo, error) {
	called, _ := sandbox.LanguageCalled(name)
	var names []string
	for _, l := range languagesOf(s.tools) {
		if name == "" || l.Language == called {
			return l, nil
		}
		names = append(names, string(l.Language))
	}
	return sandbox.LanguageInfo{}, fault.New(fault.InvalidArgument, "There are: "+strings.Join(names, ", ")+".", "language %q is none that runs here.", text.Shorten(name, 80))
}

func (r *route) group() string {
	group, _, _ := strings.Cut(r.id, ".")
	return group
}

var wildcard = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// names are those of the arguments in a route's path.
func (r *route) names() (names []string) {
	for _, found := range wildcard.FindAllStringSubmatch(r.path, -1) {
		names = append(names, found[1])
	}
	return names
}

func (s *Server) serve(w http.ResponseWriter, request *http.Request, r route) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a run may take long; web.JSON sets one again
	if err := s.count(request, r); err != nil {
		s.refuse(w, request, err)
		return
	}
	if id := request.PathValue("session_id"); id != "" {
		if err := sandbox.CheckSessionID(id); err != nil { // an empty text would be another session
			s.refuse(w, request, err)
			return
		}
	}
	if r.serve != nil {
		r.serve(s, w, request)
		return
	}
	given, err := read(request, r.names())
	ctx, lowered := request.Context(), ""
	if wait := request.URL.Query().Get("wait_seconds"); err == nil && r.waits && (wait != "" || !r.patient) {
		ctx, lowered, err = s.waiting(ctx, wait)
		delete(given, "wait_seconds")
	}
	tool := r.tool
	if err == nil && tool == runTool {
		var language sandbox.LanguageInfo
		if language, err = s.language(given.text("language")); err == nil {
			tool = language.Tool()
		}
		delete(given, "language")
	}
	if err != nil {
		s.refuse(w, request, err)
		return
	}
	for name, value := range r.always {
		given.set(name, value)
	}
	o, err := s.call(ctx, tool, given)
	if lowered != "" {
		o.notes = append(o.notes, lowered)
	}
	s.send(w, request, o, err, max(r.status, http.StatusOK))
}

// count counts a request as one call, whatever its route does.
func (s *Server) count(request *http.Request, r route) error {
	if r.idle || s.freeReads && (request.Method == http.MethodGet || request.Method == http.MethodHead) {
		return nil
	}
	return s.countCall()
}

// waiting returns a context whose calls wait for runs as long as a parameter says, and a note where that is too long.
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
