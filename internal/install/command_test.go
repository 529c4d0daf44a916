//go:build unix

package install

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// withProgram puts a script on the PATH as a client's program. It finds the configuration in $FILE.
func withProgram(t *testing.T, o *Options, c *Client, script string) string {
	t.Helper()
	o.EditFile = false
	bin := t.TempDir()
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	files, err := o.Files(c)
	must.OK(t, err)
	script = fmt.Sprintf("#!/bin/sh\nFILE='%s'\nmkdir -p \"$(dirname \"$FILE\")\"\n%s\n", files[0], script)
	must.OK(t, os.WriteFile(filepath.Join(bin, c.program), []byte(script), 0o755))
	return files[0]
}

const written = `{ "mcpServers": { "code-sandbox": { "command": "` + serverPath + `", "args": [], "env": {} } }, "a": 1, "by": "itself" }`

func TestAClientsOwnCommandIsUsed(t *testing.T) {
	o, c := machine(t), client(t, "gemini")
	path := withProgram(t, &o, c, `echo "$@" > "$FILE.args"; echo '`+written+`' > "$FILE"`)
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.OK(t, os.WriteFile(path, []byte("{\"a\": 1}"), 0o600))
	outcome := mustInstall(t, o, c)
	if got := string(read(t, path)); got != written+"\n" || outcome.Done != Added || outcome.Note != "" || filepath.Base(outcome.Command[0]) != "gemini" {
		t.Errorf("%+v\n%s", outcome, got)
	}
	should.Equal(t, string(read(t, path+".args")), "mcp add -s user code-sandbox "+serverPath+"\n")
	if again := mustInstall(t, o, c); again.Done != Present {
		t.Errorf("a second time: %+v", again)
	}
	mustUninstall(t, o, c)
	if got := string(read(t, path)); got != "{\"a\": 1}" || exists(outcome.Backup) {
		t.Errorf("uninstall leaves %s", got)
	}
}

func TestWhatARunningClientChangesMeanwhileStays(t *testing.T) {
	o, c := machine(t), client(t, "gemini")
	path := withProgram(t, &o, c, `echo '`+written+`' > "$FILE"`)
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.OK(t, os.WriteFile(path, []byte(`{"a": 7, "by": ["another"]}`), 0o600))
	if outcome := mustInstall(t, o, c); string(read(t, path)) != written+"\n" || outcome.Note != "" {
		t.Errorf("%+v\n%s", outcome, read(t, path))
	}
}

func TestTheFileIsEditedWhereTheCommandDoesNotDoIt(t *testing.T) {
	for name, script := range map[string]string{
		"it fails":          `echo "not logged in" >&2; exit 3`,
		"it has no effect":  `true`,
		"it does something": `echo '{"x": 1}' > "$FILE"`,
	} {
		t.Run(name, func(t *testing.T) {
			o, c := machine(t), client(t, "gemini")
			path := withProgram(t, &o, c, script)
			outcome := mustInstall(t, o, c)
			if !bytes.Contains(read(t, path), []byte(serverPath)) || outcome.Command != nil || !strings.Contains(outcome.Note, "so the file was edited") {
				t.Errorf("%+v", outcome)
			}
			if name == "it fails" && !strings.Contains(outcome.Note, "exit status 3: not logged in") {
				t.Error(outcome.Note)
			}
		})
	}
}

func TestAFileThatACommandHasDamagedIsPutBack(t *testing.T) {
	const before = "{\"a\": {\"b\": [1, 2]}, // mine\n \"mcpServers\": {\"other\": {\"command\": \"x\"}}}\n"
	const kept = `{"a": {"b": [1, 2], "c": 3}, "mcpServers": {"other": {"command": "x"}}}`
	for name, test := range map[string]struct{ script, has, note string }{
		"it has emptied it":       {`: > "$FILE"; exit 1`, before, "put back"},
		"it has written half":     {`printf '{"a": {' > "$FILE"; kill -9 $$`, before, "put back"},
		"it has removed it":       {`rm "$FILE"; exit 1`, before, "put back"},
		"it has lost a setting":   {`echo '{"mcpServers": {"other": {"command": "x"}}}' > "$FILE"; exit 1`, before, "put back"},
		"it has lost a server":    {`echo '` + written + `' > "$FILE"`, before, "put back"},
		"it has changed another":  {`echo '{"a": {"b": []}, "mcpServers": {"other": {"command": "y"}, "code-sandbox": {"command": "` + serverPath + `", "args": [], "env": {}}}}' > "$FILE"`, before, "put back"},
		"it has changed a server": {`sed -i s/x/y/ "$FILE"; exit 1`, before, "put back"},
		"it has lost a link":      {`rm "$FILE"; echo '{}' > "$FILE"; exit 1`, before, "put back"},
		"it has added a setting":  {`echo '` + kept + `' > "$FILE"; exit 1`, kept + "\n", "did not do it"},
		"it has done nothing":     {`exit 1`, before, "did not do it"},
	} {
		t.Run(name, func(t *testing.T) {
			o, c := machine(t), client(t, "gemini")
			twin, edited := machine(t), ""
			edited = give(t, twin, c, []byte(test.has))
			mustInstall(t, twin, c)
			path := withProgram(t, &o, c, test.script)
			real := filepath.Join(t.TempDir(), "settings.json")
			must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.OK(t, os.WriteFile(real, []byte(before), 0o640))
			must.OK(t, os.Symlink(real, path))
			outcome := mustInstall(t, o, c)
			if got, want := string(read(t, path)), string(read(t, edited)); got != want || !strings.Contains(outcome.Note, test.note) {
				t.Errorf("%s\n%s", outcome.Note, got)
			}
			should.Equal(t, string(read(t, outcome.Backup)), test.has, "the backup")
			info, err := os.Stat(path)
			if link, _ := os.Readlink(path); err != nil || link != real || info.Mode().Perm() != 0o640 {
				t.Errorf("it is a link to %q, with %v, %v", link, info.Mode(), err)
			}
			mustUninstall(t, o, c)
			if left, _ := filepath.Glob(filepath.Dir(real) + "/*"); string(read(t, path)) != test.has || len(left) != 1 {
				t.Errorf("uninstall leaves %q", left)
			}
		})
	}
}

func TestADryRunRunsNoCommand(t *testing.T) {
	o, c := machine(t), client(t, "gemini")
	path := withProgram(t, &o, c, `echo x > "$FILE"`)
	o.DryRun = true
	if outcome := mustInstall(t, o, c); outcome.Command == nil || len(outcome.Diff) == 0 || exists(path) {
		t.Errorf("%+v", outcome)
	}
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		tools  int
		why    string
	}{
		"it answers": {`read a; echo '{"jsonrpc":"2.0","method":"notifications/x"}'; echo '{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"n","version":"v"}}}'
read b; read c; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{},{}]}}'; read d`, 2, ""},
		"it ends":                  {`echo "no such flag" >&2; exit 2`, 0, "without an answer to initialize (exit status 2)\nno such flag"},
		"it is chatty":             {`echo hello; read a`, 0, `something else than JSON: "hello"`},
		"it refuses":               {`read a; echo '{"jsonrpc":"2.0","id":1,"error":{"message":"too old"}}'`, 0, "refused initialize: too old"},
		"its environment is short": {`test "$XDG_RUNTIME_DIR$LANG" = "" && test "$A" = b && test "$HOME" != "" && echo '{"id":1,"result":{}}' && echo '{"id":2,"result":{"tools":[{}]}}'`, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
			t.Setenv("LANG", "C.UTF-8")
			o := machine(t)
			o.System.Env = os.Getenv
			o.Server = Server{Command: "/bin/sh", Args: []string{"-c", c.script}, Env: []Variable{{"A", "b"}}}
			answer, err := o.Probe(t.Context())
			if c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) || answer.Tools != c.tools {
				t.Errorf("%+v, %v", answer, err)
			}
		})
	}
	o := machine(t)
	o.Server.Command = filepath.Join(t.TempDir(), "none")
	if _, err := o.Probe(t.Context()); err == nil {
		t.Error("a program that is not there answers")
	}
}
