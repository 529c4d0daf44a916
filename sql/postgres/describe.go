// Tables and columns as describe_sql shows them.

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// querier is a read-only transaction. Reading the catalogs changes its search_path, so it is of no use for another statement afterwards.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// The objects that the login may see: its relations, without a table's partitions in the list of tables, and its schemas, without the
// database's own.
const (
	relations = ` pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
		AND (pg_catalog.has_table_privilege(c.oid, 'SELECT') OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT')) `
	ofUsers = ` n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' `

	tableColumns = ` n.nspname::text, c.relname::text,
		CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view'
			WHEN 'm' THEN 'materialized view' ELSE 'foreign table' END,
		CASE WHEN c.relkind = 'v' THEN NULL
			WHEN c.relkind = 'p' THEN (SELECT pg_catalog.sum(leaf.reltuples::float8)::bigint
				FROM pg_catalog.pg_partition_tree(c.oid) AS part JOIN pg_catalog.pg_class leaf ON leaf.oid = part.relid
				WHERE part.isleaf AND leaf.reltuples >= 0)
			WHEN c.reltuples >= 0 THEN c.reltuples::bigint END,
		coalesce(pg_catalog.left(pg_catalog.obj_description(c.oid, 'pg_class'), 500), '') `
)

// pin makes the transaction look up names and operators in the system's catalog alone, and returns the
// schemas that were looked through before.
func pin(ctx context.Context, q querier) ([]string, error) {
	path, err := one(ctx, q, pgx.RowTo[[]string], `SELECT pg_catalog.current_schemas(true)::text[]`)
	if err != nil {
		return nil, err
	}
	_, err = one(ctx, q, pgx.RowTo[string], `SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)`)
	return path, err
}

// catalogBytes bounds an answer of the catalog. A server may send anything.
const catalogBytes = 32 << 20

// all runs a query and returns its rows.
func all[T any](ctx context.Context, q querier, to pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []T{}
	for size := 0; rows.Next(); {
		for _, value := range rows.RawValues() {
			size += len(value) + perValue
		}
		if size > catalogBytes {
			return nil, fault.New(fault.SQLFailed, "Ask for less: one schema, a glob or one table.",
				"The catalog's answer has more than %d bytes.", catalogBytes)
		}
		row, err := to(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// perValue is the size of a value beside its text.
const perValue = 16

// one runs a query and returns its first row; pgx.ErrNoRows if there is none.
func one[T any](ctx context.Context, q querier, to pgx.RowToFunc[T], query string, args ...any) (T, error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectOneRow(rows, to)
}

func schemas(ctx context.Context, q querier) ([]sql.Schema, error) {
	if _, err := pin(ctx, q); err != nil {
		return nil, err
	}
	return all(ctx, q, pgx.RowToStructByPos[sql.Schema], `
		SELECT s.name, (SELECT count(*) FROM `+relations+` WHERE n.oid = s.oid AND NOT c.relispartition)::int,
			coalesce(pg_catalog.left(pg_catalog.obj_description(s.oid, 'pg_namespace'), 500), '')
		FROM (SELECT n.oid, n.nspname::text AS name FROM pg_catalog.pg_namespace n
			WHERE pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND `+ofUsers+`) s
		ORDER BY 1`)
}

// tables leaves partitions out: they are parts of their table.
func tables(ctx context.Context, q querier, filter sql.TableFilter) ([]sql.Table, error) {
	if _, err := pin(ctx, q); err != nil {
		return nil, err
	}
	schema := filter.Schema
	if schema != "" {
		var err error
		if schema, err = schemaNamed(ctx, q, schema); err != nil {
			return nil, err
		}
	}
	return all(ctx, q, pgx.RowToStructByPos[sql.Table], `SELECT `+tableColumns+` FROM `+relations+`
		WHERE CASE WHEN $1::text = '' THEN `+ofUsers+` ELSE n.nspname = $1::text END
			AND NOT c.relispartition AND ($2::text = '' OR c.relname::text ILIKE $2::text)
		ORDER BY 1, 2 LIMIT $3::int`, schema, filter.Like(), filter.Limit)
}

// schemaNamed finds a schema by its name, in its exact letters or else in any case.
func schemaNamed(ctx context.Context, q querier, schema string) (string, error) {
	known, err := all(ctx, q, pgx.RowTo[string], `SELECT nspname::text FROM pg_catalog.pg_namespace
		WHERE pg_catalog.has_schema_privilege(oid, 'USAGE') ORDER BY 1`)
	if err != nil || slices.Contains(known, schema) {
		return schema, err
	}
	if i := slices.IndexFunc(known, func(s string) bool { return strings.EqualFold(s, schema) }); i >= 0 {
		return known[i], nil
	}
	return "", missing("schema", schema, nearest(schema, known))
}

// table describes a table. allowed are the functions that the views of examples may call.
func table(ctx context.Context, q querier, schema, name string, examples bool, allowed []string) (*sql.TableDetail, error) {
	path, err := pin(ctx, q)
	if err != nil {
		return nil, err
	}
	found, err := find(ctx, q, path, schema, name)
	if err != nil {
		return nil, err
	}
	detail := &sql.TableDetail{Table: found.table}
	for _, part := range []func(context.Context, querier, uint32, *sql.TableDetail) error{columns, keys, indexes} {
		if err := part(ctx, q, found.oid, detail); err != nil {
			return nil, err
		}
	}
	if examples {
		if err := exemplify(ctx, q, detail, allowed); err != nil && ctx.Err() != nil {
			return nil, err
		} // the description is of use without examples
	}
	return detail, nil
}

// relation is a table that was found.
type relation struct {
	oid   uint32
	table sql.Table
}

// find looks a table up by its name in its exact letters, or else in any case; one without a schema along
// the path. A name that is written as in a statement, with its schema or with quotes, is understood too.
func find(ctx context.Context, q querier, path []string, schema, name string) (relation, error) {
	found, err := lookUp(ctx, q, path, schema, name)
	if err != nil {
		return relation{}, err
	}
	if len(found) == 0 && schema == "" {
		if s, n, ok := written(name); ok {
			if found, err = lookUp(ctx, q, path, s, n); err != nil {
				return relation{}, err
			}
		}
	}
	if len(found) > 0 {
		return found[0], nil
	}
	known, err := all(ctx, q, pgx.RowTo[string], `SELECT n.nspname || '.' || c.relname FROM `+relations+`
		WHERE `+ofUsers+` ORDER BY 1 LIMIT 10000`)
	if err != nil {
		return relation{}, err
	}
	if schema != "" {
		name = schema + "." + name
	}
	return relation{}, missing("table", name, nearest(name, known))
}

func lookUp(ctx context.Context, q querier, path []string, schema, name string) ([]relation, error) {
	return all(ctx, q, func(row pgx.CollectableRow) (relation, error) {
		var r relation
		err := row.Scan(&r.oid, &r.table.Schema, &r.table.Name, &r.table.Kind, &r.table.Rows, &r.table.Comment)
		return r, err
	}, `SELECT c.oid, `+tableColumns+` FROM `+relations+`
		WHERE pg_catalog.lower(c.relname::text) = pg_catalog.lower($2::text)
			AND CASE WHEN $1::text = '' THEN n.nspname::text = ANY ($3::text[])
				ELSE pg_catalog.lower(n.nspname::text) = pg_catalog.lower($1::text) END
		ORDER BY c.relname::text <> $2::text, $1::text <> '' AND n.nspname::text <> $1::text,
			c.relname::text <> pg_catalog.lower($2::text), pg_catalog.array_position($3::text[], n.nspname::text)
		LIMIT 1`, schema, name, path)
}

// written takes table, schema.table and "schema"."table" apart.
func written(name string) (schema, table string, ok bool) {
	var parts []string
	for i, t := range tokenize(name) {
		switch {
		case i%2 == 1 && t.punct("."):
		case i%2 == 0 && t.kind == quotedName:
			parts = append(parts, t.value)
		case i%2 == 0:
			parts = append(parts, t.text)
		default:
			return "", "", false
		}
	}
	switch len(parts) {
	case 1:
		return "", parts[0], true
	case 2:
		return parts[0], parts[1], true
	}
	return "", "", false
}

func columns(ctx context.Context, q querier, oid uint32, detail *sql.TableDetail) error {
	var err error
	detail.Columns, err = all(ctx, q, pgx.RowToStructByPos[sql.TableColumn], `
		SELECT a.attname::text,
			pg_catalog.format_type(a.atttypid, a.atttypmod)
				|| CASE WHEN t.typtype = 'd' THEN ' (a domain of ' || base.type || ')' ELSE '' END,
			NOT a.attnotnull AND NOT base.required,
			CASE WHEN a.attidentity = 'a' THEN 'generated always as identity'
				WHEN a.attidentity = 'd' THEN 'generated by default as identity'
				WHEN a.attgenerated <> '' THEN 'generated always as (' || pg_catalog.pg_get_expr(d.adbin, d.adrelid) || ')'
				ELSE coalesce(pg_catalog.left(pg_catalog.pg_get_expr(d.adbin, d.adrelid), 500), t.typdefault, '') END,
			coalesce(pg_catalog.left(pg_catalog.col_description(a.attrelid, a.attnum), 500), ''),
			(SELECT pg_catalog.array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
				FROM (SELECT * FROM pg_catalog.pg_enum WHERE enumtypid IN (base.oid, base.element)
					ORDER BY enumsortorder LIMIT 1000) e),
			NULL::text[]
		FROM pg_catalog.pg_attribute a
		JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
		LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		CROSS JOIN LATERAL (
			WITH RECURSIVE down AS (
				SELECT t.oid, t.typtype, t.typbasetype, t.typelem, t.typtypmod, t.typnotnull AS required
				UNION ALL
				SELECT u.oid, u.typtype, u.typbasetype, u.typelem, down.typtypmod, down.required OR u.typnotnull
				FROM down JOIN pg_catalog.pg_type u ON down.typtype = 'd' AND u.oid = down.typbasetype)
			SELECT oid, typelem AS element, required, pg_catalog.format_type(oid, typtypmod) AS type
			FROM down WHERE typtype <> 'd') base
		WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
			AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')
		ORDER BY a.attnum`, oid)
	return err
}

// named is the names of a constraint's columns; that of a period is written in its own way. Before PostgreSQL 18 there is none.
func named(relation, key, period string) string {
	return `(SELECT pg_catalog.array_agg(CASE WHEN k.i = pg_catalog.cardinality(` + key + `) AND (pg_catalog.to_jsonb(o)->>'conperiod')::bool
			THEN pg_catalog.format('` + period + `', a.attname) ELSE a.attname::text END ORDER BY k.i)
		FROM pg_catalog.unnest(` + key + `) WITH ORDINALITY AS k(num, i)
		JOIN pg_catalog.pg_attribute a ON a.attrelid = ` + relation + ` AND a.attnum = k.num)`
}

func keys(ctx context.Context, q querier, oid uint32, detail *sql.TableDetail) error {
	primary, err := all(ctx, q, pgx.RowTo[[]string], `SELECT `+named("o.conrelid", "o.conkey", "%s WITHOUT OVERLAPS")+`
		FROM pg_catalog.pg_constraint o WHERE o.conrelid = $1 AND o.contype = 'p'`, oid)
	if err != nil {
		return err
	}
	if len(primary) > 0 {
		detail.PrimaryKey = primary[0]
	}
	foreign := func(side string) ([]sql.ForeignKey, error) {
		return all(ctx, q, pgx.RowToStructByPos[sql.ForeignKey], `
			SELECT o.conname::text, n.nspname || '.' || c.relname, `+named("o.conrelid", "o.conkey", "PERIOD %s")+`,
				rn.nspname || '.' || r.relname, `+named("o.confrelid", "o.confkey", "PERIOD %s")+`
			FROM `+relations+` JOIN pg_catalog.pg_constraint o ON o.conrelid = c.oid
			JOIN pg_catalog.pg_class r ON r.oid = o.confrelid JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
			WHERE o.contype = 'f' AND o.conparentid = 0 AND `+side+` = $1 ORDER BY 2, 1 LIMIT 2000`, oid)
	}
	if detail.ForeignKeys, err = foreign("o.conrelid"); err != nil {
		return err
	}
	detail.ReferencedBy, err = foreign("o.confrelid")
	return err
}

func indexes(ctx context.Context, q querier, oid uint32, detail *sql.TableDetail) error {
	var err error
	detail.Indexes, err = all(ctx, q, pgx.RowToStructByPos[sql.Index], `
		SELECT c.relname::text, pg_catalog.left(coalesce(
				(SELECT pg_catalog.pg_get_constraintdef(o.oid) FROM pg_catalog.pg_constraint o
					WHERE i.indisexclusion AND o.conindid = c.oid AND o.contype IN ('p', 'u', 'x')),
				pg_catalog.pg_get_indexdef(c.oid)), 1000), i.indisunique
		FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = $1 ORDER BY NOT i.indisprimary, 1 LIMIT 2000`, oid)
	if err != nil {
		return err
	}
	detail.Checks, err = all(ctx, q, pgx.RowTo[string], `SELECT pg_catalog.left(pg_catalog.pg_get_constraintdef(oid), 1000)
		FROM pg_catalog.pg_constraint WHERE conrelid = $1 AND contype = 'c' ORDER BY conname LIMIT 2000`, oid)
	return err
}

// Bounds of the examples. A value longer than a page is skipped: the database would fetch it from its storage for large ones.
const (
	sampleRows   = 1000
	sampleValues = 20_000
	exampleCount = 5
	exampleRunes = 60
	exampleBytes = 8192
	// viewCost bounds the cost of a view's first rows, in the planner's unit: a page read in sequence is 1.
	viewCost = 20_000
)

// exemplify adds a few distinct values to each column. They come from the table's first rows, so that no table is read to its end. A view
// that must read all of its tables for its first row gets none, and neither does one that a statement could not read.
func exemplify(ctx context.Context, q querier, detail *sql.TableDetail, allowed []string) error {
	if len(detail.Columns) == 0 {
		return nil
	}
	var values, names []string
	for _, column := range detail.Columns {
		name := pgx.Identifier{column.Name}.Sanitize()
		names = append(names, name)
		value := name
		if column.Type == "money" || strings.HasSuffix(column.Type, "(a domain of money)") {
			value += "::numeric" // as in a result, whatever lc_monetary
		}
		values = append(values, fmt.Sprintf("CASE WHEN pg_catalog.pg_column_size(%s) <= %d THEN pg_catalog.left(%s::text, %d) END",
			name, exampleBytes, value, exampleRunes+1))
	}
	query := fmt.Sprintf("SELECT ARRAY[%s] FROM (SELECT %s FROM %s LIMIT %d) AS sample", strings.Join(values, ", "),
		strings.Join(names, ", "), pgx.Identifier{detail.Schema, detail.Name}.Sanitize(), min(sampleRows, max(exampleCount, sampleValues/len(names))))
	if detail.Kind == "view" {
		view := newUses()
		view.names[detail.Schema], view.names[detail.Name] = true, true
		if err := view.admit(ctx, q, allowed); err != nil {
			return err
		}
	}
	if detail.Kind == "view" || detail.Kind == "foreign table" {
		if cost, err := planned(ctx, q, query); err != nil || cost > viewCost {
			return err
		}
	}
	if detail.Kind == "materialized view" { // it holds no rows, and refuses to be read, until it is first filled
		filled, err := one(ctx, q, pgx.RowTo[bool], `SELECT ispopulated FROM pg_catalog.pg_matviews
			WHERE schemaname = $1::text AND matviewname = $2::text`, detail.Schema, detail.Name)
		if err != nil || !filled {
			return err
		}
	}
	rows, err := all(ctx, q, pgx.RowTo[[]*string], query)
	if err != nil {
		return err
	}
	for i := range detail.Columns {
		detail.Columns[i].Examples = distinct(rows, i)
	}
	return nil
}

// planned is the planner's cost of a query.
func planned(ctx context.Context, q querier, query string) (float64, error) {
	text, err := one(ctx, q, pgx.RowTo[string], "EXPLAIN (FORMAT JSON) "+query)
	if err != nil {
		return 0, err
	}
	var plans []struct {
		Plan struct {
			Cost float64 `json:"Total Cost"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		return 0, err
	}
	if len(plans) == 0 {
		return 0, fmt.Errorf("a plan without a plan: %s", text)
	}
	return plans[0].Plan.Cost, nil
}

// distinct is the first few values of a column that differ, long ones cut.
func distinct(rows [][]*string, column int) []string {
	var out []string
	for _, row := range rows {
		if row[column] == nil {
			continue
		}
		value := text.Shorten(*row[column], exampleRunes)
		if !slices.Contains(out, value) {
			if out = append(out, value); len(out) == exampleCount {
				break
			}
		}
	}
	return out
}

func missing(what, name string, near []string) error {
	hint := "describe_sql without table lists the tables; tables that this login may not read do not show."
	if what == "schema" {
		hint = "describe_sql without schema lists the schemas; schemas that this login may not use do not show."
	}
	if len(near) > 0 {
		hint = "There is " + strings.Join(near, ", ") + ". " + hint
	}
	return fault.New(fault.NotFound, hint, "There is no %s %q.", what, excerpt(name))
}
