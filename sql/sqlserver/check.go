package sqlserver

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// maxDepth bounds parentheses within each other.
const maxDepth = 200

const oneStatement = "Send one SELECT (or WITH … SELECT) at a time; each call is a transaction of its own, which is rolled back."

// check admits a text that is exactly one reading statement with this many parameters, and refuses everything else. SQL Server offers no
// transaction that cannot write, and statements need no separator, so the check rests on T-SQL's reserved words: every statement begins with
// one (or is the first word of the text), and none of them can be a name without quotes.
func check(statement string, params int) error {
	read, err := reader.Read(statement, lex)
	if err != nil {
		return err
	}
	read.Tokens = trimSemicolons(read.Tokens)
	c := checker{Words: read, closes: pairs(read.Tokens)}
	if err := c.run(); err != nil {
		return err
	}
	return c.parameters(params)
}

// trimSemicolons leaves out the semicolons before and after a statement, which change nothing.
func trimSemicolons(tokens []token) []token {
	last := len(tokens) - 1
	begin, stop := 0, last
	for begin < stop && tokens[begin].Key == ";" {
		begin++
	}
	for stop > begin && tokens[stop-1].Key == ";" {
		stop--
	}
	return append(tokens[begin:stop:stop], tokens[last])
}

// checker goes through a statement from left to right.
type checker struct {
	reader.Words
	closes map[int]int // where the parenthesis at an index is closed
	groups []group
	// main is where the SELECT after a list of WITH begins; 0 if there is none.
	main int
}

// group is the state of the text within one pair of parentheses, and of the text outside of all.
type group struct {
	opener int    // the token before the parenthesis
	cases  int    // CASE without an END so far
	clause string // FROM while tables are named; TABLES where nothing else is
}

func (c *checker) run() error {
	if err := c.begins(); err != nil {
		return err
	}
	c.groups = []group{{opener: -1}}
	for i := range c.Tokens[:len(c.Tokens)-1] {
		if err := c.token(i); err != nil {
			return err
		}
	}
	if len(c.groups) > 1 {
		return c.Refuse(len(c.Tokens)-1, "a parenthesis is not closed", "Close it.")
	}
	return nil
}

// begins looks at the first word: SELECT, a WITH that leads to one, or a parenthesis around one.
func (c *checker) begins() error {
	first := 0
	for c.At(first).Key == "(" {
		first++
	}
	switch t := c.At(first); {
	case t.Kind == end:
		return reader.ErrEmpty(oneStatement)
	case t.Key == "SELECT":
		return nil
	case t.Key == "WITH" && first == 0:
		return c.with()
	case strings.HasPrefix(t.Key, "SP_"), strings.HasPrefix(t.Key, "XP_"):
		return c.Refuse(first, "it runs a procedure", instead["EXEC"])
	case instead[t.Key] != "":
		return c.Refuse(first, refused[t.Key], instead[t.Key])
	default:
		return c.Refuse(first, "a statement begins with SELECT or WITH", oneStatement)
	}
}

// with finds the SELECT that a list of common table expressions leads to.
func (c *checker) with() error {
	for i := 1; ; i++ {
		if c.At(i).Key == "XMLNAMESPACES" {
			i = c.closing(i+1) + 1
		} else {
			i++ // the name
			if c.At(i).Key == "(" {
				i = c.closing(i) + 1
			}
			if c.At(i).Key != "AS" || c.At(i+1).Key != "(" {
				return c.Refuse(min(i, len(c.Tokens)-1), "WITH is followed by name AS (SELECT …)", "Write WITH name AS (SELECT …) SELECT …")
			}
			i = c.closing(i+1) + 1
		}
		if c.At(i).Key == "," {
			continue
		}
		if k := c.At(i).Key; k != "SELECT" && k != "(" {
			return c.Refuse(min(i, len(c.Tokens)-1), "a WITH leads to a SELECT here", oneStatement)
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
	return len(c.Tokens) - 1
}

// pairs finds the closing parenthesis of every opening one.
func pairs(tokens []token) map[int]int {
	closes := make(map[int]int)
	var open []int
	for i, t := range tokens {
		switch {
		case t.Key == "(":
			open = append(open, i)
		case t.Key == ")" && len(open) > 0:
			closes[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
	}
	return closes
}

// parameters compares the statement's parameters with the values.
func (c *checker) parameters(given int) error {
	used := 0
	for _, t := range c.Tokens {
		if t.Kind != variable || strings.HasPrefix(t.Text, "@@") {
			continue
		}
		n, _ := strconv.Atoi(t.Text[2:])
		used = max(used, n)
	}
	return reader.CheckParameters(used, given, "Give one value in params for each of @p1, @p2 …")
}

// hint suggests how to write a word that may be meant as a name.
func (c *checker) hint(i int, key string) string {
	if instead := instead[key]; instead != "" {
		return instead
	}
	return fmt.Sprintf("%s If %s is a name here, write [%s].", oneStatement, key, strings.ToLower(c.Tokens[i].Text))
}
