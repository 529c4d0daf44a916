//go:build unix

package clients

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

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
