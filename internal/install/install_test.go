package install

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const serverPath = "/usr/local/bin/code-sandbox-mcp"

// machine is a home folder with nothing in it, where no client has a program.
func machine(t *testing.T) Options {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
	home := t.TempDir()
	return Options{
		System: System{OS: "linux", Home: home, Env: func(string) string { return "" }}, Dir: t.TempDir(),
		Scope: User, Name: "code-sandbox", Server: Server{Command: serverPath},
	}
}

// give puts a client's configuration in its place.
func give(t *testing.T, o Options, c *Client, text []byte) string {
	t.Helper()
	o.Force = true
	files := must.Get(o.Files(c))(t)
	must.OK(t, os.MkdirAll(filepath.Dir(files[0]), 0o755))
	must.OK(t, os.WriteFile(files[0], text, 0o640))
	return files[0]
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return text
}

func client(t *testing.T, name string) *Client {
	t.Helper()
	c := must.Get(Find(name))(t)
	return c
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		must.OK(t, os.WriteFile(path, got, 0o644))
		return
	}
	want := read(t, path)
	should.Hold(t, bytes.Equal(got, want), "%s: -update rewrites it\ngot:\n%s\nwant:\n%s", path, got, want)
}

func mustInstall(t *testing.T, o Options, c *Client) Outcome {
	t.Helper()
	outcomes, err := o.Install(c)
	must.Hold(t, err == nil && len(outcomes) == 1, "install: %v, %d files", err, len(outcomes))
	return outcomes[0]
}

func mustUninstall(t *testing.T, o Options, c *Client) Outcome {
	t.Helper()
	outcomes, err := o.Uninstall(c)
	must.Hold(t, err == nil && len(outcomes) == 1, "uninstall: %v, %d files", err, len(outcomes))
	return outcomes[0]
}

// The configurations in testdata are like those that people have. What install makes of them is compared to the byte,
// and so is what uninstall leaves, with and without the backup.
func TestEveryClientsConfigurationKeepsEveryByte(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			o, c := machine(t), client(t, name)
			o.Server.Args = []string{"--memory-limit", "2g"}
			o.Server.Env = []Variable{{"SANDBOX_PREWARM", "python"}, {"NOTE", "a \"b\" <c> # d"}}
			dir := filepath.Join("testdata", "configurations", name)
			before := read(t, filepath.Join(dir, "before"))
			path := give(t, o, c, before)

			added := mustInstall(t, o, c)
			after := read(t, path)
			golden(t, filepath.Join(dir, "after"), after)
			if added.Done != Added || added.File != path || len(added.Diff) == 0 || !bytes.Equal(read(t, added.Backup), before) {
				t.Errorf("install: %+v", added)
			}
			again := mustInstall(t, o, c)
			should.Hold(t, again.Done == Present && again.Backup == "" && bytes.Equal(read(t, path), after), "a second time: %+v", again)
			if info, _ := os.Stat(path); info.Mode().Perm() != 0o640 {
				t.Errorf("the mode is %v", info.Mode())
			}

			removed := mustUninstall(t, o, c)
			should.Hold(t, removed.Done == Removed && bytes.Equal(read(t, path), before), "uninstall: %s", removed.Diff)
			wantOnly(t, path)

			mustInstall(t, o, c)
			must.OK(t, os.Remove(added.Backup))
			mustUninstall(t, o, c)
			if left := read(t, path); !bytes.Equal(unspaced(left), unspaced(before)) && !c.addsKeyTo(t, before) {
				t.Errorf("uninstall without the backup leaves\n%s", left)
			}
			again = mustUninstall(t, o, c)
			should.Hold(t, again.Done == Absent, "uninstall a second time: %+v", again)
		})
	}
}

// unspaced is a text without blanks, of which an edit may leave some.
func unspaced(text []byte) []byte { return bytes.Join(bytes.Fields(text), nil) }

// addsKeyTo reports whether a text has no servers at all, so that what is left without a backup has an empty key.
func (c *Client) addsKeyTo(t *testing.T, text []byte) bool {
	values := must.Get(c.format.parse(text))(t)
	return address{key: c.key, list: c.list}.entries(values) == nil
}

func wantOnly(t *testing.T, path string) {
	t.Helper()
	entries := must.Get(os.ReadDir(filepath.Dir(path)))(t)
	for _, e := range entries {
		should.Equal(t, e.Name(), filepath.Base(path), "is left")
	}
}

func TestAnUpdateKeepsWhatTheUserHasSet(t *testing.T) {
	for _, c := range []struct{ client, before, after string }{
		{
			"cursor",
			"{\n  \"mcpServers\": {\n    \"code-sandbox\": {\n      \"command\": \"/old\", // mine\n      \"env\": {\"A\": \"B\"},\n      \"disabled\": true\n    }\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"code-sandbox\": {\n      \"command\": \"" + serverPath + "\", // mine\n      \"disabled\": true,\n      \"args\": [\n        \"--images\",\n        \"off\"\n      ]\n    }\n  }\n}\n",
		},
		{
			"codex",
			"[mcp_servers.code-sandbox]\n# mine\ncommand = \"/old\" # the first\nenabled = false\n\n[mcp_servers.code-sandbox.env]\nA = \"B\"\n\n[mcp_servers.code-sandbox.tools.run_python_code]\napproval_mode = \"approve\"\n\n# next\n[tui]\n",
			"[mcp_servers.code-sandbox]\nargs = ['--images', 'off']\ncommand = '" + serverPath + "'\nenabled = false\n\n[mcp_servers.code-sandbox.tools]\n[mcp_servers.code-sandbox.tools.run_python_code]\napproval_mode = 'approve'\n# mine\n# the first\n\n# next\n[tui]\n",
		},
		{
			"goose",
			"extensions:\n  code-sandbox:\n    # mine\n    cmd: /old\n    args: []\n    enabled: false\n    envs:\n      A: B\n    name: code-sandbox\n    timeout: 900\n    type: stdio\n  other: {type: builtin}\n",
			"extensions:\n    # mine\n  code-sandbox:\n    enabled: false\n    type: stdio\n    name: code-sandbox\n    cmd: " + serverPath + "\n    args: [--images, \"off\"]\n    envs: {}\n    timeout: 900\n  other: {type: builtin}\n",
		},
		{
			"continue",
			"mcpServers:\n- name: code-sandbox\n  command: /old\n  env:\n    A: B\n- name: other\n  command: x\n",
			"mcpServers:\n- name: code-sandbox\n  command: " + serverPath + "\n  args: [--images, \"off\"]\n- name: other\n  command: x\n",
		},
		{
			"continue",
			"mcpServers:\n  - env:\n      A: B\n    name: code-sandbox\n    command: /old # mine\n",
			"mcpServers:\n  # mine\n  - name: code-sandbox\n    command: " + serverPath + "\n    args: [--images, \"off\"]\n",
		},
	} {
		t.Run(c.client, func(t *testing.T) {
			o, cl := machine(t), client(t, c.client)
			path := give(t, o, cl, []byte(c.before))
			o.Server.Args = []string{"--images", "off"}
			outcome := mustInstall(t, o, cl)
			should.Hold(t, outcome.Done == Updated, "%+v", outcome)
			should.Equal(t, string(read(t, path)), c.after)
			outcome = mustInstall(t, o, cl)
			should.Hold(t, outcome.Done == Present, "a second time: %+v\n%s", outcome, outcome.Diff)
		})
	}
}

func TestAfterAnUpdateUninstallStillFindsTheFirstBackup(t *testing.T) {
	o, c := machine(t), client(t, "lmstudio")
	before := []byte("{ \"mcpServers\" : {  } }")
	path := give(t, o, c, before)
	for _, args := range [][]string{nil, {"--images", "off"}, nil, {"--images", "on"}} {
		o.Server.Args = args
		mustInstall(t, o, c)
	}
	mustUninstall(t, o, c)
	got := read(t, path)
	should.Hold(t, bytes.Equal(got, before), "%s", got)
}

// A backup from before one server may be from before another, too.
func TestUninstallTakesOutOneOfTwo(t *testing.T) {
	for _, name := range []string{"cursor", "codex", "goose"} {
		o, c := machine(t), client(t, name)
		path := give(t, o, c, read(t, filepath.Join("testdata", "configurations", name, "before")))
		o.Name = "one"
		mustInstall(t, o, c)
		o.Name = "two"
		mustInstall(t, o, c)
		o.Name = "one"
		mustUninstall(t, o, c)
		if text := read(t, path); !bytes.Contains(text, []byte("two")) || bytes.Contains(text, []byte("one:")) || bytes.Contains(text, []byte(`"one"`)) {
			t.Errorf("%s: it is\n%s", name, text)
		}
	}
}

func TestUninstallAfterOthersHaveChangedTheFile(t *testing.T) {
	o, c := machine(t), client(t, "goose")
	path := give(t, o, c, []byte("extensions:\n  a:\n    type: builtin\n"))
	mustInstall(t, o, c)
	text := bytes.Replace(read(t, path), []byte("extensions:\n"), []byte("# new\nextensions:\n"), 1)
	must.OK(t, os.WriteFile(path, append(text, "GOOSE_MODE: auto\n"...), 0o600))
	outcome := mustUninstall(t, o, c)
	if got := string(read(t, path)); got != "# new\nextensions:\n  a:\n    type: builtin\nGOOSE_MODE: auto\n" || outcome.Backup == "" {
		t.Errorf("%+v:\n%s", outcome, got)
	}
}

func TestAFileThatWasNotThereIsGoneAgain(t *testing.T) {
	for _, name := range Names() {
		o, c := machine(t), client(t, name)
		o.Force = true
		outcome := mustInstall(t, o, c)
		should.Hold(t, outcome.Backup == "" && exists(outcome.File), "%s: %+v", name, outcome)
		if info, err := os.Stat(outcome.File); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: a new file has mode %v (%v)", name, info.Mode(), err)
		}
		mustUninstall(t, o, c)
		if exists(outcome.File) {
			t.Errorf("%s: %s is left:\n%s", name, outcome.File, read(t, outcome.File))
		}
		left, err := os.ReadDir(o.System.Home)
		should.Hold(t, err == nil && len(left) == 0, "%s: folders are left: %v, %v", name, left, err)
	}
}

func TestLayouts(t *testing.T) {
	pretty := "\"code-sandbox\": {\n      \"command\": \"" + serverPath + "\",\n      \"args\": []\n    }"
	for _, c := range []struct{ name, before, after string }{
		{"nothing", "", "{\n  \"mcpServers\": {\n    " + pretty + "\n  }\n}\n"},
		{"an empty object", "{}", "{\n  \"mcpServers\": {\n    " + pretty + "\n  }\n}"},
		{"one line", `{"a":1}`, "{\"a\":1,\n  \"mcpServers\": {\n    " + pretty + "\n  }\n}"},
		{"null", "{\n  \"mcpServers\": null\n}", "{\n  \"mcpServers\": {\n    " + pretty + "\n  }\n}"},
		{"a comment alone", "{\n  \"mcpServers\": { // none yet\n  }\n}", "{\n  \"mcpServers\": { // none yet\n    " + pretty + "\n  }\n}"},
		{"a comment at the end of the file", "{} // x", "{\n  \"mcpServers\": {\n    " + pretty + "\n  }\n} // x"},
		{"objects in one line", "{\n  \"mcpServers\": {\"a\": {}}\n}", "{\n  \"mcpServers\": {\"a\": {},\n    " + pretty + "\n  }\n}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, cursor := machine(t), client(t, "cursor")
			path := give(t, o, cursor, []byte(c.before))
			mustInstall(t, o, cursor)
			should.Equal(t, string(read(t, path)), c.after)
			mustUninstall(t, o, cursor)
			should.Equal(t, string(read(t, path)), c.before, "uninstall leaves")
		})
	}
}

func TestYAMLLayouts(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"an empty list", "mcpServers: [] # none\nx: 1\n", "# none\nmcpServers:\n  - name: code-sandbox\n    command: C\n    args: []\nx: 1\n"},
		{"no value", "mcpServers:\n\nx: 1\n", "mcpServers:\n  - name: code-sandbox\n    command: C\n    args: []\n\nx: 1\n"},
		{"null", "mcpServers: null", "mcpServers:\n  - name: code-sandbox\n    command: C\n    args: []\n"},
		{"comments alone", "# mine\n", "# mine\nmcpServers:\n  - name: code-sandbox\n    command: C\n    args: []\n"},
		{"a document's marks", "---\nx: 1\n...\n", "---\nx: 1\nmcpServers:\n  - name: code-sandbox\n    command: C\n    args: []\n...\n"},
		{"a list at the key's own column", "mcpServers:\n- name: a\n  command: b\n# c\nx: |\n  y\n", "mcpServers:\n- name: a\n  command: b\n- name: code-sandbox\n  command: C\n  args: []\n# c\nx: |\n  y\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, continued := machine(t), client(t, "continue")
			path := give(t, o, continued, []byte(c.before))
			mustInstall(t, o, continued)
			got, want := string(read(t, path)), strings.ReplaceAll(c.after, ": C\n", ": "+serverPath+"\n")
			should.Hold(t, strings.TrimSuffix(got, "\n") == strings.TrimSuffix(want, "\n"), "got:\n%s\nwant:\n%s", got, want)
			mustUninstall(t, o, continued)
			should.Equal(t, string(read(t, path)), c.before, "uninstall leaves")
		})
	}
}

func TestWhatCannotBeChangedIsLeftAlone(t *testing.T) {
	for _, c := range []struct{ client, text, where, why string }{
		{"cursor", "{\n  \"mcpServers\": {,}\n}", ":2:18: ", "invalid character ','"},
		{"cursor", "{\n  \"é\": 1 2\n}", ":2:11: ", "invalid character '2'"},
		{"cursor", "[]", ":1:1: ", "an object is expected"},
		{"cursor", `{"mcpServers": []}`, ":1: ", `"mcpServers" has to be an object`},
		{"cursor", "{\"mcpServers\": {},\n\"mcpServers\": {}}", "", "cannot be changed without"},
		{"cursor", `{"mcpServers": {"a": `, ":2:1: ", "unexpected EOF"},
		{"codex", "a = 1\nb = = 2\n", ":2:5: ", ""},
		{"codex", "a = 1\na = 2\n", ":2:1: ", ""},
		{"codex", "mcp_servers = { x = { command = \"y\" } }\n", "", "cannot be changed without"},
		{"codex", "[mcp_servers]\ncode-sandbox = { command = \"y\" }\nx.command = \"y\"\n", "", "cannot be changed without"},
		{"goose", "a: 1\nextensions:\n  x: {\n", ":3: ", ""},
		{"goose", "extensions:\n  x: 1\n y: 2\n", ":2: ", ""},
		{"goose", "extensions: {x: {type: builtin}}\n", ":1:13: ", "lines of its own"},
		{"goose", "a: 1\n---\nb: 2\n", "", "cannot be changed without"},
		{"goose", "- a\n", ":1: ", "cannot unmarshal"},
		{"goose", "{a: 1}\n", "", "cannot be changed without"},
		{"goose", "a: 1\nb: 2\r", ": ", "carriage return"},
		{"continue", "mcpServers:\n  a: b\n", ":2:3: ", "lines of its own"},
	} {
		t.Run(c.client+" "+c.text, func(t *testing.T) {
			o, cl := machine(t), client(t, c.client)
			path := give(t, o, cl, []byte(c.text))
			_, err := o.Install(cl)
			if err == nil || !strings.HasPrefix(err.Error(), path+c.where) || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), serverPath) {
				t.Errorf("%v", err)
			}
			should.Equal(t, string(read(t, path)), c.text)
			wantOnly(t, path)
		})
	}
}

func TestUninstallLeavesAloneWhatItCannotChange(t *testing.T) {
	for _, c := range []struct{ client, text, where string }{
		{"cursor", "{\n  \"mcpServers\": {,}\n}", ":2:18: "},
		{"goose", "extensions: {code-sandbox: {type: stdio}}\n", ":1:13: "},
		{"codex", "mcp_servers = { code-sandbox = { command = \"y\" } }\n", " is written in a way"},
	} {
		o, cl := machine(t), client(t, c.client)
		path := give(t, o, cl, []byte(c.text))
		_, err := o.Uninstall(cl)
		if err == nil || !strings.HasPrefix(err.Error(), path+c.where) || !strings.HasSuffix(err.Error(), `take "code-sandbox" out by hand`) {
			t.Errorf("%v", err)
		}
		should.Equal(t, string(read(t, path)), c.text)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		why    string
	}{
		"read-only":     {func(t *testing.T, path string) { must.OK(t, os.Chmod(path, 0o444)) }, "read-only"},
		"too large":     {func(t *testing.T, path string) { must.OK(t, os.Truncate(path, largest+1)) }, "bytes"},
		"UTF-16":        {func(t *testing.T, path string) { must.OK(t, os.WriteFile(path, []byte("\xff\xfe{\x00}\x00"), 0o600)) }, "UTF-16"},
		"Latin-1":       {func(t *testing.T, path string) { must.OK(t, os.WriteFile(path, []byte("{\"a\":\"\xe9\"}"), 0o600)) }, "not in UTF-8"},
		"a folder":      {func(t *testing.T, path string) { must.OK(t, os.Remove(path)); must.OK(t, os.Mkdir(path, 0o700)) }, "not a regular file"},
		"a broken link": {func(t *testing.T, path string) { must.OK(t, os.Remove(path)); must.OK(t, os.Symlink("nowhere", path)) }, "link to a file that is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			o, cursor := machine(t), client(t, "cursor")
			path := give(t, o, cursor, []byte("{}\n"))
			c.change(t, path)
			before, _ := os.ReadFile(path)
			_, err := o.Install(cursor)
			should.Hold(t, err != nil && strings.Contains(err.Error(), path) && strings.Contains(err.Error(), c.why), "%v", err)
			after, _ := os.ReadFile(path)
			should.Hold(t, bytes.Equal(before, after), "it was changed")
			wantOnly(t, path)
		})
	}
}

func TestALinkStaysALink(t *testing.T) {
	o, c := machine(t), client(t, "cursor")
	path := give(t, o, c, nil)
	target := filepath.Join(t.TempDir(), "mcp.json")
	must.OK(t, os.Remove(path))
	must.OK(t, os.WriteFile(target, []byte("{}\n"), 0o644))
	must.OK(t, os.Symlink(target, path))
	mustInstall(t, o, c)
	to, err := os.Readlink(path)
	should.Hold(t, err == nil && to == target && bytes.Contains(read(t, target), []byte(serverPath)), "%s, %v", to, err)
	mustUninstall(t, o, c)
	to, err = os.Readlink(path)
	should.Hold(t, err == nil && to == target && string(read(t, target)) == "{}\n", "%s, %v", to, err)
}

func TestALinkThatLeadsOutOfAProjectIsNotFollowed(t *testing.T) {
	for link, name := range map[string]string{".cursor/mcp.json": "mcp.json", ".cursor": ""} {
		o, c, outside := machine(t), client(t, "cursor"), t.TempDir()
		o.Scope, o.Dir = Project, t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(outside, "mcp.json"), []byte("{}\n"), 0o644))
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(o.Dir, link)), 0o755))
		must.OK(t, os.Symlink(filepath.Join(outside, name), filepath.Join(o.Dir, link)))
		_, err := o.Install(c)
		should.Hold(t, err != nil && strings.Contains(err.Error(), "leads out of the project"), "%s: %v", link, err)
		should.Equal(t, string(read(t, filepath.Join(outside, "mcp.json"))), "{}\n")
	}
}

func TestAChangeByAnotherProgramIsNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	must.OK(t, os.WriteFile(path, []byte("{}"), 0o600))
	f, err := readFile(path)
	must.OK(t, err)
	must.OK(t, os.WriteFile(path, []byte(`{"a":1}`), 0o600))
	should.Be(t, f.write([]byte(`{"b":1}`), 0o600), errChanged)
	should.Equal(t, string(read(t, path)), `{"a":1}`)
	wantOnly(t, path)

	tries := 0
	_, err = settled(path, client(t, "cursor"), func() (Outcome, error) { tries++; return Outcome{}, errChanged })
	should.Hold(t, tries == attempts && err != nil && strings.Contains(err.Error(), "end Cursor and try again"),
		"%d attempts: %v", tries, err)
}

func TestAClientThatIsNotHere(t *testing.T) {
	o, c := machine(t), client(t, "zed")
	_, err := o.Install(c)
	if err == nil || !strings.Contains(err.Error(), "not found on this machine: there is no "+o.System.Home) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("%v", err)
	}
	would := o
	would.DryRun = true
	if outcome := mustInstall(t, would, c); outcome.Done != Added || exists(outcome.File) {
		t.Errorf("%+v", outcome)
	}
	must.OK(t, os.MkdirAll(filepath.Join(o.System.Home, ".config", "zed"), 0o700))
	outcome := mustInstall(t, o, c)
	should.Hold(t, outcome.Done == Added, "%+v", outcome)
}

func TestAllPlacesOfAClientAreWritten(t *testing.T) {
	o, c := machine(t), client(t, "cline")
	for _, editor := range []string{"Code", "Cursor"} {
		must.OK(t, os.MkdirAll(filepath.Join(o.System.Home, ".config", editor, "User/globalStorage/saoudrizwan.claude-dev"), 0o700))
	}
	outcomes, err := o.Install(c)
	must.Hold(t, err == nil && len(outcomes) == 2, "%v %+v", err, outcomes)
	outcomes, err = o.Uninstall(c)
	must.Hold(t, err == nil && len(outcomes) == 2, "%v %+v", err, outcomes)
}

func TestProjects(t *testing.T) {
	for _, name := range Names() {
		o, c := machine(t), client(t, name)
		o.Scope = Project
		outcomes, err := o.Install(c)
		if c.project == "" {
			should.Fail(t, err, "no configuration for one project", "%s", name)
			continue
		}
		should.Hold(t, err == nil && outcomes[0].File == filepath.Join(o.Dir, c.project), "%s: %v %+v", name, err, outcomes)
	}
}

func TestOtherNamesOfTheServerAreTold(t *testing.T) {
	for name, text := range map[string]string{
		"cursor":   `{"mcpServers": {"sandbox": {"command": "/opt/code-sandbox-mcp"}, "x": {"command": "y"}}}`,
		"opencode": `{"mcp": {"sandbox": {"type": "local", "command": ["C:\\bin\\code-sandbox-mcp.exe"]}, "x": {"type": "remote"}}}`,
		"codex":    "[mcp_servers.sandbox]\ncommand = \"code-sandbox-mcp\"\n",
		"goose":    "extensions:\n  sandbox: {cmd: code-sandbox-mcp}\n  x: {type: builtin}\n",
		"continue": "mcpServers:\n  - name: sandbox\n    command: code-sandbox-mcp\n",
	} {
		o, c := machine(t), client(t, name)
		give(t, o, c, []byte(text))
		outcome := mustInstall(t, o, c)
		should.Hold(t, len(outcome.Others) == 1 && outcome.Others[0] == "sandbox", "%s: %+v", name, outcome)
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	o, c := machine(t), client(t, "cursor")
	path := give(t, o, c, []byte("{}"))
	o.DryRun = true
	outcome := mustInstall(t, o, c)
	if string(read(t, path)) != "{}" || outcome.Backup != "" || !bytes.Contains(outcome.Diff, []byte("--- "+path+"\n+++ "+path+"\n@@ ")) {
		t.Errorf("%+v\n%s", outcome, outcome.Diff)
	}
	wantOnly(t, path)
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"Claude Desktop": "claude-desktop", "windsurf": "devin", "LM_Studio": "lmstudio", "VS Code": "vscode"} {
		c, err := Find(name)
		should.Hold(t, err == nil && c.Name == want, "%s: %v", name, err)
	}
	for _, name := range []string{"emacs", "claude"} { // the second may be either of two
		should.Fail(t, should.ErrOf(Find(name)), `"`+name+`"; there are claude-desktop, claude-code, `)
	}
	seen := map[string]string{}
	for _, c := range clients {
		for _, name := range append([]string{c.Name}, c.aliases...) {
			other, ok := seen[simple(name)]
			should.Hold(t, !ok || other == c.Name, "%s is a name of %s and of %s", name, other, c.Name)
			seen[simple(name)] = c.Name
		}
		should.Hold(t, c.next != "" && c.entry != nil && c.key != "", "%s has a gap in its row", c.Name)
	}
}

// Where every client's files are on each system, what belongs into them and the links, in one file to look through.
func TestTheTable(t *testing.T) {
	var b strings.Builder
	for _, system := range []System{
		{OS: "linux", Home: "/home/ada", Env: func(string) string { return "" }},
		{OS: "darwin", Home: "/Users/ada", Env: func(string) string { return "" }},
		{OS: "windows", Home: `C:\Users\ada`, Env: func(name string) string {
			return map[string]string{"APPDATA": `C:\Users\ada\AppData\Roaming`, "LOCALAPPDATA": `C:\Users\ada\AppData\Local`}[name]
		}},
		{OS: "linux", Home: "/home/ada", Env: func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": "/x", "CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/d", "COPILOT_HOME": "relative", "CLINE_MCP_SETTINGS_PATH": "/e/f.json"}[name]
		}},
	} {
		fmt.Fprintf(&b, "# %s, home %s, XDG_CONFIG_HOME %q\n", system.OS, system.Home, system.Env("XDG_CONFIG_HOME"))
		for _, c := range clients {
			for _, p := range system.places(&c) {
				for _, file := range p.files {
					fmt.Fprintf(&b, "%-15s %s\n", c.Name, strings.TrimSuffix(system.join(append([]string{p.root}, strings.Split(file, "/")...)...), `\`))
				}
			}
		}
	}
	o := machine(t)
	o.Server = Server{Command: serverPath, Args: []string{"--prewarm=python"}, Env: []Variable{{"A", "b c"}}}
	for _, c := range clients {
		fmt.Fprintf(&b, "\n# %s; project: %s\n%s", c.Title, c.project, o.Snippet(&c))
		if link := o.Link(&c); link != "" {
			fmt.Fprintf(&b, "%s\n", link)
		}
	}
	golden(t, filepath.Join("testdata", "table.txt"), []byte(b.String()))
}

// The editors are fed with anything. What they take has to keep every byte that is not blank, and to mean the same
// without the server's entry, as the format's own parser reads it; taking the entry out again must bring that meaning
// back. What they cannot change so they have to refuse.
func fuzzEditor(f *testing.F, clientName string, seeds ...string) {
	c := must.Get(Find(clientName))(f)
	names, err := filepath.Glob(filepath.Join("testdata", "configurations", "*", "*"))
	must.Hold(f, err == nil && len(names) != 0, "%v %v", err, names)
	for _, name := range names {
		text := must.Get(os.ReadFile(name))(f)
		f.Add(text)
	}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	at := address{key: c.key, name: "code-sandbox", list: c.list}
	entry := c.entry(at.name, Server{Command: serverPath, Args: []string{"--a", "off"}, Env: []Variable{{"A", "1"}}})
	other := c.entry(at.name, Server{Command: "/x"})
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			t.Skip()
		}
		values, err := c.format.parse(text)
		if err != nil {
			return
		}
		before := at.entries(values)
		with := func(text []byte, entry fields) ([]byte, error) {
			values, err := c.format.parse(text)
			must.Hold(t, err == nil, "what was written is not read: %v\n%q", err, text)
			return c.format.with(text, values, at, entry)
		}
		after, err := with(text, entry)
		if err != nil {
			return
		}
		should.Hold(t, len(before) == 0 || before[at.name] != nil || isSubsequence(text, after), "bytes are lost:\n%q\n%q", text, after)
		if again, err := with(after, entry); !errors.Is(err, errUnsafe) && !bytes.Equal(again, after) {
			t.Errorf("a second time: %v\n%q\n%q", err, after, again)
		}
		updated, err := with(after, other)
		should.Hold(t, err == nil || errors.Is(err, errUnsafe), "update: %v\n%q", err, after)
		if err != nil {
			updated = after
		}
		values, err = c.format.parse(updated)
		must.Hold(t, err == nil, "what was written is not read: %v\n%q", err, updated)
		without, err := c.format.without(updated, values, at)
		if err != nil {
			should.Hold(t, errors.Is(err, errUnsafe), "take out: %v\n%q", err, updated)
			return
		}
		should.Hold(t, len(before) == 0 || before[at.name] != nil || isSubsequence(without, text) || isSubsequence(text, without),
			"taken out again:\n%q\n%q", text, without)
	})
}

// isSubsequence reports whether all that is not blank in a text is in another, in order.
func isSubsequence(part, whole []byte) bool {
	for _, b := range bytes.Fields(part) {
		for _, c := range b {
			i := bytes.IndexByte(whole, c)
			if i < 0 {
				return false
			}
			whole = whole[i+1:]
		}
	}
	return true
}

func FuzzJSON(f *testing.F) {
	fuzzEditor(f, "cursor", "", "{}", "//x", "{\"mcpServers\":{\"a\":1,}// c\n}", "{\"mcpServers\":{\"code-sandbox\":{\"command\":1 /*c*/,// d\n}}}")
}

func FuzzTOML(f *testing.F) {
	fuzzEditor(f, "codex", "", "mcp_servers.a.b = 1", "[mcp_servers]\na.b = '''\n[x]'''", "[[mcp_servers]]", "[mcp_servers.code-sandbox]\nenv = {}\nargs=[\n1]#c\n[mcp_servers.code-sandbox.x]\n#y\n[z]")
}

func FuzzYAMLMapping(f *testing.F) {
	fuzzEditor(f, "goose", "", "extensions:\n a: {}\n#x\nb: |+\n  c\n\n", "extensions: &x\n  a: 1\ny: *x", "? a\n: b\nextensions:\n    code-sandbox:\n        cmd: x\n        envs: {A: b} # c\n")
}

func FuzzYAMLList(f *testing.F) {
	fuzzEditor(f, "continue", "", "mcpServers:\n- name: a\n-\n  name: b\n- c", "mcpServers:\n  - env:\n      A: b\n    name: code-sandbox\n")
}
