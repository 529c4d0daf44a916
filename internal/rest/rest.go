// Package rest serves the tools as a REST interface below /v1, and beside it the APIs of other systems.
//
// Start with New. A table of routes (routes.go) maps each route to a tool; its arguments are those of the path, the query and the
// body, its answer is the tool's fields for programs, and an error is {code, message, hint} with the status of its code. The
// OpenAPI document is made of the same table and the tools' own schemas. The transport in front authenticates, and bounds the
// length of a body.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Options configure a Server. Those without a default are required.
type Options struct {
	Deps *tools.Deps
	// FreeReads counts no request to read as a call: a page asks again and again.
	FreeReads bool
	Version   string
	Logger    *slog.Logger
	// Ending ends the streams of events. Nil: nothing does but their clients.
	Ending context.Context
	// Every is how often such a stream looks for something new. Default a second.
	Every time.Duration
	// APIs are served beside /v1.
	APIs APIs
	// Others returns the sessions that other servers of the user have open, by their ids. Requests about them are answered there. Nil: they
	// are refused here.
	Others func(context.Context) map[string]*door.Neighbour
	// Uses returns what everybody's sessions take, for the owner. Nil: a principal is served, who sees the own sessions alone.
	Uses func(context.Context) ([]door.Use, error)
	// Export writes a session as a request's query says, and reports on it. Nil: there is no way to ask.
	Export func(ctx context.Context, session string, to io.Writer, how url.Values) (report any, err error)
}

// Server answers requests. It is for any number of goroutines.
type Server struct {
	backend
	apis      APIs
	log       *slog.Logger
	softWait  time.Duration
	scripts   bool // of pages run
	mux       *http.ServeMux
	followers streams             // of a run's output
	watchers  streams             // of events
	readers   *semaphore.Weighted // of lists of runs
	network   *netlog.Log         // nil: nothing is known of it
	sessions  sessionList
	others    func(context.Context) map[string]*door.Neighbour
	export    func(ctx context.Context, session string, to io.Writer, how url.Values) (report any, err error)
	uses      func(context.Context) ([]door.Use, error)
	countCall func() error
	freeReads bool
	ending    context.Context
	every     time.Duration
}

// New returns a server of the tools that exist under these settings.
func New(o Options) *Server {
	s := &Server{
		backend: newBackend(o), apis: o.APIs, log: o.Logger, mux: http.NewServeMux(),
		followers: newStreams(maxFollowers, "output", "Ask for /v1/runs/{run_id}?wait_seconds=10 instead, or try again later."),
		watchers:  newStreams(maxWatchers, "events", "Ask for /v1/sessions instead, or try again later."),
		readers:   semaphore.NewWeighted(maxReaders), softWait: o.Deps.SoftWait, scripts: o.Deps.PageScripts, countCall: o.Deps.CountCall, freeReads: o.FreeReads,
		network: o.Deps.NetworkLog, others: o.Others, uses: o.Uses, export: o.Export, ending: o.Ending, every: cmp.Or(o.Every, time.Second),
	}
	if s.ending == nil {
		s.ending = context.Background()
	}
	served := s.routes()
	for _, r := range served {
		s.mux.HandleFunc(r.Method+" "+r.Path, func(w http.ResponseWriter, request *http.Request) { s.serve(w, request, r) })
	}
	made := sync.OnceValue(func() json.RawMessage { return s.document(served) }) // few ask for it
	for _, path := range []string{"/v1/openapi.json", "/openapi.json"} {
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { web.JSON(w, r, http.StatusOK, made()) })
	}
	if s.export != nil { // for this user's own processes
		s.mux.HandleFunc("GET "+inSession+"/export", s.sendExport)
		s.mux.HandleFunc("GET "+inSession+"/live", s.tellLive)
	}
	s.mux.HandleFunc("/", s.nothing)
	return s
}

// ServeHTTP serves a request for one of the Routes.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if at := s.elsewhere(r); at != nil {
		s.pass(w, r, at)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Routes are the handlers by patterns of http.ServeMux.
func (s *Server) Routes() map[string]http.Handler {
	list := make(map[string]http.Handler)
	for _, pattern := range s.apis.Patterns() {
		list[pattern] = s
	}
	return list
}

// refusals are the codes of requests that the transport in front does not let in, by their status.
var refusals = map[int]fault.Code{
	http.StatusBadRequest:         fault.InvalidArgument,
	http.StatusUnauthorized:       fault.Unauthorized,
	http.StatusForbidden:          fault.Forbidden,
	http.StatusServiceUnavailable: fault.ServerBusy,
}

// Refuse answers a request that the transport in front does not let in, as all others that are refused.
func (s *Server) Refuse(w http.ResponseWriter, r *http.Request, status int, problem, advice string) {
	sentence := func(words string) string { return strings.ToUpper(words[:1]) + words[1:] + "." }
	s.write(w, r, status, fault.New(refusals[status], sentence(advice), "%s", sentence(problem)).JSON())
}

// Open returns the public handlers, which reveal nothing of this server, such as a page to try the interface with, which asks for the token.
func (s *Server) Open() map[string]http.Handler {
	open := map[string]http.Handler{"GET /v1/docs": http.HandlerFunc(page), "GET /docs": http.HandlerFunc(page)}
	for _, api := range s.apis {
		maps.Copy(open, api.Open)
	}
	return open
}

// nothing answers requests that are for no route.
func (s *Server) nothing(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		s.refuse(w, r, fault.New(fault.NotFound, "/v1/openapi.json lists what there is.", "There is nothing at %q.", text.Shorten(r.URL.Path, 120)))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	s.write(w, r, http.StatusMethodNotAllowed, fault.New(fault.InvalidArgument, "Use "+strings.Join(allowed, " or ")+".",
		"%q takes no %.20q.", text.Shorten(r.URL.Path, 120), r.Method).JSON())
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, rpc.ErrShutdown) {
		err = fault.New(fault.EngineUnavailable, "Try again when it is back.", "The server is shutting down.")
	}
	f := fault.From(err)
	s.log.Info("request refused", "path", r.Pattern, "code", f.Code, "cause", f.Unwrap())
	status := web.StatusOf(err)
	if errors.Is(err, os.ErrDeadlineExceeded) && f.Code == fault.InvalidContent {
		status = http.StatusRequestTimeout
	}
	s.write(w, r, status, f.JSON())
}

// write answers with an error's fields.
func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, fields map[string]any) {
	if seconds := fields[fault.RetryAfter]; seconds != nil {
		w.Header().Set("Retry-After", fmt.Sprint(seconds))
	}
	if api := s.apis.of(r.URL.Path); api != nil {
		api.Refusal(status, fields)
	}
	web.JSON(w, r, status, fields)
}

// Arguments are the arguments of a call, as JSON.
type Arguments map[string]json.RawMessage

// Set gives an argument a value.
func (a Arguments) Set(name string, value any) {
	a[name] = web.Encode(value)
}

// Text returns an argument that is a text; else an empty one.
func (a Arguments) Text(name string) (value string) {
	_ = json.Unmarshal(a[name], &value) // a value that is no text is for the tool to refuse
	return value
}

// object is the members of an argument that is one.
func (a Arguments) object(name string) (members Arguments) {
	_ = json.Unmarshal(a[name], &members)
	return members
}

// body reads a request's object; an empty body is an empty one.
func body(r *http.Request) (Arguments, error) {
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "multipart/") { // which the transport did not bound
		return nil, fault.New(fault.InvalidContent, "Send JSON.", "The body is a form.")
	}
	var read bytes.Buffer // which takes a body that is there already as it is, and grows no further
	_, err := io.Copy(&read, r.Body)
	raw := read.Bytes()
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, fault.New(fault.UploadTooLarge, "Upload large files with PUT, as they are.", "The body is longer than %d bytes.", long.Limit).With("limit_bytes", long.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.New(fault.InvalidContent, "Send it again.", "The body came too slowly.").Because(err)
	case err != nil:
		return nil, fault.New(fault.InvalidContent, "Send it again.", "The body did not come whole.").Because(err)
	}
	given := make(Arguments)
	if len(bytes.TrimSpace(raw)) == 0 {
		return given, nil
	}
	if err := jsonbound.Request.Check(raw); err != nil {
		return nil, fault.New(fault.InvalidArgument, "Upload many values as a file, and read that with code.", "The body has %v.", err)
	}
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return nil, fault.New(fault.InvalidArgument, `Send an object such as {"code": "6 * 7"}; /v1/openapi.json has its members.`,
			"The body is not a JSON object but begins with %q.", text.Shorten(strings.ToValidUTF8(string(raw[:min(len(raw), 200)]), "?"), 60))
	}
	return given, nil
}

// read reads a request's arguments: of its body where it is a POST, else of its query, and of its path.
func read(r *http.Request, names []string) (Arguments, error) {
	given := make(Arguments)
	if r.Method == http.MethodPost {
		var err error
		if given, err = body(r); err != nil {
			return nil, err
		}
	} else {
		for name, values := range r.URL.Query() {
			given.Set(name, values[0])
		}
	}
	for _, name := range names {
		given.Set(name, r.PathValue(name))
	}
	return given, nil
}

// members returns the fields of an answer, and the text for a model beside them.
func (o outcome) members() Arguments {
	members := make(Arguments)
	_ = json.Unmarshal(web.Encode(o.fields), &members)
	if len(o.notes) > 0 {
		var own []string // of the fields
		_ = json.Unmarshal(members["notes"], &own)
		members.Set("notes", append(own, o.notes...))
	}
	if o.fault != nil {
		members.Set("fault", o.fault)
	}
	return members
}

// outOfPlace notes parameters in the address of a POST, where only a wait is read.
func outOfPlace(r *http.Request) (notes []string) {
	for _, name := range sorted(r.URL.Query()) {
		if r.Method == http.MethodPost && name != "wait_seconds" && len(notes) < maxIgnored {
			notes = append(notes, fmt.Sprintf("ignored %q in the address: a POST has its arguments in its body.", text.Shorten(name, 80)))
		}
	}
	return notes
}

// send sends the answer of a tool.
func (s *Server) send(w http.ResponseWriter, r *http.Request, o outcome, err error, status int) {
	switch {
	case err != nil:
		s.refuse(w, r, err)
	case o.fields == nil && o.fault != nil:
		s.write(w, r, web.StatusOf(faultOf(o.fault)), o.fault)
	default:
		o.notes = append(o.notes, outOfPlace(r)...)
		members := o.members()
		if sandbox.Status(members.Text("status")) == sandbox.Running {
			status = http.StatusAccepted
			w.Header().Set("Location", "/v1/runs/"+members.Text("run_id"))
		}
		web.JSON(w, r, status, members)
	}
}
