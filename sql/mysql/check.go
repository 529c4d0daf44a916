package mysql

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

const oneStatement = "Send one SELECT, WITH, VALUES, TABLE, SHOW, DESCRIBE or EXPLAIN at a time; each call is a read-only transaction of its own."

// check admits a text that is one reading statement with this many parameters, and returns its uses. The read-only transaction, not the
// check, protects the tables: it refuses writes inside the statement. The check refuses statements that such a transaction lets through:
// files of the server, locks, settings, and statements that are no query.
func check(statement string, params int) (*uses, error) {
	read, err := reader.Read(statement, lex)
	if err != nil {
		return nil, err
	}
	tokens := read.Tokens
	last := len(tokens) - 1
	for last > 0 && tokens[last-1].Key == ";" {
		last--
	}
	read.Tokens = tokens[:last]
	c := checker{read}
	if err := c.begins(); err != nil {
		return nil, err
	}
	for i := range c.Tokens {
		if err := c.look(i); err != nil {
			return nil, err
		}
	}
	return usesOf(c.Tokens), c.parameters(params)
}

// checker goes through a statement from left to right.
type checker struct{ reader.Words }

// begins looks at the first words.
func (c *checker) begins() error {
	first := c.At(0)
	switch first.Key {
	case "SHOW":
		return c.shows()
	case "DESCRIBE", "DESC", "EXPLAIN", "ANALYZE":
		return c.explains()
	}
	if first.Kind == end {
		return reader.ErrEmpty(oneStatement)
	}
	if !c.reads(0) {
		return c.Refuse(0, "it is no statement that only reads", cmp.Or(instead[first.Key], oneStatement))
	}
	return nil
}

// reads reports whether a query begins at i. The statement behind WITH is judged by its words: those that write are refused anywhere.
func (c *checker) reads(i int) bool {
	for c.At(i).Key == "(" {
		i++
	}
	t := c.At(i)
	return t.IsOneOf("SELECT", "WITH", "TABLE") || t.Key == "VALUES" && (c.At(i+1).Key == "(" || c.At(i+1).Key == "ROW")
}

// shows refuses statements that show the digest of a password.
func (c *checker) shows() error {
	if c.At(1).Key == "GRANTS" || c.At(1).Key == "CREATE" && c.At(2).IsOneOf("USER", "ROLE", "SERVER") {
		return c.Refuse(1, "it may show a password, or what one is checked against", "Ask the database's owner.")
	}
	return nil
}

// explains admits EXPLAIN, DESCRIBE and MariaDB's ANALYZE of a query, and EXPLAIN and DESCRIBE of a table. ANALYZE TABLE
// writes statistics.
func (c *checker) explains() error {
	i := 1
	for {
		switch t := c.At(i); {
		case t.Key == "FORMAT" && c.At(i+1).Key == "=":
			i += 3
			continue
		case t.IsOneOf("EXTENDED", "PARTITIONS", "ANALYZE") && c.At(0).Key != "ANALYZE" && c.At(i+1).Kind != end:
			i++
			continue
		}
		break
	}
	t := c.At(i)
	if c.reads(i) && (t.Key != "TABLE" || c.At(0).Key != "ANALYZE") {
		return nil
	}
	if c.At(0).Key != "ANALYZE" && (t.Kind == quoted || t.Kind == word && refused[t.Key] == "" && !t.IsOneOf("REPLACE", "INSERT", "FOR")) {
		return nil // a table's name; other statements with this beginning are refused by their words, or by the server
	}
	return c.Refuse(min(i, len(c.Tokens)-1), "only a query or a table can be explained here", "Write EXPLAIN SELECT …, or use describe_sql for a table.")
}

// look refuses the token at i where it and its neighbours do more than read.
func (c *checker) look(i int) error {
	t, next := c.Tokens[i], c.At(i+1)
	switch t.Kind {
	case symbol:
		switch t.Key {
		case ";":
			return c.Refuse(i+1, "a second statement follows a semicolon", oneStatement)
		case ":":
			return c.Refuse(i, "there are no variables", "Parameters are ? in the order of params.")
		}
	case word, quoted:
		if next.Key == "(" {
			if err := c.call(i); err != nil {
				return err
			}
		}
		if t.Kind == word && !c.afterDot(i) {
			return c.keyword(i)
		}
	}
	return nil
}

// keyword refuses a word that is none of a query. They are reserved: without quotes none is a name.
func (c *checker) keyword(i int) error {
	t, next := c.Tokens[i], c.At(i+1)
	why := refused[t.Key]
	switch t.Key {
	case "INSERT", "REPLACE": // which are functions too
		if next.Key != "(" {
			why = "it writes"
		}
	case "FOR":
		if next.IsOneOf("UPDATE", "SHARE") {
			why = "it locks rows"
		} else if next.Key == "CONNECTION" {
			why = "it looks at another session's statement"
		}
	case "LOCK":
		if next.Key == "IN" {
			why = "it locks rows"
		}
	}
	if why == "" {
		return nil
	}
	return c.Refuse(i, why, cmp.Or(instead[t.Key], oneStatement))
}

// afterDot reports whether a word is the later part of a name, as in t.update. The server takes it for that only if nothing is
// between the dot and the word.
func (c *checker) afterDot(i int) bool {
	before := c.At(i - 2)
	return c.At(i).Glued && c.At(i-1).Key == "." && (before.Kind == word || before.Kind == quoted)
}

// call refuses a function that does more than compute. Of the database's own functions only the database can tell; see uses.
func (c *checker) call(i int) error {
	t := c.Tokens[i]
	name := strings.ToUpper(nameOf(t))
	for at := range len(name) {
		if name[at] >= utf8.RuneSelf { // the server may take it for a function with another letter there
			return c.Refuse(i, "a name with letters beyond ASCII stands before a parenthesis", "Give it a plain name.")
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
	return c.Refuse(i, why, "Write the statement without this function; only reading tables is allowed.")
}

// parameters compares the statement's parameters with the values.
func (c *checker) parameters(given int) error {
	used := 0
	for _, t := range c.Tokens {
		if t.Key == "?" {
			used++
		}
	}
	return reader.CheckParameters(used, given, "Give one value in params for each ? in the statement, in their order.")
}
