package upstream_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/upstream"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func read(t *testing.T, text string) (upstream.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp.json")
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	variables := map[string]string{"GH_TOKEN": "tok-1234567", "DIR": "/home/me", "EMPTY": ""}
	return upstream.Read(file, func(name string) (string, bool) {
		value, is := variables[name]
		return value, is
	})
}

func TestAFileOfServersIsRead(t *testing.T) {
	got, err := read(t, "\ufeff"+`{
		// as clients have it
		"mcpServers": {
			"hub": {"type": "http", "url": "https://${HOST:-hub.example}/mcp", "headers": {"Authorization": "Bearer ${env:GH_TOKEN}", "X-MCP-Toolsets": "repos,issues", "apikey": "hub-api-key"}},
			"db": {"command": "x", "args": ["--to=mysql://me:p%40ss-of-args@h/d"], "env": {"DATABASE_URL": "postgres://me:hunter2secret@h/d", "AUTHOR": "Maria Sanchez", "SESSION_TYPE": "wayland", "MONKEY": "business", "PGPASSWORD": "pg-pass", "accessToken": "a-token"}},
			"query": {"url": "http://u:pass-of-url@x/mcp?api_key=SECRETQ&toolsets=repos"},
			"files": {"command": "npx", "args": ["-y", "${DIR}/x", "${EMPTY:-y}z"], "env": {"ROOT": "${DIR}", "API_KEY": "literal-key"}, "cwd": "${DIR}"},
			"off": {"command": "x", "disabled": true},
		},
		"other": 1,
	}`)
	want := upstream.Config{
		Servers: []upstream.Definition{
			{Name: "db", Command: "x", Args: []string{"--to=mysql://me:p%40ss-of-args@h/d"}, Headers: map[string]string{}, Env: map[string]string{"DATABASE_URL": "postgres://me:hunter2secret@h/d", "AUTHOR": "Maria Sanchez", "SESSION_TYPE": "wayland", "MONKEY": "business", "PGPASSWORD": "pg-pass", "accessToken": "a-token"}},
			{Name: "files", Command: "npx", Args: []string{"-y", "/home/me/x", "yz"}, Env: map[string]string{"ROOT": "/home/me", "API_KEY": "literal-key"}, Dir: "/home/me", Headers: map[string]string{}},
			{Name: "hub", URL: "https://hub.example/mcp", Env: map[string]string{}, Headers: map[string]string{"Authorization": "Bearer tok-1234567", "X-MCP-Toolsets": "repos,issues", "apikey": "hub-api-key"}},
			{Name: "query", URL: "http://u:pass-of-url@x/mcp?api_key=SECRETQ&toolsets=repos", Env: map[string]string{}, Headers: map[string]string{}},
		},
		// A path is no secret, and results are full of them; nor is what has the letters of a secret's name only.
		Secrets: map[string]string{
			"GH_TOKEN": "tok-1234567", "Authorization of hub": "tok-1234567", "apikey of hub": "hub-api-key", "API_KEY of files": "literal-key",
			"password 1 in args[0] of db": "p@ss-of-args", "password 1 in env.DATABASE_URL of db": "hunter2secret", "PGPASSWORD of db": "pg-pass", "accessToken of db": "a-token",
			"password 1 in url of query": "pass-of-url", "url's api_key of query": "SECRETQ",
		},
	}
	should.Hold(t, err == nil && reflect.DeepEqual(got, want), "got %+v, %v", got, err)
	vscode, err := read(t, `{"servers": {"a b.c-d_e": {"type": "stdio", "command": "x"}}, "inputs": []}`)
	should.Hold(t, err == nil && vscode.Servers[0].Name == "a b.c-d_e", "got %+v, %v", vscode, err)
}

func TestAFileThatIsWrongSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		`{"mcpServers": {`:        "line 1",
		"{\n\n\"mcpServers\": 1}": `"mcpServers"`,
		`[]`:                      `"mcpServers"`,
		`{}`:                      "names no server",
		"{\"mcpServers\": {\"ok\": {\"command\": \"x\"},\n\"bad\": {}}}":       `mcpServers.bad (line 2): it has neither command nor url`,
		`{"servers": {"a": {"command": "x", "url": "https://x"}}}`:             `servers.a (line 1): it has both`,
		`{"mcpServers": {"a": {"type": "sse", "url": "https://x"}}}`:           `type "sse" is not supported`,
		`{"mcpServers": {"a": {"type": "ws", "url": "https://x"}}}`:            `type "ws"`,
		`{"mcpServers": {"a": {"type": "http", "command": "x"}}}`:              `type "http" does not go with`,
		`{"mcpServers": {"a": {"command": ["x"]}}}`:                            "command cannot be a JSON array",
		`{"mcpServers": {"a": 1}}`:                                             "no object of command",
		`{"mcpServers": {"a": {"command": "x", "args": ["${NOPE}"]}}}`:         "args[0]: the variable NOPE is not set",
		`{"mcpServers": {"a": {"command": "x", "env": {"K": "${NOPE}"}}}}`:     "env.K: the variable NOPE",
		`{"mcpServers": {"a": {"command": "${input:x}"}}}`:                     "command: ${input:x} is no variable",
		`{"mcpServers": {"a": {"command": "x", "env": {"A=B": "c"}}}}`:         `env has a name that cannot be: "A=B"`,
		`{"mcpServers": {"a": {"url": "file:///etc/passwd"}}}`:                 "url is no address",
		`{"mcpServers": {"a": {"url": "https://x", "headers": {"A\n": "v"}}}}`: "headers.A",
		`{"mcpServers": {"a/b": {"command": "x"}}}`:                            "a server's name has",
		`{"mcpServers": {"": {"command": "x"}}}`:                               "a server's name has",
		`{"mcpServers": {"a": {"command": "x\u0000"}}}`:                        "null character",
	} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "tok-") {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	for _, file := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		_, err := upstream.Read(file, os.LookupEnv)
		should.Hold(t, err != nil && !strings.Contains(err.Error(), file), "got %v", err)
	}
}

func TestPatterns(t *testing.T) {
	for pattern, ok := range map[string]bool{"a.b": true, "a.*": true, "*": true, "*.b": true, "a": false, "a.[": false} {
		wrong := (upstream.Patterns{pattern}).Wrong()
		should.Hold(t, (wrong == "") == ok, "%q: %q", pattern, wrong)
	}
}
