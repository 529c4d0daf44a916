package mysql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

const end, word, quoted, literal, number, variable, symbol = reader.End, reader.Word, reader.Quoted, reader.Literal, reader.Number, reader.Variable, reader.Symbol

type token = reader.Token

// nameOf is the name that a token is: a quoted one without its quotes.
func nameOf(t token) string {
	if t.Kind == quoted {
		return strings.ReplaceAll(t.Text[1:len(t.Text)-1], "``", "`")
	}
	return t.Text
}

// lexer divides a statement as the server does. Where versions of the server differ, or where it is not plain how one
// would divide a text, the text is refused: whoever checks a statement must read the same one that runs.
//
// Our sessions use a sql_mode in which "x" is a string and \ escapes; see setup.
type lexer struct{ *reader.Scanner }

// lex divides a whole statement. The last token is of kind end.
func lex(statement string) ([]token, error) {
	return reader.Divide(statement, func(s *reader.Scanner) error { return lexer{s}.skip() }, func(s *reader.Scanner) (token, error) { return lexer{s}.next() })
}

func (l lexer) next() (token, error) {
	switch c := l.Rest[0]; {
	case c == '\'', c == '"':
		return l.quoted(literal)
	case c == '`':
		return l.quoted(quoted)
	case isDigit(c), c == '.' && len(l.Rest) > 1 && isDigit(l.Rest[1]):
		return l.number()
	case strings.HasPrefix(l.Rest, "@@"):
		n := 2 + reader.CountWhile(l.Rest[2:], func(c byte) bool { return isNamePart(c) || c == '.' })
		if n > 2 {
			return l.take(variable, n), nil
		}
	case c == '@':
		return token{}, l.Fail("there are no variables here", "Parameters are ? in the order of params.")
	case c == '$':
		return token{}, l.Fail("the sign $ begins a string in some versions of MySQL", "Put names that begin with $ in `backticks`. Parameters are ? in the order of params.")
	case isNamePart(c):
		return l.take(word, reader.CountWhile(l.Rest, isNamePart)), nil
	case strings.IndexByte("(),.;:*/+-%=<>!&|^~{}?", c) >= 0:
		return l.take(symbol, 1), nil
	}
	r, _ := utf8.DecodeRuneInString(l.Rest)
	return token{}, l.Fail(fmt.Sprintf("the character %q has no place outside of strings and quoted names", r),
		"Leave it out; put names with such characters in `backticks`.")
}

// take cuts a token off.
func (l lexer) take(k reader.Kind, length int) token { return l.Take(k, length, strings.ToUpper) }

// quoted cuts off a text up to the character that it begins with, which stands for itself when it is doubled and, in a string, behind a
// backslash.
func (l lexer) quoted(k reader.Kind) (token, error) {
	if n := reader.QuotedEnd(l.Rest, 1, l.Rest[0], k == literal); n > 0 {
		return l.take(k, n), nil
	}
	return token{}, l.Fail("a string or a quoted name has no end", fmt.Sprintf("Close it with %c.", l.Rest[0]))
}

// number cuts a number off. The server takes some texts that begin with a digit for one name and others for a number
// and a word, as 1e5INTO: they are refused.
func (l lexer) number() (token, error) {
	s := l.Rest
	n := reader.CountWhile(s, isDigit)
	switch {
	case strings.HasPrefix(s, "0x") && len(s) > 2 && isHex(s[2]):
		n = 2 + reader.CountWhile(s[2:], isHex)
	case strings.HasPrefix(s, "0b") && len(s) > 2 && isBit(s[2]):
		n = 2 + reader.CountWhile(s[2:], isBit)
	default: // 0x and 0b2 are names
		if n < len(s) && s[n] == '.' {
			n++
			n += reader.CountWhile(s[n:], isDigit)
		}
		if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
			n++
			if n < len(s) && (s[n] == '+' || s[n] == '-') {
				n++
			}
			n += reader.CountWhile(s[n:], isDigit)
		}
	}
	if n < len(s) && (isNamePart(s[n]) || s[n] == '.') {
		return token{}, l.Fail(fmt.Sprintf("%q can be read as a number and as a name", s[:n+1]), "Put a space behind the number, or the name in `backticks`.")
	}
	return l.take(number, n), nil
}

// skip passes over space and comments.
func (l lexer) skip() error { return l.Skip(isSpace, beginsComment, "\r\v\f", l.blockComment) }

// beginsComment reports whether a comment begins that ends with its line.
func beginsComment(rest string) bool {
	return rest[0] == '#' || strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' ' || rest[2] == 0x7f)
}

// blockComment passes over a comment. Those that the server runs, or takes orders from, are none.
func (l lexer) blockComment() error {
	inside := l.Rest[2:]
	if strings.HasPrefix(inside, "!") || strings.HasPrefix(inside, "M!") || strings.HasPrefix(inside, "m!") || strings.HasPrefix(inside, "+") {
		return l.Fail("the server carries out what is in a comment that begins with /*!, /*M! or /*+", "Write it without the comment's signs, or leave it out.")
	}
	n := strings.Index(inside, "*/")
	if n < 0 {
		return l.Fail("a comment has no end", "Close it with */.")
	}
	if strings.Contains(inside[:n], "/*") { // which some versions count
		return l.Fail("a comment begins within another one", "Leave the inner one out.")
	}
	l.Line += strings.Count(inside[:n], "\n")
	l.Rest = inside[n+2:]
	return nil
}

func isSpace(c rune) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func isBit(c byte) bool { return c == '0' || c == '1' }

// isNamePart: every character beyond ASCII may be in a name.
func isNamePart(c byte) bool {
	return c == '_' || c == '$' || isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf
}
