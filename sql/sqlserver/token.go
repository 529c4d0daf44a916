package sqlserver

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// kind is what a token is to the check.
type kind int

const (
	end      kind = iota
	word          // a keyword or a name without quotes
	quoted        // [a name] or "a name"
	literal       // 'a string'
	number        // 1, 1.5e3, 0xFF, $5
	variable      // @p1
	symbol        // one character of punctuation, or ::
)

// token is a piece of a statement that is neither space nor comment.
type token struct {
	kind kind
	text string // as it is written
	// key is a word in the one form in which it can be compared: upper case, full-width letters made
	// plain. A symbol's is the symbol. The others have none.
	key  string
	line int
}

// lexError is a text that no server and no reader would divide the same way.
type lexError struct {
	line int
	what string
	hint string
}

func (e *lexError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

// lexer divides a statement as SQL Server does. Where it is not known how the server would divide a text,
// the text is refused: whoever checks a statement must read the same one that runs.
//
// A session of ours has QUOTED_IDENTIFIER ON. With OFF a "quoted name" would be a string with the same
// ends, so that the division does not depend on it.
type lexer struct {
	rest string
	line int
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
	if err := l.skip(); err != nil {
		return token{}, err
	}
	if l.rest == "" {
		return token{kind: end, line: l.line}, nil
	}
	r, size := utf8.DecodeRuneInString(l.rest)
	switch {
	case r == '\'':
		return l.quoted(literal, 0, '\'')
	case (r == 'N' || r == 'n') && strings.HasPrefix(l.rest[1:], "'"):
		return l.quoted(literal, 1, '\'')
	case r == '[':
		return l.quoted(quoted, 0, ']')
	case r == '"':
		return l.quoted(quoted, 0, '"')
	case isDigit(r), r == '.' && len(l.rest) > 1 && isDigit(rune(l.rest[1])):
		return l.take(number, numberLength(l.rest)), nil
	case unicode.Is(unicode.Sc, r):
		return l.take(number, size+fractionLength(l.rest[size:])), nil
	case r == '@':
		return l.take(variable, nameLength(l.rest)), nil
	case isNameStart(r):
		return l.take(word, nameLength(l.rest)), nil
	case strings.HasPrefix(l.rest, "::"):
		return l.take(symbol, 2), nil
	case strings.ContainsRune("(),.;:*/+-%=<>!&|^~{}", r):
		return l.take(symbol, size), nil
	}
	if r == '?' {
		return token{}, &lexError{l.line, "a question mark is no parameter", "Parameters are @p1, @p2 … in the order of params."}
	}
	return token{}, &lexError{l.line, fmt.Sprintf("the character %q has no place outside of strings and quoted names", r),
		"Leave it out; put names with such characters in [brackets]."}
}

// take cuts a token off.
func (l *lexer) take(k kind, length int) token {
	t := token{kind: k, text: l.rest[:length], line: l.line}
	switch k {
	case word:
		t.key = canonical(t.text)
	case symbol:
		t.key = t.text
	}
	l.line += strings.Count(t.text, "\n")
	l.rest = l.rest[length:]
	return t
}

// quoted cuts off what ends with the character end, which stands for itself when it is doubled.
func (l *lexer) quoted(k kind, prefix int, end byte) (token, error) {
	for i := prefix + 1; i < len(l.rest); i++ {
		if l.rest[i] != end {
			continue
		}
		if i+1 < len(l.rest) && l.rest[i+1] == end {
			i++
			continue
		}
		return l.take(k, i+1), nil
	}
	return token{}, &lexError{l.line, "a string or a quoted name has no end", fmt.Sprintf("Close it with %q.", end)}
}

// skip passes over space and comments.
func (l *lexer) skip() error {
	for l.rest != "" {
		r, size := utf8.DecodeRuneInString(l.rest)
		switch {
		case isSpace(r):
			if r == '\n' {
				l.line++
			}
			l.rest = l.rest[size:]
		case strings.HasPrefix(l.rest, "--"):
			if err := l.lineComment(); err != nil {
				return err
			}
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

// lineComment passes over a comment that ends with its line. What else a server might take for the end of
// a line must not be in it, or it would hide the rest of that line from the check.
func (l *lexer) lineComment() error {
	comment, _, _ := strings.Cut(l.rest, "\n")
	if strings.ContainsAny(strings.TrimSuffix(comment, "\r"), "\r\v\f\u0085\u2028\u2029") {
		return &lexError{l.line, "a comment has a line break that is not a line feed", "End the lines of the statement with \\n."}
	}
	l.rest = l.rest[len(comment):]
	return nil
}

// blockComment passes over a comment, which may have others in it.
func (l *lexer) blockComment() error {
	start, depth := l.line, 0
	for i := 0; i < len(l.rest); i++ {
		switch {
		case strings.HasPrefix(l.rest[i:], "/*"):
			depth++
			i++
		case strings.HasPrefix(l.rest[i:], "*/"):
			depth--
			i++
		case l.rest[i] == '\n':
			l.line++
		}
		if depth == 0 {
			l.rest = l.rest[i+1:]
			return nil
		}
	}
	return &lexError{start, "a comment has no end", "Close it with */; comments within comments are closed each for itself."}
}

// isSpace is generous: space too many can only divide a word that the server would have read whole.
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

// numberLength is strict where T-SQL is: a number ends where it can no longer be one, and what follows
// without a space, as in 1e5DELETE, is the next word.
func numberLength(s string) int {
	if len(s) > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		return 2 + countWhile(s[2:], func(c byte) bool {
			return isDigit(rune(c)) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
		})
	}
	n := fractionLength(s)
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		n += countWhile(s[n:], isDigitByte)
	}
	return n
}

// fractionLength measures 12, 12., 12.5 and .5.
func fractionLength(s string) int {
	n := countWhile(s, isDigitByte)
	if n < len(s) && s[n] == '.' {
		n++
		n += countWhile(s[n:], isDigitByte)
	}
	return n
}

func isDigitByte(c byte) bool { return isDigit(rune(c)) }

func countWhile(s string, is func(byte) bool) int {
	n := 0
	for n < len(s) && is(s[n]) {
		n++
	}
	return n
}

// dotless are the letters that some collations take for an i.
var dotless = strings.NewReplacer("İ", "I", "ı", "I", "\u0307", "")

// canonical makes of a word what a keyword would have to look like, however a server compares them.
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
	keys := []string{t.key}
	plain := func(r rune) bool { return r < utf8.RuneSelf && (r == '_' || isDigit(r) || unicode.IsLetter(r)) }
	pieces := strings.FieldsFunc(t.text, func(r rune) bool { return !plain(r) })
	if len(pieces) == 1 && pieces[0] == t.text {
		return keys
	}
	for _, piece := range pieces {
		keys = append(keys, strings.ToUpper(piece))
	}
	return keys
}
