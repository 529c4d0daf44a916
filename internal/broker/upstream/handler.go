package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
)

// Prefix begins the paths that ServeHTTP serves.
const Prefix = "/tools/"

const (
	// writeTime is the time in which code must read an answer.
	writeTime = time.Minute
	// listCost is the most memory that a list takes while it is sent.
	listCost = 2 * maxListBytes
	// smallAnswer is the size up to which an answer is not counted in the session's memory.
	smallAnswer = 64 << 10
)

// ServeHTTP serves a session's code. Below Prefix there are
//
//	servers          the servers' names
//	list?server=     the tools of one
//	search?q=        all servers' tools with words of q
//	call             POST: a call, {"server", "tool", "arguments"}
//
// The answer is a JSON object: for a call its result, as in the protocol, and whether the tool declares an output schema
// (structured). An error is in error: code, message, hint, server, tool.
func (all *Servers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch what := r.URL.Path[len(Prefix):]; what {
	case "call":
		all.serveCall(w, r)
	case "servers", "list", "search":
		all.serveList(w, r, what)
	default:
		http.Error(w, "There is nothing of that name here.", http.StatusNotFound)
	}
}

func (all *Servers) serveList(w http.ResponseWriter, r *http.Request, what string) {
	release, err := caller.Of(r.Context()).Memory.Take(r.Context(), listCost)
	if err != nil {
		return // the code is gone
	}
	defer release()
	var answer any
	switch what {
	case "servers":
		answer = map[string]any{"servers": all.serverFields()}
	case "search":
		hits, problems := all.search(r.Context(), r.URL.Query().Get("q"))
		answer = map[string]any{"tools": hits, "problems": problems}
	default:
		a := asked{Server: r.URL.Query().Get("server")}
		s, err := all.find(a.Server)
		var list *toolList
		if err == nil {
			list, err = s.tools(r.Context())
		}
		if err != nil {
			answer = errorFields(err, a)
		} else {
			answer = map[string]any{"tools": list.tools, "left_out": list.leftOut}
		}
	}
	body, err := json.Marshal(answer)
	if err == nil {
		send(w, body)
	}
}

type serverFields struct {
	Name      string `json:"name"`
	Attribute string `json:"attribute,omitempty"`
}

func (all *Servers) serverFields() []serverFields {
	fields := make([]serverFields, 0, len(all.list))
	for _, s := range all.list {
		fields = append(fields, serverFields{s.definition.Name, s.attribute})
	}
	return fields
}

func (all *Servers) serveCall(w http.ResponseWriter, r *http.Request) {
	begun, who := time.Now(), caller.Of(r.Context())
	var a asked
	var result json.RawMessage
	structured, rule := false, ""
	release, err := who.Memory.Take(r.Context(), requestCost(r))
	if err != nil {
		return // the code is gone
	}
	sent := int64(0)
	ctx, answer := all.withCapture(r.Context())
	defer answer.release()
	if a, sent, err = readCall(r); err == nil {
		result, structured, rule, err = all.call(ctx, a, answer)
	}
	release()
	all.options.Log.Add(netlog.Entry{
		Time: begun, Session: who.Session, Run: who.Run, Kind: "tools", Method: "CALL", Host: a.Server, Path: "/" + a.Tool, Rule: rule,
		Allowed: rule == "", SentBytes: sent, ReceivedBytes: int64(len(result)), DurationMS: time.Since(begun).Milliseconds(),
	})
	if r.Context().Err() != nil {
		return
	}
	if len(result) > smallAnswer { // others of the session went on meanwhile
		release, err := who.Memory.Take(r.Context(), int64(len(result)))
		if err != nil {
			return
		}
		defer release()
	}
	if err != nil {
		body, _ := json.Marshal(errorFields(err, a)) // texts and numbers
		send(w, body)
		return
	}
	send(w, []byte(`{"structured":`+strconv.FormatBool(structured)+`,"result":`), result, []byte("}"))
}

// requestCost is the most memory that the request of a call takes.
func requestCost(r *http.Request) int64 {
	length := r.ContentLength
	if length < 0 || length > requestBytes {
		length = requestBytes
	}
	return 8*length + smallAnswer
}

func readCall(r *http.Request) (a asked, sent int64, err error) {
	var body bytes.Buffer
	n, err := io.Copy(&body, http.MaxBytesReader(nil, r.Body, requestBytes))
	if err != nil || r.Method != http.MethodPost {
		return a, n, fault.New(fault.InvalidArgument, "Pass less, or the path of a file that the server can read.", "The request is no call, or has more than %d bytes.", requestBytes)
	}
	if err := jsonbound.Request.Check(body.Bytes()); err != nil {
		return a, n, fault.New(fault.InvalidArgument, "Pass fewer values, in several calls.", "The arguments of the call have %v.", err)
	}
	if json.Unmarshal(body.Bytes(), &a) != nil {
		return a, n, fault.New(fault.InvalidArgument, "Use the module sandbox.", "The request is no call.")
	}
	if len(a.Arguments) == 0 || string(a.Arguments) == "null" {
		a.Arguments = json.RawMessage("{}")
	}
	return a, n, nil
}

// errorFields are an error as code gets it.
func errorFields(err error, a asked) map[string]any {
	fields := faultOf(err, a).JSON()
	fields["server"], fields["tool"] = shown(a.Server), shown(a.Tool)
	return map[string]any{"error": fields}
}

// send writes an answer. Where code does not read it, the write ends in time.
func send(w http.ResponseWriter, parts ...[]byte) {
	length := 0
	for _, p := range parts {
		length += len(p)
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(writeTime))
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return
		}
	}
}
