package rest

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const (
	maxTitle = 120 // characters
	// titleBytes limits the part of the code that is searched for a title.
	titleBytes = 24 << 10
)

var (
	// preparing matches lines that do not show the purpose of code.
	preparing = regexp.MustCompile(`^(import\b|from\s+\S+\s+import\b|(const|let|var)\s.*=\s*(await\s+)?(require|import)\s*\(|['"]use strict['"]|%(matplotlib|load_ext|config|autoreload)\b|try\s*[:{]$)`)
	// noWords are comments that are for programs.
	noWords = regexp.MustCompile(`^(#!|#.*-\*-|# ?%%|# In ?\[|// ?@ts-|/[*/] ?eslint|# ?(noqa|type:|pylint|ruff))`)
)

// title returns the line of code that shows its purpose: the first one, comments included, that does more than prepare, or else the first.
func title(code string) string {
	first, open := "", 0
	for line := range strings.SplitSeq(code[:min(len(code), titleBytes)], "\n") {
		line = strings.TrimSpace(line)
		for line != "" {
			if first == "" {
				first = line
			}
			statement, rest, _ := strings.Cut(line, ";")
			if open <= 0 && !preparing.MatchString(strings.TrimSpace(statement)) {
				break
			}
			open += strings.Count(statement, "(") + strings.Count(statement, "{") - strings.Count(statement, ")") - strings.Count(statement, "}")
			line = strings.TrimSpace(rest)
		}
		words := strings.TrimLeft(line, "#/*\"' ")
		if noWords.MatchString(line) || !strings.ContainsFunc(words, isWord) {
			continue
		}
		if isComment(line) {
			line, _, _ = strings.Cut(words, "*/")
			line = strings.TrimRight(line, "\"' ")
		}
		return text.Shorten(line, maxTitle)
	}
	return text.Shorten(first, maxTitle)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func isComment(line string) bool {
	for _, mark := range []string{"#", "//", "/*", `"""`, "'''"} {
		if strings.HasPrefix(line, mark) {
			return true
		}
	}
	return false
}
