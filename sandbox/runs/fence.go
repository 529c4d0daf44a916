// Markdown fences that models put around code.

package runs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

var (
	// fenceLine is a line that opens or closes a Markdown fence.
	fenceLine = regexp.MustCompile("^[ \t]*(`{3,}|~{3,})[^`]*$")
	// infoString matches the words allowed behind an opening fence. Other words there are code, such as the code's first line.
	infoString = regexp.MustCompile(`^[\w.+#-]*(?:[ \t]*\{[^{}]*\}|[ \t]+[\w-]+="[^"]*")*$`)
	// oneLine is a fence with its code in one line.
	oneLine = regexp.MustCompile("^`{3,}[ \t]*([^`\n]*[^`\n \t])[ \t]*`{3,}$")
	// ownStatement matches the beginning of a line of code that cannot continue the line before, but for operator.
	ownStatement = regexp.MustCompile(`^[\pL\pN_$'"{@]`)
	operator     = regexp.MustCompile(`^(?:in|instanceof)\b`)
)

// withoutFence removes a Markdown fence, or a first line that names the language, around code from a model. Lines keep their
// numbers. note tells what it removed; empty: nothing. It never changes legal code: no Python begins with three backticks, and
// JavaScript that does calls a text, which throws.
func withoutFence(code string, language kernel.LanguageInfo) (bare, note string) {
	lines := strings.Split(strings.TrimRightFunc(strings.TrimPrefix(code, "\ufeff"), unicode.IsSpace), "\n")
	first := slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) != "" })
	if first < 0 {
		return code, ""
	}
	word := strings.TrimSpace(lines[first])
	const fenceNote = "The Markdown fence around the code was left out: pass the code alone."
	if within := oneLine.FindStringSubmatch(strings.TrimSpace(strings.Join(lines[first:], "\n"))); within != nil {
		name, rest, _ := strings.Cut(within[1], " ")
		if isNamed(language, name) && rest != "" {
			within[1] = rest
		}
		return strings.Repeat("\n", first) + within[1], fenceNote
	}
	switch opened := fenceLine.FindStringSubmatch(word); {
	case opened != nil:
		rest := len(lines) - first - 1
		end, ok := endOfFence(lines[first+1:], opened[1])
		if !ok || !infoString.MatchString(strings.Trim(word, "`~ \t")) {
			return code, ""
		}
		if lines, note = lines[:first+1+end], fenceNote; end == rest { // its last line may end with the closing fence
			lines[first+end] = strings.TrimSuffix(lines[first+end], opened[1])
		}
	case isNamed(language, word) && beginsStatement(lines[first+1:]):
		note = fmt.Sprintf("The first line, %q, was left out: pass the code alone.", word)
	default:
		return code, ""
	}
	lines[first] = ""
	return strings.Join(lines, "\n"), note
}

// endOfFence returns the number of lines in an open fence. Words may follow its end, or other fences may stand in it, as in a
// docstring, but not both: then nobody knows which part is code.
func endOfFence(lines []string, opened string) (end int, ok bool) {
	closed, fences := -1, 0
	for i, line := range lines {
		found := fenceLine.FindStringSubmatch(strings.TrimRight(line, "\r"))
		if found == nil {
			continue
		}
		fences++
		if mark := strings.TrimSpace(line); strings.HasPrefix(mark, opened) && strings.Trim(mark, opened[:1]) == "" {
			closed = i
		}
	}
	switch {
	case closed < 0:
		return len(lines), opened[0] == '`' // ~~~x is an expression
	case strings.TrimSpace(strings.Join(lines[closed+1:], "")) == "":
		return closed, true
	}
	return closed, fences == 1 && opened[0] == '`'
}

func isNamed(language kernel.LanguageInfo, line string) bool {
	line = strings.ToLower(line)
	return line == string(language.Language) || slices.Contains(language.Aliases, line)
}

// beginsStatement reports whether there is code and its first line is a statement of its own: a name before it would only be
// looked up.
func beginsStatement(lines []string) bool {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "//") {
			return ownStatement.MatchString(line) && !operator.MatchString(line)
		}
	}
	return false
}
