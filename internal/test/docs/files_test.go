// Package docs keeps what is generated of the documentation in step with the source.
package docs

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/files.md anew")

const (
	root = "../../.."
	head = `# Files

A line for every file, from the comment at its head or on what it is named after. Tests and what they read are left out.
` + "`go test ./internal/test/docs -update`" + ` writes this page; [architecture.md](architecture.md) says how the parts work together.
`
)

var (
	listed    = []string{"main.go", "sandbox", "tools", "sql", "containers", "internal"}
	unlisted  = regexp.MustCompile(`_test\.go$|(^|/)test_\w+\.py$|\.test\.\w+$|/(test|testdata|conformance|sqltest|enginetest)/|\.(json|toml|zst|svg|html|css|tmpl|md|txt|sql)$|/hosts$|/host/env$|\.gitignore$`)
	systems   = regexp.MustCompile(`_(linux|windows|unix|other|darwin)$`)
	comment   = regexp.MustCompile(`(?s)^(?:#![^\n]*\n)?(?:['"]use strict['"];\n)?(?:/\*+\s*(.*?)\*/|((?:(?://|#)[^\n]*\n)+)|"""(.*?)"""|<!--(.*?)-->)`)
	marker    = regexp.MustCompile(`(?m)^\s*(?://|#|\*)? ?`)
	firstStop = regexp.MustCompile(`[.:;](\s|$)`)
)

// Every file has a comment that says what it is, and docs/files.md has the first sentence of each.
func TestFilesAreListed(t *testing.T) {
	out, err := exec.Command("git", append([]string{"-C", root, "ls-files", "--cached", "--others", "--exclude-standard"}, listed...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err != nil || unlisted.MatchString(name)
	})
	slices.SortFunc(names, func(a, b string) int {
		if c := strings.Compare(path.Dir(a), path.Dir(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	page, folder := bytes.NewBufferString(head), ""
	for _, name := range names {
		line := describe(t, name)
		if line == "" {
			t.Errorf("%s: no comment says what it is", name)
		}
		if dir := path.Dir(name); dir != folder {
			folder = dir
			_, _ = fmt.Fprintf(page, "\n## %s\n\n| file | what it is |\n|---|---|\n", folder)
		}
		_, _ = fmt.Fprintf(page, "| `%s` | %s |\n", path.Base(name), strings.ReplaceAll(line, "|", `\|`))
	}
	target := filepath.Join(root, "docs", "files.md")
	if *update {
		if err := os.WriteFile(target, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(target); err != nil || !bytes.Equal(have, page.Bytes()) {
		t.Error("docs/files.md is not of these files: go test ./internal/test/docs -update")
	}
}

func describe(t *testing.T, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if path.Ext(name) == ".go" {
		return describeGo(t, name, source)
	}
	groups := comment.FindSubmatch(source)
	for i := 1; i < len(groups); i++ { // one for each way to write a comment
		if len(groups[i]) > 0 {
			return sentence(marker.ReplaceAllString(string(groups[i]), ""))
		}
	}
	return ""
}

// describeGo returns the first sentence of a file's own comment, of its package's, or of that on the declaration whose name is
// nearest to the file's.
func describeGo(t *testing.T, name string, source []byte) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		if group.End() < file.Package && group.Text() != "" {
			return sentence(group.Text())
		}
	}
	base := strings.TrimSuffix(path.Base(name), ".go")
	base = strings.ReplaceAll(systems.ReplaceAllString(base, ""), "_", "")
	best, most := "", -1
	for _, decl := range file.Decls {
		for _, d := range documented(decl) {
			if n := likeness(strings.ToLower(d.name), base, d.isType); n > most && d.text != "" {
				best, most = d.text, n
			}
		}
	}
	return sentence(best)
}

type declared struct {
	name, text string
	isType     bool
}

func documented(decl ast.Decl) (found []declared) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		found = append(found, declared{name: decl.Name.Name, text: decl.Doc.Text()})
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				found = append(found, declared{spec.Name.Name, decl.Doc.Text() + spec.Doc.Text(), true})
			case *ast.ValueSpec:
				found = append(found, declared{spec.Names[0].Name, decl.Doc.Text() + spec.Doc.Text(), false})
			}
		}
	}
	return found
}

// likeness is how much a declaration's name is like that of its file.
func likeness(name, base string, isType bool) int {
	n := 0
	switch {
	case name == base, name+"s" == base, name == base+"s":
		n = 5
	case strings.Contains(name, base):
		n = 3
	case len(name) > 3 && strings.Contains(base, name):
		n = 2
	}
	if isType {
		n++
	}
	return n
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
