package postgres

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// kind is what a token is.
type kind int

const (
	space kind = iota
	comment
	name       // select, pg_class
	quotedName // "a name", U&"\0061"
	literal    // 'text', E'text', $$text$$, B'01'
	number
	parameter // $1
	operator
	punctuation // ( ) [ ] , ; : . and their like, one character each
	broken      // what PostgreSQL would not read; value says why
)

// token is one piece of a statement.
type token struct {
	kind kind
	text string // as it stands in the statement
	// value is a name as PostgreSQL takes it, folded or unescaped, a literal's text where that is told by
	// taking its quotes off, and of a broken token the reason.
	value string
	line  int // where it begins; the first is 1
}

// is reports whether t is the unquoted word, one of the words, in whatever case.
func (t token) is(words ...string) bool {
	if t.kind != name {
		return false
	}
	for _, word := range words {
		if t.value == word {
			return true
		}
	}
	return false
}

// punct reports whether t is the character.
func (t token) punct(char string) bool { return t.kind == punctuation && t.text == char }

// lexer takes a statement apart as PostgreSQL's own does with standard_conforming_strings on. Bytes from
// 0x80 up belong to names, whatever character they are part of: an unusual space is none to PostgreSQL.
type lexer struct {
	text string
	at   int
	line int
}

// tokenize returns all tokens of text; put together, their texts are text.
func tokenize(text string) []token {
	var tokens []token
	for l := newLexer(text); l.more(); {
		tokens = append(tokens, l.next())
	}
	return tokens
}

func newLexer(text string) *lexer { return &lexer{text: text, line: 1} }

func (l *lexer) more() bool { return l.at < len(l.text) }

func (l *lexer) next() token {
	start, line := l.at, l.line
	kind, value := l.scan()
	text := l.text[start:l.at]
	l.line += lines(text)
	return token{kind: kind, text: text, value: value, line: line}
}

// lines counts the line ends in text: \n, \r and \r\n.
func lines(text string) int {
	return strings.Count(text, "\n") + strings.Count(text, "\r") - strings.Count(text, "\r\n")
}

func (l *lexer) scan() (kind, string) {
	c := l.text[l.at]
	switch {
	case isSpace(c):
		l.skip(isSpace)
		return space, ""
	case l.sees("--"):
		l.skip(func(c byte) bool { return c != '\n' && c != '\r' })
		return comment, ""
	case l.sees("/*"):
		return l.blockComment()
	case c == '\'':
		return l.plainString()
	case c == '"':
		return l.quotedName()
	case c == '$':
		return l.dollar()
	case isDigit(c), c == '.' && l.at+1 < len(l.text) && isDigit(l.text[l.at+1]):
		return l.number()
	case startsName(c):
		return l.word()
	case strings.IndexByte("()[],;:.", c) >= 0:
		l.at++
		return punctuation, ""
	case isOperator(c):
		return l.operator()
	}
	l.at++
	return broken, "a character that PostgreSQL does not know"
}

// sees reports whether s comes next.
func (l *lexer) sees(s string) bool { return strings.HasPrefix(l.text[l.at:], s) }

// skip goes on while the next byte is one of which yes is true.
func (l *lexer) skip(yes func(byte) bool) {
	for l.more() && yes(l.text[l.at]) {
		l.at++
	}
}

func (l *lexer) end(reason string) (kind, string) {
	l.at = len(l.text)
	return broken, reason
}

func (l *lexer) blockComment() (kind, string) {
	depth := 0
	for l.more() {
		switch {
		case l.sees("/*"):
			depth++
			l.at += 2
		case l.sees("*/"):
			depth--
			l.at += 2
		default:
			l.at++
		}
		if depth == 0 {
			return comment, ""
		}
	}
	return l.end("a comment without its end")
}

// word is a name, or a string that a letter opens.
func (l *lexer) word() (kind, string) {
	if len(l.text) > l.at+1 && l.text[l.at+1] == '\'' {
		switch l.text[l.at] | 0x20 {
		case 'e':
			l.at++
			return l.string(true)
		case 'b', 'x', 'n':
			l.at++
			return l.plainString()
		}
	}
	if l.text[l.at]|0x20 == 'u' {
		rest := l.text[l.at+1:]
		if strings.HasPrefix(rest, "&'") {
			l.at += 2
			return l.plainString()
		}
		if strings.HasPrefix(rest, `&"`) {
			l.at += 2
			return l.unicodeName()
		}
	}
	start := l.at
	l.skip(continuesName)
	return name, fold(l.text[start:l.at])
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

func (l *lexer) plainString() (kind, string) { return l.string(false) }

// string reads from the opening quote. A string goes on in a later line, after nothing but white space and
// comments, and a string that backslashes may escape in stays one there.
func (l *lexer) string(backslashes bool) (kind, string) {
	start := l.at
	for {
		if !l.quoted('\'', backslashes) {
			return l.end("a string without its closing quote")
		}
		end := l.at
		if !l.continues() {
			return literal, strings.ReplaceAll(l.text[start+1:end-1], "''", "'")
		}
	}
}

// quoted goes from an opening quote behind the closing one. A doubled quote closes nothing.
func (l *lexer) quoted(quote byte, backslashes bool) bool {
	l.at++
	for l.more() {
		switch c := l.text[l.at]; {
		case c == '\\' && backslashes:
			l.at = min(l.at+2, len(l.text))
		case c != quote:
			l.at++
		case l.at+1 < len(l.text) && l.text[l.at+1] == quote:
			l.at += 2
		default:
			l.at++
			return true
		}
	}
	return false
}

// continues goes to the quote that carries a string on, or leaves all as it was.
func (l *lexer) continues() bool {
	start, newline := l.at, false
	for l.more() {
		before := l.at
		l.skip(isSpace)
		newline = newline || strings.ContainsAny(l.text[before:l.at], "\r\n")
		if l.sees("--") {
			l.skip(func(c byte) bool { return c != '\n' && c != '\r' })
			continue
		}
		break
	}
	if newline && l.sees("'") {
		return true
	}
	l.at = start
	return false
}

func (l *lexer) quotedName() (kind, string) {
	start := l.at
	if !l.quoted('"', false) {
		return l.end("a quoted name without its closing quote")
	}
	return quotedName, strings.ReplaceAll(l.text[start+1:l.at-1], `""`, `"`)
}

// unicodeName reads U&"…" from its quote, with the UESCAPE that may come behind it.
func (l *lexer) unicodeName() (kind, string) {
	k, raw := l.quotedName()
	if k == broken {
		return k, raw
	}
	escape, ok := l.uescape()
	if !ok {
		return broken, "an UESCAPE that is not one plain character"
	}
	value, ok := unescape(raw, escape)
	if !ok {
		return broken, "an escape in a name that is no character"
	}
	return quotedName, value
}

// uescape reads UESCAPE '!' where it comes next, white space and comments skipped.
func (l *lexer) uescape() (escape byte, ok bool) {
	start := l.at
	l.blank()
	word := l.at
	l.skip(continuesName)
	if fold(l.text[word:l.at]) != "uescape" {
		l.at = start
		return '\\', true
	}
	l.blank()
	if !l.sees("'") {
		return 0, false
	}
	_, value := l.plainString()
	if len(value) != 1 {
		return 0, false
	}
	_, hex := strconv.ParseUint(value, 16, 8)
	c := value[0]
	return c, hex != nil && !isSpace(c) && c < utf8.RuneSelf && strings.IndexByte(`+'"`, c) < 0
}

// blank goes over white space and comments.
func (l *lexer) blank() {
	for l.more() && (isSpace(l.text[l.at]) || l.sees("--") || l.sees("/*")) {
		l.scan()
	}
}

// unescape puts the characters in that escapes in a U& name stand for.
func unescape(s string, escape byte) (string, bool) {
	var out strings.Builder
	var high rune // the first half of a pair that UTF-16 makes of one character
	for s != "" {
		if s[0] != escape || strings.HasPrefix(s[1:], string(escape)) {
			if high != 0 {
				return "", false
			}
			out.WriteByte(s[0])
			if s[0] == escape {
				s = s[1:]
			}
			s = s[1:]
			continue
		}
		digits := s[1:]
		length := 4
		if strings.HasPrefix(digits, "+") {
			digits, length = digits[1:], 6
		}
		if len(digits) < length {
			return "", false
		}
		n, err := strconv.ParseUint(digits[:length], 16, 32)
		if err != nil || n == 0 || n > utf8.MaxRune {
			return "", false
		}
		s = digits[length:]
		r := rune(n)
		switch {
		case high != 0:
			if r = utf16.DecodeRune(high, r); r == utf8.RuneError {
				return "", false
			}
			high = 0
		case utf16.IsSurrogate(r):
			high = r
			continue
		}
		out.WriteRune(r)
	}
	return out.String(), high == 0
}

// dollar reads $1, $$text$$ and $tag$text$tag$.
func (l *lexer) dollar() (kind, string) {
	start := l.at
	l.at++
	if l.more() && isDigit(l.text[l.at]) {
		l.skip(isDigit)
		return l.alone(parameter, "a parameter that runs into a word")
	}
	if l.more() && startsName(l.text[l.at]) {
		l.skip(func(c byte) bool { return c != '$' && continuesName(c) })
	}
	if !l.sees("$") {
		l.at = start + 1
		return broken, "a $ that opens neither a parameter nor a quoted text"
	}
	l.at++
	tag, body := l.text[start:l.at], l.at
	end := strings.Index(l.text[body:], tag)
	if end < 0 {
		return l.end("a text in dollar quotes without its end")
	}
	l.at = body + end + len(tag)
	return literal, l.text[body : body+end]
}

// number reads 12, 1.5, .5, 1e-5, 1_000, 0x1F, 0o17 and 0b1.
func (l *lexer) number() (kind, string) {
	digit := func(c byte) bool { return isDigit(c) || c == '_' }
	if l.text[l.at] == '0' && l.at+2 < len(l.text) && strings.IndexByte("xXoObB", l.text[l.at+1]) >= 0 {
		l.at += 2
		l.skip(func(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' })
		return l.alone(number, "a number that runs into a word")
	}
	l.skip(digit)
	if l.sees(".") && !l.sees("..") {
		l.at++
		l.skip(digit)
	}
	if l.more() && l.text[l.at]|0x20 == 'e' {
		exponent := l.at + 1
		if exponent < len(l.text) && (l.text[exponent] == '+' || l.text[exponent] == '-') {
			exponent++
		}
		if exponent < len(l.text) && isDigit(l.text[exponent]) {
			l.at = exponent
			l.skip(digit)
		}
	}
	return l.alone(number, "a number that runs into a word")
}

// alone refuses a name right behind the token. Old versions take that as the beginning of the next token,
// new ones as an error.
func (l *lexer) alone(k kind, otherwise string) (kind, string) {
	if l.more() && startsName(l.text[l.at]) {
		l.skip(continuesName)
		return broken, otherwise
	}
	return k, ""
}

// operator reads operator characters, up to where a comment begins.
func (l *lexer) operator() (kind, string) {
	for l.more() && isOperator(l.text[l.at]) && !l.sees("--") && !l.sees("/*") {
		l.at++
	}
	return operator, ""
}

// isSpace has \v too, which is a space from version 16 on and an error before.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func startsName(c byte) bool {
	return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= utf8.RuneSelf
}

func continuesName(c byte) bool { return startsName(c) || isDigit(c) || c == '$' }

func isOperator(c byte) bool { return strings.IndexByte("~!@#^&|`?+-*/%<>=", c) >= 0 }
