//go:build unix

package e2e

import (
	_ "embed"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// What the package of hints knows of the errors of libraries: code, and the error that it raises.
const refusedCode = "../../../tools/internal/hint/testdata/changes.json"

type raised struct {
	Name      string `json:"name"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
}

var (
	// raiseAll is Python for one run that raises the errors of all codes. The kernel describes them as those of runs.
	//go:embed testdata/raise.py
	raiseAll string
	// quietCode is what has changed without an error, and quietLines what it prints.
	//go:embed testdata/quiet.py
	quietCode string
	//go:embed testdata/quiet.txt
	quietLines string
)

// passing is what differs from run to run in an error, and from one release of a library to the next.
var passing = regexp.MustCompile(`0x[0-9a-f]+|\((\w+) [\w.+]+\)\n?$|\bid='\w+'|among \{[^}]*\}`)

// telling are the lines of a traceback that tell whose an error is: the files of libraries, and the library that the kernel names.
var telling = regexp.MustCompile(`(?m)^(  (?:\S+ \.\.\. )?File "[^"\n]*/[^"\n]*"|\(\w+ \d[\w.+]*\)$)`)

// A new version of a library that says something else, or takes again what it has refused, is noticed here.
func TestLibrariesRefuseWhatHintsAreFor(t *testing.T) {
	t.Parallel()
	content := must.Get(os.ReadFile(refusedCode))(t)
	var want, got map[string]*raised
	decode(t, content, &want)
	dir := t.TempDir()
	s := start(t, setup{args: []string{"--allow-host-dir", dir}})
	if strings.Contains(s.py("import os; os.path.exists('/usr/local/share/code-sandbox/why-debian')").text(), "True") {
		t.Skip("the image has Debian's packages, which are older")
	}
	should.Equal(t, s.py(quietCode).Meta.Run.Stdout, quietLines, "a library does in another way what tools/usage.md and docs/library-changes.md tell")
	codes := must.Get(json.Marshal(slices.Sorted(maps.Keys(want))))(t)
	quoted, err := json.Marshal(string(codes))
	must.OK(t, err)
	s.py(strings.Replace(raiseAll, "CODES", string(quoted), 1))
	s.call("read_artifact", object{"path": "output/errors.json", "save_to": filepath.Join(dir, "errors.json")})
	content, err = os.ReadFile(filepath.Join(dir, "errors.json"))
	must.Hold(t, err == nil, "%v", err)
	decode(t, content, &got)
	for code, error := range got {
		if error == nil {
			t.Errorf("it works: %s", code)
			continue
		}
		error.shorten()
		if old := want[code]; *update || old == nil {
			want[code] = error
		} else if plain := func(e *raised) string { return passing.ReplaceAllString(e.Name+": "+e.Message+"\n"+e.Traceback, "$1") }; plain(error) != plain(old) {
			t.Errorf("%s\ngot  %s\nwant %s\n(record it with -update, and look at testdata/changes.txt)", code, plain(error), plain(old))
		}
	}
	if *update {
		if content, err = json.MarshalIndent(want, "", " "); err == nil {
			err = os.WriteFile(refusedCode, append(content, '\n'), 0o644)
		}
		must.OK(t, err)
	}
}

// shorten leaves in an error what tells one from another.
func (e *raised) shorten() {
	const most = 250
	e.Message = e.Message[:min(len(e.Message), most)]
	lines := slices.Compact(telling.FindAllString(e.Traceback, -1))
	// A kernel that is an IPython shell by then has an open of its own.
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "/IPython/core/interactiveshell.py") })
	e.Traceback = "\n" + strings.Join(lines, "\n") + "\n"
}
