// Questions of our own to a database's catalog, bounded.

package sqlserver

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
	s, _, err := d.session(ctx, "", nil, false)
	if err != nil {
		return err
	}
	defer s.end()
	found, err := s.tx.QueryContext(ctx, statement, params...)
	if err != nil {
		return s.because(err)
	}
	return s.because(checked.Each(found, each))
}

// The fixed roles own schemas that hardly anybody uses.
const schemasStatement = `
SELECT TOP (2000) s.name, COUNT(o.object_id), MAX(CAST(p.value AS nvarchar(500)))
FROM sys.schemas AS s
LEFT JOIN sys.objects AS o ON o.schema_id = s.schema_id AND o.type IN ('U', 'V', 'ET') AND o.is_ms_shipped = 0
LEFT JOIN sys.extended_properties AS p ON p.class = 3 AND p.major_id = s.schema_id AND p.minor_id = 0 AND p.name = N'MS_Description'
WHERE s.name NOT IN (N'sys', N'INFORMATION_SCHEMA')
GROUP BY s.schema_id, s.name
HAVING COUNT(o.object_id) > 0 OR HAS_PERMS_BY_NAME(QUOTENAME(s.name), 'SCHEMA', 'SELECT') = 1 AND s.name NOT IN (N'guest', N'db_owner',
	N'db_accessadmin', N'db_securityadmin', N'db_ddladmin', N'db_backupoperator', N'db_datareader', N'db_datawriter', N'db_denydatareader', N'db_denydatawriter')
ORDER BY s.name`

// Schemas implements sql.Database. The server shows a login the objects that it may use, and no others.
func (d *Database) Schemas(ctx context.Context) ([]sql.Schema, error) {
	var schemas []sql.Schema
	err := d.list(ctx, schemasStatement, nil, func(scan func(...any) error) error {
		var s sql.Schema
		var comment dbsql.NullString
		if err := scan(&s.Name, &s.Tables, &comment); err != nil {
			return err
		}
		s.Comment = comment.String
		schemas = append(schemas, s)
		return nil
	})
	return schemas, err
}

// tableColumns are the columns that Tables and Table read of a table. The server counts rows as it goes.
const tableColumns = `s.name, o.name, RTRIM(o.type),
	CASE WHEN EXISTS (SELECT 1 FROM sys.partitions AS n WHERE n.object_id = o.object_id AND n.index_id IN (0, 1) AND n.partition_number > 1)
		THEN 1 ELSE 0 END,
	CASE WHEN EXISTS (SELECT 1 FROM sys.indexes AS x WHERE x.object_id = o.object_id AND x.index_id = 1) THEN 1 ELSE 0 END,
	(SELECT SUM(n.rows) FROM sys.partitions AS n WHERE n.object_id = o.object_id AND n.index_id IN (0, 1)),
	CAST(p.value AS nvarchar(500))
FROM sys.objects AS o
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
LEFT JOIN sys.extended_properties AS p ON p.class = 1 AND p.major_id = o.object_id AND p.minor_id = 0 AND p.name = N'MS_Description'
`

const tablesStatement = "SELECT TOP (@p1) " + tableColumns + `
WHERE o.type IN ('U', 'V', 'ET') AND o.is_ms_shipped = 0
	AND (@p2 = N'' OR s.name = @p2) AND (@p3 = N'' OR o.name LIKE @p3 ESCAPE N'\')
ORDER BY s.name, o.name`

// Tables implements sql.Database.
func (d *Database) Tables(ctx context.Context, filter sql.TableFilter) ([]sql.Table, error) {
	limit := int64(filter.Limit)
	if limit <= 0 {
		limit = checked.DefaultTables
	}
	var tables []sql.Table
	err := d.list(ctx, tablesStatement, []any{limit, filter.Schema, filter.Like()}, checked.Into(&tables, func(scan checked.Scan) (sql.Table, error) { return scanTable(scan) }))
	return tables, err
}

// scanTable reads tableColumns, and the columns before them into more.
func scanTable(scan func(...any) error, more ...any) (sql.Table, error) {
	var t sql.Table
	var kind string
	var partitioned, clustered int
	var rows dbsql.NullInt64
	var comment dbsql.NullString
	if err := scan(append(more, &t.Schema, &t.Name, &kind, &partitioned, &clustered, &rows, &comment)...); err != nil {
		return t, err
	}
	t.Kind = tableKind(kind, partitioned == 1, clustered == 1)
	t.Comment = comment.String
	if rows.Valid && rows.Int64 >= 0 { // -1 if nothing counted them, as in an external table
		t.Rows = &rows.Int64
	}
	return t, nil
}

// tableKind returns the word for a type of sys.objects. A view with an index keeps its rows.
func tableKind(kind string, partitioned, clustered bool) string {
	switch {
	case kind == "ET":
		return "foreign table"
	case kind == "V" && clustered:
		return "materialized view"
	case kind == "V":
		return "view"
	case partitioned:
		return "partitioned table"
	default:
		return "table"
	}
}

// bracket quotes a name.
func bracket(name string) string { return "[" + strings.ReplaceAll(name, "]", "]]") + "]" }
