package upstream

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/regex"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// shown is a name from anywhere as an error quotes it.
func shown(name string) string { return text.Shorten(text.Safe(name, 400), 80) }

// toolName matches the names that the protocol allows, and the slash that some servers use.
var toolName = regex.Late(`^[A-Za-z0-9_./-]{1,128}$`)

var identifier = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

var noWord = regexp.MustCompile(`[^A-Za-z0-9_]`)

// taken are words that cannot be an attribute in Python or JavaScript, and the attributes that the objects define themselves.
var taken = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally
	for from global if import in is lambda nonlocal not or pass raise return try while with yield
	search describe then catch constructor toString toJSON valueOf inspect`)

// attributes returns by which attribute code reaches each of the names; empty: by none, but by its name in brackets. A name
// that is an identifier is its own, whatever others would become.
func attributes(names []string) map[string]string {
	of := make(map[string]string, len(names))
	used := make(map[string]bool, len(names))
	for _, exact := range []bool{true, false} {
		for _, name := range names {
			attribute := noWord.ReplaceAllString(name, "_")
			if slices.Contains(taken, attribute) {
				attribute += "_"
			}
			if (attribute == name) != exact {
				continue
			}
			if identifier.MatchString(attribute) && !used[attribute] {
				of[name], used[attribute] = attribute, true
			}
		}
	}
	return of
}

// Patterns name tools, server.tool, with * for any part.
type Patterns []string

// Wrong returns the first pattern that no tool could match, or empty.
func (p Patterns) Wrong() string {
	for _, pattern := range p {
		if _, err := path.Match(flat(pattern), ""); err != nil || pattern != "*" && !strings.Contains(pattern, ".") {
			return pattern
		}
	}
	return ""
}

// match reports whether one of them names a tool.
func (p Patterns) match(server, tool string) bool {
	return slices.ContainsFunc(p, func(pattern string) bool {
		is, _ := path.Match(flat(pattern), flat(server+"."+tool))
		return is
	})
}

// flat makes a * match slashes as well.
func flat(name string) string { return strings.ReplaceAll(name, "/", "\x00") }
