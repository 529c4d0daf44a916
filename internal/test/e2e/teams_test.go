//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const teamsDir = "../../../docs/deploy/teams"

// The files of docs/teams.md do what the page says, for principals with tokens and for LibreChat's users.
func TestFilesForATeam(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(teamsDir, name))
		must.OK(t, err)
		return string(text)
	}
	const secret = "a-secret-of-24-characters"
	s := startHTTPWith(t, setup{
		args: []string{"--config", filepath.Join(teamsDir, "server.yaml"), "--policy", filepath.Join(teamsDir, "policy.yaml"), "--audit-log", filepath.Join(t.TempDir(), "audit.jsonl")},
		env:  []string{"SANDBOX_TRUSTED_HEADER_SECRET=" + secret},
	})
	alice, bob := s.as("alice", "--group", "analysts"), s.as("bob")
	for of, want := range map[*httpServer]bool{alice: true, bob: false} {
		res, err := of.plain().request(t.Context(), "tools/list", object{})
		if err != nil || strings.Contains(string(res), `"install_packages"`) != want {
			t.Errorf("%v %s", err, res)
		}
	}
	link := alice.plain().answer(t, python, object{"session_id": "work", "code": "open('output/a.txt', 'w').write('1')"})
	should.Contain(t, link, `"download_url":"https://sandbox.example.com/p/`, "there is no link by the proxy")

	var librechat struct {
		Servers map[string]struct{ Headers map[string]string } `yaml:"mcpServers"`
	}
	must.OK(t, yaml.Unmarshal([]byte(read("librechat.yaml")), &librechat))
	user := func(id, code string) string {
		h := http.Header{"Authorization": {""}}
		for name, value := range librechat.Servers["sandbox"].Headers {
			h.Set(name, strings.NewReplacer("{{LIBRECHAT_USER_ID}}", id, "${SANDBOX_SECRET}", secret).Replace(value))
		}
		status, res, err := s.plain().post(t.Context(), object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": python, "arguments": object{"session_id": "work", "code": code}}}, h)
		return fmt.Sprint(status, string(res), err)
	}
	should.Contain(t, user("6650a", "kept = 'of 6650a'\nkept"), "of 6650a")
	if said := user("6650b", "globals().get('kept', 'nothing')"); !strings.Contains(said, "nothing") || strings.Contains(said, "of 6650a") {
		t.Error(said)
	}
}
