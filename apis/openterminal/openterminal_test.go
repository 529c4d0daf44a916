package openterminal

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// walked is a Host that has sessions alone.
type walked struct {
	rest.Host
	manager *sandbox.Manager
}

func (w walked) Sessions() *sandbox.Manager { return w.manager }

func start(t *testing.T, kept *chats) *resttest.Fixture {
	t.Helper()
	return resttest.Start(t, func(d *tools.Deps) resttest.Served {
		return rest.New(rest.Options{Deps: d, Logger: d.Logger, APIs: rest.APIs{newAPI(kept, apis.NewSeal())}})
	}, nil, sandbox.Bash)
}

// What is kept of chats, and what a search may ask for, is bounded in number and in length.
func TestTheTerminalsBounds(t *testing.T) {
	t.Parallel()
	kept := newChats()
	f := start(t, kept)
	long := strings.Repeat("x", 8<<10)
	for i := range maxKept {
		kept.folders[fmt.Sprint(i)], kept.commands = "", append(kept.commands, command{})
	}
	for path, body := range map[string]string{"files/cwd": `{"path": "."}`, "execute?wait=60": fmt.Sprintf(`{"command": ": %s"}`, long)} {
		if status, text := f.Do("POST", "/open-terminal/"+path, body, "X-Session-Id", long); status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	for chat := range kept.folders {
		if len(kept.folders) > maxKept || len(chat) > 32 {
			t.Fatalf("%d folders are kept, by %d bytes", len(kept.folders), len(chat))
		}
	}
	if last := kept.commands[len(kept.commands)-1]; len(kept.commands) != maxKept || len(last.text) > maxCommand || len(last.chat) > 32 {
		t.Errorf("%d commands are kept, of %d bytes, by %d", len(kept.commands), len(last.text), len(last.chat))
	}
	for _, query := range []string{"pattern=" + long[:maxGlob+1], "pattern=x&exclude=" + long[:maxGlob+1], "pattern=x" + strings.Repeat("&exclude=x", maxPatterns+1)} {
		f.Want(400, "GET", "/open-terminal/files/glob?"+query, "")
	}
	gone, leave := context.WithCancel(t.Context())
	seen := 0
	walk := func(c *call) (any, error) {
		return nil, c.eachEntry(func(sandbox.Entry) error { seen++; leave(); return nil })
	}
	host := walked{manager: f.Deps.Manager}
	err := kept.serve(walk)(host, nil, httptest.NewRequestWithContext(gone, "GET", "/", nil))
	if err == nil || seen != 1 {
		t.Errorf("behind a client that has left %d files are looked at: %v", seen, err)
	}
}

// A terminal has a size, and belongs to whoever has the token of its maker.
func TestATerminal(t *testing.T) {
	t.Parallel()
	api := New(apis.NewSeal())
	f := resttest.Start(t, func(d *tools.Deps) resttest.Served {
		return rest.New(rest.Options{Deps: d, Logger: d.Logger, APIs: rest.APIs{api}})
	}, nil, sandbox.Bash)
	f.URL = resttest.Listen(t, httpserver.Options{
		Site: httpserver.Site{MCP: server.NewMCPServer("x", "1"), Routes: f.Served.Routes()}, Token: resttest.Token, Refuse: f.Served.Refuse, Translate: api.Translate, Logger: f.Deps.Logger,
	})
	f.Want(200, "POST", "/open-terminal/execute?wait=60", `{"command": "mkdir at"}`)
	if status, _ := f.Do("POST", "/open-terminal/files/cwd", `{"path": "at"}`, "X-Session-Id", "chat"); status != 200 {
		t.Fatal(status)
	}
	_, text := f.Do("POST", "/open-terminal/api/terminals", "", "X-Session-Id", "chat")
	var made newTerminal
	must.OK(t, json.Unmarshal([]byte(text), &made), "%v", text)
	dial := func(id string, messages ...string) *websocket.Conn {
		t.Helper()
		socket, response, err := websocket.DefaultDialer.DialContext(t.Context(), strings.Replace(f.URL, "http", "ws", 1)+"/open-terminal/api/terminals/"+id+"?user_id=x", nil) //nolint:bodyclose // a WebSocket has none
		must.OK(t, err, "%v", response)
		t.Cleanup(func() { _ = socket.Close() })
		for _, message := range messages {
			must.OK(t, socket.WriteMessage(websocket.TextMessage, []byte(message)))
		}
		return socket
	}
	for _, first := range []string{`{"type": "auth", "token": "another"}`, `{"type": "resize", "token": "` + resttest.Token + `"}`, `[]`} {
		if _, _, err := dial(made.ID, first).ReadMessage(); !websocket.IsCloseError(err, closedAuth) {
			t.Errorf("%s: %v", first, err)
		}
	}
	socket := dial(made.ID, `{"type": "auth", "token": "`+resttest.Token+`"}`, `{"type": "resize", "cols": 99, "rows": 33}`)
	must.OK(t, socket.WriteMessage(websocket.BinaryMessage, []byte("until [ \"$(stty size)\" = '33 99' ]; do :; done; pwd; echo $((6 * 7)); exit\n")))
	var shown strings.Builder
	for {
		kind, message, err := socket.ReadMessage()
		if err != nil {
			if !websocket.IsCloseError(err, websocket.CloseNormalClosure) || !strings.Contains(shown.String(), "/at\r\n42\r\n") || kind > websocket.BinaryMessage {
				t.Errorf("%v: %q", err, shown.String())
			}
			break
		}
		shown.Write(message)
	}
	for id, want := range map[string]int{"none": 401, apis.NewSeal().Token(terminals, "{}"): 401, made.ID: 400} {
		if status, text := f.Do("GET", "/open-terminal/api/terminals/"+id, "", "Authorization", ""); status != want {
			t.Errorf("%s: %d %s", id, status, text)
		}
	}
	f.Want(404, "GET", "/open-terminal/api/terminals/none", "")
}

// Whatever a path is, it leads below the work directory or nowhere.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{"", ".", "~", "~/a", "../..", "/mnt/data/../x", "/mnt/database", "a/../../b", "//mnt//data//c", "a\x00b", "~root"} {
		f.Add("sub/folder", path)
	}
	f.Fuzz(func(t *testing.T, folder, path string) {
		at := call{cwd: folder}
		below, err := at.resolve(path)
		if err == nil && (strings.HasPrefix(below, "/") || slices.Contains(strings.Split(below, "/"), "..")) {
			t.Errorf("%q in %q is %q", path, folder, below)
		}
	})
}

// A pattern without what is special is what it says, and a shell reads a quoted word as it was.
func FuzzPatterns(f *testing.F) {
	for _, pattern := range []string{"*.py", "**/*.go", "[!a]b", "[", "a?c", "\\", "é\xff"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		found, err := patternOf(pattern)
		if err == nil && !strings.ContainsAny(pattern, "*?[]") && (!found.MatchString(pattern) || found.MatchString("x"+pattern)) {
			t.Errorf("%q is %s", pattern, found)
		}
		word := apis.Quote(pattern)
		if strings.ReplaceAll(word[1:len(word)-1], `'\''`, "'") != pattern || strings.Contains(strings.ReplaceAll(word[1:len(word)-1], `'\''`, ""), "'") {
			t.Errorf("%q is quoted as %s", pattern, word)
		}
	})
}
