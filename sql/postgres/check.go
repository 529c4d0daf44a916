package postgres

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// checker looks at the tokens of one statement that are neither space nor comment.
type checker struct {
	tokens []token
	start  int     // where the query begins; behind EXPLAIN and its options
	levels []level // the brackets that are open at the token being looked at
	uses   *uses
}

// level is an open bracket.
type level struct {
	of     int // the token before it; the name of a function in a call
	commas int
}

// check admits one statement that begins as a reading one and returns its uses, or a *fault.Error of sql_rejected. The read-only
// transaction, not the check, protects the database: it refuses writes inside the statement. The check refuses functions that the
// transaction would let through: see refused. Only the database can tell the effect of its own functions: see uses.
func check(text string) (*uses, error) {
	if err := characters(text); err != nil {
		return nil, err
	}
	c := &checker{uses: newUses()}
	for _, t := range tokenize(text) {
		switch t.kind {
		case space, comment:
		case broken:
			return nil, reject(t, excerpt(t.text), "PostgreSQL cannot read it: "+t.value+".", "Correct the statement.")
		default:
			c.tokens = append(c.tokens, t)
		}
	}
	for len(c.tokens) > 0 && c.at(len(c.tokens)-1).punct(";") {
		c.tokens = c.tokens[:len(c.tokens)-1]
	}
	if len(c.tokens) == 0 {
		return nil, fault.New(fault.SQLRejected, "Give one statement, such as SELECT 1.", "The query has no statement.")
	}
	return c.uses, c.statement()
}

// maxName is how long PostgreSQL's names may be.
const maxName = 63

func characters(text string) error {
	if err := sql.CheckLength(text); err != nil {
		return err
	}
	line := func(at int) token { return token{line: 1 + lines(text[:at])} }
	if at := strings.IndexByte(text, 0); at >= 0 {
		return reject(line(at), `\x00`, "PostgreSQL's text has no zero byte.", "Leave the zero byte out.")
	}
	if !utf8.ValidString(text) {
		at := strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError })
		return reject(line(at), "�", "The query is not UTF-8.", "Send the query as UTF-8.")
	}
	return nil
}

// at is the token number i; the zero token, which is a space, before the first and behind the last.
func (c *checker) at(i int) token {
	if i < 0 || i >= len(c.tokens) {
		return token{}
	}
	return c.tokens[i]
}

const reading = "SELECT, WITH, VALUES, TABLE, SHOW and EXPLAIN"

func (c *checker) statement() error {
	switch first := c.at(0); {
	case first.is("explain"):
		if err := c.explain(); err != nil {
			return err
		}
	case first.is("show"):
	default:
		if err := c.reads(0); err != nil {
			return err
		}
	}
	for i := range c.tokens {
		if err := c.look(i); err != nil {
			return err
		}
	}
	return nil
}

// reads refuses the statement at i unless it is a query.
func (c *checker) reads(i int) error {
	for c.at(i).punct("(") {
		i++
	}
	t := c.at(i)
	if t.is("select", "table") || t.is("values") && c.at(i+1).punct("(") || t.is("with") {
		return nil
	}
	if t.kind == space {
		return reject(c.at(len(c.tokens)-1), c.words(len(c.tokens)-1), "A query is missing behind it.",
			"Give a SELECT.")
	}
	return reject(t, c.words(i), "It is no statement that only reads; those are "+reading+".", hint(t))
}

// hint names an alternative to the statement that begins with t.
func hint(t token) string {
	switch {
	case t.is("begin", "start", "commit", "rollback", "end", "abort", "savepoint", "release", "set", "reset", "discard"):
		return "Leave it out: every call is a read-only transaction of its own."
	case t.is("copy", "into"):
		return "Give the SELECT itself; a long result becomes a file."
	case t.is("declare", "fetch", "move", "close", "prepare", "execute", "deallocate"):
		return "Give the SELECT itself, with params for its $1, $2."
	case t.is("describe", "desc", "use"):
		return "describe_sql lists schemas and tables, and describes one."
	case t.is("explain", "show"):
		return "It stands alone and in no parentheses."
	}
	return "This tool cannot change the database. Give a SELECT, or leave the change to somebody who may make it."
}

// explain finds where the explained query begins, which with ANALYZE runs.
func (c *checker) explain() error {
	i := 1
	if c.at(1).punct("(") && c.reads(1) != nil {
		i += 1 + slices.IndexFunc(c.tokens[1:], func(t token) bool { return t.punct(")") }) // no option contains one
	}
	for c.at(i).is("verbose", "analyze", "analyse") {
		i++
	}
	c.start = i
	return c.reads(i)
}

// look refuses the token number i where it and its neighbours do more than read.
func (c *checker) look(i int) error {
	switch t := c.at(i); {
	case t.punct(";"):
		return reject(c.at(i+1), c.words(i+1), "It is a second statement, and a query is one.", "Send each statement in a call of its own.")
	case t.punct("("), t.punct("["):
		c.levels = append(c.levels, level{of: i - 1})
	case t.punct(")"), t.punct("]"):
		return c.closed(i)
	case t.punct(",") && len(c.levels) > 0:
		c.levels[len(c.levels)-1].commas++
	case t.kind == quotedName, t.kind == name && c.labels(i):
		return c.named(i)
	case t.is("into"), c.start > 0 && c.writes(i):
		return reject(t, c.words(i), "It writes or locks rows.", hint(t))
	case t.kind == name:
		return c.named(i)
	case t.kind == operator:
		for n := range min(len(t.text), maxName) {
			c.uses.operators[t.text[:n+1]] = true
		}
	}
	return nil
}

// writes reports whether the token at i begins an INSERT, UPDATE, DELETE or MERGE behind WITH, or a lock of rows. It is
// asked of explained statements alone: those that run are refused by the read-only transaction.
func (c *checker) writes(i int) bool {
	t, before, next := c.at(i), c.at(i-1), c.at(i+1)
	if t.is("for") {
		return next.is("update", "share", "no", "key") && !c.of().is("substring", "overlay") // these count FOR so many
	}
	return t.is("insert", "update", "delete", "merge") && (next.kind == name || next.kind == quotedName) &&
		(before.punct("(") || before.punct(")") || c.at(i-2).is("set", "using")) // SEARCH … SET x, CYCLE … USING x
}

// labels reports whether a keyword at i would be a mere name: behind a dot or AS, unless that AS is a name too.
func (c *checker) labels(i int) bool {
	return c.at(i-1).punct(".") || c.at(i-1).is("as") && !c.at(i-2).punct(".") && !c.at(i-2).is("as")
}

// of returns the token before the innermost open bracket.
func (c *checker) of() token {
	if len(c.levels) == 0 {
		return token{}
	}
	return c.at(c.levels[len(c.levels)-1].of)
}

// closed ends a bracket, and with it a call, now that its arguments are known. ts_rewrite runs a query with two arguments, and with three
// does not.
func (c *checker) closed(i int) error {
	if len(c.levels) == 0 {
		return nil
	}
	last := c.levels[len(c.levels)-1]
	c.levels = c.levels[:len(c.levels)-1]
	of := c.at(last.of)
	if !c.at(i).punct(")") || of.kind != name && of.kind != quotedName || c.defines(last.of) {
		return nil
	}
	if of.value == "ts_rewrite" && last.commas < 2 {
		return refuseCall(of, "", "runs a text as a statement, which cannot be seen here")
	}
	arguments := last.commas + 1
	if c.at(i-1).punct("(") || c.at(i-2).punct("(") && c.at(i-1).text == "*" {
		arguments = 0
	}
	c.uses.calls[call{c.schema(last.of), of.value, arguments}] = true
	if strings.Contains(of.value, "_to_xml") && !c.namesTable(last.of+2) {
		c.uses.everyView = true
	}
	return nil
}

// namesTable reports whether the argument at i is a text that is a table's name, as table_to_xml takes it, and notes it.
func (c *checker) namesTable(i int) bool {
	t := c.at(i)
	if t.text == "" || t.text[0] != '\'' || !c.at(i+1).punct(",") {
		return false
	}
	for _, part := range tokenize(t.value) {
		switch {
		case part.kind == name, part.kind == quotedName:
			c.uses.names[part.value] = true
		case !part.punct("."):
			return false
		}
	}
	return true
}

// schema returns the schema before the dot and the name at i.
func (c *checker) schema(i int) string {
	if c.at(i - 1).punct(".") {
		return c.at(i - 2).value
	}
	return ""
}

// named refuses a call of a refused function. A call is a name before a parenthesis, or x.f, which PostgreSQL takes for f(x) if x has no
// column f.
func (c *checker) named(i int) error {
	t := c.at(i)
	if i > 0 {
		c.uses.names[t.value] = true
	}
	if c.at(i + 1).punct("(") {
		if c.defines(i) {
			return nil
		}
		schema := c.schema(i)
		return refuseCall(t, schema, refusal(schema, t.value))
	}
	if !c.at(i-1).punct(".") || c.relation(i) {
		return nil
	}
	c.uses.calls[call{"", t.value, 1}] = true
	of := c.at(i - 2)
	does := dotted(t.value, of.kind == name || of.kind == quotedName)
	if does == "" {
		return nil
	}
	return reject(t, "."+excerpt(t.text), "Behind a dot it may be a call of a function that "+does+".",
		"If it is a column, write it without what is before the dot.")
}

// defines reports whether the name at i, before a parenthesis, is a new name and not a call.
func (c *checker) defines(i int) bool {
	before := c.at(i - 1)
	return before.is("as") && c.labels(i) || before.is("with") || before.is("recursive") && c.at(i-2).is("with")
}

// relation reports whether the name at i, behind a dot, is a table's or a schema's. It is one of a.b.c unless it is the last, and the last
// behind FROM and JOIN.
func (c *checker) relation(i int) bool {
	first := i
	for c.at(first - 1).punct(".") {
		if first -= 2; i-first > 6 { // PostgreSQL's names consist of four parts at most
			return false
		}
	}
	if k := c.at(first).kind; k != name && k != quotedName {
		return false
	}
	if c.at(i + 1).punct(".") {
		return true
	}
	before := c.at(first - 1)
	if before.is("from") {
		return !c.labels(first-1) && !c.at(first-2).is("distinct") &&
			!c.of().is("extract", "trim", "substring", "overlay")
	}
	return before.is("join", "table", "only") && !c.labels(first-1)
}

func refuseCall(t token, schema, does string) error {
	if does == "" {
		return nil
	}
	words := excerpt(t.text)
	if schema != "" {
		words = schema + "." + words
	}
	return reject(t, words, "It "+does+".", "Write the statement without this function; only reading tables is allowed.")
}

// words is the statement's words from token i on, for a message.
func (c *checker) words(i int) string {
	var words []string
	for ; i < len(c.tokens) && len(words) < 3; i++ {
		words = append(words, c.at(i).text)
	}
	return excerpt(strings.Join(words, " "))
}

// excerpt shortens a part of a statement for a message.
func excerpt(part string) string { return text.Shorten(part, 60) }

func reject(t token, words, why, hint string) *fault.Error {
	return fault.New(fault.SQLRejected, hint, "Refused at line %d, `%s`: %s", t.line, words, why).With("line", t.line)
}
