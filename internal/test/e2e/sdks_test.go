//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// SDKs of agents, and n8n, each with a script that drives a server over HTTP as they do.

const n8nDir = "n8n"

var installN8n = sync.OnceValues(func() (string, error) { return npmci.Install(n8nDir) })

// readSnippets are the scripts of docs/clients.md.
var readSnippets = regexp.MustCompile("(?s)\n```js\n(.*?)\n```\n")

func TestSnippetsOfClients(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/clients.md")
	must.OK(t, err)
	snippets := readSnippets.FindAllSubmatch(page, -1)
	should.Equal(t, len(snippets), 2)
	for _, snippet := range snippets {
		must.OK(t, should.ErrOf(installExamples()))
		dir := t.TempDir()
		s := startHTTP(t, "--allow-host-dir", dir)
		env := append(os.Environ(), "MCP_TOKEN="+s.token, "OPENAI_AGENTS_DISABLE_TRACING=1")
		env = append(env, responses.env(startModel(t, responses, filepath.Join(dir, "primes.png")))...)
		script := strings.ReplaceAll(string(snippet[1]), "http://127.0.0.1:8000/mcp", s.url)
		stdout, stderr, err := runClient(t, examplesDir, env, filepath.Join(npmClients(t), ".bin", "node"), "--input-type=module", "--eval", script)
		if err != nil || stdout != "There are 1229 primes.\n" {
			t.Errorf("%s\n%v\n%s\n%s", script, err, stdout, stderr)
		}
	}
}

func TestSDKsOverHTTP(t *testing.T) {
	t.Parallel()
	for _, sdk := range []struct {
		name, script string
		dir          string // that has the packages
		install      func() (string, error)
	}{
		{"OpenAI Agents", "clients/agents.mjs", examplesDir, installExamples},
		{"AI SDK", "clients/ai-sdk.mjs", examplesDir, installExamples},
		{"n8n", "n8n/n8n.mjs", n8nDir, installN8n},
	} {
		t.Run(sdk.name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(npmClients(t), ".bin", "node")
			must.OK(t, should.ErrOf(sdk.install()))
			script, err := os.ReadFile(sdk.script)
			must.OK(t, err)
			s := startHTTP(t)
			env := append(os.Environ(), "MCP_URL="+s.url, "MCP_TOKEN="+s.token)
			// As a text, so that it finds the packages of the folder that it is run in.
			stdout, stderr, err := runClient(t, sdk.dir, env, program, "--input-type=module", "--eval", string(script))
			if err != nil || strings.TrimSpace(stdout) != "ok" {
				t.Errorf("%v\n%s\n%s", err, stdout, stderr)
			}
		})
	}
}
