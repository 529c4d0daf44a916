//go:build linux

package e2b

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// execute runs code in a context, the default one of Python for "", and returns the lines of the answer.
func (b *testBox) execute(code, context string) string {
	b.T.Helper()
	given := map[string]string{"code": code}
	if context != "" {
		given["context_id"] = context
	}
	body, _ := json.Marshal(given)
	status, text := b.in("POST", "/execute", string(body), headerPort, interpreterPort)
	should.Equal(b.T, status, 200, "%s", text)
	return text
}

// newContext makes a context in a folder.
func (b *testBox) newContext(folder string) string {
	b.T.Helper()
	_, text := b.in("POST", "/contexts", `{"cwd": "`+folder+`"}`, headerPort, interpreterPort)
	var one codeContext
	if err := json.Unmarshal([]byte(text), &one); err != nil || one.ID == "" {
		b.T.Fatal(text)
	}
	return one.ID
}

func TestContextsKeepTheirVariables(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(t *testing.T, b *testBox, context, folder string) *testBox{
		"nothing": func(_ *testing.T, b *testBox, _, _ string) *testBox { return b },
		"sleep": func(t *testing.T, b *testBox, _, _ string) *testBox {
			_, err := b.Deps.Manager.CloseSession(t.Context(), b.ID, true)
			should.OK(t, err)
			return b
		},
		"pause": func(t *testing.T, b *testBox, _, _ string) *testBox {
			for _, path := range []string{"/pause", "/connect"} {
				if status, text := b.do("POST", "/e2b/sandboxes/"+b.ID+path, []byte(`{}`)); status/100 != 2 {
					t.Errorf("%s: %d %s", path, status, text)
				}
			}
			return b
		},
		"another server": func(t *testing.T, b *testBox, _, _ string) *testBox {
			api := New(apis.NewSeal())
			again := &resttest.Fixture{T: t, Deps: b.Deps, Served: rest.New(rest.Options{Deps: b.Deps, Logger: b.Deps.Logger, APIs: rest.APIs{api}})}
			again.URL = listen(t, api, again)
			other := &testBox{Fixture: again}
			_, text := other.do("POST", "/e2b/sandboxes/"+b.ID+"/connect", []byte(`{}`))
			should.OK(t, json.Unmarshal([]byte(text), &other.made), "%s", text)
			return other
		},
		"another context without its folder": func(t *testing.T, b *testBox, _, _ string) *testBox {
			should.Contain(t, b.execute("1", b.newContext("/nowhere")), "FileNotFoundError")
			return b
		},
		"its folder goes": func(t *testing.T, b *testBox, context, folder string) *testBox {
			should.OK(t, os.Remove(folder))
			b.execute("import os; os.chdir('/tmp')", context)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, folder := begin(t, start(t, apis.NewSeal(), nil)), filepath.Join(t.TempDir(), "of-context")
			should.OK(t, os.Mkdir(folder, 0o700))
			context := b.newContext(folder)
			b.execute("import threading, math\nwhere = 'default'\nlock = threading.Lock()", "")
			b.execute("where = 'context'\nhalf = lambda x: math.floor(x / 2)\nimport math", context)
			b = happens(t, b, context, folder)
			should.Contain(t, b.execute("where", ""), "default")
			should.Contain(t, b.execute("where, half(9)", context), "('context', 4)")
			should.Contain(t, b.execute("half", ""), "NameError")
		})
	}
}

func TestARestartedContextIsEmptyAndStopsItsCode(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	for _, path := range []string{"POST /restart", "DELETE "} {
		method, path, _ := strings.Cut(path, " ")
		context := b.newContext("/tmp")
		b.execute("x = 1", context)
		b.execute("kept = 1", "")
		begun, stopped := filepath.Join(t.TempDir(), "begun"), make(chan string)
		go func() { stopped <- b.execute("open('"+begun+"', 'w').close()\nwhile True: pass", context) }()
		must.Soon(t, "the code began", func() bool { return fileExists(begun) })
		if status, text := b.in(method, "/contexts/"+context+path, "", headerPort, interpreterPort); status != 200 {
			t.Errorf("%d %s", status, text)
		}
		should.Contain(t, <-stopped, "KeyboardInterrupt")
		should.Contain(t, b.execute("kept", ""), `"1"`)
		if path != "" {
			should.Contain(t, b.execute("x", context), "NameError")
		}
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
