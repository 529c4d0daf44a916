package sqlserver

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

const end, word, quoted, literal, number, variable, symbol = reader.End, reader.Word, reader.Quoted, reader.Literal, reader.Number, reader.Variable, reader.Symbol

type token = reader.Token

// lexer divides a statement as SQL Server does. A text that the server might divide otherwise is refused:
// whoever checks a statement must read the same one that runs.
//
// Our sessions set QUOTED_IDENTIFIER ON. With OFF a "quoted name" would be a string with the same
// ends, so that the division does not depend on it.
type lexer struct{ *reader.Scanner }

// lex divides a whole statement. The last token is of kind end.
func lex(statement string) ([]token, error) {
	return reader.Divide(statement, func(s *reader.Scanner) error { return lexer{s}.skip() }, func(s *reader.Scanner) (token, error) { return lexer{s}.next() })
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
func (l lexer) take(k reader.Kind, length int) token { return l.Take(k, length, canonical) }

// quoted cuts off a text up to the character end, which stands for itself when it is doubled.
func (l lexer) quoted(k reader.Kind, prefix int, end byte) (token, error) {
	if n := reader.QuotedEnd(l.Rest, prefix+1, end, false); n > 0 {
		return l.take(k, n), nil
	}
	return token{}, l.Fail("a string or a quoted name has no end", fmt.Sprintf("Close it with %q.", end))
}

// skip passes over space and comments.
func (l lexer) skip() error {
	return l.Skip(isSpace, func(rest string) bool { return strings.HasPrefix(rest, "--") }, "\r\v\f\u0085\u2028\u2029", l.blockComment)
}

// blockComment skips a comment, which may contain others.
func (l lexer) blockComment() error {
	n := reader.CommentEnd(l.Rest)
	if n < 0 {
		return l.Fail("a comment has no end", "Close it with */; comments within comments are closed each for itself.")
	}
	l.Line += strings.Count(l.Rest[:n], "\n")
	l.Rest = l.Rest[n:]
	return nil
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
		return 2 + reader.CountWhile(s[2:], func(c byte) bool {
			return isDigit(rune(c)) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
		})
	}
	n := fractionLength(s)
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		n += reader.CountWhile(s[n:], isDigitByte)
	}
	return n
}

// fractionLength measures 12, 12., 12.5 and .5.
func fractionLength(s string) int {
	n := reader.CountWhile(s, isDigitByte)
	if n < len(s) && s[n] == '.' {
		n++
		n += reader.CountWhile(s[n:], isDigitByte)
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
