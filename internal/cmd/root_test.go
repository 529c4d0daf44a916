package cmd

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// core is the program without features.
var core = Program{Name: "code-sandbox-mcp"}

// parsed is the command that these arguments name, with its flags read.
func parsed(t *testing.T, args ...string) *cobra.Command {
	t.Helper()
	cmd, rest, err := core.Command().Find(args)
	must.OK(t, err)
	must.OK(t, cmd.ParseFlags(rest))
	should.OK(t, cmd.Args(cmd, cmd.Flags().Args()), "%q", args)
	return cmd
}

func TestPrewarmTakesTheNextWord(t *testing.T) {
	for _, args := range [][]string{{"--prewarm", "js"}, {"--prewarm=js"}, {"serve", "--prewarm", "js"}} {
		parsed(t, args...)
	}
}

func TestTheSweepLeftBehindHasTheServersSettings(t *testing.T) {
	here := must.Get(filepath.Abs("."))(t)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"none":                   {nil, ""},
		"the command's own name": {[]string{"serve", "--state-dir", "serve"}, "--state-dir=" + filepath.Join(here, "serve")},
		"a flag of the command":  {[]string{"selftest", "--json", "--state-dir", "there"}, "--state-dir=" + filepath.Join(here, "there")},
		"a list in two words":    {[]string{"--prewarm", "python", "--idle-timeout", "90"}, "--idle-timeout=1m30s --prewarm=python"},
		"what needs a list": {
			[]string{"--packages=listed", "--packages-allow=pypi:a,npm:b", "--network=allowlist", "--allow-domain=a.example"},
			"--allow-domain=a.example --network=allowlist --packages=listed --packages-allow=pypi:a,npm:b",
		},
		"credentials": {[]string{"--pypi-index-url=https://user:hunter2@packages.example/"}, "--pypi-index-url=https://xxxxx@packages.example/"},
		"all kinds": {
			[]string{"--memory-limit=1.5g", "--cpu-limit", "0.5", "--fetch-urls=false", "--tools=run_js_code", "--log-file", "a b"},
			"--cpu-limit=0.5 --fetch-urls=false --log-file=" + filepath.Join(here, "a b") + " --memory-limit=1536MiB --tools=run_js_code",
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := gcArgs(parsed(t, test.args...))
			should.Equal(t, strings.Join(args, " "), strings.TrimSpace("gc --after-parent "+test.want), "it is called, want %q", test.want)
			parsed(t, args...)
			should.OK(t, server.Check(nil, args[2:], nil))
		})
	}
}

func TestExitCodes(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want int
	}{
		"version":         {[]string{"version"}, 0},
		"its flag":        {[]string{"--version"}, 0},
		"unknown command": {[]string{"serv"}, 2},
		"unknown flag":    {[]string{"--nope"}, 2},
		"two to drain":    {[]string{"drain", "a", "b"}, 2},
		"undo and wait":   {[]string{"drain", "--undo", "--wait"}, 2},
		"clients alone":   {[]string{"drain", "--clients"}, 2},
		"at least alone":  {[]string{"drain", "--at-least=5s"}, 2},
		"no time to wait": {[]string{"drain", "--wait", "--timeout=0s"}, 2},
		"none to drain":   {[]string{"drain", "--state-dir", t.TempDir()}, 1},
		"bad setting":     {[]string{"version", "--max-sessions=0"}, 2},
		"extra argument":  {[]string{"version", "more"}, 2},
		"prewarm ruby":    {[]string{"--prewarm", "ruby"}, 2},
		"no registry":     {[]string{"setup", "--registry", "https://registry.example.com"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			should.Equal(t, core.Main(test.args), test.want, "exit code")
		})
	}
}

func TestWhatIsMistypedIsNamed(t *testing.T) {
	for args, want := range map[string]string{
		"instal":               "do you mean install?",
		"doctr --json":         "do you mean doctor?",
		"sessions lst":         "do you mean list?",
		"--prewrm python":      "do you mean --prewarm?",
		"run --languag python": "do you mean --language?",
		"frobnicate":           `argument "frobnicate"`,
	} {
		root := core.Command()
		root.SetArgs(strings.Fields(args))
		err := root.Execute()
		should.Hold(t, err != nil && strings.HasSuffix(err.Error(), want), "%s: %v", args, err)
	}
}

func TestMistypedVariablesAreNoted(t *testing.T) {
	environ := []string{"SANDBOX_MEMRY_LIMIT=1g", "SANDBOX_MEMORY_LIMIT=1g", "SANDBOX_IMAGE=x", "SANDBOX_SQL_DATABASE=x", "SANDBOX_HTTP_TOKEN=x", "SANDBOXES=1", "SANDBOX_XYZ="}
	should.EqualSlice(t, unknownVariables(core.Command(), environ), []string{"SANDBOX_MEMRY_LIMIT: do you mean SANDBOX_MEMORY_LIMIT?", "SANDBOX_XYZ"}, "variables")
}

func TestAShellCompletes(t *testing.T) {
	dir := t.TempDir()
	lock := must.Get(state.Take(filepath.Join(dir, "sessions"), "work"))(t)
	t.Cleanup(lock.Release)
	for args, want := range map[string]string{
		"sessions show": "work", "run --session": "work", "install --client": "cursor", "run --language": "javascript", "--log-level": "debug",
	} {
		root := core.Command()
		var out strings.Builder
		root.SetOut(&out)
		root.SetArgs(append(strings.Fields("__complete --state-dir "+dir+" "+args), ""))
		must.OK(t, root.Execute())
		should.Hold(t, slices.Contains(strings.Fields(out.String()), want), "%s: %q", args, out.String())
	}
}
