package postgres

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// kind is a token's kind.
type kind int

const (
	space kind = iota
	comment
	name       // select, pg_class
	quotedName // "a name"
	literal    // 'text', E'text', $$text$$, B'01'
	number
	parameter // $1
	operator
	punctuation // ( ) [ ] , ; : . and their like, one character each
	broken      // PostgreSQL would not read it; value says why
)

// token is one piece of a statement.
type token struct {
	kind kind
	text string // as it stands in the statement
	// value is a name as PostgreSQL takes it, folded or without its quotes, a literal's text if that is told by
	// taking its quotes off, and of a broken token the reason.
	value string
	line  int // where it begins; the first is 1
}

// is reports whether t is the unquoted word, one of the words, in whatever case.
func (t token) is(words ...string) bool {
	return t.kind == name && slices.Contains(words, t.value)
}

// punct reports whether t is the character.
func (t token) punct(char string) bool { return t.kind == punctuation && t.text == char }

// tokenize divides a statement as PostgreSQL does with standard_conforming_strings on; joined, the tokens' texts are the statement. Bytes
// from 0x80 up belong to names, whatever character they are part of: an unusual space is none to PostgreSQL. Nothing behind a broken token
// is divided.
func tokenize(text string) (tokens []token) {
	escaped, line := false, 1 // whether the last string was one that backslashes may escape
	for text != "" {
		t, length := scan(text)
		switch {
		case t.kind == literal && escaped && text[0] == '\'':
			t, length = token{kind: broken, value: "a string that goes on in a later line"}, len(text)
		case t.kind == literal:
			escaped = text[0]|0x20 == 'e'
		case t.kind != space && t.kind != comment:
			escaped = false
		}
		if t.kind == broken {
			length = len(text)
		}
		t.text, t.line = text[:length], line
		line += lines(t.text)
		text = text[length:]
		tokens = append(tokens, t)
	}
	return tokens
}

// lines counts the line ends in text: \n, \r and \r\n.
func lines(text string) int {
	return strings.Count(text, "\n") + strings.Count(text, "\r") - strings.Count(text, "\r\n")
}

var (
	numberForm    = regexp.MustCompile(`^(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?)`)
	stringForm    = regexp.MustCompile(`^(?:[bBxXnN]|[uU]&)?'`)
	dollarForm    = regexp.MustCompile(`^\$(?:[A-Za-z_\x{80}-\x{10FFFF}][\w\x{80}-\x{10FFFF}]*)?\$`)
	parameterForm = regexp.MustCompile(`^\$\d+`)
)

// scan reads the token at the beginning of a text, and how long it is.
func scan(text string) (t token, length int) {
	switch c := text[0]; {
	case isSpace(c):
		return token{kind: space}, reader.CountWhile(text, isSpace)
	case strings.HasPrefix(text, "--"):
		return token{kind: comment}, reader.CountWhile(text, func(c byte) bool { return c != '\n' && c != '\r' })
	case strings.HasPrefix(text, "/*"):
		return closed(comment, reader.CommentEnd(text), "a comment without its end")
	case strings.HasPrefix(text, "e'"), strings.HasPrefix(text, "E'"):
		return unquoted(literal, text, 1, true, "a string without its closing quote")
	case stringForm.MatchString(text):
		return unquoted(literal, text, strings.IndexByte(text, '\''), false, "a string without its closing quote")
	case c == '"':
		return unquoted(quotedName, text, 0, false, "a quoted name without its closing quote")
	case strings.HasPrefix(text, `u&"`), strings.HasPrefix(text, `U&"`):
		return token{kind: broken, value: "a name with escapes, which is to be written as it is"}, 1
	case c == '$':
		if n := len(parameterForm.FindString(text)); n > 0 {
			return alone(parameter, text, n, "a parameter that runs into a word")
		}
		return dollarQuoted(text)
	case isDigit(c), c == '.' && len(text) > 1 && isDigit(text[1]):
		return alone(number, text, len(numberForm.FindString(text)), "a number that runs into a word")
	case startsName(c):
		n := reader.CountWhile(text, continuesName)
		return token{kind: name, value: fold(text[:n])}, n
	case strings.IndexByte("()[],;:.", c) >= 0:
		return token{kind: punctuation}, 1
	case isOperator(c):
		return token{kind: operator}, operatorLength(text)
	}
	return token{kind: broken, value: "a character that PostgreSQL does not know"}, 1
}

// closed returns a token of a length, or a broken one if it is not closed.
func closed(k kind, length int, otherwise string) (token, int) {
	if length < 0 {
		return token{kind: broken, value: otherwise}, 1
	}
	return token{kind: k}, length
}

// unquoted reads from a quote to the one that closes it, which a doubled one does not.
func unquoted(k kind, text string, open int, backslashes bool, otherwise string) (token, int) {
	quote := text[open : open+1]
	end := reader.QuotedEnd(text, open+1, quote[0], backslashes)
	if end < 0 {
		return token{kind: broken, value: otherwise}, 1
	}
	return token{kind: k, value: strings.ReplaceAll(text[open+1:end-1], quote+quote, quote)}, end
}

// dollarQuoted reads $$text$$ and $tag$text$tag$.
func dollarQuoted(text string) (token, int) {
	tag := dollarForm.FindString(text)
	if tag == "" {
		return token{kind: broken, value: "a $ that opens neither a parameter nor a quoted text"}, 1
	}
	inside, _, ends := strings.Cut(text[len(tag):], tag)
	if !ends {
		return token{kind: broken, value: "a text in dollar quotes without its end"}, 1
	}
	return token{kind: literal, value: inside}, len(inside) + 2*len(tag)
}

// alone refuses a name right behind the token. Old versions take that as the beginning of the next token,
// new ones as an error.
func alone(k kind, text string, length int, otherwise string) (token, int) {
	if length < len(text) && (startsName(text[length]) || k == number && text[length] == '.') {
		length = -1
	}
	return closed(k, length, otherwise)
}

// operatorLength is that of operator characters, up to where a comment begins.
func operatorLength(text string) int {
	n := reader.CountWhile(text, isOperator)
	for _, comment := range []string{"--", "/*"} {
		if at := strings.Index(text[:n], comment); at >= 0 {
			n = at
		}
	}
	return n
}

// fold lowers a name as PostgreSQL does where the encoding is UTF-8: ASCII letters only.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

// isSpace accepts \v too, which is a space from version 16 on and an error before.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func startsName(c byte) bool {
	return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= utf8.RuneSelf
}

func continuesName(c byte) bool { return startsName(c) || isDigit(c) || c == '$' }

func isOperator(c byte) bool { return strings.IndexByte("~!@#^&|`?+-*/%<>=", c) >= 0 }
