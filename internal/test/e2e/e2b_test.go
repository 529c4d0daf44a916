//go:build unix

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const e2bDir = "e2b"

// installPython makes an environment of what a folder's requirements.txt pins, once for each state of that file, and returns its python3.
func installPython(t *testing.T, dir, modules string) string {
	t.Helper()
	pinned, err := filepath.Abs(filepath.Join(dir, "requirements.txt"))
	must.OK(t, err)
	text, err := os.ReadFile(pinned)
	must.OK(t, err)
	sum := sha256.Sum256(text)
	at := filepath.Join(modules, ".python-"+hex.EncodeToString(sum[:8])) // which no commit has
	python := filepath.Join(at, "bin", "python3")
	stamp := filepath.Join(at, "installed")
	if _, err := os.Stat(stamp); err == nil {
		return python
	}
	for _, command := range [][]string{
		{"python3", "-m", "venv", "--clear", at},
		{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary=:all:", "--requirement", pinned},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
	must.OK(t, os.WriteFile(stamp, nil, 0o600))
	return python
}

// E2B's SDKs work as they are.
func TestE2BSDKs(t *testing.T) {
	t.Parallel()
	modules, err := npmci.Install(e2bDir)
	must.OK(t, err)
	must.OK(t, should.ErrOf(installExamples()))
	node := filepath.Join(npmClients(t), ".bin", "node")
	for name, test := range map[string]struct {
		dir     string
		command []string
		says    string
	}{
		"JavaScript": {e2bDir, []string{node, "e2b.mjs"}, "ok"},
		"Python":     {e2bDir, []string{installPython(t, e2bDir, modules), "e2b_sdk.py"}, "ok"},
		"ComputeSDK": {examplesDir, []string{node, "computesdk.mjs", "3", "burst"}, "3 of 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startHTTPWith(t, setup{program: serverProgram, args: []string{"--apis", "e2b"}})
			at := strings.TrimSuffix(s.url, "/mcp") + "/e2b"
			env := append(os.Environ(), "E2B_API_URL="+at, "E2B_SANDBOX_URL="+at+"/sandbox", "E2B_API_KEY=e2b_"+hex.EncodeToString([]byte(s.token)))
			stdout, stderr, err := runClient(t, test.dir, env, test.command[0], test.command[1:]...)
			if err != nil || !strings.Contains(stdout, test.says) {
				t.Errorf("%v\n%s\n%s", err, stdout, stderr)
			}
		})
	}
}
