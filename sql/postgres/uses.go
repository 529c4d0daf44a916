package postgres

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// uses lists the names that a statement may call. The database's catalog tells their effect.
type uses struct {
	calls     map[call]bool
	names     map[string]bool // every name: of a view, a type or a schema, or none of these
	operators map[string]bool // and names that may be one with a sign behind it
	everyView bool            // a text may name any view to read
}

// call is f(…), or x.f, which PostgreSQL takes for f(x).
type call struct {
	schema, name string // the schema is empty if there is none
	arguments    int
}

func newUses() *uses {
	return &uses{calls: make(map[call]bool), names: make(map[string]bool), operators: make(map[string]bool)}
}

// readers are extensions with volatile functions that only compute or read; exceptions are in refused.
var readers = strings.Fields(`
	amcheck btree_gin btree_gist citext cube earthdistance fuzzystrmatch h3 hstore intarray isn ltree
	pageinspect pg_buffercache pg_freespacemap pg_stat_statements pg_trgm pg_visibility pg_walinspect pgcrypto pgrowlocks
	pgstattuple postgis postgis_sfcgal seg sslinfo tablefunc tsm_system_rows tsm_system_time unaccent
	uuid-ossp vector`)

// mentioned asks for the database's own functions, views, types with casts or checks of their own, and volatile operators with names that
// are in a statement. Most statements mention none, and this is soon known.
const mentioned = `
	SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass::oid, p.oid FROM pg_catalog.pg_proc p
	WHERE p.proname = ANY ($1::text[]::name[]) AND p.oid >= 16384
	UNION ALL
	SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, v.oid FROM pg_catalog.pg_class v
	WHERE v.relname = ANY ($2::text[]::name[]) AND v.relkind = 'v' AND v.oid >= 16384
	UNION ALL
	SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, t.oid FROM pg_catalog.pg_type t
	WHERE t.typname = ANY ($2::text[]::name[]) AND t.oid >= 16384 AND (t.typtype = 'd' OR EXISTS (
		SELECT FROM pg_catalog.pg_cast c WHERE c.castfunc >= 16384 AND t.oid IN (c.castsource, c.casttarget)))
	UNION ALL
	SELECT 'pg_catalog.pg_operator'::pg_catalog.regclass, o.oid FROM pg_catalog.pg_operator o
	WHERE o.oprname = ANY ($3::text[]::name[]) AND o.oid >= 16384
		AND EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = o.oprcode AND p.provolatile = 'v')`

// everyView is for functions such as table_to_xml, which read the table that a text names.
const everyView = `
	UNION ALL
	SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, v.oid FROM pg_catalog.pg_class v
	WHERE v.relkind = 'v' AND v.oid >= 16384`

// implied is the operators that words of the language stand for.
var implied = map[string]string{
	"in": "=", "case": "=", "nullif": "=", "using": "=", "natural": "=", "distinct": "=",
	"between": "<= >=", "like": "~~ !~~", "ilike": "~~* !~~*",
}

// powerful asks for functions that a read-only transaction does not hold, among those that are mentioned and called, or that the catalog's
// views, operators, types' casts or checks, or aggregates call: the volatile ones, and those of the database's own in an untrusted language.
// An operator on types of the database's own counts if there are values of them: by name, from a table's column or from a function.
const powerful = `
	WITH RECURSIVE reached(class, object) AS (
		SELECT m.* FROM ROWS FROM (pg_catalog.unnest($1::oid[]), pg_catalog.unnest($2::oid[])) AS m(class, object)
		LEFT JOIN pg_catalog.pg_proc p ON p.oid = m.object AND m.class = 'pg_catalog.pg_proc'::pg_catalog.regclass
		LEFT JOIN pg_catalog.pg_class v ON v.oid = m.object AND m.class = 'pg_catalog.pg_class'::pg_catalog.regclass
		LEFT JOIN pg_catalog.pg_namespace n ON n.oid IN (p.pronamespace, v.relnamespace)
		LEFT JOIN pg_catalog.pg_operator o ON o.oid = m.object AND m.class = 'pg_catalog.pg_operator'::pg_catalog.regclass
		WHERE CASE WHEN v.oid IS NOT NULL THEN $8::bool OR pg_catalog.pg_table_is_visible(v.oid) OR n.nspname = ANY ($7::text[]::name[])
		WHEN o.oid IS NOT NULL THEN NOT EXISTS (
			SELECT FROM pg_catalog.pg_type t WHERE t.oid IN (o.oprleft, o.oprright) AND t.oid >= 16384
				AND NOT (t.typname = ANY ($7::text[]::name[])
					OR EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
						WHERE c.relname = ANY ($7::text[]::name[]) AND a.atttypid IN (t.oid, t.typarray))
					OR EXISTS (SELECT FROM pg_catalog.pg_proc f
						WHERE f.proname = ANY ($4::text[]::name[]) AND f.prorettype IN (t.oid, t.typarray))))
		ELSE p.oid IS NULL OR EXISTS (
			SELECT FROM ROWS FROM (pg_catalog.unnest($3::text[]), pg_catalog.unnest($4::text[]), pg_catalog.unnest($5::int[]))
				AS c(schema, name, arguments)
			WHERE p.proname = c.name::name AND (p.prokind = 'a' OR p.pronargs - p.pronargdefaults <= c.arguments
					AND (p.pronargs >= c.arguments OR p.provariadic <> 0))
				AND CASE c.schema WHEN '' THEN pg_catalog.pg_function_is_visible(p.oid) ELSE n.nspname = c.schema::name END)
		END
		UNION
		SELECT step.* FROM reached r CROSS JOIN LATERAL (
			SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend d
			WHERE d.classid = r.class AND d.objid = r.object AND d.deptype = 'n' AND d.refobjid >= 16384
				AND (r.class <> 'pg_catalog.pg_proc'::pg_catalog.regclass
					OR EXISTS (SELECT FROM pg_catalog.pg_proc a WHERE a.oid = r.object AND a.prokind = 'a'))
			UNION ALL
			SELECT 'pg_catalog.pg_rewrite'::pg_catalog.regclass, w.oid
			FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_class v ON v.oid = w.ev_class AND v.relkind = 'v'
			WHERE r.class = 'pg_catalog.pg_class'::pg_catalog.regclass AND w.ev_class = r.object AND NOT EXISTS (
				SELECT FROM pg_catalog.pg_depend d WHERE d.classid = r.class AND d.objid = r.object AND d.deptype = 'e')
			UNION ALL
			SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, c.castfunc FROM pg_catalog.pg_cast c
			WHERE r.class = 'pg_catalog.pg_type'::pg_catalog.regclass AND r.object IN (c.castsource, c.casttarget)
			UNION ALL
			SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass, k.oid FROM pg_catalog.pg_constraint k
			WHERE r.class = 'pg_catalog.pg_type'::pg_catalog.regclass AND k.contypid = r.object
		) step
	)
	SELECT n.nspname::text, p.proname::text, p.oid::pg_catalog.regprocedure::text, l.lanname::text, p.provolatile = 'v',
		EXISTS (SELECT FROM pg_catalog.pg_proc b WHERE b.proname = p.proname AND b.oid < 16384)
	FROM reached r JOIN pg_catalog.pg_proc p ON p.oid = r.object AND r.class = 'pg_catalog.pg_proc'::pg_catalog.regclass
	JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace JOIN pg_catalog.pg_language l ON l.oid = p.prolang
	LEFT JOIN pg_catalog.pg_depend d ON d.classid = r.class AND d.objid = p.oid AND d.deptype = 'e'
	LEFT JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
	WHERE p.oid >= 16384 AND p.prokind <> 'a' AND (p.provolatile = 'v' OR e.oid IS NULL AND NOT l.lanpltrusted)
		AND (e.oid IS NULL OR e.extname <> ALL ($6::text[]))
		AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
	ORDER BY 1, 2, 3`

// powerfulFunction is a row of powerful.
type powerfulFunction struct {
	Schema, Name, Signature, Language string
	Volatile                          bool
	Overloads                         bool // a function of PostgreSQL's own
}

// admit refuses a statement's uses unless the database holds them in the read-only transaction, or its user allows them by name. PostgreSQL
// itself keeps functions that are STABLE or IMMUTABLE from writing.
func (u *uses) admit(s *reader.Session, allowed []string) error {
	if len(u.names)+len(u.calls)+len(u.operators) == 0 {
		return nil
	}
	var schemas, functions, arguments []string
	for c := range u.calls {
		schemas, functions, arguments = append(schemas, c.schema), append(functions, c.name), append(arguments, strconv.Itoa(c.arguments))
	}
	names, operators := slices.Collect(maps.Keys(u.names)), slices.Collect(maps.Keys(u.operators))
	for name := range u.names {
		operators = append(operators, strings.Fields(implied[name])...)
		if element := strings.TrimLeft(name, "_"); element != name { // of _name, which is name[]
			names = append(names, element)
		}
	}
	question := mentioned
	if u.everyView {
		question += everyView
	}
	var classes, oids []string
	err := s.Each(question, []any{functions, names, operators}, func(scan reader.Scan) error {
		var class, oid string
		err := scan(&class, &oid)
		classes, oids = append(classes, class), append(oids, oid)
		return err
	})
	if err != nil || len(oids) == 0 {
		return err
	}
	var found []powerfulFunction
	err = s.Each(powerful, []any{classes, oids, schemas, functions, arguments, readers, names, u.everyView},
		reader.Into(&found, func(scan reader.Scan) (f powerfulFunction, err error) {
			return f, scan(&f.Schema, &f.Name, &f.Signature, &f.Language, &f.Volatile, &f.Overloads)
		}))
	if err != nil {
		return err
	}
	for _, f := range found {
		if !slices.Contains(allowed, f.Name) && !slices.Contains(allowed, f.Schema+"."+f.Name) {
			return f.refuse()
		}
	}
	return nil
}

func (f powerfulFunction) refuse() error {
	why, hint := "is written in "+f.Language+", where nothing keeps it from that", ""
	if f.Volatile {
		why, hint = "is VOLATILE", "declare it (ALTER FUNCTION "+f.Signature+" STABLE) or "
	}
	hint = "Write the statement without it. If it only reads, the user can " + hint + "allow it: --sql-allow-functions " +
		f.Schema + "." + f.Name + "."
	if f.Overloads {
		hint += " PostgreSQL's own function is pg_catalog." + f.Name + "."
	}
	return fault.New(fault.SQLRejected, hint,
		"Refused: the statement calls %s, a function of the database's own, itself or by a view, an operator or a type. It may do more than read: it %s.",
		excerpt(f.Signature), why).With("function", f.Schema+"."+f.Name)
}
