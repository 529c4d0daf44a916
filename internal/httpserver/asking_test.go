package httpserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// A client of a session is asked on the stream of its call, and answers by another message of that session.
func TestAClientIsAsked(t *testing.T) {
	f := serve(t, Options{Token: token})
	able := headers{mcp.HeaderProtocolVersion: "2025-11-25"}
	able[headerSession] = f.post(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1), nil).header.Get(headerSession)
	f.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, able)
	other := f.begin()
	for name, test := range map[string]struct {
		answer string
		want   string
	}{
		"accepted": {`"result":{"action":"accept","content":{}}`, "accept state"},
		"declined": {`"result":{"action":"decline"}`, "decline state"},
		"an error": {`"error":{"code":-32601,"message":"no such method"}`, "cancel state"},
		"no sense": {`"result":[1]`, "cancel state"},
	} {
		response, err := f.client.Do(f.request(http.MethodPost, Path, call(1, "ask", ""), able))
		must.OK(t, err)
		next := events(response.Body)
		text, err := next()
		var question struct {
			ID, Method string
			Params     struct{ Message string }
		}
		if json.Unmarshal([]byte(text), &question) != nil || err != nil || question.Method != "elicitation/create" || question.Params.Message != "Well?" {
			t.Fatalf("%s: %s, %v", name, text, err)
		}
		answer := func(h headers, said string) {
			if a := f.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,%s}`, question.ID, said), h); a.status != http.StatusAccepted {
				t.Errorf("%s: %+v", name, a)
			}
		}
		answer(other, `"result":{"action":"accept","content":{"forged":1}}`) // of another session, which knows the id
		answer(able, test.answer)
		answer(able, `"result":{"action":"accept"}`) // too late
		if text, err = next(); err != nil || !strings.Contains(text, `"text":"`+test.want+`"`) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		_, _ = io.Copy(io.Discard, response.Body) // to its end, before which the id is in use
		response.Body.Close()
	}
	if a := f.post(call(2, "ask", ""), other); a.text(t) != "nobody can be asked" {
		t.Errorf("a client that cannot ask: %+v", a)
	}
	if a := f.post(call(2, "ask", ""), headers{"Accept": "application/json", headerSession: able[headerSession], mcp.HeaderProtocolVersion: "2025-11-25"}); a.text(t) != "nobody can be asked" {
		t.Errorf("one that takes no stream: %+v", a)
	}
	body, h := modernCall(3, "modern", "ask")
	if a := f.post(body, h); a.text(t) != "nobody can be asked" {
		t.Errorf("a stateless one that cannot ask: %+v", a)
	}
	body = strings.Replace(body, `:{}}}}`, `:{"elicitation":{}}}}}`, 1)
	if a := f.post(body, h); !strings.Contains(a.body, `"resultType":"input_required"`) || !strings.Contains(a.body, `"requestState":"state"`) {
		t.Errorf("a stateless one: %+v", a)
	}
}
