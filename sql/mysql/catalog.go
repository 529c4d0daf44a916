// Questions of our own to a database's catalog, bounded.

package mysql

import (
	"context"
	dbsql "database/sql"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// list runs a statement of our own and hands over each row.
func (d *Database) list(ctx context.Context, statement string, params []any, each func(checked.Scan) error) error {
	ctx, cancel := d.withTimeout(ctx)
	defer cancel()
	if err := d.tryList(ctx, statement, params, each); err != nil {
		return d.fail(ctx, err, "")
	}
	return nil
}

func (d *Database) tryList(ctx context.Context, statement string, params []any, each func(checked.Scan) error) error {
	s, err := d.session(ctx)
	if err != nil {
		return err
	}
	defer s.end()
	err = checked.Guard(func() error {
		found, err := s.tx.QueryContext(s.ctx, statement, params...)
		if err != nil {
			return err
		}
		return checked.Each(found, each)
	})
	if s.wire.meter.Tripped() {
		return checked.ErrTooWide
	}
	return err
}

// ofUsers leaves out the server's own databases.
const ofUsers = " NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys') "

const schemasStatement = `
SELECT s.SCHEMA_NAME, COUNT(t.TABLE_NAME)
FROM information_schema.SCHEMATA s LEFT JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = s.SCHEMA_NAME
WHERE s.SCHEMA_NAME` + ofUsers + `GROUP BY s.SCHEMA_NAME ORDER BY s.SCHEMA_NAME LIMIT 2000`

// Schemas implements sql.Database. A schema is a database of MySQL. The server shows a login the schemas that it may use, and no more.
func (d *Database) Schemas(ctx context.Context) ([]sql.Schema, error) {
	var schemas []sql.Schema
	err := d.list(ctx, schemasStatement, nil, func(scan func(...any) error) error {
		var s sql.Schema
		err := scan(&s.Name, &s.Tables)
		schemas = append(schemas, s)
		return err
	})
	return schemas, err
}

// tableColumns are the columns that Tables and Table read of a table. Rows are the engine's estimate.
const tableColumns = `SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, COALESCE(CREATE_OPTIONS, ''), TABLE_ROWS, COALESCE(TABLE_COMMENT, '')
FROM information_schema.TABLES `

// Tables implements sql.Database.
func (d *Database) Tables(ctx context.Context, filter sql.TableFilter) ([]sql.Table, error) {
	limit := int64(filter.Limit)
	if limit <= 0 {
		limit = checked.DefaultTables
	}
	where, params := "WHERE TABLE_SCHEMA"+ofUsers, []any{}
	if filter.Schema != "" {
		where, params = "WHERE TABLE_SCHEMA = ? ", append(params, filter.Schema)
	}
	if filter.Glob != "" {
		where, params = where+"AND TABLE_NAME LIKE ? ", append(params, like(filter))
	}
	var tables []sql.Table
	err := d.list(ctx, tableColumns+where+"ORDER BY TABLE_SCHEMA, TABLE_NAME LIMIT ?", append(params, limit), checked.Into(&tables, scanTable))
	return tables, err
}

// like converts a filter's glob for MySQL, which knows no brackets in LIKE.
func like(filter sql.TableFilter) string {
	return strings.NewReplacer(`\[`, `[`, `\]`, `]`).Replace(filter.Like())
}

func scanTable(scan func(...any) error) (sql.Table, error) {
	var t sql.Table
	var kind, options string
	var rows dbsql.NullInt64
	if err := scan(&t.Schema, &t.Name, &kind, &options, &rows, &t.Comment); err != nil {
		return t, err
	}
	switch {
	case strings.Contains(kind, "VIEW"):
		t.Kind = "view"
		if t.Comment == "VIEW" { // which the server writes itself
			t.Comment = ""
		}
	case strings.Contains(options, "partitioned"):
		t.Kind = "partitioned table"
	default:
		t.Kind = "table"
	}
	if rows.Valid && t.Kind != "view" {
		t.Rows = &rows.Int64
	}
	return t, nil
}

// quote quotes a name.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
