package cmd

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/install"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestFlagsOfTheServerGoIntoTheEntry(t *testing.T) {
	s := server.New(nil)
	fs := pflag.NewFlagSet("install", pflag.ContinueOnError)
	s.Bind(fs)
	if err := fs.Parse([]string{"--memory-limit", "2g", "--allow-host-dir", "/a,/b", "--prewarm", "--fetch-urls=false",
		"--pypi-index-url=https://user:hunter2@packages.example/simple/"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"--allow-host-dir=/a,/b", "--fetch-urls=false", "--memory-limit=2GiB", "--prewarm=" + fs.Lookup("prewarm").NoOptDefVal,
		"--pypi-index-url=https://user:hunter2@packages.example/simple/"}
	should.EqualSlice(t, changedFlags(fs, withCredentials), want)
	should.OK(t, server.Check(nil, want, nil))
}

// A client starts the server in a folder of its own.
func TestPathsInTheEntryAreAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for given, want := range map[string]string{
		"--mcp-servers=./servers.json":      "--mcp-servers=DIR/servers.json",
		"--allow-host-dir=data,/srv,~/x,..": "--allow-host-dir=DIR/data,/srv,~/x," + filepath.Dir(dir),
		"--env-file=a.env,b.env":            "--env-file=DIR/a.env,DIR/b.env",
		"--mount=/a:b,rw,~/c:d":             "--mount=/a:b,rw,~/c:d",
		"--mount=/a:b,rw,undo,~/c:d,undo":   "--mount=/a:b,rw,undo,~/c:d,undo",
		"--project":                         "--project=ro",
		"--project=rw,undo":                 "--project=rw,undo",
		"--config=c.yaml":                   "--config=DIR/c.yaml",
		"--state-dir=state":                 "--state-dir=DIR/state",
		"--log-file=":                       "--log-file=",
		"--python-image=localhost/a/b":      "--python-image=localhost/a/b",
	} {
		fs := server.Flags(nil)
		must.OK(t, fs.Parse([]string{given}))
		should.EqualSlice(t, changedFlags(fs, masked), []string{strings.ReplaceAll(want, "DIR", dir)}, "%s", given)
	}
}

func TestWrongUseOfInstall(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"install --client emacs", `there is no client "emacs"; there are claude-desktop, `},
		{"install --client cursor --scope all", `--scope "all" is neither user nor project`},
		{"install --client cursor --name -x", `--name "-x"`},
		{"install --client cursor --env A", `--env "A" is not of the form NAME=VALUE`},
		{"install --client cursor --arg --nothing", "unknown flag: --nothing"},
		{"install --all --scope project", "--all is for --scope user"},
		{"uninstall", "say of which clients"},
		{"uninstall --client cursor --memory-limits 2g", "unknown flag"},
	} {
		t.Setenv("HOME", t.TempDir())
		root := core.Command()
		root.SetArgs(strings.Fields(test.args))
		should.Fail(t, root.Execute(), test.want, "%s", test.args)
		should.Equal(t, core.Main(strings.Fields(test.args)), exitUsage, "%s: exit code", test.args)
	}
}

func TestHelpNamesEveryClient(t *testing.T) {
	help := installCommand(core).Long
	for _, name := range install.Names() {
		should.Hold(t, strings.Contains(help, name), "%s is missing", name)
	}
}

func TestVariablesThatClientsDoNotPassOn(t *testing.T) {
	entry := install.Server{Env: []install.Variable{{Name: "SANDBOX_PREWARM", Value: "python"}}}
	got := notPassedOn([]string{"HOME=/x", "SANDBOX_PREWARM=js", "SANDBOX_IMAGES=off", "CONTAINER_HOST=unix:///x"}, entry)
	should.EqualSlice(t, got, []string{"CONTAINER_HOST", "SANDBOX_IMAGES"})
}
