package httpserver

import (
	"net/http"
	"strings"
	"testing"
)

// Dify makes a session for each call, in the first version of the protocol over streamable HTTP and with no header that says so, and
// ends it then. It takes an answer of the same version alone, and events that have no name.
func TestAsDifyAsks(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			f := serve(t, Options{Token: token})
			a := f.post(`{"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{"sampling":{},"roots":{"listChanged":true}},"clientInfo":{"name":"Dify","version":"1.9.0"}},"jsonrpc":"2.0","id":0}`, nil)
			if a.status != http.StatusOK || !strings.Contains(a.body, `"protocolVersion":"`+version+`"`) {
				t.Fatalf("initialize: %+v", a)
			}
			h := headers{"Mcp-Session-Id": a.header.Get("mcp-session-id")}
			if a := f.post(`{"method":"notifications/initialized","jsonrpc":"2.0"}`, h); a.status != http.StatusAccepted {
				t.Errorf("initialized: %+v", a)
			}
			for request, want := range map[string]string{
				`{"method":"tools/list","jsonrpc":"2.0","id":1}`:                                                                           `"name":"echo"`,
				`{"method":"tools/call","params":{"name":"echo","arguments":{"text":"it is there"}},"jsonrpc":"2.0","id":2}`:               `"text":"it is there"`,
				`{"method":"tools/call","params":{"name":"count","arguments":{"n":2},"_meta":{"x":1}},"jsonrpc":"2.0","id":3}`:             `"text":"counted"`,
				`{"method":"tools/call","params":{"name":"count","arguments":{"n":2},"_meta":{"progressToken":4}},"jsonrpc":"2.0","id":4}`: `"text":"counted"`,
			} {
				a := f.post(request, h)
				if a.status != http.StatusOK || !strings.Contains(a.body, want) {
					t.Errorf("%s: %+v", request, a)
				}
				for line := range strings.Lines(a.body) {
					if name, is := strings.CutPrefix(line, "event:"); is && strings.TrimSpace(name) != "message" {
						t.Errorf("%s: an event of the name %q", request, name)
					}
				}
			}
			if a := f.do(f.request(http.MethodDelete, Path, "", h)); a.status != http.StatusOK && a.status != http.StatusNoContent {
				t.Errorf("the end: %+v", a)
			}
			if a := f.post(`{"method":"tools/list","jsonrpc":"2.0","id":5}`, h); a.status != http.StatusNotFound {
				t.Errorf("after the end: %+v", a)
			}
		})
	}
}
