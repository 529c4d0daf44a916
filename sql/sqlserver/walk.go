// The check of a statement, token by token.

package sqlserver

import (
	"fmt"
	"regexp"
	"strings"
)

// token looks at one token, in the light of what is around it.
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

// afterDot reports whether a word is the later part of a name, as in t.delete. A dot after a number is none of
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
	inner := group{opener: i - 1}
	switch before := c.at(i - 1); {
	case before.kind == word && (before.key == "PREDICT" || strings.HasSuffix(before.key, "TABLE")): // CHANGETABLE, CONTAINSTABLE
		inner.clause = "TABLES"
	case c.namesTable(i): // FROM (a JOIN b ON …)
		inner.clause = "FROM"
	}
	c.groups = append(c.groups, inner)
	return nil
}

// endsStatement reports whether a statement could be complete with the token at i, whatever it is part of.
func (c *checker) endsStatement(i int) bool {
	t := c.at(i)
	return i >= 0 && (t.kind == literal || t.kind == number || t.kind == variable || t.key == ")")
}

// tableHints refuses hints that keep locks: after WITH, in OPTION's TABLE HINT, or alone in parentheses.
func (c *checker) tableHints(i int) error {
	before := c.at(i - 1)
	marked := before.key == "WITH" || before.key == "HINT" || c.at(i+1).key == "INDEX"
	named := c.inside().clause == "FROM" && (before.kind == quoted || before.kind == word)
	if !marked && (!named || !hints[c.at(i+1).key]) {
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
		if why, ok := beginners[key]; ok && c.beginsStatement(i, key) {
			return c.refuse(i, why, c.hint(i, key))
		}
	}
	return c.structure(i)
}

// harmless recognizes the uses of refused words that only read.
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
		if isOneOf(c.at(i+1), "XML", "JSON", "BROWSE") { // and not FOR SYSTEM_TIME, nor FOR PATH of a graph
			g.clause = ""
		}
	case "WHERE", "GROUP", "HAVING", "ORDER", "WINDOW", "OPTION", "UNION", "EXCEPT", "INTERSECT":
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
		g.clause = ""
	case "WITH":
		if !c.withMayStand(i) {
			return c.refuse(i, "a second statement begins here", oneStatement)
		}
	case "GO":
		if c.aloneInLine(i) && !c.wantsMore(i-1) {
			return c.refuse(i, "GO is a word of client programs and no T-SQL", "Leave the line out. "+oneStatement)
		}
	}
	return nil
}

// beginsStatement reports whether a word that may be a name begins a statement: where one could end before it, and what
// follows is what the statement has and a name has not.
func (c *checker) beginsStatement(i int, key string) bool {
	if c.tokens[i].key == key && c.wantsMore(i-1) {
		return false
	}
	next, last := c.at(i+1), c.at(i+3)
	switch key {
	case "RECEIVE", "THROW":
		return !c.followsName(i + 1)
	case "SEND": // ON CONVERSATION @handle, where an alias has a condition
		return next.key == "ON" && c.at(i+2).key == "CONVERSATION" && (last.key == "(" || !c.followsName(i+3))
	case "GET":
		return next.key == "CONVERSATION" && c.at(i+2).key == "GROUP" && last.key != "BY"
	default: // MOVE CONVERSATION, RENAME OBJECT
		return isOneOf(next, "CONVERSATION", "OBJECT", "DATABASE") && !c.followsName(i+2)
	}
}

// wantsMore reports whether a statement cannot end with the token at i, so that what comes next is a part of it.
func (c *checker) wantsMore(i int) bool {
	t := c.at(i)
	return t.kind == symbol && isOneOf(t, "(", ",", "/", "+", "-", "%", "=", "<", ">", "!", "&", "|", "^", "~", "{") || t.kind == word && operators[t.key] && !c.afterDot(i)
}

// followsName reports whether the token at i is one that may come after a name, and begins no list of values.
func (c *checker) followsName(i int) bool {
	t := c.at(i)
	switch t.kind {
	case end:
		return true
	case symbol:
		return !isOneOf(t, "(", "{", "*", "+", "-", "~", "::")
	case word:
		return afterNames[t.key] && (!isOneOf(t, "LEFT", "RIGHT") || c.at(i+1).key != "(")
	}
	return false
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
	name := unquote(c.tokens[i])
	for begin, why := range farFunctions {
		if c.at(i+1).key == "(" && strings.HasPrefix(name, begin) {
			return c.refuse(i, why, "Read tables and views only.")
		}
	}
	if c.at(i-1).key == "." || !c.namesTable(i) {
		return nil
	}
	if dots, next := c.chain(i); dots > 2 && !c.opensNodes(next) {
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

// namesTable reports whether a name or a parenthesis at i stands where a table does, rather than a column.
func (c *checker) namesTable(i int) bool {
	switch c.inside().clause {
	case "TABLES":
		return true
	case "FROM":
		before := c.at(i - 1)
		return isOneOf(before, "JOIN", "APPLY", ",", "(") || before.key == "FROM" && c.at(i-2).key != "DISTINCT" ||
			before.key == "OJ" && c.at(i-2).key == "{"
	}
	return false
}

// opensNodes reports whether the parenthesis at i is that of column.nodes('/path'), the one method that gives rows.
func (c *checker) opensNodes(i int) bool {
	return unquote(c.at(i-1)) == "NODES" && c.at(i).key == "(" && c.at(i+1).kind == literal
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
