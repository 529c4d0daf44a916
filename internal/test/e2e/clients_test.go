//go:build unix

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// clientState gives a state directory for a server that a client starts by itself, with little of an environment. What the
// server has in it must be gone when the test ends, and what it keeps ready for a later one when that is cleared up.
func clientState(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if left := lockedSessions(dir); len(left) > 0 && !t.Failed() {
			eventually(t, "gc removes what is kept ready", func() (bool, string) { // once the server has let go of it
				said, err := exec.Command(binary, "gc", "--state-dir", dir).CombinedOutput()
				must.Hold(t, err == nil, "gc: %v: %s", err, said)
				return mustHold(t, left).empty(), string(said)
			})
		}
	})
	return dir
}

func TestTypeScriptClients(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"legacy", "modern"} {
		t.Run(generation, func(t *testing.T) {
			stdout, stderr, err := node(t, "typescript.mjs", binary, clientState(t), generation)
			should.Hold(t, err == nil && strings.TrimSpace(stdout) == "ok", "%v\n%s\n%s", err, stdout, stderr)
		})
	}
}

// Who comes to a session anew is told once what it has.
func TestTheCardOfASession(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := node(t, "card.mjs", binary, clientState(t))
	should.Hold(t, err == nil && strings.TrimSpace(stdout) == "ok", "%v\n%s\n%s", err, stdout, stderr)
}

const clientsDir = "clients"

// npmClients returns the folder that the clients of clients/package.json are installed in.
func npmClients(t *testing.T) string {
	t.Helper()
	modules := must.Get(installClients())(t)
	return modules
}

var installClients = sync.OnceValues(func() (string, error) { return npmci.Install(clientsDir) })

// node runs a script of the clients with the Node.js that is installed with them, and returns what it
// wrote to its stdout.
func node(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runClient(t, clientsDir, nil, filepath.Join(npmClients(t), ".bin", "node"), args...)
}

// runClient runs a program that starts servers of its own, in a folder, with an environment or else the test's.
func runClient(t *testing.T, dir string, env []string, program string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, env
	// A client that is stopped must not hold the test by a server that has its stderr.
	cmd.WaitDelay = 10 * time.Second
	log := &locked.Buffer{}
	cmd.Stderr = log
	out, err := cmd.Output()
	return string(out), log.String(), err
}

// ofFixtures are the checks that need tools of a fixture.
var ofFixtures = []string{
	"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
	"sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
	"sep-2549-prompts-list-caching-hints",
}

var failedCheck = regexp.MustCompile(`\[(\S+) *\] \S*FAILURE`)

func wantConforming(t *testing.T, url, revision, scenario string) {
	t.Helper()
	stdout, stderr, err := node(t, filepath.Join("node_modules", ".bin", "conformance"), "server",
		"--url", url, "--scenario", scenario, "--spec-version", revision)
	if err == nil {
		return
	}
	failed := failedCheck.FindAllStringSubmatch(stdout, -1)
	for _, check := range failed {
		if !slices.Contains(ofFixtures, check[1]) {
			t.Errorf("%s failed", check[1])
		}
	}
	should.Hold(t, len(failed) != 0 && !t.Failed(), "%v\n%s\n%s", err, stdout, stderr)
}

// Over HTTP the scenarios that judge HTTP itself are asked for as well.
func TestConformanceOverHTTP(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, "--http-no-auth") // the suite has no token to send
	for revision, scenarios := range map[string][]string{
		"2025-06-18": {"server-initialize", "server-session-lifecycle", "tools-list"},
		"2025-11-25": {"server-initialize", "server-session-lifecycle", "ping", "tools-list", "resources-list", "dns-rebinding-protection", "server-sse-multiple-streams", "server-sse-polling"},
		"2026-07-28": {"server-stateless", "tools-list", "resources-list", "sep-2164-resource-not-found", "dns-rebinding-protection", "server-sse-multiple-streams", "caching", "http-header-validation"},
	} {
		for _, scenario := range scenarios {
			t.Run(revision+" "+scenario, func(t *testing.T) { wantConforming(t, s.url, revision, scenario) })
		}
	}
}

// SDKs of agents, and n8n, each with a script that drives a server over HTTP as they do.

const n8nDir = "n8n"

// readSnippets are the scripts of docs/frameworks.md that use MCP, without what E2B's page is for.
var readSnippets = regexp.MustCompile("(?s)JavaScript\n\n```js\n(.*?)\n```\n")

func TestSnippetsOfClients(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/frameworks.md")
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
		should.Hold(t, err == nil && stdout == "There are 1229 primes.\n", "%s\n%v\n%s\n%s", script, err, stdout, stderr)
	}
}

func TestN8nOverHTTP(t *testing.T) {
	t.Parallel()
	must.OK(t, should.ErrOf(npmci.Install(n8nDir)))
	script := must.Get(os.ReadFile("n8n/n8n.mjs"))(t)
	s := startHTTP(t)
	env := append(os.Environ(), "MCP_URL="+s.url, "MCP_TOKEN="+s.token)
	// As a text, so that it finds the packages of the folder that it is run in.
	stdout, stderr, err := runClient(t, n8nDir, env, filepath.Join(npmClients(t), ".bin", "node"), "--input-type=module", "--eval", string(script))
	should.Hold(t, err == nil && strings.TrimSpace(stdout) == "ok", "%v\n%s\n%s", err, stdout, stderr)
}

const e2bDir = "e2b"

// installPython makes an environment of what a folder's requirements.txt pins, once for each state of that file, and returns its python3.
func installPython(t *testing.T, dir, modules string) string {
	t.Helper()
	pinned := must.Get(filepath.Abs(filepath.Join(dir, "requirements.txt")))(t)
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
		out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		must.Hold(t, err == nil, "%q: %v\n%s", command, err, out)
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
			should.Hold(t, err == nil && strings.Contains(stdout, test.says), "%v\n%s\n%s", err, stdout, stderr)
		})
	}
}
