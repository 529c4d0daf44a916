// Package docs keeps what is generated of the documentation in step with the source.
package docs

import (
	"bytes"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

var update = flag.Bool("update", false, "write docs/files.md anew")

const (
	root = "../../.."
	head = `# Packages

A line for each package and folder of scripts, from the comment at its head, by ` + "`go test ./internal/test/docs -update`" + `.
[architecture.md](architecture.md) says how the parts work together, and where bounds are.

A container goes through six phases, most in a file of ` + "`sandbox/link`" + `: it is reached (` + "`link.go`" + `), taken over from a server before (` + "`takeover.go`" + `) or
started (` + "`start.go`" + `), runs code (` + "`perform.go`" + `), serves what that sends out (` + "`place/wayout.go`" + `), and is retired, which writes its variables (` + "`sandbox/ending.go`" + `).

`
)

var (
	listed    = []string{"main.go", "cmd", "apis", "cluster", "team", "sandbox", "tools", "sql", "containers", "internal"}
	unlisted  = regexp.MustCompile(`_test\.go$|(^|/)test_\w+\.py$|\.test\.\w+$|/(test|testdata|conformance|sqltest|resttest|enginetest|lint|build|page|assets|kernel/(bin|lib/node|node/\w+)|attacks/\w+|release/npm|generate)/|\.(json|toml|zst|svg|html|css|tmpl|md|txt|sql|mjs|ts)$|/hosts$|/host/env$|\.gitignore$`)
	comment   = regexp.MustCompile(`(?s)^(?:#![^\n]*\n)?(?:['"]use strict['"];\n)?(?:/\*+\s*(.*?)\*/|((?:(?://|#)[^\n]*\n)+)|"""(.*?)""")`)
	marker    = regexp.MustCompile(`(?m)^\s*(?://|#|\*)? ?`)
	named     = regexp.MustCompile(`^(Package|Command) \S+ `)
	firstStop = regexp.MustCompile(`[.:;](\s|$)`)
)

// Every package has a comment that says what it is, and so has the main file of each folder of scripts. docs/files.md has the first
// sentence of each.
func TestPackagesAreListed(t *testing.T) {
	out, err := exec.Command("git", append([]string{"-C", root, "ls-files", "--cached", "--others", "--exclude-standard"}, listed...)...).Output()
	must.OK(t, err)
	folders := make(map[string]string)
	for _, name := range strings.Fields(string(out)) {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil || unlisted.MatchString(name) {
			continue
		}
		dir, line, main := path.Dir(name), describe(t, name), strings.HasPrefix(path.Base(name), "main.") || path.Base(name) == "Containerfile"
		if isGo := path.Ext(name) == ".go"; folders[dir] == "" || main || isGo && line != "" {
			folders[dir] = line
		}
	}
	page := bytes.NewBufferString(head)
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if folders[folder] == "" {
			t.Errorf("%s: no comment says what it is", folder)
		}
		_, _ = fmt.Fprintf(page, "- `%s` %s\n", folder, folders[folder])
	}
	target := filepath.Join(root, "docs", "files.md")
	if *update {
		must.OK(t, os.WriteFile(target, page.Bytes(), 0o644))
	}
	if have, err := os.ReadFile(target); err != nil || !bytes.Equal(have, page.Bytes()) {
		t.Error("docs/files.md is not of these packages: go test ./internal/test/docs -update")
	}
}

// describe returns the first sentence of a package's comment, or of a script's.
func describe(t *testing.T, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, name))
	must.OK(t, err)
	if path.Ext(name) == ".go" {
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.PackageClauseOnly)
		must.OK(t, err)
		return named.ReplaceAllString(sentence(file.Doc.Text()), "")
	}
	groups := comment.FindSubmatch(source)
	for i := 1; i < len(groups); i++ { // one for each way to write a comment
		if len(groups[i]) > 0 {
			return sentence(marker.ReplaceAllString(string(groups[i]), ""))
		}
	}
	return ""
}

// sentence returns the first sentence, or as many as say something.
func sentence(text string) string {
	const enough = 24 // bytes
	text = strings.Join(strings.Fields(text), " ")
	for _, at := range firstStop.FindAllStringIndex(text, -1) {
		if at[0] >= enough {
			return text[:at[0]] + "."
		}
	}
	return text
}
