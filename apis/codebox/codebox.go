// Package codebox serves the five endpoints of codebox-ai, for code that was written for it.
package codebox

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// New returns the API of tomconte/codebox-ai: its clients need another address and no other change.
func New() *rest.API {
	return &rest.API{
		Patterns: []string{"/sessions", "/sessions/", "/execute", "/execute/"},
		Refusal:  func(_ int, fields map[string]any) { fields["status"] = failed },
		Routes: []rest.Route{
			{Method: "POST", Path: "/sessions", ID: "compatible.create_session", Summary: "Make a session with packages and limits.", Tool: rest.RunTool,
				Serve: create, Request: rest.Schema[newSession], Answer: rest.Schema[made]},
			{Method: "POST", Path: "/execute", ID: "compatible.execute", Summary: "Run code.", Tool: rest.RunTool,
				Serve: execute, Request: rest.Schema[newRun], Answer: rest.Schema[run]},
			{Method: "GET", Path: "/execute/{run_id}/status", ID: "compatible.status", Summary: "Tell how a run stands.", Tool: "wait_for_run",
				Serve: status, Answer: rest.Schema[stand]},
			{Method: "GET", Path: "/execute/{run_id}/results", ID: "compatible.results", Summary: "Tell what a run came to.", Tool: "wait_for_run",
				Serve: results, Answer: rest.Schema[result]},
			{Method: "DELETE", Path: "/sessions/{session_id}", ID: "compatible.close_session", Summary: "End a session.", Tool: "close_session",
				Serve: end, Answer: rest.Schema[ended]},
		},
	}
}

type newSession struct {
	Dependencies []string `json:"dependencies,omitempty" jsonschema:"Python packages to install."`
	Options      options  `json:"execution_options,omitzero"`
}

type options struct {
	Timeout     float64           `json:"timeout,omitempty" jsonschema:"Seconds that a run may take."`
	MemoryLimit string            `json:"memory_limit,omitempty" jsonschema:"Such as 512M or 2G."`
	CPULimit    any               `json:"cpu_limit,omitempty" jsonschema:"Such as 1, as a text or a number."`
	Environment map[string]string `json:"environment_variables,omitempty" jsonschema:"Set once in Python, when the session is made."`
	Mounts      []any             `json:"mount_points,omitempty" jsonschema:"Refused: only the server's --mount decides what code sees of the host."`
}

type made struct {
	SessionID string    `json:"session_id"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
	Notes     []string  `json:"notes,omitempty" jsonschema:"What was lowered."`
}

type newRun struct {
	Code              string   `json:"code"`
	Language          string   `json:"language,omitempty" jsonschema:"python by default."`
	SessionID         string   `json:"session_id"`
	DisableValidation []string `json:"disable_validation,omitempty" jsonschema:"Ignored: code is not judged before it runs."`
}

type run struct {
	RequestID string    `json:"request_id"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
}

type stand struct {
	run
	CompletedAt *time.Time `json:"completed_at"`
}

type result struct {
	Status      string     `json:"status"`
	Output      []output   `json:"output"`
	Error       *runError  `json:"error"`
	Files       []string   `json:"files" jsonschema:"PNG images, as base64."`
	CompletedAt *time.Time `json:"completed_at"`
}

type output struct {
	Type    string `json:"type" jsonschema:"stream or result."`
	Content string `json:"content"`
}

type runError struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

type ended struct {
	Status string `json:"status"`
}

// limits returns the limits in the options.
func (o *options) limits() (of sandbox.SessionLimits, err error) {
	wrong := func(format string, args ...any) error {
		return fault.New(fault.InvalidArgument, `Such as {"timeout": 300, "memory_limit": "2G", "cpu_limit": "1"}.`, format, args...)
	}
	var l rest.Limits
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
	return l.Session()
}

func create(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	var wanted newSession
	if err := rest.Decode(r, &wanted); err != nil {
		return err
	}
	lease, notes, err := begin(r.Context(), h, &wanted)
	if err == nil {
		web.JSON(w, r, http.StatusOK, made{lease.SessionID, "created", lease.Created.UTC(), notes})
	}
	return err
}

// begin makes a session with all that was asked for, or none.
func begin(ctx context.Context, h rest.Host, wanted *newSession) (lease sandbox.Lease, notes []string, err error) {
	of, err := wanted.Options.limits()
	if err != nil {
		return lease, nil, err
	}
	code := ""
	if len(wanted.Options.Environment) > 0 {
		values, _ := json.Marshal(wanted.Options.Environment)
		literal, _ := json.Marshal(string(values)) // Python reads JSON's texts too
		code = "import json as _json, os as _os; _os.environ.update(_json.loads(" + string(literal) + ")); del _json, _os"
	}
	if lease, notes, err = h.Begin(ctx, "", sandbox.Python, of, code); err != nil || len(wanted.Dependencies) == 0 {
		return lease, notes, err
	}
	if err = install(ctx, h, lease.SessionID, wanted.Dependencies); err != nil {
		_, _ = h.Sessions().CloseSession(context.WithoutCancel(ctx), lease.SessionID, false)
	}
	return lease, notes, err
}

// install installs Python packages, however long it takes.
func install(ctx context.Context, h rest.Host, session string, packages []string) error {
	given := make(rest.Arguments)
	given.Set("session_id", session)
	given.Set("language", sandbox.Python)
	given.Set("packages", packages)
	fields, err := h.Call(ctx, "install_packages", given)
	if err != nil || sandbox.Status(fields.Text("status")) != sandbox.Running {
		return err
	}
	run, err := h.Sessions().FindRun(fields.Text("run_id"))
	if err != nil {
		return err
	}
	select {
	case <-run.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err = h.Call(ctx, "install_packages", given) // they are there, or it says why not
	return err
}

func execute(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	var wanted newRun
	err := rest.Decode(r, &wanted)
	if err == nil && wanted.SessionID == "" {
		err = fault.New(fault.InvalidArgument, "POST /sessions makes one.", "session_id is missing.")
	}
	if err == nil {
		err = runs.CheckSessionID(wanted.SessionID)
	}
	if err == nil {
		_, err = h.Sessions().Session(r.Context(), wanted.SessionID)
	}
	if err != nil {
		return err
	}
	language, err := h.Language(wanted.Language)
	if err != nil {
		return err
	}
	begun, err := apis.Start(r.Context(), h, wanted.SessionID, language, "", wanted.Code, make(rest.Arguments))
	if err == nil {
		web.JSON(w, r, http.StatusOK, runOf(begun, "created"))
	}
	return err
}

func runOf(begun *sandbox.Run, status sandbox.Status) run {
	at, _ := begun.Times()
	return run{begun.ID, asTheirs(status), inMicroseconds(at)}
}

const failed = "error"

// asTheirs translates a status for that system. Its clients poll for ever after any other end than completed, failed and error.
func asTheirs(status sandbox.Status) string {
	switch status {
	case sandbox.TimedOut, sandbox.Cancelled, sandbox.Killed:
		return failed
	}
	return string(status)
}

// inMicroseconds is a time as Python reads it.
func inMicroseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// look finds a run and its result so far.
func look(h rest.Host, r *http.Request) (found *sandbox.Run, res *sandbox.Result, completed *time.Time, err error) {
	if found, err = h.Sessions().FindRun(r.PathValue("run_id")); err != nil {
		return nil, nil, nil, err
	}
	if res, err = found.Result(); res == nil {
		return found, found.SoFar(r.Context()), nil, err
	}
	_, at := found.Times()
	at = inMicroseconds(at)
	return found, res, &at, nil
}

func status(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	found, res, completed, err := look(h, r)
	if err == nil {
		web.JSON(w, r, http.StatusOK, stand{runOf(found, res.Status), completed})
	}
	return err
}

func results(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	_, res, completed, err := look(h, r)
	if err != nil {
		return err
	}
	answer := result{Status: asTheirs(res.Status), Output: []output{}, Files: []string{}, CompletedAt: completed}
	add := func(kind, content string) {
		if content != "" {
			answer.Output = append(answer.Output, output{kind, content})
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
		answer.Error = &runError{e.Name, e.Message, strings.Split(strings.TrimRight(e.Traceback, "\n"), "\n")}
	}
	if answer.Status == failed { // which does not say how it ended
		answer.Error = cmp.Or(answer.Error, &runError{Traceback: []string{}})
		answer.Error.Name, answer.Error.Value = string(res.Status), "The run was "+res.Status.Words()+"."
	}
	figures := 0
	for _, d := range res.Displays {
		figures += len(d.Data["image/png"])
	}
	if _, err := room.Take(r.Context(), apis.FigureRoom(figures)); err != nil {
		return err
	}
	for _, d := range res.Displays {
		if png := d.Data["image/png"]; len(png) > 0 {
			answer.Files = append(answer.Files, base64.StdEncoding.EncodeToString(png))
		}
	}
	web.JSON(w, r, http.StatusOK, answer)
	return nil
}

func end(h rest.Host, w http.ResponseWriter, r *http.Request) error {
	given := make(rest.Arguments)
	given.Set("session_id", r.PathValue("session_id"))
	_, err := h.Call(r.Context(), "close_session", given)
	if err == nil {
		web.JSON(w, r, http.StatusOK, ended{"cleaned up"})
	}
	return err
}
