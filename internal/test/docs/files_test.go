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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var update = flag.Bool("update", false, "write the list of packages in docs/architecture.md anew")

const root = "../../.."

// list is the generated part of docs/architecture.md.
var list = regexp.MustCompile(`(?s)(<!-- made by: go test \./internal/test/docs -update -->\n).*?(<!-- end -->)`)

var (
	listed    = []string{"main.go", "cmd", "apis", "cluster", "team", "sandbox", "tools", "sql", "containers", "internal"}
	unlisted  = regexp.MustCompile(`_test\.go$|(^|/)test_\w+\.py$|\.test\.\w+$|/(test|testdata|conformance|sqltest|resttest|enginetest|lint|build|page|assets|kernel/(bin|lib/node|node/\w+)|attacks/\w+|release/npm|generate)/|\.(json|toml|zst|gz|svg|html|css|tmpl|md|txt|sql|mjs|ts)$|/hosts$|/host/env$|\.gitignore$`)
	comment   = regexp.MustCompile(`(?s)^(?:#![^\n]*\n)?(?:['"]use strict['"];\n)?(?:/\*+\s*(.*?)\*/|((?:(?://|#)[^\n]*\n)+)|"""(.*?)""")`)
	marker    = regexp.MustCompile(`(?m)^\s*(?://|#|\*)? ?`)
	named     = regexp.MustCompile(`^(Package|Command) \S+ `)
	firstStop = regexp.MustCompile(`[.:;](\s|$)`)
)

// Every package has a comment that says what it is, and so has the main file of each folder of scripts. docs/architecture.md has the first
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
	var lines strings.Builder
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		should.Hold(t, folders[folder] != "", "%s: no comment says what it is", folder)
		_, _ = fmt.Fprintf(&lines, "- `%s` %s\n", folder, folders[folder])
	}
	target := filepath.Join(root, "docs", "architecture.md")
	have := must.Get(os.ReadFile(target))(t)
	want := list.ReplaceAll(have, []byte("${1}"+strings.ReplaceAll(lines.String(), "$", "$$")+"${2}"))
	if *update {
		must.OK(t, os.WriteFile(target, want, 0o644))
	} else if !list.Match(have) || !bytes.Equal(have, want) {
		t.Error("docs/architecture.md is not of these packages: go test ./internal/test/docs -update")
	}
}

// describe returns the first sentence of a package's comment, or of a script's.
func describe(t *testing.T, name string) string {
	t.Helper()
	source := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
	if path.Ext(name) == ".go" {
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.PackageClauseOnly))(t)
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
