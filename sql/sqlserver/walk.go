// The check of a statement, token by token.

package sqlserver

import (
	"fmt"
	"regexp"
	"strings"
)

// token checks one token, in its context.
func (c *checker) token(i int) error {
	t := c.Tokens[i]
	switch t.Kind {
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

// afterDot reports whether a word is the later part of a name, as in t.delete. A dot after a number is none of
// a name: T-SQL reads 1.DELETE as 1. and DELETE.
func (c *checker) afterDot(i int) bool {
	first := i - 1
	for c.At(first).Key == "." {
		first--
	}
	before := c.At(first)
	return first < i-1 && (before.Kind == word || before.Kind == quoted || before.Kind == variable || before.Key == ")")
}

func (c *checker) inside() *group { return &c.groups[len(c.groups)-1] }

func (c *checker) symbol(i int) error {
	switch c.Tokens[i].Key {
	case "(":
		return c.open(i)
	case ")":
		if len(c.groups) == 1 {
			return c.Refuse(i, "a parenthesis is closed that was not opened", "Leave it out.")
		}
		c.groups = c.groups[:len(c.groups)-1]
	case ";":
		return c.Refuse(i+1, "a second statement follows a semicolon", oneStatement)
	case ":":
		if len(c.groups) == 1 {
			return c.Refuse(i, "a label is a part of a program", oneStatement)
		}
	case "{":
		switch c.At(i + 1).Key {
		case "D", "T", "TS", "FN", "GUID", "OJ", "ESCAPE":
		default:
			return c.Refuse(i, "of the forms in braces only {d}, {t}, {ts}, {fn}, {guid} and {oj} read", "Write it without braces.")
		}
	}
	return nil
}

func (c *checker) open(i int) error {
	if len(c.groups) > maxDepth {
		return c.Refuse(i, fmt.Sprintf("more than %d parentheses are open", maxDepth), "Simplify the statement.")
	}
	if err := c.tableHints(i); err != nil {
		return err
	}
	if next := c.At(i + 1).Key; (next == "SELECT" || next == "(") && len(c.groups) == 1 && i != c.main && c.endsStatement(i-1) {
		return c.Refuse(i+1, "a second statement begins here", oneStatement)
	}
	inner := group{opener: i - 1}
	switch before := c.At(i - 1); {
	case before.Kind == word && (before.Key == "PREDICT" || strings.HasSuffix(before.Key, "TABLE")): // CHANGETABLE, CONTAINSTABLE
		inner.clause = "TABLES"
	case c.namesTable(i): // FROM (a JOIN b ON …)
		inner.clause = "FROM"
	}
	c.groups = append(c.groups, inner)
	return nil
}

// endsStatement reports whether a statement could be complete with the token at i, whatever it is part of.
func (c *checker) endsStatement(i int) bool {
	t := c.At(i)
	return i >= 0 && (t.Kind == literal || t.Kind == number || t.Kind == variable || t.Key == ")")
}

// tableHints refuses hints that keep locks: after WITH, in OPTION's TABLE HINT, or alone in parentheses.
func (c *checker) tableHints(i int) error {
	before := c.At(i - 1)
	marked := before.Key == "WITH" || before.Key == "HINT" || c.At(i+1).Key == "INDEX"
	named := c.inside().clause == "FROM" && (before.Kind == quoted || before.Kind == word)
	if !marked && (!named || !hints[c.At(i+1).Key]) {
		return nil
	}
	held, all := -1, true
	for j := i + 1; j < c.closing(i); j++ {
		t := c.At(j)
		if t.Kind == word && holding[t.Key] && held < 0 {
			held = j
		}
		all = all && (t.Key == "," || hints[t.Key])
	}
	if held >= 0 && (marked || all) {
		return c.Refuse(held, "the hint keeps locks that others wait for", "Leave the hint out; NOLOCK and READPAST are allowed.")
	}
	return nil
}

var parameter = regexp.MustCompile(`^@[pP][1-9][0-9]{0,3}$`)

func (c *checker) variable(i int) error {
	t := c.Tokens[i].Text
	if parameter.MatchString(t) || strings.HasPrefix(t, "@@") && serverVariables[strings.ToUpper(t[2:])] {
		return nil
	}
	return c.Refuse(i, "there are no variables", "Parameters are @p1, @p2 … in the order of params.")
}

// keyword looks at a word that is not the later part of a name.
func (c *checker) keyword(i int) error {
	for _, key := range keywordsIn(c.Tokens[i]) {
		if why, ok := refused[key]; ok && !c.harmless(i, key) {
			return c.Refuse(i, why, c.hint(i, key))
		}
		if why, ok := beginners[key]; ok && c.beginsStatement(i, key) {
			return c.Refuse(i, why, c.hint(i, key))
		}
	}
	return c.structure(i)
}

// harmless recognizes the uses of refused words that only read.
func (c *checker) harmless(i int, key string) bool {
	next := c.At(i + 1)
	switch key {
	case "MERGE": // a hint: a table cannot be named JOIN or UNION without quotes
		return next.Key == "JOIN" || next.Key == "UNION"
	case "USE": // OPTION (USE HINT ('…')), OPTION (USE PLAN N'…')
		return c.At(c.inside().opener).Key == "OPTION" && (next.Key == "HINT" || next.Key == "PLAN")
	case "FETCH": // OFFSET n ROWS FETCH NEXT n ROWS ONLY
		counted := c.At(i + 2)
		return c.At(i-1).IsOneOf("ROW", "ROWS") && next.IsOneOf("NEXT", "FIRST") &&
			(counted.Kind == number || counted.Kind == variable || counted.Key == "(")
	}
	return false
}

// structure follows the parts of a statement that tell where another one would begin.
func (c *checker) structure(i int) error {
	g, t := c.inside(), c.Tokens[i]
	switch t.Key {
	case "SELECT":
		if !c.selectMayStand(i) {
			return c.Refuse(i, "a second statement begins here", oneStatement)
		}
		if next := c.At(i + 1); next.Kind == end || next.Key == ")" {
			return c.Refuse(i, "it selects nothing", "Say what it should select.")
		}
		g.clause = ""
	case "FROM":
		if c.At(i-1).Key != "DISTINCT" {
			g.clause = "FROM"
		}
	case "FOR":
		if c.At(i+1).IsOneOf("XML", "JSON", "BROWSE") { // and not FOR SYSTEM_TIME, nor FOR PATH of a graph
			g.clause = ""
		}
	case "WHERE", "GROUP", "HAVING", "ORDER", "WINDOW", "OPTION", "UNION", "EXCEPT", "INTERSECT":
		g.clause = ""
	case "NEXT":
		if c.At(i+1).Key == "VALUE" && c.At(i+2).Key == "FOR" {
			return c.Refuse(i, "it takes a number from a sequence, which is a write", oneStatement)
		}
	case "CASE":
		g.cases++
	case "END":
		if g.cases--; g.cases < 0 {
			return c.Refuse(i, "END has no CASE", oneStatement)
		}
	case "VALUES":
		if c.At(i-1).Key != "(" {
			return c.Refuse(i, "VALUES stands in parentheses: FROM (VALUES (1), (2)) AS v(a)", "Write it so.")
		}
		g.clause = ""
	case "WITH":
		if !c.withMayStand(i) {
			return c.Refuse(i, "a second statement begins here", oneStatement)
		}
	case "GO":
		if c.aloneInLine(i) && !c.wantsMore(i-1) {
			return c.Refuse(i, "GO is a word of client programs and no T-SQL", "Leave the line out. "+oneStatement)
		}
	}
	return nil
}

// beginsStatement reports whether a word that may be a name begins a statement: if one could end before it, and the text behind it fits the
// statement and no name.
func (c *checker) beginsStatement(i int, key string) bool {
	if c.Tokens[i].Key == key && c.wantsMore(i-1) {
		return false
	}
	next, last := c.At(i+1), c.At(i+3)
	switch key {
	case "RECEIVE", "THROW":
		return !c.followsName(i + 1)
	case "SEND": // ON CONVERSATION @handle, where an alias continues with a condition
		return next.Key == "ON" && c.At(i+2).Key == "CONVERSATION" && (last.Key == "(" || !c.followsName(i+3))
	case "GET":
		return next.Key == "CONVERSATION" && c.At(i+2).Key == "GROUP" && last.Key != "BY"
	default: // MOVE CONVERSATION, RENAME OBJECT
		return next.IsOneOf("CONVERSATION", "OBJECT", "DATABASE") && !c.followsName(i+2)
	}
}

// wantsMore reports whether a statement cannot end with the token at i, so that the next token belongs to it.
func (c *checker) wantsMore(i int) bool {
	t := c.At(i)
	return t.Kind == symbol && t.IsOneOf("(", ",", "/", "+", "-", "%", "=", "<", ">", "!", "&", "|", "^", "~", "{") || t.Kind == word && operators[t.Key] && !c.afterDot(i)
}

// followsName reports whether the token at i is one that may come after a name, and begins no list of values.
func (c *checker) followsName(i int) bool {
	t := c.At(i)
	switch t.Kind {
	case end:
		return true
	case symbol:
		return !t.IsOneOf("(", "{", "*", "+", "-", "~", "::")
	case word:
		return afterNames[t.Key] && (!t.IsOneOf("LEFT", "RIGHT") || c.At(i+1).Key != "(")
	}
	return false
}

// selectMayStand: at the beginning, in parentheses, after WITH's list, and between the words that join results.
func (c *checker) selectMayStand(i int) bool {
	if i == 0 || i == c.main {
		return true
	}
	before := c.At(i - 1)
	if before.Key == "ALL" {
		return c.At(i-2).Key == "UNION"
	}
	return before.IsOneOf("(", "UNION", "EXCEPT", "INTERSECT")
}

// withMayStand: at the beginning, and where it is part of a clause.
func (c *checker) withMayStand(i int) bool {
	if i == 0 {
		return true
	}
	return c.At(i+1).IsOneOf("(", "TIES", "ROLLUP", "CUBE")
}

func (c *checker) aloneInLine(i int) bool {
	line := c.Tokens[i].Line
	if c.At(i-1).Line == line && i > 0 {
		return false
	}
	next := c.At(i + 1)
	return next.Kind == end || next.Line != line || next.Kind == number
}

// name refuses names that reach other servers and files, which the words do not show.
func (c *checker) name(i int) error {
	name := unquote(c.Tokens[i])
	for begin, why := range farFunctions {
		if c.At(i+1).Key == "(" && strings.HasPrefix(name, begin) {
			return c.Refuse(i, why, "Read tables and views only.")
		}
	}
	if c.At(i-1).Key == "." || !c.namesTable(i) {
		return nil
	}
	if dots, next := c.chain(i); dots > 2 && !c.opensNodes(next) {
		return c.Refuse(i, "a name of four parts is on another server", "Name tables as schema.table or database.schema.table.")
	}
	return nil
}

func unquote(t token) string {
	if t.Kind != quoted {
		return t.Key
	}
	return canonical(t.Text[1 : len(t.Text)-1])
}

// namesTable reports whether a name or a parenthesis at i stands where a table does, rather than a column.
func (c *checker) namesTable(i int) bool {
	switch c.inside().clause {
	case "TABLES":
		return true
	case "FROM":
		before := c.At(i - 1)
		return before.IsOneOf("JOIN", "APPLY", ",", "(") || before.Key == "FROM" && c.At(i-2).Key != "DISTINCT" ||
			before.Key == "OJ" && c.At(i-2).Key == "{"
	}
	return false
}

// opensNodes reports whether the parenthesis at i is that of column.nodes('/path'), the one method that gives rows.
func (c *checker) opensNodes(i int) bool {
	return unquote(c.At(i-1)) == "NODES" && c.At(i).Key == "(" && c.At(i+1).Kind == literal
}

// chain counts the dots of the name that begins at i, and returns the index behind it.
func (c *checker) chain(i int) (dots, next int) {
	for i++; c.At(i).Key == "."; {
		dots++
		i++
		if k := c.At(i).Kind; k == word || k == quoted {
			i++
		}
	}
	return dots, i
}
