//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A client whose user can be asked is: before a request leaves that no setting allows, in both eras.
func TestCodeAsksByTheClient(t *testing.T) {
	t.Parallel()
	program, env := programOfNetwork(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello from ", r.Host) }, nil)
	const fetch = "import urllib.request as u, urllib.error\ntry:\n    print(u.urlopen('http://%s.example/').read())\nexcept urllib.error.HTTPError as e:\n    print(e)"
	for _, e := range []era{legacy, modern} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			s := start(t, setup{era: e, args: []string{"--ask"}, env: env, program: program, silent: true})
			if e == legacy {
				s.request("initialize", object{"protocolVersion": string(legacy), "capabilities": object{"elicitation": object{}}, "clientInfo": object{"name": "e2e", "version": "1"}})
				s.notify("notifications/initialized", nil)
			}
			asked := 0
			for _, step := range []struct{ host, decision, want string }{
				{"a", "Allow once", "hello from a.example"},
				{"a", "Deny", "HTTP Error 403: host_denied: a.example is not an allowed host"},
				{"a", "", "has denied it"}, // in this session it is not asked again
				{"b", "Allow for this session", "hello from b.example"},
				{"b", "", "hello from b.example"},
				{"c", "cancel", "has not answered"},
				{"d", "Allow for good", "hello from d.example"},
				{"d", "", "hello from d.example"},
			} {
				got, questions := s.runAsked(fmt.Sprintf(fetch, step.host), step.decision, &asked)
				if !strings.Contains(got.text(), step.want) {
					t.Errorf("%+v: %s", step, got.text())
				}
				if (len(questions) > 0) != (step.decision != "") {
					t.Errorf("%+v: asked %q", step, questions)
				}
				for _, q := range questions {
					if !strings.Contains(q, step.host+".example:80") || !strings.Contains(q, "line 3: print(u.urlopen") || !strings.Contains(q, "GET /") {
						t.Errorf("%+v: asked %q", step, q)
					}
				}
			}
		})
	}
}

// elicitation is what a client is asked.
type elicitation struct {
	Message         string
	RequestedSchema struct {
		Properties struct {
			Decision struct{ Enum []string }
		}
	}
}

// said is a user's answer.
func said(decision string) object {
	if decision == "cancel" {
		return object{"action": "cancel"}
	}
	return object{"action": "accept", "content": object{"decision": decision}}
}

// runAsked runs code as a client whose user decides so, and returns what was asked. asked counts the questions of the legacy era so far.
func (s *server) runAsked(code, decision string, asked *int) (result toolResult, questions []string) {
	s.t.Helper()
	params := object{"name": python, "arguments": object{"code": code}}
	if s.era == modern {
		params["_meta"] = object{"io.modelcontextprotocol/clientCapabilities": object{"elicitation": object{}}}
	}
	for {
		r := s.begin("tools/call", params)
		if s.era == legacy {
			if decision != "" {
				questions = append(questions, s.answerElicitation(said(decision), asked))
			}
			return r.result(), questions
		}
		m := r.wait()
		var input struct {
			ResultType    string
			RequestState  string
			InputRequests map[string]struct {
				Method string
				Params elicitation
			}
		}
		decode(s.t, m.Result, &input)
		if input.ResultType != "input_required" {
			result = toolResult{line: m.line}
			decode(s.t, m.Result, &result)
			return result, questions
		}
		responses := object{}
		for id, q := range input.InputRequests {
			questions = append(questions, q.Params.Message)
			responses[id] = said(decision)
		}
		params["inputResponses"], params["requestState"] = responses, input.RequestState
	}
}

// answerElicitation waits for the next question and answers it.
func (s *server) answerElicitation(answer object, asked *int) (question string) {
	s.t.Helper()
	var m message
	s.waitFor("a question", func(all []message) bool {
		n := 0
		for _, one := range all {
			if one.Method == "elicitation/create" {
				if n++; n > *asked {
					m = one
					return true
				}
			}
		}
		return false
	})
	*asked++
	var q elicitation
	decode(s.t, m.Params, &q)
	if len(q.RequestedSchema.Properties.Decision.Enum) != 4 {
		s.t.Errorf("what can be answered is %v", q.RequestedSchema)
	}
	s.send(object{"jsonrpc": "2.0", "id": m.ID, "result": answer})
	return q.Message
}
