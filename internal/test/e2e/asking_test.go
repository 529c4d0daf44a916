//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
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

// Methods and paths of a host are restricted where TLS ends in the server, whose authority the programs of a session trust.
func TestRequestsAreRestricted(t *testing.T) {
	t.Parallel()
	program, env := programOfNetwork(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.Method, " ", r.URL) }, nil)
	s := start(t, setup{args: []string{"--allow-domain", "public.example GET|HEAD /repos/*"}, env: env, program: program})
	for code, want := range map[string]string{
		"import urllib.request as u; u.urlopen('https://public.example/repos/a').read()":                             "hello GET /repos/a",
		"import urllib.request as u\ntry: u.urlopen('https://public.example/user')\nexcept Exception as e: print(e)": "HTTP Error 403",
		"!curl -sS --path-as-is https://public.example/repos/../user":                                                "request_denied: the path of the request can be read in several ways",
		"!curl -sS -X DELETE https://public.example/repos/a":                                                         "request_denied: this method and path are not allowed at public.example:443",
		"!curl -sS https://public.example/repos/b":                                                                   "hello GET /repos/b",
	} {
		if got := s.call(python, object{"code": code}); !strings.Contains(got.text(), want) {
			t.Errorf("%s: %s", code, got.text())
		}
	}
}

// Where the client cannot ask, a person answers on the page; what was allowed for good can be taken back while the server runs.
func TestCodeAsksOnThePage(t *testing.T) {
	t.Parallel()
	program, env := programOfNetwork(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello from ", r.Host) }, nil)
	s := startHTTPWith(t, setup{args: []string{"--ask"}, env: env, program: program})
	v := visit(t, strings.TrimSuffix(s.url, "mcp"))
	if status, _ := v.read(v.client.PostForm(v.page+"ui/login", url.Values{"token": {s.token}})); status != http.StatusOK {
		t.Fatalf("with the token: %d", status)
	}
	c := s.plain()
	run := func() <-chan string {
		result := make(chan string, 1)
		go func() {
			text, _ := c.run(t, object{"code": "!curl -sS http://asked.example/"})
			result <- text
		}()
		return result
	}
	// answer answers the next question on the page.
	answer := func(decision string) {
		t.Helper()
		eventually(t, "a question", func() (bool, string) {
			_, body := v.read(v.client.Get(v.page + "ui/questions"))
			var list struct {
				Questions []struct {
					ID       string
					Question struct{ Host, Code string }
				}
			}
			if json.Unmarshal([]byte(body), &list) != nil || len(list.Questions) == 0 {
				return false, body
			}
			if q := list.Questions[0].Question; q.Host != "asked.example:80" || q.Code != "line 1: !curl -sS http://asked.example/" {
				t.Errorf("asked %+v", q)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.page+"ui/questions/"+list.Questions[0].ID, strings.NewReader(`{"answer":"`+decision+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Sandbox-Page", "1")
			status, body := v.read(v.client.Do(r))
			return status == http.StatusOK, body
		})
	}
	first := run()
	answer("always")
	if got := <-first; !strings.Contains(got, "hello from asked.example") {
		t.Errorf("allowed for good: %s", got)
	}
	if got := <-run(); !strings.Contains(got, "hello from asked.example") {
		t.Errorf("the second time: %s", got)
	}
	allowed := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"allowed", "--state-dir", s.stateDir}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("allowed %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	if out := allowed("list"); !strings.Contains(out, "asked.example:80\n") {
		t.Errorf("the list is %q", out)
	}
	allowed("remove", "asked.example:80")
	last := run()
	answer("deny")
	if got := <-last; !strings.Contains(got, "has denied it") {
		t.Errorf("denied: %s", got)
	}
}
