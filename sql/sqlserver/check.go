package sqlserver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// maxDepth bounds parentheses within each other.
const maxDepth = 200

const oneStatement = "Send one SELECT (or WITH … SELECT) at a time; each call is a transaction of its own, which is rolled back."

// check admits a text that is exactly one reading statement with so many parameters, and refuses
// everything else. SQL Server has no transaction that cannot write, and statements need nothing between
// them, so it rests on T-SQL's reserved words: every statement begins with one (or is the first word of the
// text), and none of them can be a name that stands without quotes.
func check(statement string, params int) error {
	if err := sql.CheckLength(statement); err != nil {
		return err
	}
	tokens, err := lex(statement)
	if err != nil {
		return cannotRead(err)
	}
	tokens = trimSemicolons(tokens)
	c := checker{tokens: tokens, lines: strings.Split(statement, "\n"), closes: pairs(tokens)}
	if err := c.run(); err != nil {
		return err
	}
	return c.parameters(params)
}

func cannotRead(err error) error {
	var at *lexError
	if !errors.As(err, &at) {
		return fault.New(fault.SQLRejected, "", "The statement cannot be read: %v.", err)
	}
	return fault.New(fault.SQLRejected, at.hint, "The statement cannot be read: line %d: %s.", at.line, at.what).With("line", at.line)
}

// trimSemicolons leaves out the semicolons before and after a statement, which change nothing.
func trimSemicolons(tokens []token) []token {
	last := len(tokens) - 1
	begin, stop := 0, last
	for begin < stop && tokens[begin].key == ";" {
		begin++
	}
	for stop > begin && tokens[stop-1].key == ";" {
		stop--
	}
	return append(tokens[begin:stop:stop], tokens[last])
}

// checker goes through a statement from left to right.
type checker struct {
	tokens []token
	lines  []string
	closes map[int]int // where the parenthesis at an index is closed
	groups []group
	// main is where the SELECT after a list of WITH begins; 0 where there is none.
	main int
}

// group is what is known of the text within one pair of parentheses, and of the text outside of all.
type group struct {
	opener int    // the token before the parenthesis
	cases  int    // CASE that has no END yet
	clause string // FROM while tables are named; TABLES where nothing else is
}

func (c *checker) run() error {
	if err := c.begins(); err != nil {
		return err
	}
	c.groups = []group{{opener: -1}}
	for i := range c.tokens[:len(c.tokens)-1] {
		if err := c.token(i); err != nil {
			return err
		}
	}
	if len(c.groups) > 1 {
		return c.refuse(len(c.tokens)-1, "a parenthesis is not closed", "Close it.")
	}
	return nil
}

// begins looks at the first word: SELECT, a WITH that leads to one, or a parenthesis around one.
func (c *checker) begins() error {
	first := 0
	for c.at(first).key == "(" {
		first++
	}
	switch t := c.at(first); {
	case t.kind == end:
		return fault.New(fault.SQLRejected, oneStatement, "The statement is empty.")
	case t.key == "SELECT":
		return nil
	case t.key == "WITH" && first == 0:
		return c.with()
	case strings.HasPrefix(t.key, "SP_"), strings.HasPrefix(t.key, "XP_"):
		return c.refuse(first, "it runs a procedure", instead["EXEC"])
	case instead[t.key] != "":
		return c.refuse(first, refused[t.key], instead[t.key])
	default:
		return c.refuse(first, "a statement begins with SELECT or WITH", oneStatement)
	}
}

// with finds the SELECT that a list of common table expressions leads to.
func (c *checker) with() error {
	for i := 1; ; i++ {
		if c.at(i).key == "XMLNAMESPACES" {
			i = c.closing(i+1) + 1
		} else {
			i++ // the name
			if c.at(i).key == "(" {
				i = c.closing(i) + 1
			}
			if c.at(i).key != "AS" || c.at(i+1).key != "(" {
				return c.refuse(min(i, len(c.tokens)-1), "WITH is followed by name AS (SELECT …)", "Write WITH name AS (SELECT …) SELECT …")
			}
			i = c.closing(i+1) + 1
		}
		if c.at(i).key == "," {
			continue
		}
		if k := c.at(i).key; k != "SELECT" && k != "(" {
			return c.refuse(min(i, len(c.tokens)-1), "a WITH leads to a SELECT here", oneStatement)
		}
		c.main = i
		return nil
	}
}

// closing is the parenthesis that closes the one at i, or the end.
func (c *checker) closing(i int) int {
	if at, ok := c.closes[i]; ok {
		return at
	}
	return len(c.tokens) - 1
}

// pairs finds the closing parenthesis of every opening one.
func pairs(tokens []token) map[int]int {
	closes := make(map[int]int)
	var open []int
	for i, t := range tokens {
		switch {
		case t.key == "(":
			open = append(open, i)
		case t.key == ")" && len(open) > 0:
			closes[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
	}
	return closes
}

func (c *checker) at(i int) token {
	if i < 0 || i >= len(c.tokens) {
		return token{kind: end}
	}
	return c.tokens[i]
}

// parameters compares the parameters that the statement has with those that came with it.
func (c *checker) parameters(given int) error {
	used := 0
	for _, t := range c.tokens {
		if t.kind != variable || strings.HasPrefix(t.text, "@@") {
			continue
		}
		n, _ := strconv.Atoi(t.text[2:])
		used = max(used, n)
	}
	if used != given {
		return fault.New(fault.SQLRejected, "Give one value in params for each of @p1, @p2 …",
			"The statement has %d parameters and %d values were given.", used, given).With("parameters", used)
	}
	return nil
}

// hint reports what to do about a word that may have been meant as a name.
func (c *checker) hint(i int, key string) string {
	if instead := instead[key]; instead != "" {
		return instead
	}
	return fmt.Sprintf("%s If %s is a name here, write [%s].", oneStatement, key, strings.ToLower(c.tokens[i].text))
}

// refuse reports what is wrong at a token, with the line that it is in.
func (c *checker) refuse(i int, why, hint string) error {
	t := c.at(i)
	where := ""
	if line := t.line - 1; line >= 0 && line < len(c.lines) {
		where = fmt.Sprintf(" Line %d: %s", t.line, excerpt(c.lines[line]))
	}
	what := t.text
	if t.kind == end {
		what = "the end"
	}
	return fault.New(fault.SQLRejected, hint, "Refused at %q: %s.%s", excerpt(what), why, where).With("line", t.line).With("word", excerpt(what))
}

// excerpt is what is shown of a line.
func excerpt(line string) string { return text.Shorten(strings.TrimSpace(line), 200) }
