// Package ask asks a person whether code may reach a host that the network policy refuses.
//
// Start with New. A Desk is the Asker that the proxy asks. Whoever can show its open questions to a person answers them: an
// MCP client or the page. It remembers the answers that hold for longer than a request, and limits the number of questions:
// hostile code asks, and a person who is asked too often says yes.
package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Question is a question to a person. Its texts may come from hostile code; a Desk clips those that it shows, and removes characters that
// hide or turn others.
type Question struct {
	Session string `json:"session_id"`
	Run     string `json:"run_id,omitempty"`
	Host    string `json:"host"` // with its port
	// Method and Path are of a request, if the host is allowed and its requests are not.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Address is the host's address, if it is not public.
	Address string `json:"address,omitempty"`
	// How describes the request for a person: its method, and its path if it was read.
	How string `json:"how,omitempty"`
	// Code is the line of the code that seems to ask.
	Code string `json:"code,omitempty"`
	// Allowed is a sentence on an answer's effect for the session or for good. A Desk writes it.
	Allowed string `json:"allowed,omitempty"`
}

// Rule returns the rule that an answer for the session or for good allows, in one line.
func (q Question) Rule() string {
	rule := q.Host
	if q.Method != "" {
		rule += " " + q.Method + " " + q.Path
	}
	if q.Address != "" {
		rule += " at " + q.Address
	}
	return rule
}

// Answer is a person's decision.
type Answer string

// The answers.
const (
	Deny       Answer = "deny"    // for the session
	Once       Answer = "once"    // this request, or the connection
	ForSession Answer = "session" // and all like it, until the session ends
	ForGood    Answer = "always"  // in every session
)

// allAnswers are all of them.
var allAnswers = []Answer{Deny, Once, ForSession, ForGood}

// Allows reports whether the request is sent.
func (a Answer) Allows() bool { return a == Once || a == ForSession || a == ForGood }

// String returns the answer as logs write it.
func (a Answer) String() string {
	switch a {
	case Once:
		return "allowed once"
	case ForSession:
		return "allowed for the session"
	case ForGood:
		return "allowed for good"
	}
	return "denied"
}

// The reasons for a question without an answer.
var (
	ErrNoAnswer = errors.New("no answer")
	ErrTooMany  = errors.New("too many questions")
)

// Asker asks a person. The error is the context's, ErrNoAnswer or ErrTooMany; unanswered requests are refused. It is safe for use by
// several goroutines.
type Asker interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Bounds for the displayed texts, in characters.
const (
	maxHost = 260
	maxPath = 300
	maxCode = 200
)

// shown is the question as a person sees it.
func (q Question) shown() Question {
	q.Session, q.Run = plain(q.Session, maxPath), plain(q.Run, maxPath)
	q.Host, q.Method, q.Path = plain(q.Host, maxHost), plain(q.Method, 20), plain(q.Path, maxPath)
	q.Address, q.How, q.Code = plain(q.Address, maxHost), plain(q.How, maxPath), plain(strings.TrimSpace(q.Code), maxCode)
	q.Allowed = "If you allow it, everything can be sent to this host that the code knows."
	if q.Method != "" {
		q.Allowed = "Allowed would be: " + q.Rule()
	}
	return q
}

// Plain is a grant's text as a person reads it.
func Plain(s string) string { return plain(s, maxRule) }

// plain clips a text, and spells out characters that are invisible or change how the rest is read.
func plain(s string, most int) string {
	var b strings.Builder
	for _, r := range text.Shorten(strings.ToValidUTF8(s, "\ufffd"), most) {
		if r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", r)
		}
	}
	return b.String()
}

// Line returns the code line that names a host, or else the first that says anything.
func Line(code, host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	first := ""
	n := 0
	for line := range strings.SplitSeq(code, "\n") {
		n++
		switch line = strings.TrimSpace(line); {
		case line == "":
		case strings.Contains(strings.ToLower(line), host):
			return fmt.Sprintf("line %d: %s", n, line)
		case first == "":
			first = fmt.Sprintf("line %d: %s", n, line)
		}
	}
	return first
}

// Words are the question, as it is shown, as a text with lines, for a client that shows no more than that.
func (q Question) Words() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Code in the sandbox asks to reach %s.\n", q.Host)
	line := func(what, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", what, value)
		}
	}
	line("Request", q.How)
	if q.Address != "" {
		line("It is inside your network, at", q.Address)
	}
	line("Session", q.Session)
	line("Code", q.Code)
	return b.String() + q.Allowed
}
