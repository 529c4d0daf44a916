//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var update = flag.Bool("update", false, "write testdata/tools anew from what the program lists")

// What a client's model pays for the list of tools, in bytes of compact JSON and in characters.
const (
	toolBudget         = 1100
	listBudget         = 7385 // 7400 with what is around it
	descriptionBudget  = 600
	instructionsBudget = 240 // what every client leaves of them
)

// tool is one entry of tools/list.
type tool struct {
	Name        string
	Title       string
	Description string
	InputSchema struct {
		Type                 string
		Properties           map[string]map[string]any
		AdditionalProperties *bool
	}
	Annotations struct {
		Title                                                        string
		ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint *bool
	}
	raw json.RawMessage
}

func listedTools(t *testing.T) (tools []tool, list json.RawMessage) {
	t.Helper()
	list = listOf(start(t, setup{asShipped: true}))
	var raw []json.RawMessage
	decode(t, list, &raw)
	for _, text := range raw {
		one := tool{raw: text}
		decode(t, text, &one)
		tools = append(tools, one)
	}
	return tools, list
}

// The wire form of every tool is reviewed like code: a change shows as a change of its file.
func TestToolsAreAsReviewed(t *testing.T) {
	t.Parallel()
	tools, _ := listedTools(t)
	known := make(map[string]bool)
	for _, tool := range tools {
		path := filepath.Join("testdata", "tools", tool.Name+".json")
		known[path] = true
		var got bytes.Buffer
		must.OK(t, json.Indent(&got, tool.raw, "", "  "))
		got.WriteByte('\n')
		if *update {
			write(t, path, got.Bytes())
			continue
		}
		want, err := os.ReadFile(path)
		should.Hold(t, err == nil && bytes.Equal(want, got.Bytes()),
			"%s is not what is reviewed (go test ./internal/test/e2e -run Reviewed -update):\n%s", path, got.String())
	}
	files, _ := filepath.Glob(filepath.Join("testdata", "tools", "*.json"))
	for _, path := range files {
		should.Hold(t, known[path], "%s is of a tool that there is not", path)
	}
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, text, 0o644))
}

// plainNames are of arguments that say by themselves what they are.
var plainNames = []string{"session_id", "run_id", "limits", "language", "text", "content_base64", "offset", "limit", "cancel", "steps", "checkpoint", "to", "files", "variables"}

var toolName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

func TestEveryToolSaysWhatClientsAskFor(t *testing.T) {
	t.Parallel()
	tools, list := listedTools(t)
	should.Hold(t, len(list) <= listBudget, "the list has %d bytes, and may have %d", len(list), listBudget)
	said := start(t, setup{silent: true}).handshake(string(legacy)).Instructions
	should.Hold(t, said != "" && len(said) <= instructionsBudget, "instructions of %d bytes", len(said))
	for _, tool := range tools {
		should.Hold(t, len(tool.raw) <= toolBudget, "%s has %d bytes, and may have %d", tool.Name, len(tool.raw), toolBudget)
		n := utf8.RuneCountInString(tool.Description)
		should.Hold(t, n != 0 && n <= descriptionBudget, "%s: a description of %d characters", tool.Name, n)
		a := tool.Annotations
		should.Hold(t, toolName.MatchString(tool.Name) && len(tool.Name) <= 30, "the name %q", tool.Name)
		should.Hold(t, tool.Title != "" || a.Title != "", "%s has no title", tool.Name)
		reads := slices.Contains([]string{"session_info", "list_sessions", "list_artifacts", "read_artifact"}, tool.Name)
		fetches := tool.Name == "upload_file" || tool.Name == "install_packages" // from a public address, from an index
		if a.ReadOnlyHint == nil || a.DestructiveHint == nil || a.OpenWorldHint == nil ||
			*a.ReadOnlyHint != reads || *a.DestructiveHint != (tool.Name == "close_session" || tool.Name == "restore_session") || *a.OpenWorldHint != fetches {
			t.Errorf("%s: %s", tool.Name, sprint(a))
		}
		schema := tool.InputSchema
		should.Hold(t, schema.Type == "object" && schema.Properties != nil && schema.AdditionalProperties == nil,
			"%s: input schema: %s", tool.Name, tool.raw)
		for name, property := range schema.Properties {
			for refusing := range property {
				should.Hold(t, slices.Contains([]string{"type", "description", "enum", "items", "properties", "nullable"}, refusing),
					"%s: %s has %s, by which clients refuse what the server would take", tool.Name, name, refusing)
			}
			if kind, plain := property["type"].(string); !plain || kind == "" || property["description"] == "" ||
				property["description"] == nil && !slices.Contains(plainNames, name) {
				t.Errorf("%s: %s is %s", tool.Name, name, sprint(property))
			}
		}
	}
}

// listOf gives the answer to tools/list.
func listOf(s *server) json.RawMessage {
	s.t.Helper()
	var t struct{ Tools json.RawMessage }
	decode(s.t, s.request("tools/list", nil).Result, &t)
	return t.Tools
}
