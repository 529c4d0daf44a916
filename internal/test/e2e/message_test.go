//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// largestLine is the most that a server may write into one line.
const largestLine = 8 << 20

// message is one line of a server's stdout.
type message struct {
	JSONRPC string
	ID      json.RawMessage // nil in a notification, null where no id could be read
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   *rpcError
	line    []byte
}

type rpcError struct {
	Code    int
	Message string
}

// parseMessage takes a line with its end, and says what about it is not a server's JSON-RPC.
func parseMessage(line []byte) (message, error) {
	m := message{line: line}
	if len(line) > largestLine {
		return m, fmt.Errorf("a line of %d bytes", len(line))
	}
	if !utf8.Valid(line) {
		return m, errors.New("not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	if err := decoder.Decode(&m); err != nil {
		return m, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("more than one value on a line")
	}
	return m, m.check()
}

// check refuses what is neither an answer nor a notification, nor a question to the client's user, which is the only one. A server of
// the stateless era may not ask its client anything.
func (m message) check() error {
	answers := 0
	if m.Result != nil {
		answers++
	}
	if m.Error != nil {
		answers++
	}
	switch {
	case m.JSONRPC != "2.0":
		return fmt.Errorf("jsonrpc is %q", m.JSONRPC)
	case (m.Method == "elicitation/create" || m.Method == "roots/list") && m.ID != nil && answers == 0:
	case m.Method != "" && (m.ID != nil || answers > 0):
		return errors.New("a request, or a notification with an answer in it")
	case m.Method == "" && (m.ID == nil || answers != 1):
		return errors.New("neither an answer nor a notification")
	}
	return nil
}

// toolResult is the answer to tools/call.
type toolResult struct {
	Content           []content
	IsError           bool
	StructuredContent json.RawMessage
	ResultType        string
	Meta              struct {
		Run   *runResult   `json:"code-sandbox-mcp/result"`
		Error *errorFields `json:"code-sandbox-mcp/error"`
	} `json:"_meta"`
	line []byte
}

type content struct {
	Type, Text, Data, MimeType string
}

// errorFields is the fields of a coded error.
type errorFields struct {
	Code, Message, Hint string
	LimitBytes          int    `json:"limit_bytes"`
	SizeBytes           int    `json:"size_bytes"`
	DownloadURL         string `json:"download_url"`
}

// runResult is what a run came to, and the fields of the other tools' answers.
type runResult struct {
	SessionID string    `json:"session_id"`
	RunID     string    `json:"run_id"`
	Language  string    `json:"language"`
	Status    string    `json:"status"`
	ExitCode  *int      `json:"exit_code"`
	Stdout    string    `json:"stdout"`
	Stderr    string    `json:"stderr"`
	Result    *string   `json:"result"`
	Error     *runError `json:"error"`
	Artifacts []artifact
}

type runError struct {
	Name, Message, Traceback string
}

type artifact struct {
	Path string `json:"path"`
	// DownloadURL is there with --files-http.
	DownloadURL string `json:"download_url"`
}

// text is what a model reads.
func (r toolResult) text() string {
	var b bytes.Buffer
	for _, c := range r.Content {
		b.WriteString(c.Text)
		if c.Type == "text" {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// images gives the contents that are images.
func (r toolResult) images() []content {
	var images []content
	for _, c := range r.Content {
		if c.Type == "image" {
			images = append(images, c)
		}
	}
	return images
}

// value is the last expression's value, or "" where there is none.
func (r *runResult) value() string {
	if r == nil || r.Result == nil {
		return ""
	}
	return *r.Result
}

// paths lists the artifacts, in the order of the answer.
func (r *runResult) paths() []string {
	paths := make([]string, 0, len(r.Artifacts))
	for _, a := range r.Artifacts {
		paths = append(paths, a.Path)
	}
	return paths
}

// The tools that run code.
const (
	python     = "run_python_code"
	javascript = "run_js_code"
)

// beginCall calls a tool and does not wait for its answer.
func (s *server) beginCall(tool string, arguments object) *request {
	s.t.Helper()
	r := s.begin("tools/call", object{"name": tool, "arguments": arguments})
	r.tool = tool
	return r
}

// beginTracked is beginCall for a client that wants to hear of the call's progress.
func (s *server) beginTracked(tool string, arguments object, token string) *request {
	s.t.Helper()
	return s.begin("tools/call", object{
		"name": tool, "arguments": arguments, "_meta": object{"progressToken": token},
	})
}

// call calls a tool.
func (s *server) call(tool string, arguments object) toolResult {
	s.t.Helper()
	return s.beginCall(tool, arguments).result()
}

// result is the answer to tools/call, which must not be a protocol error.
func (r *request) result() toolResult {
	r.server.t.Helper()
	m := r.wait()
	if m.Error != nil {
		r.server.t.Fatalf("%s: error %d: %s", r.method, m.Error.Code, m.Error.Message)
	}
	res := toolResult{line: m.line}
	decode(r.server.t, m.Result, &res)
	if res.StructuredContent != nil {
		decode(r.server.t, res.StructuredContent, &res.Meta.Run)
	}
	should.Hold(r.server.t, r.server.era != modern || res.ResultType == "complete", "resultType is %q", res.ResultType)
	if run := res.Meta.Run; run != nil && run.SessionID != "" {
		r.server.mu.Lock()
		r.server.sessions[run.SessionID] = true
		r.server.mu.Unlock()
	}
	return res
}

// py runs Python in the default session, to its end and with no error.
func (s *server) py(code string) toolResult {
	s.t.Helper()
	return s.complete(python, object{"code": code})
}

// js runs JavaScript in the default session, to its end and with no error.
func (s *server) js(code string) toolResult {
	s.t.Helper()
	return s.complete(javascript, object{"code": code})
}

// complete calls a tool that runs code, which must complete.
func (s *server) complete(tool string, arguments object) toolResult {
	s.t.Helper()
	return s.run(tool, arguments, "completed")
}

// run calls a tool that answers with a RunResult, which must have the status. It waits for a run that
// goes on, unless that is what is wanted.
func (s *server) run(tool string, arguments object, status string) toolResult {
	s.t.Helper()
	res := s.call(tool, arguments)
	if run := res.Meta.Run; run != nil && run.Status == "running" && status != "running" {
		res = s.wait(run.RunID)
	}
	res.wantStatus(s.t, status)
	return res
}

func (r toolResult) wantStatus(t *testing.T, status string) {
	t.Helper()
	must.Hold(t, r.Meta.Run != nil && r.Meta.Run.Status == status, "not %s:\n%s", status, r.text())
}

// wantCode checks that a call was refused with a coded error.
func (r toolResult) wantCode(t *testing.T, code string) {
	t.Helper()
	should.Hold(t, r.Meta.Error != nil && r.Meta.Error.Code == code, "not refused with %s:\n%s", code, r.text())
}

// wantText checks that a model reads all of the parts.
func (r toolResult) wantText(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		should.Hold(t, strings.Contains(r.text(), part), "%q is not in the text:\n%s", part, tail(r.text()))
	}
}

// progress is the params of a progress notification.
type progress struct {
	ProgressToken string
	Message       string
}

// progressOf gives the notifications with a token, in the order of their coming.
func progressOf(messages []message, token string) (list []progress) {
	for _, m := range messages {
		if m.Method != "notifications/progress" {
			continue
		}
		var p progress
		if json.Unmarshal(m.Params, &p) == nil && p.ProgressToken == token {
			list = append(list, p)
		}
	}
	return list
}

// wait asks for a run until it is over.
func (s *server) wait(id string) toolResult {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		res := s.call("wait_for_run", object{"run_id": id})
		if res.Meta.Run == nil || res.Meta.Run.Status != "running" || time.Now().After(deadline) {
			return res
		}
	}
}
