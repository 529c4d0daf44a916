package app_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/app"
)

func TestThePageIsSmallAndWhole(t *testing.T) {
	if n := len(app.Page()); n > 15<<10 {
		t.Errorf("the page has %d bytes", n)
	}
	for part, times := range map[string]int{"<script": 1, "</script": 1, "<style": 1, "</style": 1, "<!--": 0, "/*app": 0, "innerHTML": 0, "http://": 0, "https://": 0, "ui/initialize": 1} {
		should.Equal(t, strings.Count(app.Page(), part), times, "%s is there", part)
	}
	for line := range strings.Lines(app.Page()) {
		if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "//") {
			t.Errorf("a browser does not need %q", line)
		}
	}
}

// connection is one of a client, with a server that has the page or has it not.
type connection struct {
	t      *testing.T
	server *server.MCPServer
	client *rpc.Session
}

func connect(t *testing.T, hasPage bool) *connection {
	s := server.NewMCPServer("fixture", "1", server.WithToolCapabilities(false), server.WithResourceCapabilities(false, true))
	for _, name := range []string{"drawn", "plain"} {
		tool := mcp.NewTool(name)
		tool.Meta = mcp.NewMetaFromMap(map[string]any{"mine": true})
		s.AddTool(tool, nil)
	}
	s.AddResource(mcp.NewResource("own://1", "Own"), nil)
	if hasPage {
		app.Register(s, "drawn", "missing")
	}
	return &connection{t, s, rpc.NewSession("1", func(mcp.JSONRPCNotification) {})}
}

func (c *connection) ask(method, params string) string {
	c.t.Helper()
	id, err := rpc.ParseID(json.RawMessage("1"))
	must.OK(c.t, err)
	call := &rpc.Call{ID: id, Method: method, Message: json.RawMessage(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))}
	session := c.client.Call(func(mcp.JSONRPCNotification) {})
	defer session.End()
	var asked server.ClientSession = session
	if method == "initialize" {
		asked = c.client
	}
	line, _ := rpc.Respond(c.server.WithContext(rpc.WithCall(c.t.Context(), call), asked), c.server, call, 1<<20, slog.New(slog.DiscardHandler))
	return string(line)
}

const declared = `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html","text/html;profile=mcp-app"]}}}`

// undeclared are capabilities of clients that show no such page.
var undeclared = map[string]string{
	"nothing":       `{}`,
	"another":       `{"extensions":{"io.example/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`,
	"no types":      `{"extensions":{"io.modelcontextprotocol/ui":{}}}`,
	"another type":  `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html","text/html;profile=mcp-app2"]}}}`,
	"a wrong shape": `{"extensions":{"io.modelcontextprotocol/ui":["text/html;profile=mcp-app"]}}`,
	"a wrong list":  `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":{"0":"text/html;profile=mcp-app"}}}}`,
}

// eras are how a client says what it can do. Each answers server/discover with how the server presents itself.
var eras = map[string]func(c *connection, capabilities string) (ask func(method, params string) string){
	"handshake": func(c *connection, capabilities string) func(method, params string) string {
		greeted := c.ask("initialize", `{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"},"capabilities":`+capabilities+`}`)
		return func(method, params string) string {
			if method == "server/discover" {
				return greeted
			}
			return c.ask(method, "{"+params+"}")
		}
	},
	"stateless": func(c *connection, capabilities string) func(method, params string) string {
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
		return func(method, params string) string {
			return c.ask(method, "{"+strings.Join(strings.Fields(params+" "+meta), ",")+"}")
		}
	},
}

var asked = map[string]string{
	"server/discover": "", "tools/list": "", "resources/list": "", "resources/templates/list": "", "resources/read": `"uri":"` + app.URI + `"`,
}

func TestOtherClientsSeeNothingOfIt(t *testing.T) {
	for era, can := range eras {
		for name, capabilities := range undeclared {
			with, without := can(connect(t, true), capabilities), can(connect(t, false), capabilities)
			for method, params := range asked {
				if got, want := with(method, params), without(method, params); got != want || strings.Contains(got, `"ui"`) || strings.Contains(got, "extensions") {
					t.Errorf("%s, %s, %s: got %s without it %s", era, name, method, got, want)
				}
			}
		}
	}
}

func TestClientsThatDeclareItHaveIt(t *testing.T) {
	for era, can := range eras {
		t.Run(era, func(t *testing.T) {
			ask := can(connect(t, true), declared)
			var tools struct{ Result mcp.ListToolsResult }
			decode(t, ask("tools/list", ""), &tools)
			for _, tool := range tools.Result.Tools {
				ui, _ := json.Marshal(tool.Meta.AdditionalFields["ui"])
				if want := map[string]string{"drawn": `{"resourceUri":"` + app.URI + `"}`, "plain": "null"}[tool.Name]; string(ui) != want || tool.Meta.AdditionalFields["mine"] != true {
					t.Errorf("%s has %v", tool.Name, tool.Meta.AdditionalFields)
				}
			}
			var list, read struct {
				Result struct {
					Resources, Contents []struct {
						URI, MIMEType, Text string
						Meta                struct {
							UI struct {
								CSP           map[string]any
								PrefersBorder bool
							}
						} `json:"_meta"`
					}
				}
			}
			decode(t, ask("resources/list", ""), &list)
			decode(t, ask("resources/read", asked["resources/read"]), &read)
			should.Contain(t, ask("server/discover", ""), `"extensions":{"io.modelcontextprotocol/ui":{}}`, "the server says of itself")
			if len(tools.Result.Tools) != 2 || len(list.Result.Resources) != 2 || len(read.Result.Contents) != 1 || read.Result.Contents[0].Text != app.Page() {
				t.Fatalf("got %d tools, %d resources, %v", len(tools.Result.Tools), len(list.Result.Resources), read)
			}
			for _, page := range append(read.Result.Contents, list.Result.Resources...) {
				if page.URI == app.URI && (page.MIMEType != app.MIMEType || page.Meta.UI.CSP == nil || len(page.Meta.UI.CSP) > 0 || !page.Meta.UI.PrefersBorder) {
					t.Errorf("got %+v", page)
				}
			}
		})
	}
}

// What one request declares is no other's, nor does the handshake count for a request that says itself what its client can do.
func TestAStatelessRequestDeclaresForItselfAlone(t *testing.T) {
	c := connect(t, true)
	shaken := eras["handshake"](c, declared)
	for _, test := range []struct {
		capabilities string
		has          bool
	}{{declared, true}, {`{}`, false}, {declared, true}} {
		if got := eras["stateless"](c, test.capabilities)("tools/list", ""); strings.Contains(got, app.URI) != test.has {
			t.Errorf("with %s: %s", test.capabilities, got)
		}
	}
	should.Contain(t, shaken("tools/list", ""), app.URI, "after the handshake")
}

func decode(t *testing.T, line string, into any) {
	t.Helper()
	must.OK(t, json.Unmarshal([]byte(line), into), "%s", line)
}
