// Command house measures how the Go packages of this module read: words of their comments, functions, and knots of files that all use
// each other. It gates nothing. Models (age, restic, lima) have 0 to 0.3 "what" and 1.8 to 4.6 "has" in 1,000 words.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

var (
	word  = regexp.MustCompile(`[A-Za-z']+`)
	whats = regexp.MustCompile(`(?i)^what$`)
	has   = regexp.MustCompile(`(?i)^(has|have|whose)$`)
)

// room is a package as it reads.
type room struct {
	name              string
	files, lines      int
	words, whats, has int
	functions         []int // their lines
	knot              int   // the files of the largest knot
}

func main() {
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedModule}, "./...")
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	var rooms []room
	all := room{name: "all"}
	for _, p := range loaded {
		if strings.Contains(p.PkgPath, "/internal/test/") || p.Module == nil {
			continue
		}
		r := look(p)
		r.name = cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, p.Module.Path), "/"), ".")
		rooms = append(rooms, r)
		all.files, all.lines, all.words, all.whats, all.has = all.files+r.files, all.lines+r.lines, all.words+r.words, all.whats+r.whats, all.has+r.has
		all.functions, all.knot = append(all.functions, r.functions...), max(all.knot, r.knot)
	}
	slices.SortFunc(rooms, func(a, b room) int { return cmp.Compare(b.lines, a.lines) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "package\tfiles\tlines\twhat ‰\thas ‰\tfunction p95\tknot\t")
	for _, r := range append([]room{all}, rooms...) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t%d\t%d\t\n", r.name, r.files, r.lines, r.of(r.whats), r.of(r.has), r.p95(), r.knot)
	}
	_ = w.Flush()
}

// of is a number in 1,000 words of comments.
func (r room) of(n int) float64 { return 1000 * float64(n) / float64(max(r.words, 1)) }

func (r room) p95() int {
	if len(r.functions) == 0 {
		return 0
	}
	slices.Sort(r.functions)
	return r.functions[len(r.functions)*95/100]
}

func look(p *packages.Package) (r room) {
	r.files = len(p.Syntax)
	for _, f := range p.Syntax {
		r.lines += p.Fset.File(f.Pos()).LineCount()
		for _, group := range f.Comments {
			for _, w := range word.FindAllString(group.Text(), -1) {
				r.words++
				if whats.MatchString(w) {
					r.whats++
				}
				if has.MatchString(w) {
					r.has++
				}
			}
		}
		for _, d := range f.Decls {
			if d, is := d.(*ast.FuncDecl); is {
				r.functions = append(r.functions, p.Fset.Position(d.End()).Line-p.Fset.Position(d.Pos()).Line+1)
			}
		}
	}
	r.knot = knot(p)
	return r
}

// knot returns the size of the largest set of files that all reach each other by their uses.
func knot(p *packages.Package) int {
	fileOf := func(pos token.Pos) string { return filepath.Base(p.Fset.Position(pos).Filename) }
	uses := make(map[string]map[string]bool)
	for id, object := range p.TypesInfo.Uses {
		if object.Pkg() != p.Types || !object.Pos().IsValid() {
			continue
		}
		if v, is := object.(*types.Var); is && !v.IsField() && v.Parent() != p.Types.Scope() {
			continue // a local variable
		}
		from, to := fileOf(id.Pos()), fileOf(object.Pos())
		if uses[from] == nil {
			uses[from] = make(map[string]bool)
		}
		uses[from][to] = true
	}
	reach := make(map[string]map[string]bool)
	for from := range uses {
		seen, open := make(map[string]bool), []string{from}
		for len(open) > 0 {
			at := open[len(open)-1]
			open = open[:len(open)-1]
			for to := range uses[at] {
				if !seen[to] {
					seen[to] = true
					open = append(open, to)
				}
			}
		}
		reach[from] = seen
	}
	largest := 0
	for a := range reach {
		n := 0
		for b := range reach {
			if reach[a][b] && reach[b][a] {
				n++
			}
		}
		largest = max(largest, n)
	}
	return largest
}
