package sqlserver

import (
	dbsql "database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

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

// tableColumns are the columns of a table in lists. A view with an index keeps its rows. The server counts rows as it goes; -1: nothing
// counted them, as in an external table.
const tableColumns = `s.name, o.name,
	CASE WHEN o.type = 'ET' THEN N'foreign table'
		WHEN o.type = 'V' AND EXISTS (SELECT 1 FROM sys.indexes AS x WHERE x.object_id = o.object_id AND x.index_id = 1) THEN N'materialized view'
		WHEN o.type = 'V' THEN N'view'
		WHEN EXISTS (SELECT 1 FROM sys.partitions AS n WHERE n.object_id = o.object_id AND n.index_id IN (0, 1) AND n.partition_number > 1)
			THEN N'partitioned table'
		ELSE N'table' END,
	(SELECT CASE WHEN SUM(n.rows) >= 0 THEN SUM(n.rows) END FROM sys.partitions AS n WHERE n.object_id = o.object_id AND n.index_id IN (0, 1)),
	CAST(p.value AS nvarchar(500))
FROM sys.objects AS o
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
LEFT JOIN sys.extended_properties AS p ON p.class = 1 AND p.major_id = o.object_id AND p.minor_id = 0 AND p.name = N'MS_Description'
`

const tablesStatement = "SELECT TOP (@p1) " + tableColumns + `
WHERE o.type IN ('U', 'V', 'ET') AND o.is_ms_shipped = 0
	AND (@p2 = N'' OR s.name = @p2) AND (@p3 = N'' OR o.name LIKE @p3 ESCAPE N'\')
ORDER BY s.name, o.name`

const tableStatement = "SELECT o.object_id, " + tableColumns + "WHERE o.object_id = OBJECT_ID(@p1) AND o.type IN ('U', 'V', 'ET', 'S', 'IT')"

// systemStatement is for the server's own views, which are in a list of their own.
const systemStatement = `SELECT o.object_id, s.name, o.name, CASE WHEN o.type = 'V' THEN N'view' ELSE N'table' END, CAST(NULL AS bigint), CAST(NULL AS nvarchar(500))
FROM sys.all_objects AS o
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.object_id = OBJECT_ID(@p1) AND o.type IN ('U', 'V', 'S')`

const columnsStatement = `
SELECT TOP (5000) c.name, t.name, CASE WHEN t.is_user_defined = 1 AND t.is_assembly_type = 0 THEN TYPE_NAME(c.system_type_id) END,
	c.max_length, c.precision, c.scale, c.is_nullable,
	CASE WHEN k.definition IS NOT NULL THEN N'computed as ' + LEFT(k.definition, 500)
		WHEN i.seed_value IS NOT NULL THEN N'identity(' + CAST(i.seed_value AS nvarchar(40)) + N',' + CAST(i.increment_value AS nvarchar(40)) + N')'
		ELSE LEFT(f.definition, 500) END,
	CAST(p.value AS nvarchar(500))
FROM sys.all_columns AS c
JOIN sys.types AS t ON t.user_type_id = c.user_type_id
LEFT JOIN sys.default_constraints AS f ON f.object_id = c.default_object_id
LEFT JOIN sys.computed_columns AS k ON k.object_id = c.object_id AND k.column_id = c.column_id
LEFT JOIN sys.identity_columns AS i ON i.object_id = c.object_id AND i.column_id = c.column_id
LEFT JOIN sys.extended_properties AS p ON p.class = 1 AND p.major_id = c.object_id AND p.minor_id = c.column_id AND p.name = N'MS_Description'
WHERE c.object_id = @p1
ORDER BY c.column_id`

const indexesStatement = `
SELECT TOP (5000) i.name, i.is_unique, CASE WHEN i.is_unique = 1 THEN N'UNIQUE ' ELSE N'' END + i.type_desc, LEFT(i.filter_definition, 500),
	CASE WHEN i.is_primary_key = 1 AND ic.is_included_column = 0 THEN c.name END,
	QUOTENAME(c.name) + CASE WHEN ic.is_descending_key = 1 THEN N' DESC' ELSE N'' END, ic.is_included_column
FROM sys.indexes AS i
JOIN sys.index_columns AS ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id
JOIN sys.all_columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
WHERE i.object_id = @p1 AND i.is_hypothetical = 0 AND i.name IS NOT NULL
ORDER BY i.index_id, ic.is_included_column, ic.key_ordinal, ic.index_column_id`

// foreignKeysStatement is for the keys of a table, with parent, and those that point to it, with referenced.
const foreignKeysStatement = `
SELECT TOP (2000) k.name, OBJECT_SCHEMA_NAME(k.parent_object_id) + N'.' + OBJECT_NAME(k.parent_object_id), a.name,
	OBJECT_SCHEMA_NAME(k.referenced_object_id) + N'.' + OBJECT_NAME(k.referenced_object_id), b.name
FROM sys.foreign_keys AS k
JOIN sys.foreign_key_columns AS c ON c.constraint_object_id = k.object_id
JOIN sys.columns AS a ON a.object_id = c.parent_object_id AND a.column_id = c.parent_column_id
JOIN sys.columns AS b ON b.object_id = c.referenced_object_id AND b.column_id = c.referenced_column_id
WHERE k.%s_object_id = @p1
ORDER BY k.name, k.object_id, c.constraint_column_id`

// Definitions are hidden from logins that may not see them.
const checksStatement = "SELECT TOP (200) name + N': ' + LEFT(definition, 1000) FROM sys.check_constraints WHERE parent_object_id = @p1 ORDER BY name"

var catalog = reader.Catalog{
	Schemas: schemasStatement,
	Tables: func(_ *reader.Session, filter sql.TableFilter) (string, []any, error) {
		return tablesStatement, []any{int64(filter.Limit), filter.Schema, filter.Like()}, nil
	},
	Find:    find,
	Columns: columnsStatement, Column: column,
	Indexes:     indexesStatement,
	ForeignKeys: fmt.Sprintf(foreignKeysStatement, "parent"), ReferencedBy: fmt.Sprintf(foreignKeysStatement, "referenced"),
	Checks: func(*reader.Session) string { return checksStatement },
	Rights: rights,
}

func find(s *reader.Session, schema, name string) (table sql.Table, key []any, err error) {
	full := bracket(name)
	if schema != "" {
		full = bracket(schema) + "." + full
	}
	var id int64
	for _, statement := range []string{tableStatement, systemStatement} {
		err := s.Each(statement, []any{full}, func(scan reader.Scan) (err error) {
			table, err = reader.ScanTable(scan, &id)
			key = []any{id}
			return err
		})
		if err != nil || key != nil {
			return table, key, err
		}
	}
	return table, nil, reader.NotFound(full, "the login's own")
}

// bracket quotes a name.
func bracket(name string) string { return "[" + strings.ReplaceAll(name, "]", "]]") + "]" }

func column(scan reader.Scan) (c sql.TableColumn, err error) {
	var base, standard, comment dbsql.NullString
	var kind string
	var length, precision, scale int
	err = scan(&c.Name, &kind, &base, &length, &precision, &scale, &c.Nullable, &standard, &comment)
	c.Type, c.Default, c.Comment = declaredType(kind, length, precision, scale), standard.String, comment.String
	if base.Valid {
		c.Type = fmt.Sprintf("%s (%s)", kind, declaredType(base.String, length, precision, scale))
	}
	return c, err
}

// declaredType writes a type with its length. The catalog counts bytes, and nvarchar takes two a letter.
func declaredType(kind string, length, precision, scale int) string {
	switch kind {
	case "decimal", "numeric":
		return fmt.Sprintf("%s(%d,%d)", kind, precision, scale)
	case "time", "datetime2", "datetimeoffset":
		return fmt.Sprintf("%s(%d)", kind, scale)
	case "nchar", "nvarchar":
		if length > 0 {
			length /= 2
		}
	case "char", "varchar", "binary", "varbinary":
	default:
		return kind
	}
	if length < 0 {
		return kind + "(max)"
	}
	return fmt.Sprintf("%s(%d)", kind, length)
}

// rightsStatement asks for one row: the login's name, then 1 for each right or membership in the columns.
const rightsStatement = `
SELECT USER_NAME(),
	ISNULL(IS_SRVROLEMEMBER('sysadmin'), 0), ISNULL(HAS_PERMS_BY_NAME(NULL, NULL, 'CONTROL SERVER'), 0),
	ISNULL(IS_ROLEMEMBER('db_owner'), 0), ISNULL(IS_ROLEMEMBER('db_datawriter'), 0), ISNULL(IS_ROLEMEMBER('db_ddladmin'), 0),
	ISNULL(IS_ROLEMEMBER('db_securityadmin'), 0), ISNULL(IS_ROLEMEMBER('db_accessadmin'), 0), ISNULL(IS_ROLEMEMBER('db_backupoperator'), 0),
	ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'INSERT'), 0), ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'UPDATE'), 0),
	ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'DELETE'), 0), ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'ALTER'), 0),
	ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'EXECUTE'), 0),
	(SELECT COUNT(*) FROM sys.objects AS o WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0
		AND 1 IN (HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name), 'OBJECT', 'INSERT'),
			HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name), 'OBJECT', 'UPDATE'),
			HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name), 'OBJECT', 'DELETE'))),
	@@VERSION`

// The columns of rightsStatement that are asked alike.
var (
	writingRoles  = []string{"db_datawriter", "db_ddladmin", "db_securityadmin", "db_accessadmin", "db_backupoperator"}
	writingRights = []string{"INSERT", "UPDATE", "DELETE", "ALTER", "EXECUTE"}
)

func rights(s *reader.Session) (found []sql.Finding, err error) {
	var user, version string
	var sysadmin, control, owner, tables int
	member, may := make([]int, len(writingRoles)), make([]int, len(writingRights))
	targets := []any{&user, &sysadmin, &control, &owner}
	for _, list := range [][]int{member, may} {
		for i := range list {
			targets = append(targets, &list[i])
		}
	}
	if _, err = s.One(rightsStatement, nil, append(targets, &tables, &version)...); err != nil {
		return nil, err
	}
	find := func(fix, what string, args ...any) {
		found = append(found, sql.Finding{What: fmt.Sprintf(what, args...), Fix: fix})
	}
	if !ownVersion.MatchString(version) {
		find("Rely on nothing but a login that cannot write, made as that server's manual says.",
			"is on a server that calls itself %q: what holds writes back here is made for SQL Server itself", reader.Excerpt(version))
	}
	others := len(found)
	switch {
	case sysadmin+control > 0:
		find(safeLogin, "administers the server")
		return found, nil
	case owner > 0:
		find(safeLogin, "owns the database (db_owner)")
		return found, nil
	}
	for i, role := range writingRoles {
		if member[i] == 1 {
			find(fmt.Sprintf("ALTER ROLE %s DROP MEMBER %s;", role, bracket(user)), "is a member of %s", role)
		}
	}
	var list []string
	for i, right := range writingRights {
		if may[i] == 1 {
			list = append(list, right)
		}
	}
	if all := strings.Join(list, ", "); all != "" {
		find(fmt.Sprintf("DENY %s TO %s;", all, bracket(user)), "has %s in the whole database", all)
	} else if tables > 0 && len(found) == others {
		find(fmt.Sprintf("DENY INSERT, UPDATE, DELETE TO %s;", bracket(user)), "may write to %d tables or views", tables)
	}
	return found, nil
}

// ownVersion is how SQL Server and its relatives in Azure begin @@VERSION. Others that speak its protocol and its
// language, such as Babelfish, begin it with their own name.
var ownVersion = regexp.MustCompile(`^Microsoft (SQL|Azure) `)

// safeLogin makes a login that reads one database; DENY overrides rights of the role public.
const safeLogin = `CREATE LOGIN sandbox_reader WITH PASSWORD = '…'; -- in master
CREATE USER sandbox_reader FOR LOGIN sandbox_reader; -- in the database
ALTER ROLE db_datareader ADD MEMBER sandbox_reader;
GRANT VIEW DEFINITION TO sandbox_reader;
DENY INSERT, UPDATE, DELETE, EXECUTE, ALTER TO sandbox_reader;`
