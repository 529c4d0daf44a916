package cmd_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensions "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/allfeatures"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// repository is what the documentation describes, and is a part of.
var repository = os.DirFS("../..")

// page is what a Markdown file says that can be checked.
type page struct {
	anchors map[string]bool
	links   []string
	lines   []string // of code blocks
	spans   []span
	heading string // the one that is being read
}

// span is code within text, below a heading.
type span struct {
	heading, code string
	isSubject     bool // in a heading, in the first cell of a table's row, or before a list item's colon
}

// skipped are folders whose files are not of the repository.
var skipped = []string{"node_modules", "bin", "dist", "__pycache__"}

// files calls visit with every file of the repository below the folder, but hidden ones.
func files(t *testing.T, folder string, visit func(name string)) {
	t.Helper()
	err := fs.WalkDir(repository, folder, func(name string, entry fs.DirEntry, err error) error {
		hidden := name != "." && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || slices.Contains(skipped, entry.Name())):
			return fs.SkipDir
		case !entry.IsDir() && !hidden:
			visit(name)
		}
		return nil
	})
	must.OK(t, err)
}

// readPages reads every Markdown file, by its path.
func readPages(t *testing.T) map[string]*page {
	t.Helper()
	pages := make(map[string]*page)
	files(t, ".", func(name string) {
		if path.Ext(name) != ".md" {
			return
		}
		source := must.Get(fs.ReadFile(repository, name))(t)
		p := &page{anchors: make(map[string]bool)}
		document := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
		_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering {
				p.read(n, source)
			}
			return ast.WalkContinue, nil
		})
		pages[name] = p
	})
	return pages
}

func (p *page) read(n ast.Node, source []byte) {
	switch n := n.(type) {
	case *ast.Heading:
		p.heading = plain(n, source)
		p.addAnchor(p.heading)
	case *ast.Link:
		p.links = append(p.links, string(n.Destination))
	case *ast.Image:
		p.links = append(p.links, string(n.Destination))
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		p.lines = append(p.lines, strings.Split(string(n.Lines().Value(source)), "\n")...)
	case *ast.CodeSpan:
		p.spans = append(p.spans, span{p.heading, plain(n, source), isSubject(n, source)})
	}
}

// isSubject reports whether the text around a code span is about it.
func isSubject(n ast.Node, source []byte) bool {
	switch n.Parent().(type) {
	case *ast.Heading:
		return true
	case *extensions.TableCell:
		return n.Parent().PreviousSibling() == nil
	}
	if _, inItem := n.Parent().Parent().(*ast.ListItem); !inItem {
		return false
	}
	for before := n.PreviousSibling(); before != nil; before = before.PreviousSibling() {
		text, isText := before.(*ast.Text)
		if isText && strings.Contains(string(text.Value(source)), ":") {
			return false
		}
	}
	return true
}

// code is all the code of the page: lines of blocks, and what stands within text.
func (p *page) code() []string {
	code := slices.Clone(p.lines)
	for _, s := range p.spans {
		code = append(code, s.code)
	}
	return code
}

// addAnchor makes an anchor of a heading as GitHub does.
func (p *page) addAnchor(heading string) {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	anchor := slug
	for n := 1; p.anchors[anchor]; n++ {
		anchor = fmt.Sprintf("%s-%d", slug, n)
	}
	p.anchors[anchor] = true
}

// plain is the text of a node without its marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.WriteString(strings.ReplaceAll(string(t.Value(source)), "\n", " "))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

func TestLinksOfTheDocumentationLeadSomewhere(t *testing.T) {
	pages := readPages(t)
	for name, p := range pages {
		for _, link := range p.links {
			u, err := url.Parse(link)
			if err == nil && u.IsAbs() {
				continue
			}
			target := name
			if err == nil && u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			if err == nil {
				_, err = fs.Stat(repository, target)
			}
			if err != nil {
				t.Errorf("%s: %s leads nowhere: %v", name, link, err)
			} else if other := pages[target]; u.Fragment != "" && (other == nil || !other.anchors[u.Fragment]) {
				t.Errorf("%s: %s: %s has no such heading", name, link, target)
			}
		}
	}
}

var (
	betweenCommands = regexp.MustCompile(` (?:&&|\|\|?) |; `)
	assignment      = regexp.MustCompile(`^[A-Za-z_]+=`)
	variable        = regexp.MustCompile(`\bSANDBOX_[A-Z_]+\b`)
	repositoryPath  = regexp.MustCompile(`^(?:apis|cluster|cmd|containers|docs|examples|internal|sandbox|scripts|sql|team|tools)/[\w./-]+$`)
)

// commands are the commands of this program and of make in a line of code.
func commands(line string) [][]string {
	line, _, _ = strings.Cut(line, " #")
	var found [][]string
	for _, command := range betweenCommands.Split(line, -1) {
		words := strings.Fields(command)
		for len(words) > 0 && (words[0] == "$" || words[0] == "sudo" || assignment.MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) > 0 && (words[0] == "make" || programs[path.Base(words[0])].Name != "") {
			found = append(found, words)
		}
	}
	return found
}

func TestCommandsOfTheDocumentationExist(t *testing.T) {
	makefile, err := fs.ReadFile(repository, "Makefile")
	must.OK(t, err)
	for name, p := range readPages(t) {
		for _, line := range p.code() {
			for _, words := range commands(line) {
				err := error(nil)
				if words[0] == "make" {
					err = checkMake(string(makefile), words[1:])
				} else {
					err = checkProgram(programs[path.Base(words[0])], words[1:])
				}
				should.OK(t, err, "%s: %q", name, line)
			}
		}
	}
}

// programs are those of this module, by their names.
var programs = map[string]cmd.Program{
	"code-sandbox-mcp":    {Name: "code-sandbox-mcp"},
	setting.ServerProgram: allfeatures.Program,
}

// commandTree is the whole of a program's commands, with those that cobra adds.
func commandTree(of cmd.Program) *cobra.Command {
	root := of.Command()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// checkProgram parses a command line of a program, and runs nothing.
func checkProgram(of cmd.Program, args []string) error {
	cmd, rest, err := commandTree(of).Find(args)
	if err != nil {
		return err
	}
	if cmd.Hidden {
		return fmt.Errorf("%s has no command %s", of.Name, cmd.Name())
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	hidden := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Hidden {
			hidden = f.Name
		}
	})
	if hidden != "" {
		return fmt.Errorf("%s has no flag --%s", of.Name, hidden)
	}
	if asked, _ := cmd.Flags().GetBool("help"); asked {
		return nil
	}
	rest = cmd.Flags().Args()
	if !cmd.Runnable() && len(rest) > 0 {
		return fmt.Errorf("%s has no command %q", cmd.CommandPath(), rest[0])
	}
	return cmd.ValidateArgs(rest)
}

// checkMake looks for the targets and the variables in the Makefile.
func checkMake(makefile string, words []string) error {
	for _, word := range words {
		pattern := `(?m)^(?:[\w/-]+ )*` + regexp.QuoteMeta(word) + `(?: [\w/-]+)*:`
		if name, _, ok := strings.Cut(word, "="); ok {
			pattern = `(?m)^(?:export )?` + regexp.QuoteMeta(name) + ` [:?]?=`
		}
		if !regexp.MustCompile(pattern).MatchString(makefile) {
			return errors.New("the Makefile has no " + word)
		}
	}
	return nil
}

func TestNamesInTheDocumentationExist(t *testing.T) {
	flags, variables := make(map[string]bool), map[string]bool{"SANDBOX_HTTP_TOKEN": true, "SANDBOX_TRUSTED_HEADER_SECRET": true}
	addFlags(commandTree(programs[setting.ServerProgram]), func(f *pflag.Flag) {
		flags["--"+f.Name] = true
		variables[setting.VariableOf(f.Name)] = true
	})
	pages := readPages(t)
	for _, s := range pages["docs/configuration.md"].spans { // which has a table of other systems' names
		if s.isSubject {
			variables[s.code] = true
		}
	}
	for name, p := range pages {
		if name == "CHANGELOG.md" { // which tells of what there was
			continue
		}
		for _, line := range p.code() {
			for _, v := range variable.FindAllString(line, -1) {
				should.Hold(t, variables[v] || strings.HasPrefix(v, "SANDBOX_SQL_"), "%s: there is no setting %s", name, v)
			}
		}
		for _, s := range p.spans {
			flag, _, _ := strings.Cut(strings.Fields(s.code + " .")[0], "=")
			// The page of the protocol has the supervisor's own.
			should.Hold(t, len(flag) <= 2 || !strings.HasPrefix(flag, "--") || flags[flag] || name == "docs/kernel-protocol.md",
				"%s: there is no flag %s", name, flag)
			should.Hold(t, !repositoryPath.MatchString(s.code) || exists(path.Clean(s.code)) || exists(path.Join(s.heading, s.code)),
				"%s: there is no %s", name, s.code)
		}
	}
}

func exists(name string) bool {
	_, err := fs.Stat(repository, name)
	return err == nil
}

func addFlags(cmd *cobra.Command, add func(*pflag.Flag)) {
	cmd.InitDefaultHelpFlag()
	cmd.LocalFlags().VisitAll(add)
	for _, child := range cmd.Commands() {
		addFlags(child, add)
	}
}

// The page says what the program says, so that a search for a message finds it.
func TestMessagesOfTheTroubleshootingPageAreTheProgramsOwn(t *testing.T) {
	var sources strings.Builder
	for _, folder := range []string{"cluster", "containers", "internal", "sandbox", "sql", "team", "tools"} {
		files(t, folder, func(name string) {
			if strings.HasSuffix(name, "_test.go") || !slices.Contains([]string{".go", ".py", ".js"}, path.Ext(name)) {
				return
			}
			source := must.Get(fs.ReadFile(repository, name))(t)
			sources.Write(source)
		})
	}
	p := readPages(t)["docs/troubleshooting.md"]
	for _, s := range p.spans {
		for part := range strings.SplitSeq(s.code, "…") {
			should.Hold(t, !s.isSubject || strings.Contains(sources.String(), strings.TrimSpace(part)),
				"%s: the program does not say %q", s.heading, part)
		}
	}
	faults := must.Get(fs.ReadFile(repository, "internal/fault/fault.go"))(t)
	for _, code := range regexp.MustCompile(`Code = "(\w+)"`).FindAllSubmatch(faults, -1) {
		if !slices.Contains(p.code(), string(code[1])) {
			t.Errorf("the page does not have the error code %s", code[1])
		}
	}
}
