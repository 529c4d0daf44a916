package mysql

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is what a token is to the check.
type kind int

const (
	end      kind = iota
	word          // a keyword or a name without quotes
	quoted        // `a name`
	literal       // 'a string' or "a string"
	number        // 1, 1.5e3, 0xFF
	variable      // @@name
	symbol        // one character of punctuation
)

// token is a piece of a statement that is neither space nor comment.
type token struct {
	kind kind
	text string // as it is written
	// key is a word in upper case, and a symbol as it is. The others have none.
	key  string
	line int
	// glued reports that nothing is between this token and the one before it.
	glued bool
}

// name is the name that a token is: a quoted one without its quotes.
func (t token) name() string {
	if t.kind == quoted {
		return strings.ReplaceAll(t.text[1:len(t.text)-1], "``", "`")
	}
	return t.text
}

// lexError is a text that no server and no reader would divide the same way.
type lexError struct {
	line int
	what string
	hint string
}

func (e *lexError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

// lexer divides a statement as the server does. Where versions of the server differ, or where it is not plain how one
// would divide a text, the text is refused: whoever checks a statement must read the same one that runs.
//
// A session of ours has a sql_mode in which "x" is a string and \ escapes; see setup.
type lexer struct {
	rest  string
	line  int
	glued bool
}

// lex divides a whole statement. The last token is of kind end.
func lex(statement string) ([]token, error) {
	if !utf8.ValidString(statement) {
		return nil, &lexError{1, "the text is not UTF-8", "Send the statement as UTF-8."}
	}
	if at := strings.IndexByte(statement, 0); at >= 0 {
		return nil, &lexError{1 + strings.Count(statement[:at], "\n"), "the text has a NUL character", "Leave it out."}
	}
	l := lexer{rest: statement, line: 1}
	var tokens []token
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		if t.kind == end {
			return tokens, nil
		}
	}
}

func (l *lexer) next() (token, error) {
	before := len(l.rest)
	if err := l.skip(); err != nil {
		return token{}, err
	}
	l.glued = before == len(l.rest)
	if l.rest == "" {
		return token{kind: end, line: l.line}, nil
	}
	switch c := l.rest[0]; {
	case c == '\'', c == '"':
		return l.quoted(literal)
	case c == '`':
		return l.quoted(quoted)
	case isDigit(c), c == '.' && len(l.rest) > 1 && isDigit(l.rest[1]):
		return l.number()
	case strings.HasPrefix(l.rest, "@@"):
		n := 2 + countWhile(l.rest[2:], func(c byte) bool { return isNamePart(c) || c == '.' })
		if n > 2 {
			return l.take(variable, n), nil
		}
	case c == '@':
		return token{}, &lexError{l.line, "there are no variables here", "Parameters are ? in the order of params."}
	case c == '$':
		return token{}, &lexError{l.line, "the sign $ begins a string in some versions of MySQL", "Put names that begin with $ in `backticks`. Parameters are ? in the order of params."}
	case isNamePart(c):
		return l.take(word, countWhile(l.rest, isNamePart)), nil
	case strings.IndexByte("(),.;:*/+-%=<>!&|^~{}?", c) >= 0:
		return l.take(symbol, 1), nil
	}
	r, _ := utf8.DecodeRuneInString(l.rest)
	return token{}, &lexError{l.line, fmt.Sprintf("the character %q has no place outside of strings and quoted names", r),
		"Leave it out; put names with such characters in `backticks`."}
}

// take cuts a token off.
func (l *lexer) take(k kind, length int) token {
	t := token{kind: k, text: l.rest[:length], line: l.line, glued: l.glued}
	if k == word || k == symbol {
		t.key = strings.ToUpper(t.text)
	}
	l.line += strings.Count(t.text, "\n")
	l.rest = l.rest[length:]
	return t
}

// quoted cuts off what ends with the character it begins with, which stands for itself when it is doubled and, in a
// string, behind a backslash.
func (l *lexer) quoted(k kind) (token, error) {
	end := l.rest[0]
	for i := 1; i < len(l.rest); i++ {
		switch c := l.rest[i]; {
		case c == '\\' && k == literal:
			i++
		case c == end && i+1 < len(l.rest) && l.rest[i+1] == end:
			i++
		case c == end:
			return l.take(k, i+1), nil
		}
	}
	return token{}, &lexError{l.line, "a string or a quoted name has no end", fmt.Sprintf("Close it with %c.", end)}
}

// number cuts a number off. The server takes some texts that begin with a digit for one name and others for a number
// and a word, as 1e5INTO: they are refused.
func (l *lexer) number() (token, error) {
	s := l.rest
	n := countWhile(s, isDigit)
	switch {
	case strings.HasPrefix(s, "0x") && len(s) > 2 && isHex(s[2]):
		n = 2 + countWhile(s[2:], isHex)
	case strings.HasPrefix(s, "0b") && len(s) > 2 && isBit(s[2]):
		n = 2 + countWhile(s[2:], isBit)
	default: // 0x and 0b2 are names
		if n < len(s) && s[n] == '.' {
			n++
			n += countWhile(s[n:], isDigit)
		}
		if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
			n++
			if n < len(s) && (s[n] == '+' || s[n] == '-') {
				n++
			}
			n += countWhile(s[n:], isDigit)
		}
	}
	if n < len(s) && (isNamePart(s[n]) || s[n] == '.') {
		return token{}, &lexError{l.line, fmt.Sprintf("%q can be read as a number and as a name", s[:n+1]), "Put a space behind the number, or the name in `backticks`."}
	}
	return l.take(number, n), nil
}

// skip passes over space and comments.
func (l *lexer) skip() error {
	for l.rest != "" {
		switch c := l.rest[0]; {
		case isSpace(c):
			if c == '\n' {
				l.line++
			}
			l.rest = l.rest[1:]
		case c == '#', strings.HasPrefix(l.rest, "--") && (len(l.rest) == 2 || l.rest[2] <= ' ' || l.rest[2] == 0x7f):
			comment, _, _ := strings.Cut(l.rest, "\n")
			if strings.ContainsAny(strings.TrimSuffix(comment, "\r"), "\r\v\f") {
				return &lexError{l.line, "a comment has a line break that is not a line feed", "End the lines of the statement with \\n."}
			}
			l.rest = l.rest[len(comment):]
		case strings.HasPrefix(l.rest, "/*"):
			if err := l.blockComment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// blockComment passes over a comment. Those that the server runs, or takes orders from, are none.
func (l *lexer) blockComment() error {
	inside := l.rest[2:]
	if strings.HasPrefix(inside, "!") || strings.HasPrefix(inside, "M!") || strings.HasPrefix(inside, "m!") || strings.HasPrefix(inside, "+") {
		return &lexError{l.line, "the server carries out what is in a comment that begins with /*!, /*M! or /*+", "Write it without the comment's signs, or leave it out."}
	}
	n := strings.Index(inside, "*/")
	if n < 0 {
		return &lexError{l.line, "a comment has no end", "Close it with */."}
	}
	if strings.Contains(inside[:n], "/*") { // which some versions count
		return &lexError{l.line, "a comment begins within another one", "Leave the inner one out."}
	}
	l.line += strings.Count(inside[:n], "\n")
	l.rest = inside[n+2:]
	return nil
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func isBit(c byte) bool { return c == '0' || c == '1' }

// isNamePart: every character beyond ASCII may be in a name.
func isNamePart(c byte) bool {
	return c == '_' || c == '$' || isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf
}

func countWhile(s string, is func(byte) bool) int {
	n := 0
	for n < len(s) && is(s[n]) {
		n++
	}
	return n
}
