package reader

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// Kind is a token's kind for the check.
type Kind int

// Kinds of tokens.
const (
	End      Kind = iota
	Word          // a keyword or a name without quotes
	Quoted        // a name in quotes
	Literal       // 'a string'
	Number        // 1, 1.5e3, 0xFF
	Variable      // @p1, @@name
	Symbol        // punctuation
)

// Token is a piece of a statement that is neither space nor comment.
type Token struct {
	Kind Kind
	Text string // as it is written
	// Key is the comparable form of a word, or the symbol itself. Empty for other kinds.
	Key  string
	Line int
	// Glued reports that nothing is between this token and the one before it.
	Glued bool
}

// IsOneOf reports whether a token's key is one of these.
func (t Token) IsOneOf(keys ...string) bool { return slices.Contains(keys, t.Key) }

// Scanner holds the rest of a statement that is being tokenized.
type Scanner struct {
	Rest  string
	Line  int
	Glued bool
}

// textError is a text that no server and no reader would divide the same way.
type textError struct {
	line       int
	what, hint string
}

func (e *textError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

// Fail says why a text cannot be divided.
func (s *Scanner) Fail(what, hint string) error { return &textError{s.Line, what, hint} }

// Take cuts a token off.
func (s *Scanner) Take(k Kind, length int, key func(string) string) Token {
	t := Token{Kind: k, Text: s.Rest[:length], Line: s.Line, Glued: s.Glued}
	if k == Word || k == Symbol {
		t.Key = key(t.Text)
	}
	s.Line += strings.Count(t.Text, "\n")
	s.Rest = s.Rest[length:]
	return t
}

// Skip passes over space and comments: those that begin so end with their line, and block passes over others. breaks are the characters that a
// server might take for the end of a line: in a comment they would hide the rest of that line from the check.
func (s *Scanner) Skip(isSpace func(rune) bool, begins func(rest string) bool, breaks string, block func() error) error {
	for s.Rest != "" {
		r, size := utf8.DecodeRuneInString(s.Rest)
		switch {
		case isSpace(r):
			if r == '\n' {
				s.Line++
			}
			s.Rest = s.Rest[size:]
		case begins(s.Rest):
			comment, _, _ := strings.Cut(s.Rest, "\n")
			if strings.ContainsAny(strings.TrimSuffix(comment, "\r"), breaks) {
				return s.Fail("a comment has a line break that is not a line feed", "End the lines of the statement with \\n.")
			}
			s.Rest = s.Rest[len(comment):]
		case strings.HasPrefix(s.Rest, "/*"):
			if err := block(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// Divide divides a whole statement. skip passes over space and comments, and next takes a token. The last one is of the kind End.
func Divide(statement string, skip func(*Scanner) error, next func(*Scanner) (Token, error)) ([]Token, error) {
	s := &Scanner{Rest: statement, Line: 1}
	if !utf8.ValidString(statement) {
		return nil, s.Fail("the text is not UTF-8", "Send the statement as UTF-8.")
	}
	if at := strings.IndexByte(statement, 0); at >= 0 {
		s.Line += strings.Count(statement[:at], "\n")
		return nil, s.Fail("the text has a NUL character", "Leave it out.")
	}
	var tokens []Token
	for {
		before := len(s.Rest)
		if err := skip(s); err != nil {
			return nil, err
		}
		s.Glued = before == len(s.Rest)
		if s.Rest == "" {
			return append(tokens, Token{Kind: End, Line: s.Line}), nil
		}
		t, err := next(s)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
	}
}

// Words is a statement that is checked from left to right.
type Words struct {
	Tokens []Token
	lines  []string
}

// Read divides a statement.
func Read(statement string, divide func(string) ([]Token, error)) (s Words, err error) {
	if err := sql.CheckLength(statement); err != nil {
		return s, err
	}
	tokens, err := divide(statement)
	var at *textError
	if errors.As(err, &at) {
		return s, fault.New(fault.SQLRejected, at.hint, "The statement cannot be read: line %d: %s.", at.line, at.what).With("line", at.line)
	}
	return Of(statement, tokens), err
}

// Of is a text that is divided already.
func Of(text string, tokens []Token) Words { return Words{tokens, strings.Split(text, "\n")} }

// At is the token at i: the end if there is none.
func (s *Words) At(i int) Token {
	if i >= 0 && i < len(s.Tokens) {
		return s.Tokens[i]
	}
	line := 1
	if len(s.Tokens) > 0 {
		line = s.Tokens[len(s.Tokens)-1].Line
	}
	return Token{Kind: End, Line: line}
}

// Refuse reports an error at a token, with its line.
func (s *Words) Refuse(i int, why, hint string) error {
	t := s.At(i)
	what := Excerpt(t.Text)
	if t.Kind == End {
		what = "the end"
	}
	return fault.New(fault.SQLRejected, hint, "Refused at %q: %s. Line %d: %s", what, why, t.Line, Excerpt(s.lines[t.Line-1])).
		With("line", t.Line).With("word", what)
}

// ErrEmpty is the answer to a statement without a word.
func ErrEmpty(hint string) error {
	return fault.New(fault.SQLRejected, hint, "The statement is empty.")
}

// CheckParameters compares the number of a statement's parameters with the number of its values.
func CheckParameters(used, given int, hint string) error {
	if used == given {
		return nil
	}
	return fault.New(fault.SQLRejected, hint, "The statement has %d parameters and %d values were given.", used, given).With("parameters", used)
}

// Bind converts JSON's values to those that a driver sends beside the statement; one converts the nth of them.
func Bind(params []any, one func(n int, param any) (any, error)) ([]any, error) {
	bound := make([]any, len(params))
	for i, param := range params {
		var err error
		if bound[i], err = one(i+1, param); err != nil {
			return nil, err
		}
	}
	return bound, nil
}

// ErrParam is the error of a value that cannot be a parameter. arrays names an alternative to an array.
func ErrParam(n int, param any, arrays string) error {
	if _, is := param.([]any); is {
		return fault.New(fault.SQLRejected, arrays, "Parameter %d is an array.", n)
	}
	return fault.New(fault.SQLRejected, "Parameters are texts, numbers, true, false and null.", "Parameter %d is a %T.", n, param)
}

// Excerpt returns the part of a line that is shown.
func Excerpt(line string) string { return text.Shorten(strings.TrimSpace(line), 200) }

// CountWhile is how many bytes at the beginning are so.
func CountWhile(s string, is func(byte) bool) int {
	n := 0
	for n < len(s) && is(s[n]) {
		n++
	}
	return n
}

// QuotedEnd returns the place behind the sign that closes a quoted text, whose inside begins at from; -1: none does. The sign stands for
// itself where it is doubled, and with escapes behind a backslash.
func QuotedEnd(text string, from int, end byte, escapes bool) int {
	for i := from; i < len(text); i++ {
		switch {
		case text[i] == '\\' && escapes:
			i++
		case text[i] != end:
		case i+1 < len(text) && text[i+1] == end:
			i++
		default:
			return i + 1
		}
	}
	return -1
}

// CommentEnd returns the place behind the comment that a text begins with, which may contain others; -1: it has no end.
func CommentEnd(text string) int {
	depth := 0
	for i := 0; i+1 < len(text); i++ {
		switch text[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return -1
}
