//go:build unix

package clients

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "code-sandbox-mcp-clients-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "code-sandbox-mcp")
	cmd := exec.Command("go", "build", "-o", binary, "github.com/code-sandbox-mcp/code-sandbox-mcp")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "clients: build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// patience bounds one command of a client. Some unpack themselves first.
const patience = 4 * time.Minute

var modules = sync.OnceValues(func() (string, error) { return npmci.Install(".") })

// user is somebody with a home folder of their own, and with these clients alone on the PATH.
type user struct {
	home, project string
	env           []string
}

func newUser(t *testing.T) user {
	t.Helper()
	dir := must.Get(modules())(t)
	// Not below the system's folder for temporary files: Codex does not put its own there.
	home := must.Get(os.MkdirTemp(dir, ".home-"))(t)
	t.Cleanup(func() {
		for range 20 { // something of a client may still write
			if os.RemoveAll(home) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	u := user{home: home, project: filepath.Join(home, "project")}
	must.OK(t, os.Mkdir(u.project, 0o700))
	u.env = []string{
		"HOME=" + home, "PATH=" + filepath.Join(dir, ".bin") + ":/usr/bin:/bin", "TERM=dumb", "NO_COLOR=1", "CI=1",
		"XDG_CACHE_HOME=" + filepath.Join(dir, ".cache-clients"), // what they unpack at their first start
		"DISABLE_AUTOUPDATER=1", "GEMINI_CLI_TRUST_WORKSPACE=true", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
	}
	return u
}

// run runs a command in the user's project and returns all that it says.
func (u user) run(t *testing.T, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	path := argv[0]
	if !filepath.IsAbs(path) {
		dir := must.Get(modules())(t)
		path = filepath.Join(dir, ".bin", path)
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = u.project, u.env, 5*time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (u user) mustRun(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := u.run(t, argv...)
	must.Hold(t, err == nil, "%q: %v\n%s", argv, err, out)
	return out
}

// clientCase is a client, and how it is asked for its servers.
type clientCase struct {
	name string
	// file is its configuration below the home folder, with what somebody had in it before.
	file, before string
	list         []string
	// connects is what the list says of a server that answers; "": it only reads its configuration.
	connects string
	// rewrites reports whether the client writes its configuration whenever it is started.
	rewrites bool
}

var cases = []clientCase{
	{
		name: "claude-code", file: ".claude.json", list: []string{"claude", "mcp", "list"}, connects: "Connected", rewrites: true,
		before: "{\n  \"hasCompletedOnboarding\": true,\n  \"mcpServers\": {}\n}",
	},
	{
		name: "gemini", file: ".gemini/settings.json", list: []string{"gemini", "mcp", "list"}, connects: "Connected",
		before: "{\n  // mine\n  \"ui\": { \"theme\": \"GitHub\" }\n}\n",
	},
	{
		name: "codex", file: ".codex/config.toml", list: []string{"codex", "mcp", "list"},
		before: "# mine\nmodel = \"o3\" # the old one\n",
	},
	{
		name: "opencode", file: ".config/opencode/opencode.json", list: []string{"opencode", "mcp", "list"}, connects: "connected",
		before: "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  // mine\n  \"share\": \"disabled\",\n}\n",
	},
	{
		name: "qwen", file: ".qwen/settings.json", list: []string{"qwen", "mcp", "list"}, connects: "Connected", rewrites: true,
		before: "{\n  // mine\n  \"general\": { \"vimMode\": false }\n}\n",
	},
	{
		name: "copilot", file: ".copilot/mcp-config.json", list: []string{"copilot", "mcp", "list"},
		before: "{\n  \"mcpServers\": {}\n}\n",
	},
	{
		name: "cline", file: ".cline/data/settings/cline_mcp_settings.json", list: []string{"cline", "config", "mcp"},
		before: "{\n    \"mcpServers\": {\n    }\n}\n",
	},
}

func TestEachClientHasTheServer(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			file := filepath.Join(u.home, c.file)
			must.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
			must.OK(t, os.WriteFile(file, []byte(c.before), 0o600))

			said := u.mustRun(t, binary, "install", "--client", c.name, "--env", "SANDBOX_OUTPUT_LIMIT=9000", "--", "--images=off")
			should.Hold(t, strings.Contains(said, "The server answers"), "install said\n%s", said)
			installed := read(t, file)
			for _, part := range []string{binary, "--images=off", "SANDBOX_OUTPUT_LIMIT", "9000"} {
				should.Hold(t, bytes.Contains(installed, []byte(part)), "%s is not in\n%s", part, installed)
			}
			again := u.mustRun(t, append([]string{binary, "install", "--start=false", "--client", c.name}, "--env", "SANDBOX_OUTPUT_LIMIT=9000", "--", "--images=off")...)
			should.Hold(t, strings.Contains(again, "already") && bytes.Equal(read(t, file), installed), "a second time:\n%s", again)
			listed, err := u.run(t, c.list...)
			should.Hold(t, err == nil && strings.Contains(listed, "code-sandbox") && strings.Contains(listed, c.connects),
				"%q: %v\n%s", c.list, err, listed)

			u.mustRun(t, binary, "uninstall", "--client", c.name)
			left := string(read(t, file))
			should.Hold(t, (left == c.before || c.rewrites) && !strings.Contains(left, "code-sandbox"), "uninstall leaves\n%s", left)
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return text
}

// Continue cannot list its servers. So a model is made for it, which tells the tools that it is offered.
func TestContinueOffersTheToolsToItsModel(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	var mu sync.Mutex
	var asked bytes.Buffer
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&asked, r.Body)
		http.Error(w, `{"error": {"message": "that was all"}}`, http.StatusBadRequest)
	}))
	defer model.Close()
	file := filepath.Join(u.home, ".continue", "config.yaml")
	must.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
	before := "name: Local Config\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: Scripted # not real\n    provider: openai\n    model: gpt-4o\n    apiBase: " + model.URL + "/v1\n    apiKey: none\n"
	must.OK(t, os.WriteFile(file, []byte(before), 0o600))
	offered := func() bool {
		_, _ = u.run(t, "cn", "-p", "hello") // the model answers with an error
		mu.Lock()
		defer mu.Unlock()
		defer asked.Reset()
		must.Hold(t, bytes.Contains(asked.Bytes(), []byte("hello")), "the model was not asked: %s", asked.String())
		return bytes.Contains(asked.Bytes(), []byte("run_python_code"))
	}
	u.mustRun(t, binary, "install", "--client", "continue")
	if !offered() {
		t.Errorf("the tools are not offered with\n%s", read(t, file))
	}
	u.mustRun(t, binary, "uninstall", "--client", "continue")
	if offered() || string(read(t, file)) != before {
		t.Errorf("uninstall leaves\n%s", read(t, file))
	}
}

var update = flag.Bool("update", false, "rewrite the golden file")

// What the commands say and how they end, one after the other, for somebody who has Cursor and Goose.
func TestWhatTheCommandsSay(t *testing.T) {
	home := t.TempDir()
	for path, text := range map[string]string{
		".cursor/mcp.json":          "{\n  \"mcpServers\": {\n    \"sandbox\": { \"command\": \"code-sandbox-mcp\" }\n  }\n}\n",
		".config/goose/config.yaml": "GOOSE_MODEL: x\n",
		".codex/config.toml":        "a = = 1\n",
	} {
		must.OK(t, os.MkdirAll(filepath.Join(home, filepath.Dir(path)), 0o700))
		must.OK(t, os.WriteFile(filepath.Join(home, path), []byte(text), 0o600))
	}
	var b strings.Builder
	for _, line := range []string{
		"install",
		"install --client cursor --print --name sandbox2",
		"install --client cursor goose --dry-run --env A=B -- --images off",
		"install --client cursor,goose",
		"install --client cursor",
		"install --client cursor --images off",
		"install",
		"install --client codex",
		"install --client zed",
		"install --client zed --scope project",
		"install --client goose --scope project",
		"install --client emacs",
		"install --client cursor --arg --log-file=/nowhere/log",
		"uninstall --client cursor --dry-run",
		"uninstall --all",
		"uninstall --client cursor",
	} {
		cmd := exec.Command(binary, strings.Fields(line)...)
		cmd.Env, cmd.Dir = []string{"HOME=" + home, "PATH=/nowhere"}, home
		out, _ := cmd.CombinedOutput()
		b.WriteString("$ code-sandbox-mcp " + line + "\n" + string(out))
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			b.WriteString("[exit status " + string(rune('0'+code)) + "]\n")
		}
		b.WriteString("\n")
	}
	got := strings.NewReplacer(home, "/home/ada", binary, "/usr/local/bin/code-sandbox-mcp").Replace(b.String())
	got = regexp.MustCompile(`code-sandbox-mcp \S+, (\d+) tools, in \d+ ms`).ReplaceAllString(got, "code-sandbox-mcp VERSION, $1 tools, in N ms")
	got = regexp.MustCompile(`before-code-sandbox-\w+`).ReplaceAllString(got, "before-code-sandbox-HASH")
	got = regexp.MustCompile(`config=\S+`).ReplaceAllString(got, "config=BASE64")
	got = regexp.MustCompile(`(?m)(\S) {2,}`).ReplaceAllString(got, "$1  ") // columns are as wide as the home folder's path
	const golden = "testdata/shell.txt"
	if *update {
		must.OK(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	should.Equal(t, got, string(read(t, golden)), "-update rewrites %s", golden)
}
