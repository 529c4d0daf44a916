package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
)

// newSession is the body of a request that makes one.
type newSession struct {
	SessionID string `json:"session_id,omitempty" jsonschema:"Its name; one is made up where it is left out."`
	Language  string `json:"language,omitempty" jsonschema:"With limits: the language whose container is started first."`
	Limits    limits `json:"limits,omitzero" jsonschema:"Of the session, below those of the server; larger ones are lowered. A container is started at once."`
}

type limits struct {
	MemoryMB       float64 `json:"memory_mb,omitempty"`
	CPUs           float64 `json:"cpus,omitempty"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty" jsonschema:"The most that a run may take."`
}

func (l limits) session() (of sandbox.SessionLimits, err error) {
	const most = 1 << 40
	for name, value := range map[string]float64{"memory_mb": l.MemoryMB, "cpus": l.CPUs, "timeout_seconds": l.TimeoutSeconds} {
		if value < 0 || value > most {
			return of, fault.New(fault.InvalidArgument, "Leave it out, or pass a number above 0.", "%s is %v.", name, value)
		}
	}
	return sandbox.SessionLimits{
		MemoryBytes: int64(l.MemoryMB * (1 << 20)), CPUs: l.CPUs, RunTimeout: time.Duration(min(l.TimeoutSeconds, 1e6) * float64(time.Second)),
	}, nil
}

// decode reads a body into a struct, and returns it as it is.
func decode(r *http.Request, into any) (given arguments, err error) {
	if given, err = body(r); err != nil {
		return nil, err
	}
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(web.Encode(given), into); {
	case errors.As(err, &wrong):
		return nil, fault.New(fault.InvalidArgument, "/v1/openapi.json has the types of all members.", "%s", misfit(wrong)).Because(err)
	case err != nil:
		return nil, fault.New(fault.InvalidContent, "/v1/openapi.json has the types of all members.", "The body does not fit.").Because(err)
	}
	return given, nil
}

// ignored notes the members of an object that a struct has no field for.
func ignored(given arguments, of any) (notes []string) {
	var known []string
	for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known = append(known, name)
	}
	for _, name := range sorted(given) {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			notes = append(notes, fmt.Sprintf("ignored %q: the members are %s.", text.Shorten(name, 80), strings.Join(known, ", ")))
		}
	}
	return notes[:min(len(notes), maxIgnored)]
}

// maxIgnored is how many members are named that are ignored.
const maxIgnored = 10

// kinds are what JSON has for the kinds of values of ours.
var kinds = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Float64: "a number", reflect.Slice: "a list", reflect.Map: "an object", reflect.Struct: "an object",
}

// misfit reports in JSON's words what is wrong with a member.
func misfit(e *json.UnmarshalTypeError) string {
	name := text.Shorten(e.Field, 80)
	if number, ok := strings.CutPrefix(e.Value, "number "); ok {
		return fmt.Sprintf("%s is %s, which is out of range.", name, text.Shorten(number, 40))
	}
	has := map[string]string{"string": "a text", "number": "a number", "bool": "true or false", "array": "a list", "object": "an object"}[e.Value]
	return fmt.Sprintf("%s has %s where %s belongs.", name, has, kinds[e.Type.Kind()])
}

func (s *Server) createSession(w http.ResponseWriter, r *http.Request) {
	var wanted newSession
	var o outcome
	status := http.StatusCreated
	asked, err := decode(r, &wanted)
	if err == nil && wanted.SessionID != "" {
		err = sandbox.CheckSessionID(wanted.SessionID)
	}
	if err == nil && wanted.SessionID != "" {
		if _, missing := s.manager.Session(r.Context(), wanted.SessionID); missing == nil {
			status = http.StatusOK
		} else if fault.From(missing).Code != fault.SessionNotFound {
			err = missing
		}
	}
	var language sandbox.LanguageInfo
	var of sandbox.SessionLimits
	if err == nil {
		language, err = s.language(wanted.Language)
	}
	if err == nil {
		of, err = wanted.Limits.session()
	}
	var lease sandbox.Lease
	var notes []string
	if err == nil {
		lease, notes, err = s.begin(r.Context(), wanted.SessionID, language.Language, of, "")
	}
	if err == nil {
		given := make(arguments)
		given.set("session_id", lease.SessionID)
		o, err = s.call(r.Context(), "session_info", given)
		o.notes = slices.Concat(ignored(asked, wanted), ignored(asked.object("limits"), wanted.Limits), notes, o.notes)
		w.Header().Set("Location", "/v1/sessions/"+lease.SessionID)
	}
	s.send(w, r, o, err, status)
}

// begin makes a session, of a new name for an empty id, and returns what is to be said of its limits. Where it has limits or code to
// run first, a container is started. One that could not be begun is closed again, if it is new.
func (s *Server) begin(ctx context.Context, id string, language sandbox.Language, of sandbox.SessionLimits, code string) (lease sandbox.Lease, notes []string, err error) {
	isNew := id == ""
	if isNew {
		id = state.NewID("s-")
	}
	lease, err = s.manager.Lease(id, true)
	if err == nil && (code != "" || of != sandbox.SessionLimits{}) {
		nothing := "0" // in every language
		notes, err = s.runFirst(ctx, sandbox.RunOptions{SessionID: id, Language: language, Code: cmp.Or(code, nothing), Limits: of, Times: clientheader.Of(ctx).Times()})
	}
	if err != nil && isNew {
		_, _ = s.manager.CloseSession(context.WithoutCancel(ctx), id, false)
	}
	return lease, notes, err
}

// runOwn begins to run code of our own.
func (s *Server) runOwn(ctx context.Context, o sandbox.RunOptions) (*sandbox.Run, error) {
	o.Unlisted, o.Caller = true, ctx
	return s.manager.Run(o)
}

// runFirst runs code of our own, and returns the notes of the run.
func (s *Server) runFirst(ctx context.Context, o sandbox.RunOptions) (notes []string, err error) {
	run, err := s.runOwn(ctx, o)
	if err != nil {
		return nil, err
	}
	select {
	case <-run.Done():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	res, err := run.Result()
	switch {
	case err != nil:
		return nil, err
	case res.Status == sandbox.Completed:
		return res.Notes, nil
	case res.Status == sandbox.Failed && res.Error != nil:
		return nil, fault.New(fault.InvalidArgument, "Check the names and values of the variables.", "The session could not be prepared: %s: %s.",
			text.Shorten(res.Error.Name, 80), text.Shorten(res.Error.Message, 200))
	}
	return nil, fault.New(fault.ExecutionFailed, "Try again, with more memory or time.", "The session could not be prepared: its first run was %s.", strings.ReplaceAll(string(res.Status), "_", " "))
}
