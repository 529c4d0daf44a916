package sqlserver

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// MaxStatement is how long a statement may be, in bytes.
const MaxStatement = 256 << 10

// maxDepth bounds parentheses; the server gives up far earlier.
const maxDepth = 200

const oneStatement = "Send one SELECT (or WITH … SELECT) at a time; each call is a transaction of its own, which is rolled back."

// check admits a text that is exactly one reading statement with so many parameters, and refuses
// everything else. SQL Server has no transaction that cannot write, and statements need nothing between
// them, so it rests on T-SQL's reserved words: every statement begins with one (or is the first word of the
// text), and none of them can be a name that stands without quotes.
func check(statement string, params int) error {
	if len(statement) > MaxStatement {
		return fault.New(fault.SQLRejected, "Shorten it; long lists of values can come from a table or as a JSON text for OPENJSON(@p1).",
			"The statement has %d bytes; %d are allowed.", len(statement), MaxStatement)
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
	clause string // FROM while tables are named
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

func (c *checker) token(i int) error {
	t := c.tokens[i]
	switch t.kind {
	case symbol:
		return c.symbol(i)
	case variable:
		return c.variable(i)
	case word:
		if c.afterDot(i) {
			return c.name(i)
		}
		if err := c.keyword(i); err != nil {
			return err
		}
		return c.name(i)
	case quoted:
		return c.name(i)
	}
	return nil
}

// afterDot tells whether a word is the later part of a name, as in t.delete. A dot after a number is none of
// a name: T-SQL reads 1.DELETE as 1. and DELETE.
func (c *checker) afterDot(i int) bool {
	first := i - 1
	for c.at(first).key == "." {
		first--
	}
	before := c.at(first)
	return first < i-1 && (before.kind == word || before.kind == quoted || before.kind == variable || before.key == ")")
}

func (c *checker) inside() *group { return &c.groups[len(c.groups)-1] }

func (c *checker) symbol(i int) error {
	switch c.tokens[i].key {
	case "(":
		return c.open(i)
	case ")":
		if len(c.groups) == 1 {
			return c.refuse(i, "a parenthesis is closed that was not opened", "Leave it out.")
		}
		c.groups = c.groups[:len(c.groups)-1]
	case ";":
		return c.refuse(i+1, "a second statement follows a semicolon", oneStatement)
	case ":":
		if len(c.groups) == 1 {
			return c.refuse(i, "a label is a part of a program", oneStatement)
		}
	case "{":
		switch c.at(i + 1).key {
		case "D", "T", "TS", "FN", "GUID", "OJ", "ESCAPE":
		default:
			return c.refuse(i, "of the forms in braces only {d}, {t}, {ts}, {fn}, {guid} and {oj} read", "Write it without braces.")
		}
	}
	return nil
}

func (c *checker) open(i int) error {
	if len(c.groups) > maxDepth {
		return c.refuse(i, fmt.Sprintf("more than %d parentheses are open", maxDepth), "Simplify the statement.")
	}
	if err := c.tableHints(i); err != nil {
		return err
	}
	if next := c.at(i + 1).key; (next == "SELECT" || next == "(") && len(c.groups) == 1 && i != c.main && c.endsStatement(i-1) {
		return c.refuse(i+1, "a second statement begins here", oneStatement)
	}
	c.groups = append(c.groups, group{opener: i - 1})
	return nil
}

// endsStatement tells whether a statement could be complete with the token at i, whatever it is part of.
func (c *checker) endsStatement(i int) bool {
	t := c.at(i)
	return i >= 0 && (t.kind == text || t.kind == number || t.kind == variable || t.key == ")")
}

// tableHints refuses hints that keep locks: after WITH, in OPTION's TABLE HINT, or alone in parentheses.
func (c *checker) tableHints(i int) error {
	before := c.at(i - 1)
	marked := before.key == "WITH" || before.key == "HINT" || c.at(i+1).key == "INDEX"
	named := before.kind == quoted || before.kind == word && c.at(i-2).key != "SELECT"
	if !marked && !(named && hints[c.at(i+1).key]) {
		return nil
	}
	held, all := -1, true
	for j := i + 1; j < c.closing(i); j++ {
		t := c.at(j)
		if t.kind == word && holding[t.key] && held < 0 {
			held = j
		}
		all = all && (t.key == "," || hints[t.key])
	}
	if held >= 0 && (marked || all) {
		return c.refuse(held, "the hint keeps locks that others wait for", "Leave the hint out; NOLOCK and READPAST are allowed.")
	}
	return nil
}

var parameter = regexp.MustCompile(`^@[pP][1-9][0-9]{0,3}$`)

func (c *checker) variable(i int) error {
	t := c.tokens[i].text
	if parameter.MatchString(t) || strings.HasPrefix(t, "@@") && serverVariables[strings.ToUpper(t[2:])] {
		return nil
	}
	return c.refuse(i, "there are no variables", "Parameters are @p1, @p2 … in the order of params.")
}

// keyword looks at a word that is not the later part of a name.
func (c *checker) keyword(i int) error {
	for _, key := range keywordsIn(c.tokens[i]) {
		if why, ok := refused[key]; ok && !c.harmless(i, key) {
			return c.refuse(i, why, c.hint(i, key))
		}
		if why, ok := refusedPairs[[2]string{key, c.at(i + 1).key}]; ok {
			return c.refuse(i, why, c.hint(i, key))
		}
	}
	return c.structure(i)
}

// harmless tells the uses of refused words that only read.
func (c *checker) harmless(i int, key string) bool {
	next := c.at(i + 1)
	switch key {
	case "MERGE": // a hint: a table cannot be named JOIN or UNION without quotes
		return next.key == "JOIN" || next.key == "UNION"
	case "USE": // OPTION (USE HINT ('…')), OPTION (USE PLAN N'…')
		return c.at(c.inside().opener).key == "OPTION" && (next.key == "HINT" || next.key == "PLAN")
	case "FETCH": // OFFSET n ROWS FETCH NEXT n ROWS ONLY
		counted := c.at(i + 2)
		return isOneOf(c.at(i-1), "ROW", "ROWS") && isOneOf(next, "NEXT", "FIRST") &&
			(counted.kind == number || counted.kind == variable || counted.key == "(")
	}
	return false
}

func isOneOf(t token, keys ...string) bool {
	for _, key := range keys {
		if t.key == key {
			return true
		}
	}
	return false
}

// structure follows the parts of a statement that tell where another one would begin.
func (c *checker) structure(i int) error {
	g, t := c.inside(), c.tokens[i]
	switch t.key {
	case "SELECT":
		if !c.selectMayStand(i) {
			return c.refuse(i, "a second statement begins here", oneStatement)
		}
		if next := c.at(i + 1); next.kind == end || next.key == ")" {
			return c.refuse(i, "it selects nothing", "Say what it should select.")
		}
		g.clause = ""
	case "FROM":
		if c.at(i-1).key != "DISTINCT" {
			g.clause = "FROM"
		}
	case "FOR":
		if c.at(i+1).key != "SYSTEM_TIME" {
			g.clause = ""
		}
	case "WHERE", "GROUP", "HAVING", "ORDER", "OPTION", "UNION", "EXCEPT", "INTERSECT":
		g.clause = ""
	case "NEXT":
		if c.at(i+1).key == "VALUE" && c.at(i+2).key == "FOR" {
			return c.refuse(i, "it takes a number from a sequence, which is a write", oneStatement)
		}
	case "CASE":
		g.cases++
	case "END":
		if g.cases--; g.cases < 0 {
			return c.refuse(i, "END has no CASE", oneStatement)
		}
	case "VALUES":
		if c.at(i-1).key != "(" {
			return c.refuse(i, "VALUES stands in parentheses: FROM (VALUES (1), (2)) AS v(a)", "Write it so.")
		}
	case "WITH":
		if !c.withMayStand(i) {
			return c.refuse(i, "a second statement begins here", oneStatement)
		}
	case "ENABLE", "DISABLE":
		if c.at(i+1).key == "TRIGGER" {
			return c.refuse(i, "it changes the database's objects", oneStatement)
		}
	case "GO":
		if c.aloneInLine(i) {
			return c.refuse(i, "GO is a word of client programs and no T-SQL", "Leave the line out. "+oneStatement)
		}
	case "RECEIVE", "THROW":
		if c.beginsAfterName(i) {
			return c.refuse(i, "it could begin a second statement", c.hint(i, t.key))
		}
	}
	return nil
}

// beginsAfterName tells whether a word that may be a name is followed by what no name is followed by.
func (c *checker) beginsAfterName(i int) bool {
	next := c.at(i + 1)
	if c.at(i-1).key == "AS" || next.key == "." || isOneOf(next, "FROM", "AS", "IN", "IS", "LIKE", "BETWEEN", "AND", "OR", "THEN", "ELSE", "END", "ASC", "DESC", "ON") {
		return false
	}
	return next.kind == word || next.kind == quoted || next.kind == number || next.kind == variable
}

// selectMayStand: at the beginning, in parentheses, after WITH's list, and between the words that join results.
func (c *checker) selectMayStand(i int) bool {
	if i == 0 || i == c.main {
		return true
	}
	before := c.at(i - 1)
	if before.key == "ALL" {
		return c.at(i-2).key == "UNION"
	}
	return isOneOf(before, "(", "UNION", "EXCEPT", "INTERSECT")
}

// withMayStand: at the beginning, and where it is part of a clause.
func (c *checker) withMayStand(i int) bool {
	if i == 0 {
		return true
	}
	return isOneOf(c.at(i+1), "(", "TIES", "ROLLUP", "CUBE")
}

func (c *checker) aloneInLine(i int) bool {
	line := c.tokens[i].line
	if c.at(i-1).line == line && i > 0 {
		return false
	}
	next := c.at(i + 1)
	return next.kind == end || next.line != line || next.kind == number
}

// name refuses what names can reach that the words do not show: other servers, and files.
func (c *checker) name(i int) error {
	if why, ok := farFunctions[unquote(c.tokens[i])]; ok && c.at(i+1).key == "(" {
		return c.refuse(i, why, "Read tables and views only.")
	}
	if c.at(i-1).key == "." || !c.namesTable(i) {
		return nil
	}
	if dots, next := c.chain(i); dots > 2 && c.at(next).key != "(" {
		return c.refuse(i, "a name of four parts is on another server", "Name tables as schema.table or database.schema.table.")
	}
	return nil
}

func unquote(t token) string {
	if t.kind != quoted {
		return t.key
	}
	return canonical(t.text[1 : len(t.text)-1])
}

// namesTable tells whether a name at i is one of a table rather than of a column.
func (c *checker) namesTable(i int) bool {
	before := c.at(i - 1)
	if before.key == "," {
		return c.inside().clause == "FROM"
	}
	for i--; c.at(i).key == "("; {
		i--
	}
	return isOneOf(c.at(i), "JOIN", "APPLY") || c.at(i).key == "FROM" && c.at(i-1).key != "DISTINCT"
}

// chain counts the dots of the name that begins at i, and tells what follows it.
func (c *checker) chain(i int) (dots, next int) {
	for i++; c.at(i).key == "."; {
		dots++
		i++
		if k := c.at(i).kind; k == word || k == quoted {
			i++
		}
	}
	return dots, i
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

// hint tells what to do about a word that may have been meant as a name.
func (c *checker) hint(i int, key string) string {
	if instead := instead[key]; instead != "" {
		return instead
	}
	return fmt.Sprintf("%s If %s is a name here, write [%s].", oneStatement, key, strings.ToLower(c.tokens[i].text))
}

// refuse says what is wrong at a token, with the line that it is in.
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
func excerpt(line string) string { return shorten(strings.TrimSpace(line), 200) }

func shorten(text string, letters int) string {
	if runes := []rune(text); len(runes) > letters {
		return string(runes[:letters]) + "…"
	}
	return text
}
