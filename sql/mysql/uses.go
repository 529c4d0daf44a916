package mysql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// uses lists the names that a statement may call and read. The database's catalog tells their meaning.
type uses struct {
	calls  map[string]bool // names before a parenthesis, in small letters
	names  map[string]bool // every name, as it is written
	before map[string]bool // names before a dot: of a database, a table, or a package
}

func usesOf(tokens []token) *uses {
	u := &uses{make(map[string]bool), make(map[string]bool), make(map[string]bool)}
	for i, t := range tokens {
		if t.Kind != word && t.Kind != quoted {
			continue
		}
		next := ""
		if i+1 < len(tokens) {
			next = tokens[i+1].Key
		}
		switch next {
		case "(":
			u.calls[strings.ToLower(nameOf(t))] = true
		case ".":
			u.before[nameOf(t)] = true
			fallthrough
		default:
			u.names[nameOf(t)] = true
		}
	}
	return u
}

// maxViews bounds the views of a statement, those within views too.
const maxViews = 200

// admit refuses a statement that calls a function of the database's own, itself or by a view that it reads: the
// server lets one write files and change settings in a read-only transaction, whatever it was declared as. A user may allow it by name.
func (u *uses) admit(q *reader.Session, allowed []string) error {
	seen := make(map[string]bool) // views
	for pending := []*uses{u}; len(pending) > 0; pending = pending[1:] {
		if err := pending[0].admitCalls(q, allowed); err != nil {
			return err
		}
		views, err := pending[0].views(q)
		if err != nil {
			return err
		}
		for name, definition := range views {
			if seen[name] {
				continue
			}
			if definition == "" {
				return fault.New(fault.SQLRejected, "Read the tables that it reads, or ask the user for GRANT SHOW VIEW ON "+name+" to the login.",
					"Refused: the login may not see what the view %.200s does. It may call functions that do more than read.", name).With("view", name)
			}
			if len(seen) == maxViews {
				return fault.New(fault.SQLRejected, "Read fewer views, or the tables that they read.", "Refused: the statement reads more than %d views, directly and by views.", maxViews)
			}
			seen[name] = true
			inside, err := checkView(name, definition)
			if err != nil {
				return err
			}
			pending = append(pending, inside)
		}
	}
	return nil
}

// checkView refuses a view for the same reasons as a statement: locks, files, settings.
func checkView(name, definition string) (*uses, error) {
	tokens, err := lex(definition)
	c := checker{reader.Of(definition, tokens)}
	for i := 0; i < len(tokens)-1 && err == nil; i++ {
		err = c.look(i)
	}
	if err != nil {
		return nil, fault.New(fault.SQLRejected, "Read the tables that it reads; describe_sql lists them.", "The view %.200s is not read: %s", name,
			strings.TrimPrefix(err.Error(), string(fault.SQLRejected)+": ")).With("view", name)
	}
	return usesOf(tokens), nil
}

// marks is a list of so many parameters.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

func values(sets ...map[string]bool) []any {
	var all []any
	for _, set := range sets {
		for _, name := range slices.Sorted(maps.Keys(set)) {
			all = append(all, name)
		}
	}
	return all
}

// routines are the database's own functions, and MariaDB's packages, which contain functions. The schema sys is the server's.
const routines = `SELECT ROUTINE_SCHEMA, ROUTINE_NAME FROM information_schema.ROUTINES
WHERE ROUTINE_SCHEMA NOT IN ('sys', 'mysql') AND (ROUTINE_TYPE = 'FUNCTION' AND ROUTINE_NAME IN (%s) OR ROUTINE_TYPE LIKE 'PACKAGE%%' AND ROUTINE_NAME IN (%s))
ORDER BY 1, 2`

// loaded are functions of libraries that were loaded into the server. Most logins may not read this, nor load one.
const loaded = "SELECT '', name FROM mysql.func WHERE name IN (%s) ORDER BY 2"

func (u *uses) admitCalls(q *reader.Session, allowed []string) error {
	if len(u.calls) == 0 {
		return nil
	}
	before := u.before
	if len(before) == 0 {
		before = map[string]bool{"": true}
	}
	found, err := pairs(q, fmt.Sprintf(routines, marks(len(u.calls)), marks(len(before))), values(u.calls, before)...)
	if err != nil {
		return err
	}
	libraries, err := pairs(q, fmt.Sprintf(loaded, marks(len(u.calls))), values(u.calls)...)
	if err != nil && q.Context().Err() != nil {
		return err
	}
	for _, f := range append(found, libraries...) {
		full := strings.TrimPrefix(f[0]+"."+f[1], ".")
		if slices.Contains(allowed, f[1]) || slices.Contains(allowed, full) {
			continue
		}
		return fault.New(fault.SQLRejected, "Write the statement without it. If it only reads, the user can allow it: --sql-allow-functions "+full+".",
			"Refused: the statement calls %.200s, a function of the database's own, itself or by a view. It may do more than read: a read-only transaction does not keep a function from files and settings.",
			full).With("function", full)
	}
	return nil
}

// viewDefinitions are those of the views that a name may be of: in the login's own database, or in one that is named.
const viewDefinitions = `SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), COALESCE(VIEW_DEFINITION, '') FROM information_schema.VIEWS
WHERE (TABLE_SCHEMA = DATABASE() OR TABLE_SCHEMA IN (%s)) AND TABLE_SCHEMA <> 'sys' AND TABLE_NAME IN (%s) ORDER BY 1`

func (u *uses) views(q *reader.Session) (map[string]string, error) {
	views := make(map[string]string)
	if len(u.names) == 0 {
		return views, nil
	}
	before := u.before
	if len(before) == 0 {
		before = map[string]bool{"": true}
	}
	found, err := pairs(q, fmt.Sprintf(viewDefinitions, marks(len(before)), marks(len(u.names))), values(before, u.names)...)
	for _, view := range found {
		views[view[0]] = view[1]
	}
	return views, err
}

// pairs reads rows of two texts.
func pairs(q *reader.Session, query string, args ...any) (all [][2]string, err error) {
	return all, q.Each(query, args, reader.Into(&all, func(scan reader.Scan) (pair [2]string, err error) {
		return pair, scan(&pair[0], &pair[1])
	}))
}
