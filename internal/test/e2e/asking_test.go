//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A client whose user can be asked is: before a request leaves that no setting allows.
func TestCodeAsksByTheClient(t *testing.T) {
	t.Parallel()
	program, env := programOfNetwork(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello from ", r.Host) }, nil)
	const fetch = "import urllib.request as u, urllib.error\ntry:\n    print(u.urlopen('http://%s.example/').read())\nexcept urllib.error.HTTPError as e:\n    print(e)"
	s := start(t, setup{args: []string{"--ask"}, env: env, program: program, silent: true})
	s.request("initialize", object{"protocolVersion": string(legacy), "capabilities": object{"elicitation": object{}}, "clientInfo": object{"name": "e2e", "version": "1"}})
	s.notify("notifications/initialized", nil)
	asked := 0
	for _, step := range []struct{ host, decision, want string }{
		{"a", "Deny", "HTTP Error 403: host_denied: a.example is not an allowed host"},
		{"a", "", "has denied it"}, // in this session it is not asked again
		{"b", "Allow for good", "hello from b.example"},
		{"b", "", "hello from b.example"},
	} {
		r := s.beginCall(python, object{"code": fmt.Sprintf(fetch, step.host)})
		if step.decision != "" {
			asked++
			q, id := s.question(asked)
			if !strings.Contains(q, step.host+".example:80") || !strings.Contains(q, "line 3: print(u.urlopen") || !strings.Contains(q, "GET /") {
				t.Errorf("%+v: asked %q", step, q)
			}
			s.send(object{"jsonrpc": "2.0", "id": id, "result": object{"action": "accept", "content": object{"decision": step.decision}}})
		}
		r.result().wantText(t, step.want)
	}
}

// question waits for the question of that number.
func (s *server) question(number int) (text string, id json.RawMessage) {
	s.t.Helper()
	var q message
	s.waitFor("a question", func(all []message) bool {
		asked := slices.DeleteFunc(all, func(m message) bool { return m.Method != "elicitation/create" })
		if len(asked) < number {
			return false
		}
		q = asked[number-1]
		return true
	})
	var asks struct{ Message string }
	decode(s.t, q.Params, &asks)
	return asks.Message, q.ID
}
