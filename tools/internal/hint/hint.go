// Package hint ends the answer of a run that stumbled with one line that says how to do it here.
//
// [Capabilities.For] is all of it. The rules are in the table of rules.go. Hints are true under the server's settings, which
// [Capabilities] holds.
package hint

import (
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// maxLength bounds a hint, in characters.
const maxLength = 200

// The words of --packages and --network.
const (
	Off       = "off"
	Listed    = "listed"
	On        = "on"
	None      = "none"
	Allowlist = "allowlist"
	Open      = "open"
)

// Capabilities are the server's abilities for code. The zero value can do nothing.
type Capabilities struct {
	Packages string   // the packages that may be installed: On, Listed, or none
	Network  string   // the egress of code: Open, Allowlist, or none
	Hosts    []string // that code reaches under Allowlist, as they are set
	// CodeSQL reports that code can query the databases by its module sandbox.
	CodeSQL bool
	// FetchURLs reports that upload_file fetches addresses.
	FetchURLs bool
	// Denied returns the host with its port, and the rule, of a run's last request that the proxy refused, or nothing. Nil: that is not known.
	Denied func(session, run string) (address, rule string)
	// Beside reports whether a language's container holds another language. Nil: none does.
	Beside func(of, other sandbox.Language) bool
	// Tool reports whether a tool exists. Nil: there is none.
	Tool func(name string) bool
	// HostPath says how code gets at a file of the user's machine; empty: the path is of none. Nil: nothing is said of it.
	HostPath func(path string) string
	// MemoryLimit is that of one of the session's containers, and TmpLimit that of its /tmp, as text. Empty: not known.
	MemoryLimit, TmpLimit string
	// MostMemoryMB is the most memory of another session, in MiB. 0: no more than this one.
	MostMemoryMB int64
}

// Only the ends of a run's texts are searched: errors stand there.
const (
	traceBytes  = 8 << 10
	stderrBytes = 4 << 10
	stdoutBytes = 1 << 10
)

// setting matches a setting's name in a hint.
var setting = regexp.MustCompile(`--[a-z]+(-[a-z]+)*`)

// server matches how web servers say that they wait for requests.
var server = regexp.MustCompile(`Uvicorn running on|Uvicorn server started|You can now view your Streamlit app|(?m)^ ?\* Running on |Dash is running on |^Serving HTTP on `)

// refused matches the server's own refusals, which give their reason.
var refused = regexp.MustCompile(`\b(?:(?:host|address|package)_denied|host_unreachable|download_failed|tool_\w+)\b`)

// For returns the hint for a run's result, one line of at most maxLength characters; empty if there is none, or the run's texts give it.
// find returns the session's file that a missing path most likely means, or nothing; it is called for a missing file or module.
func (c Capabilities) For(res *sandbox.Result, find func(path string) string) string {
	if res.Status == sandbox.TimedOut && server.MatchString(end(res.Stderr, stderrBytes)+end(res.Stdout, stdoutBytes)) {
		return "A server runs until it is stopped, and only code of this session reaches it: start it with subprocess.Popen, and ask it from the code."
	}
	if res.Status != sandbox.Completed && res.Status != sandbox.Failed {
		return ""
	}
	s := stumble{Capabilities: c, language: res.Language, session: res.SessionID, run: res.RunID, find: find}
	printed := end(res.Stderr, stderrBytes) + "\n" + end(res.Stdout, stdoutBytes)
	var raised string
	if e := res.Error; e != nil {
		raised = e.Name + ": " + e.Message + "\n" + last(e.Traceback, traceBytes)
	}
	if refused.MatchString(raised) || refused.MatchString(printed) {
		return ""
	}
	for _, s.quotes = range []bool{true, false} {
		s.text = printed
		if s.quotes {
			s.text = raised
		}
		for _, r := range rules {
			found := r.match().FindStringSubmatch(s.text)
			if found == nil || r.raised && !s.quotes {
				continue
			}
			hint := r.say(s, found)
			if hint == "" {
				continue
			}
			isNew := func(name string) bool { return !strings.Contains(raised, name) && !strings.Contains(printed, name) }
			if settings := setting.FindAllString(hint, -1); len(settings) > 0 && !slices.ContainsFunc(settings, isNew) {
				return ""
			}
			return text.Shorten(hint, maxLength-1)
		}
	}
	return ""
}

// stumble is the input of a rule's hint.
type stumble struct {
	Capabilities
	language     sandbox.Language
	session, run string
	find         func(path string) string
	// quotes: the words come from the error of the code itself. Printed text may be anybody's, so no name is taken from it.
	quotes bool
	text   string // all the words that are looked at
}

// name returns the name found by a rule, if it may be quoted, else other.
func (s stumble) name(found, other string) string {
	if s.quotes && found != "" {
		return found
	}
	return other
}

func (s stumble) has(tool string) bool { return s.Tool != nil && s.Tool(tool) }

// end is the last of a stream.
func end(stream sandbox.Stream, most int) string {
	if stream.Truncated() {
		return last(stream.Tail, most)
	}
	return last(stream.Head, most)
}

func last(s string, most int) string { return s[text.Edge(s, max(0, len(s)-most)):] }
