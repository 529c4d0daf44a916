package rest

import (
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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// newSession is the body of a request that makes one.
type newSession struct {
	SessionID string `json:"session_id,omitempty" jsonschema:"Its name; one is made up where it is left out."`
	Language  string `json:"language,omitempty" jsonschema:"With limits: the language whose container is started first."`
	Limits    Limits `json:"limits,omitzero" jsonschema:"Of the session, below those of the server; larger ones are lowered. A container is started at once."`
}

// Limits are the limits of a session.
type Limits struct {
	MemoryMB       float64 `json:"memory_mb,omitempty"`
	CPUs           float64 `json:"cpus,omitempty"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty" jsonschema:"The most that a run may take."`
}

// Session returns them as those of a sandbox.
func (l Limits) Session() (of sandbox.SessionLimits, err error) {
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

// Decode reads a body into a struct.
func Decode(r *http.Request, into any) error {
	_, err := decode(r, into)
	return err
}

// decode reads a body into a struct, and returns it as it is.
func decode(r *http.Request, into any) (given Arguments, err error) {
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

// ignored notes the members of an object that match no field of a struct.
func ignored(given Arguments, of any) (notes []string) {
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

// maxIgnored limits the ignored members that are named.
const maxIgnored = 10

// kinds maps our kinds of values to JSON's names.
var kinds = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Float64: "a number", reflect.Slice: "a list", reflect.Map: "an object", reflect.Struct: "an object",
}

// misfit describes a member of the wrong type in JSON's words.
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
		err = runs.CheckSessionID(wanted.SessionID)
	}
	if err == nil && wanted.SessionID != "" {
		if _, missing := s.manager.Session(r.Context(), wanted.SessionID); missing == nil {
			status = http.StatusOK
		} else if fault.From(missing).Code != fault.SessionNotFound {
			err = missing
		}
	}
	var language kernel.LanguageInfo
	var of sandbox.SessionLimits
	if err == nil {
		language, err = s.Language(wanted.Language)
	}
	if err == nil {
		of, err = wanted.Limits.Session()
	}
	var lease sandbox.Lease
	var notes []string
	if err == nil {
		lease, notes, err = s.Begin(r.Context(), wanted.SessionID, language.Language, of, "")
	}
	if err == nil {
		given := make(Arguments)
		given.Set("session_id", lease.SessionID)
		o, err = s.call(r.Context(), "session_info", given)
		o.notes = slices.Concat(ignored(asked, wanted), ignored(asked.object("limits"), wanted.Limits), notes, o.notes)
		w.Header().Set("Location", "/v1/sessions/"+lease.SessionID)
	}
	s.send(w, r, o, err, status)
}
