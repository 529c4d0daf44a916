package mysql

import (
	"cmp"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

const oneStatement = "Send one SELECT, WITH, VALUES, TABLE, SHOW, DESCRIBE or EXPLAIN at a time; each call is a read-only transaction of its own."

// check admits a text that is one reading statement with so many parameters, and returns what it uses. It is not what
// keeps the tables as they are; the read-only transaction is, which refuses writes inside the statement. The check refuses
// what such a transaction lets through: files of the server, locks, settings, and statements that are no query.
func check(statement string, params int) (*uses, error) {
	if err := sql.CheckLength(statement); err != nil {
		return nil, err
	}
	tokens, err := lex(statement)
	if err != nil {
		var at *lexError
		errors.As(err, &at)
		return nil, fault.New(fault.SQLRejected, at.hint, "The statement cannot be read: line %d: %s.", at.line, at.what).With("line", at.line)
	}
	last := len(tokens) - 1
	for last > 0 && tokens[last-1].key == ";" {
		last--
	}
	c := checker{tokens: tokens[:last], lines: strings.Split(statement, "\n")}
	if err := c.begins(); err != nil {
		return nil, err
	}
	for i := range c.tokens {
		if err := c.look(i); err != nil {
			return nil, err
		}
	}
	return usesOf(c.tokens), c.parameters(params)
}

// checker goes through a statement from left to right.
type checker struct {
	tokens []token
	lines  []string
}

func (c *checker) at(i int) token {
	if i < 0 || i >= len(c.tokens) {
		line := 1
		if len(c.tokens) > 0 {
			line = c.tokens[len(c.tokens)-1].line
		}
		return token{kind: end, line: line}
	}
	return c.tokens[i]
}

// begins looks at the first words.
func (c *checker) begins() error {
	first := c.at(0)
	switch first.key {
	case "SHOW":
		return c.shows()
	case "DESCRIBE", "DESC", "EXPLAIN", "ANALYZE":
		return c.explains()
	}
	if first.kind == end {
		return fault.New(fault.SQLRejected, oneStatement, "The statement is empty.")
	}
	if !c.reads(0) {
		return c.refuse(0, "it is no statement that only reads", cmp.Or(instead[first.key], oneStatement))
	}
	return nil
}

// reads reports whether a query begins at i. What WITH leads to is seen by its words: those that write are refused anywhere.
func (c *checker) reads(i int) bool {
	for c.at(i).key == "(" {
		i++
	}
	t := c.at(i)
	return isOneOf(t, "SELECT", "WITH", "TABLE") || t.key == "VALUES" && (c.at(i+1).key == "(" || c.at(i+1).key == "ROW")
}

// shows refuses what shows the digest of a password.
func (c *checker) shows() error {
	if c.at(1).key == "GRANTS" || c.at(1).key == "CREATE" && isOneOf(c.at(2), "USER", "ROLE", "SERVER") {
		return c.refuse(1, "it may show a password, or what one is checked against", "Ask the database's owner.")
	}
	return nil
}

// explains admits EXPLAIN, DESCRIBE and MariaDB's ANALYZE of a query, and EXPLAIN and DESCRIBE of a table. ANALYZE TABLE
// writes statistics.
func (c *checker) explains() error {
	i := 1
	for {
		switch t := c.at(i); {
		case t.key == "FORMAT" && c.at(i+1).key == "=":
			i += 3
			continue
		case isOneOf(t, "EXTENDED", "PARTITIONS", "ANALYZE") && c.at(0).key != "ANALYZE" && c.at(i+1).kind != end:
			i++
			continue
		}
		break
	}
	t := c.at(i)
	if c.reads(i) && (t.key != "TABLE" || c.at(0).key != "ANALYZE") {
		return nil
	}
	if c.at(0).key != "ANALYZE" && (t.kind == quoted || t.kind == word && refused[t.key] == "" && !isOneOf(t, "REPLACE", "INSERT", "FOR")) {
		return nil // a table's name; what else begins so is refused by its words, or by the server
	}
	return c.refuse(min(i, len(c.tokens)-1), "only a query or a table can be explained here", "Write EXPLAIN SELECT …, or use describe_sql for a table.")
}

// look refuses the token at i where it and its neighbours do more than read.
func (c *checker) look(i int) error {
	t, next := c.tokens[i], c.at(i+1)
	switch t.kind {
	case symbol:
		switch t.key {
		case ";":
			return c.refuse(i+1, "a second statement follows a semicolon", oneStatement)
		case ":":
			return c.refuse(i, "there are no variables", "Parameters are ? in the order of params.")
		}
	case word, quoted:
		if next.key == "(" {
			if err := c.call(i); err != nil {
				return err
			}
		}
		if t.kind == word && !c.afterDot(i) {
			return c.keyword(i)
		}
	}
	return nil
}

// keyword refuses a word that is none of a query. They are reserved: without quotes none is a name.
func (c *checker) keyword(i int) error {
	t, next := c.tokens[i], c.at(i+1)
	why := refused[t.key]
	switch t.key {
	case "INSERT", "REPLACE": // which are functions too
		if next.key != "(" {
			why = "it writes"
		}
	case "FOR":
		if isOneOf(next, "UPDATE", "SHARE") {
			why = "it locks rows"
		} else if next.key == "CONNECTION" {
			why = "it looks at another session's statement"
		}
	case "LOCK":
		if next.key == "IN" {
			why = "it locks rows"
		}
	}
	if why == "" {
		return nil
	}
	return c.refuse(i, why, cmp.Or(instead[t.key], oneStatement))
}

// afterDot reports whether a word is the later part of a name, as in t.update. The server takes it for that only where nothing is
// between the dot and the word.
func (c *checker) afterDot(i int) bool {
	before := c.at(i - 2)
	return c.at(i).glued && c.at(i-1).key == "." && (before.kind == word || before.kind == quoted)
}

// call refuses a function that does more than compute. Of the database's own functions only the database can tell; see uses.
func (c *checker) call(i int) error {
	t := c.tokens[i]
	name := strings.ToUpper(t.name())
	for at := range len(name) {
		if name[at] >= utf8.RuneSelf { // the server may take it for a function with another letter there
			return c.refuse(i, "a name with letters beyond ASCII stands before a parenthesis", "Give it a plain name.")
		}
	}
	why := refusedFunctions[name]
	for begin, reason := range refusedPrefixes {
		if strings.HasPrefix(name, begin) {
			why = reason
		}
	}
	if why == "" {
		return nil
	}
	return c.refuse(i, why, "Write the statement without this function; only reading tables is allowed.")
}

// parameters compares the parameters that the statement has with those that came with it.
func (c *checker) parameters(given int) error {
	used := 0
	for _, t := range c.tokens {
		if t.key == "?" {
			used++
		}
	}
	if used != given {
		return fault.New(fault.SQLRejected, "Give one value in params for each ? in the statement, in their order.",
			"The statement has %d parameters and %d values were given.", used, given).With("parameters", used)
	}
	return nil
}

// refuse reports what is wrong at a token, with the line that it is in.
func (c *checker) refuse(i int, why, hint string) error {
	t := c.at(i)
	what := t.text
	if t.kind == end {
		what = "the end"
	}
	return fault.New(fault.SQLRejected, hint, "Refused at %q: %s. Line %d: %s", text.Shorten(what, 60), why, t.line, excerpt(c.lines[t.line-1])).
		With("line", t.line).With("word", text.Shorten(what, 60))
}

// excerpt is what is shown of a line.
func excerpt(line string) string { return text.Shorten(strings.TrimSpace(line), 200) }

func isOneOf(t token, keys ...string) bool {
	for _, key := range keys {
		if t.key == key {
			return true
		}
	}
	return false
}
