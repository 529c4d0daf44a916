package install

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// The editors are fed with anything. What they take has to keep every byte that is not blank, and to mean the same
// without the server's entry, as the format's own parser reads it; taking the entry out again must bring that meaning
// back. What they cannot change so they have to refuse.
func fuzzEditor(f *testing.F, clientName string, seeds ...string) {
	c, err := Find(clientName)
	must.OK(f, err)
	names, err := filepath.Glob(filepath.Join("testdata", "configurations", "*", "*"))
	if err != nil || len(names) == 0 {
		f.Fatal(err, names)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		must.OK(f, err)
		f.Add(text)
	}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	at := address{key: c.key, name: "code-sandbox", list: c.list}
	entry := c.entry(at.name, Server{Command: serverPath, Args: []string{"--a", "off"}, Env: []Variable{{"A", "1"}}})
	other := c.entry(at.name, Server{Command: "/x"})
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			t.Skip()
		}
		values, err := c.format.parse(text)
		if err != nil {
			return
		}
		before := at.entries(values)
		with := func(text []byte, entry fields) ([]byte, error) {
			values, err := c.format.parse(text)
			if err != nil {
				t.Fatalf("what was written is not read: %v\n%q", err, text)
			}
			return c.format.with(text, values, at, entry)
		}
		after, err := with(text, entry)
		if err != nil {
			return
		}
		if len(before) > 0 && before[at.name] == nil && !isSubsequence(text, after) {
			t.Errorf("bytes are lost:\n%q\n%q", text, after)
		}
		if again, err := with(after, entry); !errors.Is(err, errUnsafe) && !bytes.Equal(again, after) {
			t.Errorf("a second time: %v\n%q\n%q", err, after, again)
		}
		updated, err := with(after, other)
		if err != nil && !errors.Is(err, errUnsafe) {
			t.Errorf("update: %v\n%q", err, after)
		}
		if err != nil {
			updated = after
		}
		values, err = c.format.parse(updated)
		if err != nil {
			t.Fatalf("what was written is not read: %v\n%q", err, updated)
		}
		without, err := c.format.without(updated, values, at)
		if err != nil {
			if !errors.Is(err, errUnsafe) {
				t.Errorf("take out: %v\n%q", err, updated)
			}
			return
		}
		if len(before) > 0 && before[at.name] == nil && !isSubsequence(without, text) && !isSubsequence(text, without) {
			t.Errorf("taken out again:\n%q\n%q", text, without)
		}
	})
}

// isSubsequence reports whether all that is not blank in a text is in another, in order.
func isSubsequence(part, whole []byte) bool {
	for _, b := range bytes.Fields(part) {
		for _, c := range b {
			i := bytes.IndexByte(whole, c)
			if i < 0 {
				return false
			}
			whole = whole[i+1:]
		}
	}
	return true
}

func FuzzJSON(f *testing.F) {
	fuzzEditor(f, "cursor", "", "{}", "//x", "{\"mcpServers\":{\"a\":1,}// c\n}", "{\"mcpServers\":{\"code-sandbox\":{\"command\":1 /*c*/,// d\n}}}")
}

func FuzzTOML(f *testing.F) {
	fuzzEditor(f, "codex", "", "mcp_servers.a.b = 1", "[mcp_servers]\na.b = '''\n[x]'''", "[[mcp_servers]]", "[mcp_servers.code-sandbox]\nenv = {}\nargs=[\n1]#c\n[mcp_servers.code-sandbox.x]\n#y\n[z]")
}

func FuzzYAMLMapping(f *testing.F) {
	fuzzEditor(f, "goose", "", "extensions:\n a: {}\n#x\nb: |+\n  c\n\n", "extensions: &x\n  a: 1\ny: *x", "? a\n: b\nextensions:\n    code-sandbox:\n        cmd: x\n        envs: {A: b} # c\n")
}

func FuzzYAMLList(f *testing.F) {
	fuzzEditor(f, "continue", "", "mcpServers:\n- name: a\n-\n  name: b\n- c", "mcpServers:\n  - env:\n      A: b\n    name: code-sandbox\n")
}
