package tools

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestTheOwnSkill(t *testing.T) {
	d := &Deps{Secrets: secrets.New(nil), ToolServers: []string{"weather"}}
	text := d.skill()
	words := len(strings.Fields(text))
	should.Hold(t, words <= 1500 && strings.Contains(text, "weather"), "%d words: %s", words, text)
	want := fmt.Sprintf(`"resources":[{"digest":"sha256:%x","size":%d,"uri":"skill://code-sandbox/SKILL.md"}]`, sha256.Sum256([]byte(text)), len(text))
	for params, part := range map[string]string{`{}`: `"skills":[{`, `{"uri":"skill://code-sandbox/SKILL.md"}`: `"skill":{`} {
		got, failed := d.tellSkill(params != `{}`)(t.Context(), json.RawMessage(params))
		must.Hold(t, failed == nil, "%s: %v", params, failed)
		said, err := json.Marshal(got)
		should.Hold(t, err == nil && strings.Contains(string(said), want) && strings.Contains(string(said), part), "%s: %s", params, said)
	}
	for _, params := range []string{`{}`, `{"uri":7}`, `[`, `{"uri":"skill://other/SKILL.md"}`} {
		_, failed := d.tellSkill(true)(t.Context(), json.RawMessage(params))
		should.Hold(t, failed != nil && strings.Contains(failed.Message, skillURI), "%s: %v", params, failed)
	}
}
