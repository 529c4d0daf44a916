package sqlserver

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

const end, word, quoted, literal, number, variable, symbol = checked.End, checked.Word, checked.Quoted, checked.Literal, checked.Number, checked.Variable, checked.Symbol

type token = checked.Token

// lexer divides a statement as SQL Server does. A text that the server might divide otherwise is refused:
// whoever checks a statement must read the same one that runs.
//
// Our sessions set QUOTED_IDENTIFIER ON. With OFF a "quoted name" would be a string with the same
// ends, so that the division does not depend on it.
type lexer struct{ *checked.Scanner }

// lex divides a whole statement. The last token is of kind end.
func lex(statement string) ([]token, error) {
	return checked.Divide(statement, func(s *checked.Scanner) error { return lexer{s}.skip() }, func(s *checked.Scanner) (token, error) { return lexer{s}.next() })
}

func (l lexer) next() (token, error) {
	r, size := utf8.DecodeRuneInString(l.Rest)
	switch {
	case r == '\'':
		return l.quoted(literal, 0, '\'')
	case (r == 'N' || r == 'n') && strings.HasPrefix(l.Rest[1:], "'"):
		return l.quoted(literal, 1, '\'')
	case r == '[':
		return l.quoted(quoted, 0, ']')
	case r == '"':
		return l.quoted(quoted, 0, '"')
	case isDigit(r), r == '.' && len(l.Rest) > 1 && isDigit(rune(l.Rest[1])):
		return l.take(number, numberLength(l.Rest)), nil
	case unicode.Is(unicode.Sc, r):
		return l.take(number, size+fractionLength(l.Rest[size:])), nil
	case r == '@':
		return l.take(variable, nameLength(l.Rest)), nil
	case isNameStart(r):
		return l.take(word, nameLength(l.Rest)), nil
	case strings.HasPrefix(l.Rest, "::"):
		return l.take(symbol, 2), nil
	case strings.ContainsRune("(),.;:*/+-%=<>!&|^~{}", r):
		return l.take(symbol, size), nil
	}
	if r == '?' {
		return token{}, l.Fail("a question mark is no parameter", "Parameters are @p1, @p2 … in the order of params.")
	}
	return token{}, l.Fail(fmt.Sprintf("the character %q has no place outside of strings and quoted names", r),
		"Leave it out; put names with such characters in [brackets].")
}

// take cuts a token off.
func (l lexer) take(k checked.Kind, length int) token { return l.Take(k, length, canonical) }

// quoted cuts off a text up to the character end, which stands for itself when it is doubled.
func (l lexer) quoted(k checked.Kind, prefix int, end byte) (token, error) {
	for i := prefix + 1; i < len(l.Rest); i++ {
		if l.Rest[i] != end {
			continue
		}
		if i+1 < len(l.Rest) && l.Rest[i+1] == end {
			i++
			continue
		}
		return l.take(k, i+1), nil
	}
	return token{}, l.Fail("a string or a quoted name has no end", fmt.Sprintf("Close it with %q.", end))
}

// skip passes over space and comments.
func (l lexer) skip() error {
	for l.Rest != "" {
		r, size := utf8.DecodeRuneInString(l.Rest)
		switch {
		case isSpace(r):
			if r == '\n' {
				l.Line++
			}
			l.Rest = l.Rest[size:]
		case strings.HasPrefix(l.Rest, "--"):
			if err := l.lineComment(); err != nil {
				return err
			}
		case strings.HasPrefix(l.Rest, "/*"):
			if err := l.blockComment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// lineComment skips a comment that ends with its line. It must not contain other characters that a server might take for the end of a line,
// or it would hide the rest of that line from the check.
func (l lexer) lineComment() error {
	comment, _, _ := strings.Cut(l.Rest, "\n")
	if strings.ContainsAny(strings.TrimSuffix(comment, "\r"), "\r\v\f\u0085\u2028\u2029") {
		return l.Fail("a comment has a line break that is not a line feed", "End the lines of the statement with \\n.")
	}
	l.Rest = l.Rest[len(comment):]
	return nil
}

// blockComment skips a comment, which may contain others.
func (l lexer) blockComment() error {
	line, depth := l.Line, 0
	for i := 0; i < len(l.Rest); i++ {
		switch {
		case strings.HasPrefix(l.Rest[i:], "/*"):
			depth++
			i++
		case strings.HasPrefix(l.Rest[i:], "*/"):
			depth--
			i++
		case l.Rest[i] == '\n':
			line++
		}
		if depth == 0 {
			l.Rest, l.Line = l.Rest[i+1:], line
			return nil
		}
	}
	return l.Fail("a comment has no end", "Close it with */; comments within comments are closed each for itself.")
}

// isSpace is generous: an extra space can only divide a word that the server would have read whole.
func isSpace(r rune) bool { return r <= ' ' || unicode.IsSpace(r) || unicode.Is(unicode.Z, r) }

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func isNameStart(r rune) bool { return r == '_' || r == '#' || unicode.IsLetter(r) }

func isNamePart(r rune) bool {
	return isNameStart(r) || r == '@' || r == '$' || unicode.IsDigit(r) || unicode.IsMark(r)
}

func nameLength(s string) int {
	if i := strings.IndexFunc(s, func(r rune) bool { return !isNamePart(r) }); i >= 0 {
		return i
	}
	return len(s)
}

// numberLength is as strict as T-SQL: a number ends when it can no longer be one, and text behind it without a space, as in 1e5DELETE, is
// the next word.
func numberLength(s string) int {
	if len(s) > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		return 2 + checked.CountWhile(s[2:], func(c byte) bool {
			return isDigit(rune(c)) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
		})
	}
	n := fractionLength(s)
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		n += checked.CountWhile(s[n:], isDigitByte)
	}
	return n
}

// fractionLength measures 12, 12., 12.5 and .5.
func fractionLength(s string) int {
	n := checked.CountWhile(s, isDigitByte)
	if n < len(s) && s[n] == '.' {
		n++
		n += checked.CountWhile(s[n:], isDigitByte)
	}
	return n
}

func isDigitByte(c byte) bool { return isDigit(rune(c)) }

// dotless are the letters that some collations take for an i.
var dotless = strings.NewReplacer("İ", "I", "ı", "I", "\u0307", "")

// canonical converts a word to the form of keywords, however a server compares them.
func canonical(word string) string {
	for i := 0; i < len(word); i++ {
		if word[i] >= utf8.RuneSelf {
			return dotless.Replace(strings.ToUpper(norm.NFKC.String(word)))
		}
	}
	return strings.ToUpper(word)
}

// keywordsIn is every keyword that a server might find in a word. Of letters beyond ASCII's, and of @, # and
// $, it is not known that every version of the server takes all of them for parts of a word, so each piece
// between them counts as well.
func keywordsIn(t token) []string {
	keys := []string{t.Key}
	plain := func(r rune) bool { return r < utf8.RuneSelf && (r == '_' || isDigit(r) || unicode.IsLetter(r)) }
	pieces := strings.FieldsFunc(t.Text, func(r rune) bool { return !plain(r) })
	if len(pieces) == 1 && pieces[0] == t.Text {
		return keys
	}
	for _, piece := range pieces {
		keys = append(keys, strings.ToUpper(piece))
	}
	return keys
}
