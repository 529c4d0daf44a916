package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const (
	// pingTime is the time in which a server that did not answer a call must show that it is alive.
	pingTime = 5 * time.Second
	// maxMessage limits a server's own error, or a tool's description, as code sees it, in bytes.
	maxMessage = 4 << 10
	// searchTime is the time for which a search waits for servers that do not answer, or are yet to start.
	searchTime = 15 * time.Second
	// found limits the tools that a search returns.
	found = 30
	// foundText is how many characters of their descriptions.
	foundText = 200
)

// asked is a call as code asks for it.
type asked struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// Rules that refuse a call, in the network's record.
const (
	ruleAllow = "mcp-allow"
	ruleCalls = "calls of a run"
)

// call makes a call, and returns the raw result and whether the tool promises structure. rule names the rule that refused it. answer is the
// capture of ctx.
func (all *Servers) call(ctx context.Context, a asked, answer *capture) (result json.RawMessage, structured bool, rule string, err error) {
	s, err := all.find(a.Server)
	if err != nil {
		return nil, false, "", err
	}
	who := caller.Of(ctx)
	if made := all.counts.add(who.Session, who.Run); made > all.options.CallsPerRun {
		return nil, false, ruleCalls, fault.New(fault.QuotaExceeded, "Make fewer calls in one run: ask for more at once, or go on in the next run.",
			"This run has made %d calls of tools, as many as a run may.", all.options.CallsPerRun)
	}
	leave, err := s.turns.Take(ctx, who.Session)
	if err != nil {
		return nil, false, "", err
	}
	defer leave()
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, false, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, all.options.Timeout)
	defer cancel()
	list, err := s.list(ctx, conn)
	if err != nil {
		return nil, false, "", err
	}
	t, is := list.get(a.Tool)
	if !is {
		return nil, false, "", notFound(a, list)
	}
	if !t.Allowed {
		return nil, false, ruleAllow, fault.New(fault.ToolRefused, fmt.Sprintf("Ask the user to start the server with --mcp-allow %q, if code is to call it.", s.definition.Name+"."+t.Name),
			"The tool %s of %s may not be called: %s.", t.Name, s.definition.Name, all.whyRefused())
	}
	if err := t.arguments.check(t.Name, a.Arguments); err != nil {
		return nil, false, "", err
	}
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = t.Name, a.Arguments
	if _, err := conn.client.CallTool(ctx, request); err != nil {
		return nil, false, "", s.callError(ctx, conn, answer, err)
	}
	s.works()
	result = all.masked(answer.result)
	var kind struct {
		Type string `json:"resultType"`
	}
	if result == nil || json.Unmarshal(result, &kind) != nil {
		return nil, false, "", fault.New(fault.ToolFailed, "Call it with other arguments, or do without.", "The result of %s is none that can be read.", t.Name)
	}
	if kind.Type != "" && kind.Type != "complete" {
		return nil, false, "", fault.New(fault.ToolFailed, "Call it with arguments that need no question, or do without.",
			"The tool %s asks for something first (%s), which code cannot answer.", t.Name, shown(kind.Type))
	}
	return result, t.Output != nil, "", nil
}

func (all *Servers) whyRefused() string {
	if !all.options.TrustHints {
		return "--mcp-allow does not name it"
	}
	return "it does not say that it only reads, and --mcp-allow does not name it"
}

// find returns a server that code names.
func (all *Servers) find(name string) (*server, error) {
	if s := all.get(name); s != nil {
		return s, nil
	}
	return nil, fault.New(fault.NotFound, "There are "+cmp.Or(strings.Join(all.Names(), ", "), "none")+".", "There is no MCP server %q.", shown(name))
}

func notFound(a asked, list *toolList) error {
	var names []string
	for _, t := range list.tools[:min(len(list.tools), found)] {
		names = append(names, t.Name)
	}
	hint := "It has no tools."
	if len(names) > 0 {
		hint = "It has " + strings.Join(names, ", ")
		if more := len(list.tools) - len(names); more > 0 {
			hint += fmt.Sprintf(" and %d more", more)
		}
		hint += "."
	}
	return fault.New(fault.NotFound, hint, "The MCP server %s has no tool %q.", a.Server, shown(a.Tool))
}

// callError returns a failed request's error, and drops a failed connection. After a timeout it pings the server.
func (s *server) callError(ctx context.Context, conn *connection, answer *capture, err error) error {
	name := s.definition.Name
	switch {
	case answer.err != nil:
		s.works()
		return fault.New(fault.ToolFailed, "Correct the arguments, or do without.", "%s: %s", name, s.says(answer.err.Message)).With("rpc_code", answer.err.Code)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		if conn.over() != nil {
			go s.ping(conn)
		}
		return fault.New(fault.ToolTimeout, "Ask for less at once.", "The MCP server %s has not answered within %v.", name, s.all.options.Timeout)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	reason := s.why(ctx, err)
	s.lost(conn, reason)
	return &failure{reason: reason}
}

// says is a text of the server's for code.
func (s *server) says(message string) string {
	mask := s.all.masker.Mask
	if len(message) > maxMessage {
		mask = s.all.masker.MaskHead
	}
	return mask(text.Safe(message, maxMessage))
}

// ping drops a connection that shows no life.
func (s *server) ping(conn *connection) {
	ctx, cancel := context.WithTimeout(s.all.ctx, pingTime)
	defer cancel()
	if conn.client.Ping(ctx) != nil { //nolint:staticcheck // servers of the earlier era have it; others are sent no ping
		s.lost(conn, errors.New("it does not answer any more"))
	}
}

// faultOf is an error in words for code.
func faultOf(err error, a asked) *fault.Error {
	var f *failure
	if errors.As(err, &f) {
		hint := "The next call starts it again; the server's log and `" + fault.Program + " doctor` tell more."
		if f.wait > 0 {
			hint = fmt.Sprintf("It is tried again in %v at the earliest; the server's log and `"+fault.Program+" doctor` tell more.", f.wait.Round(time.Second)+time.Second)
		}
		return fault.New(fault.ToolServerFailed, hint, "The MCP server %s cannot be used: %v.", a.Server, f.reason)
	}
	if errors.Is(err, context.DeadlineExceeded) { // of a search: calls say more
		return fault.New(fault.ToolTimeout, "Try again, or do without.", "The MCP server %s has not answered in time.", a.Server)
	}
	return fault.From(err)
}

// arguments are a tool's argument names, by its schema.
type arguments struct {
	known    map[string]bool // nil: any
	required []string
}

func argumentsOf(schema json.RawMessage) (a arguments) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Additional json.RawMessage            `json:"additionalProperties"`
		Patterns   json.RawMessage            `json:"patternProperties"`
		Ref        json.RawMessage            `json:"$ref"`
		AllOf      json.RawMessage            `json:"allOf"`
		AnyOf      json.RawMessage            `json:"anyOf"`
		OneOf      json.RawMessage            `json:"oneOf"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return a
	}
	a.required = s.Required
	open := len(s.Additional) > 0 && string(s.Additional) != "false" || s.Patterns != nil || s.Ref != nil || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil
	if !open && (len(s.Properties) > 0 || string(s.Additional) == "false") {
		a.known = make(map[string]bool, len(s.Properties))
		for name := range s.Properties {
			a.known[name] = true
		}
	}
	return a
}

// check refuses unknown arguments, which many servers would silently leave out, and missing ones.
func (a arguments) check(tool string, given json.RawMessage) error {
	var names map[string]json.RawMessage
	if err := json.Unmarshal(given, &names); err != nil {
		return fault.New(fault.InvalidArgument, "Pass the arguments by their names.", "The arguments of %s are no object.", tool)
	}
	takes := "It takes no arguments."
	if len(a.known) > 0 {
		takes = "It takes " + shownList(slices.Sorted(maps.Keys(a.known))) + "."
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a.known != nil && !a.known[name] {
			return fault.New(fault.InvalidArgument, takes, "The tool %s has no argument %q.", tool, shown(name))
		}
	}
	for _, name := range a.required {
		if _, is := names[name]; !is {
			return fault.New(fault.InvalidArgument, takes, "The tool %s needs the argument %q.", tool, shown(name))
		}
	}
	return nil
}

func shownList(names []string) string {
	all := len(names)
	names = names[:min(all, found)]
	for i := range names {
		names[i] = shown(names[i])
	}
	list := strings.Join(names, ", ")
	if all > len(names) {
		list += fmt.Sprintf(" and %d more", all-len(names))
	}
	return list
}

// hit is a tool that a search found.
type hit struct {
	Server      string `json:"server"`
	Tool        string `json:"tool"`
	Attribute   string `json:"attribute,omitempty"`        // of the tool
	Of          string `json:"server_attribute,omitempty"` // of the server
	Description string `json:"description,omitempty"`
	Allowed     bool   `json:"allowed"`
	score       int
}

// problem is a server that cannot be used.
type problem struct {
	Server  string `json:"server"`
	Message string `json:"message"`
}

// search finds tools by words of their names and descriptions, the best first. No words find all.
func (all *Servers) search(ctx context.Context, query string) (hits []hit, problems []problem) {
	words := strings.Fields(strings.ToLower(text.Clip(query, 1000)))
	ctx, cancel := context.WithTimeout(ctx, min(searchTime, all.options.Timeout))
	defer cancel()
	all.each(ctx, func(s *server, list *toolList, err error) {
		if err != nil {
			problems = append(problems, problem{s.definition.Name, faultOf(err, asked{Server: s.definition.Name}).Message})
			return
		}
		for _, t := range list.tools {
			h := hit{s.definition.Name, t.Name, t.Attribute, s.attribute, text.Shorten(firstLine(t.Description), foundText), t.Allowed, 0}
			name, description := strings.ToLower(s.definition.Name+" "+t.Name), strings.ToLower(t.Description)
			for _, word := range words {
				if strings.Contains(name, word) {
					h.score += 3
				}
				if strings.Contains(description, word) {
					h.score++
				}
			}
			if h.score > 0 || len(words) == 0 {
				hits = append(hits, h)
			}
		}
	})
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(b.score-a.score, strings.Compare(a.Server, b.Server), strings.Compare(a.Tool, b.Tool))
	})
	slices.SortFunc(problems, func(a, b problem) int { return strings.Compare(a.Server, b.Server) })
	return hits[:min(len(hits), found)], problems
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// each starts the servers that do not run, all at once, and calls do with the tools of each, one after the other.
func (all *Servers) each(ctx context.Context, do func(*server, *toolList, error)) {
	var asking sync.WaitGroup
	var mu sync.Mutex
	for _, s := range all.list {
		asking.Go(func() {
			list, err := s.tools(ctx)
			mu.Lock()
			defer mu.Unlock()
			do(s, list, err)
		})
	}
	asking.Wait()
}

// tools returns the tools of a server, and starts it if it does not run.
func (s *server) tools(ctx context.Context) (*toolList, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.all.options.Timeout)
	defer cancel()
	return s.list(ctx, conn)
}

// Report describes a server for a person.
type Report struct {
	Name    string
	Tools   int
	Allowed []string // the names of those that code may call
	LeftOut int      // tools with invalid names, or over the limit
	Problem string   // why it cannot be used; empty: it can
	Itself  bool     // whether it is this program, and left out
}

// Reports starts every server and describes each.
func (all *Servers) Reports(ctx context.Context) []Report {
	var reports []Report
	for _, name := range all.itself {
		reports = append(reports, Report{Name: name, Itself: true})
	}
	all.each(ctx, func(s *server, list *toolList, err error) {
		r := Report{Name: s.definition.Name}
		if err != nil {
			r.Problem = faultOf(err, asked{Server: r.Name}).Message
		} else {
			r.Tools, r.LeftOut = len(list.tools), list.leftOut
			for _, t := range list.tools {
				if t.Allowed {
					r.Allowed = append(r.Allowed, t.Name)
				}
			}
		}
		reports = append(reports, r)
	})
	slices.SortFunc(reports, func(a, b Report) int { return strings.Compare(a.Name, b.Name) })
	return reports
}
