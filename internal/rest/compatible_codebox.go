// The five endpoints of codebox-ai, for code that was written for it.

package rest

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// codebox is tomconte/codebox-ai: its clients need another address and no other change.
func codebox() foreign {
	return foreign{refusal: func(fields map[string]any) { fields["status"] = theirError }, routes: []route{
		{method: "POST", path: "/sessions", id: "compatible.create_session", summary: "Make a session with packages and limits.", tool: runTool,
			serve: (*Server).codeboxCreate, request: schemaOf[codeboxSession](), answer: schemaOf[codeboxMade]()},
		{method: "POST", path: "/execute", id: "compatible.execute", summary: "Run code.", tool: runTool,
			serve: (*Server).codeboxExecute, request: schemaOf[codeboxCode](), answer: schemaOf[codeboxRun]()},
		{method: "GET", path: "/execute/{run_id}/status", id: "compatible.status", summary: "Tell how a run stands.", tool: "wait_for_run",
			serve: (*Server).codeboxStatus, answer: schemaOf[codeboxStatus]()},
		{method: "GET", path: "/execute/{run_id}/results", id: "compatible.results", summary: "Tell what a run came to.", tool: "wait_for_run",
			serve: (*Server).codeboxResults, answer: schemaOf[codeboxResult]()},
		{method: "DELETE", path: "/sessions/{session_id}", id: "compatible.close_session", summary: "End a session.", tool: "close_session",
			serve: (*Server).codeboxClose, answer: schemaOf[codeboxClosed]()},
	}}
}

type codeboxSession struct {
	Dependencies []string       `json:"dependencies,omitempty" jsonschema:"Python packages to install."`
	Options      codeboxOptions `json:"execution_options,omitzero"`
}

type codeboxOptions struct {
	Timeout     float64           `json:"timeout,omitempty" jsonschema:"Seconds that a run may take."`
	MemoryLimit string            `json:"memory_limit,omitempty" jsonschema:"Such as 512M or 2G."`
	CPULimit    any               `json:"cpu_limit,omitempty" jsonschema:"Such as 1, as a text or a number."`
	Environment map[string]string `json:"environment_variables,omitempty" jsonschema:"Set once in Python, when the session is made."`
	Mounts      []any             `json:"mount_points,omitempty" jsonschema:"Refused: only the server's --mount decides what code sees of the host."`
}

type codeboxMade struct {
	SessionID string    `json:"session_id"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
	Notes     []string  `json:"notes,omitempty" jsonschema:"What was lowered."`
}

type codeboxCode struct {
	Code              string   `json:"code"`
	Language          string   `json:"language,omitempty" jsonschema:"python by default."`
	SessionID         string   `json:"session_id"`
	DisableValidation []string `json:"disable_validation,omitempty" jsonschema:"Ignored: code is not judged before it runs."`
}

type codeboxRun struct {
	RequestID string    `json:"request_id"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
}

type codeboxStatus struct {
	codeboxRun
	CompletedAt *time.Time `json:"completed_at"`
}

type codeboxResult struct {
	Status      string          `json:"status"`
	Output      []codeboxOutput `json:"output"`
	Error       *codeboxError   `json:"error"`
	Files       []string        `json:"files" jsonschema:"PNG images, as base64."`
	CompletedAt *time.Time      `json:"completed_at"`
}

type codeboxOutput struct {
	Type    string `json:"type" jsonschema:"stream or result."`
	Content string `json:"content"`
}

type codeboxError struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

type codeboxClosed struct {
	Status string `json:"status"`
}

// limits are those that the options say.
func (o *codeboxOptions) limits() (of sandbox.SessionLimits, err error) {
	wrong := func(format string, args ...any) error {
		return fault.New(fault.InvalidArgument, `Such as {"timeout": 300, "memory_limit": "2G", "cpu_limit": "1"}.`, format, args...)
	}
	var l limits
	if len(o.Mounts) > 0 {
		return of, fault.New(fault.InvalidArgument, "Leave mount_points out, and upload the files; or have the server's user start it with --mount.", "mount_points are not for a client to choose.")
	}
	if l.TimeoutSeconds = o.Timeout; o.Timeout < 0 {
		return of, wrong("timeout is %v and must be above 0.", o.Timeout)
	}
	if o.MemoryLimit != "" {
		bytes, err := units.RAMInBytes(o.MemoryLimit)
		if err != nil || bytes <= 0 {
			return of, wrong("memory_limit is %q and must be a size such as 2G.", text.Shorten(o.MemoryLimit, 40))
		}
		l.MemoryMB = float64(bytes) / (1 << 20)
	}
	switch cpus := o.CPULimit.(type) {
	case nil:
	case float64:
		l.CPUs = cpus
	case string:
		if l.CPUs, err = strconv.ParseFloat(cpus, 64); err != nil || !(l.CPUs > 0) {
			return of, wrong("cpu_limit is %q and must be a number such as 1.", text.Shorten(cpus, 40))
		}
	default:
		return of, wrong("cpu_limit must be a number such as 1.")
	}
	return l.session()
}

func (s *Server) codeboxCreate(w http.ResponseWriter, r *http.Request) {
	var wanted codeboxSession
	if _, err := decode(r, &wanted); err != nil {
		s.refuse(w, r, err)
		return
	}
	lease, notes, err := s.codeboxBegin(r.Context(), &wanted)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	web.JSON(w, http.StatusOK, codeboxMade{lease.SessionID, "created", lease.Created.UTC(), notes})
}

// codeboxBegin makes a session with all that was asked for, or none.
func (s *Server) codeboxBegin(ctx context.Context, wanted *codeboxSession) (lease sandbox.Lease, notes []string, err error) {
	of, err := wanted.Options.limits()
	if err != nil {
		return lease, nil, err
	}
	code := ""
	if len(wanted.Options.Environment) > 0 {
		values, _ := json.Marshal(wanted.Options.Environment)
		literal, _ := json.Marshal(string(values)) // a text of JSON's is one of Python's
		code = "import json as _json, os as _os; _os.environ.update(_json.loads(" + string(literal) + ")); del _json, _os"
	}
	if lease, notes, err = s.begin(ctx, "", sandbox.Python, of, code); err != nil || len(wanted.Dependencies) == 0 {
		return lease, notes, err
	}
	if err = s.install(ctx, lease.SessionID, wanted.Dependencies); err != nil {
		_, _ = s.manager.CloseSession(context.WithoutCancel(ctx), lease.SessionID, false)
	}
	return lease, notes, err
}

// install installs Python packages, however long it takes.
func (s *Server) install(ctx context.Context, session string, packages []string) error {
	given := make(arguments)
	given.set("session_id", session)
	given.set("language", sandbox.Python)
	given.set("packages", packages)
	o, err := s.call(ctx, "install_packages", given)
	if err != nil {
		return err
	}
	if o.fault == nil {
		members := o.members()
		if sandbox.Status(members.text("status")) != sandbox.Running {
			return nil
		}
		run, err := s.manager.FindRun(members.text("run_id"))
		if err != nil {
			return err
		}
		select {
		case <-run.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		o, err = s.call(ctx, "install_packages", given) // they are there, or it says why not
		if err != nil {
			return err
		}
	}
	if o.fault != nil {
		return faultOf(o.fault)
	}
	return nil
}

// faultOf is the fault that fields tell of.
func faultOf(fields map[string]any) *fault.Error {
	f := fault.New(fault.Code(fmt.Sprint(fields["code"])), fmt.Sprint(fields["hint"]), "%s", fields["message"])
	for name, value := range fields {
		if name != "code" && name != "message" && name != "hint" {
			f = f.With(name, value)
		}
	}
	return f
}

func (s *Server) codeboxExecute(w http.ResponseWriter, r *http.Request) {
	var wanted codeboxCode
	_, err := decode(r, &wanted)
	if err == nil && wanted.SessionID == "" {
		err = fault.New(fault.InvalidArgument, "POST /sessions makes one.", "session_id is missing.")
	}
	if err == nil {
		err = sandbox.CheckSessionID(wanted.SessionID)
	}
	if err == nil {
		_, err = s.manager.Session(r.Context(), wanted.SessionID)
	}
	var language sandbox.LanguageInfo
	if err == nil {
		language, err = s.language(wanted.Language)
	}
	var o outcome
	if err == nil {
		given := make(arguments)
		given.set("code", wanted.Code)
		given.set("session_id", wanted.SessionID)
		o, err = s.call(tools.WithWait(r.Context(), 0), language.Tool(), given)
	}
	var run *sandbox.Run
	switch {
	case err != nil:
	case o.fields == nil && o.fault != nil:
		err = faultOf(o.fault)
	default:
		run, err = s.manager.FindRun(o.members().text("run_id"))
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	web.JSON(w, http.StatusOK, codeboxOf(run, "created"))
}

func codeboxOf(run *sandbox.Run, status sandbox.Status) codeboxRun {
	begun, _ := run.Times()
	return codeboxRun{run.ID, asTheirs(status), inMicroseconds(begun)}
}

const theirError = "error"

// asTheirs is a status as that system has it. Its clients ask on for ever after any other end than completed, failed and error.
func asTheirs(status sandbox.Status) string {
	switch status {
	case sandbox.TimedOut, sandbox.Cancelled, sandbox.Killed:
		return theirError
	}
	return string(status)
}

// inMicroseconds is a time as Python reads it.
func inMicroseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// look finds a run and what it has come to, and answers where there is none.
func (s *Server) look(w http.ResponseWriter, r *http.Request) (run *sandbox.Run, res *sandbox.Result, completed *time.Time) {
	run, err := s.manager.FindRun(r.PathValue("run_id"))
	if err == nil {
		res, err = run.Result()
	}
	if err != nil {
		s.refuse(w, r, err)
		return nil, nil, nil
	}
	if res == nil {
		return run, run.SoFar(r.Context()), nil
	}
	_, ended := run.Times()
	ended = inMicroseconds(ended)
	return run, res, &ended
}

func (s *Server) codeboxStatus(w http.ResponseWriter, r *http.Request) {
	run, res, completed := s.look(w, r)
	if run == nil {
		return
	}
	web.JSON(w, http.StatusOK, codeboxStatus{codeboxOf(run, res.Status), completed})
}

// figureRoom is what a byte of a figure takes in an answer: as base64, and as JSON in a buffer that has grown.
const figureRoom = 6

func (s *Server) codeboxResults(w http.ResponseWriter, r *http.Request) {
	run, res, completed := s.look(w, r)
	if run == nil {
		return
	}
	answer := codeboxResult{Status: asTheirs(res.Status), Output: []codeboxOutput{}, Files: []string{}, CompletedAt: completed}
	add := func(kind, content string) {
		if content != "" {
			answer.Output = append(answer.Output, codeboxOutput{kind, content})
		}
	}
	for _, stream := range []sandbox.Stream{res.Stdout, res.Stderr} {
		add("stream", stream.Head)
		if stream.Truncated() {
			add("stream", "\n… the whole text is in "+stream.Path+" …\n")
		}
		add("stream", stream.Tail)
	}
	if res.Value != nil {
		add("result", *res.Value)
	}
	if e := res.Error; e != nil {
		answer.Error = &codeboxError{e.Name, e.Message, strings.Split(strings.TrimRight(e.Traceback, "\n"), "\n")}
	}
	if answer.Status == theirError { // which does not say how it ended
		answer.Error = cmp.Or(answer.Error, &codeboxError{Traceback: []string{}})
		answer.Error.Name, answer.Error.Value = string(res.Status), "The run was "+strings.ReplaceAll(string(res.Status), "_", " ")+"."
	}
	figures := 0
	for _, d := range res.Displays {
		figures += len(d.Data["image/png"])
	}
	if _, err := room.Take(r.Context(), figureRoom*int64(figures)); err != nil {
		s.refuse(w, r, err)
		return
	}
	for _, d := range res.Displays {
		if png := d.Data["image/png"]; len(png) > 0 {
			answer.Files = append(answer.Files, base64.StdEncoding.EncodeToString(png))
		}
	}
	web.JSON(w, http.StatusOK, answer)
}

func (s *Server) codeboxClose(w http.ResponseWriter, r *http.Request) {
	given := make(arguments)
	given.set("session_id", r.PathValue("session_id"))
	o, err := s.call(r.Context(), "close_session", given)
	if err == nil && o.fault != nil {
		err = faultOf(o.fault)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	web.JSON(w, http.StatusOK, codeboxClosed{"cleaned up"})
}
