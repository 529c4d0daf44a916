package mysql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

const (
	// ofUsers leaves out the server's own databases.
	ofUsers = " NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys') "
	// tableColumns are the columns of a table in lists. Rows are the engine's estimate; the server itself comments views.
	tableColumns = `SELECT TABLE_SCHEMA, TABLE_NAME,
	CASE WHEN TABLE_TYPE LIKE '%VIEW%' THEN 'view' WHEN CREATE_OPTIONS LIKE '%partitioned%' THEN 'partitioned table' ELSE 'table' END,
	CASE WHEN TABLE_TYPE NOT LIKE '%VIEW%' THEN TABLE_ROWS END, CASE WHEN TABLE_TYPE NOT LIKE '%VIEW%' OR TABLE_COMMENT <> 'VIEW' THEN TABLE_COMMENT END
FROM information_schema.TABLES `
	foreignKeys = `
SELECT CONSTRAINT_NAME, CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), COLUMN_NAME, CONCAT(REFERENCED_TABLE_SCHEMA, '.', REFERENCED_TABLE_NAME), REFERENCED_COLUMN_NAME
FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL AND %[1]sTABLE_SCHEMA = ? AND %[1]sTABLE_NAME = ?
ORDER BY CONSTRAINT_NAME, TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION LIMIT 2000`
	// checks is MySQL's: a check's name is unique in a schema. In MariaDB it is unique in a table, and the catalog names the table.
	checks = `
SELECT CONCAT(c.CONSTRAINT_NAME, ': ', LEFT(c.CHECK_CLAUSE, 1000)) FROM information_schema.CHECK_CONSTRAINTS c
JOIN information_schema.TABLE_CONSTRAINTS t USING (CONSTRAINT_SCHEMA, CONSTRAINT_NAME)
WHERE t.TABLE_SCHEMA = ? AND t.TABLE_NAME = ? AND t.CONSTRAINT_TYPE = 'CHECK' ORDER BY 1 LIMIT 200`
	checksOfMariaDB = `
SELECT CONCAT(CONSTRAINT_NAME, ': ', LEFT(CHECK_CLAUSE, 1000)) FROM information_schema.CHECK_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ? ORDER BY 1 LIMIT 200`
)

var catalog = reader.Catalog{
	// A schema is a database of MySQL.
	Schemas: `
SELECT s.SCHEMA_NAME, COUNT(t.TABLE_NAME), NULL
FROM information_schema.SCHEMATA s LEFT JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = s.SCHEMA_NAME
WHERE s.SCHEMA_NAME` + ofUsers + `GROUP BY s.SCHEMA_NAME ORDER BY s.SCHEMA_NAME LIMIT 2000`,
	Tables: tables,
	Find: func(s *reader.Session, schema, name string) (table sql.Table, key []any, err error) {
		err = reader.NotFound(strings.TrimPrefix(schema+"."+name, "."), "the connection's own database")
		asked := s.Each(tableColumns+"WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?", []any{schema, name}, func(scan reader.Scan) error {
			table, err = reader.ScanTable(scan)
			return err
		})
		if asked != nil {
			err = asked
		}
		return table, []any{table.Schema, table.Name}, err
	},
	// MariaDB writes NULL as the default of a column that has none.
	Columns: `
SELECT COLUMN_NAME, CASE WHEN DATA_TYPE IN ('enum', 'set') THEN DATA_TYPE ELSE COLUMN_TYPE END, IS_NULLABLE = 'YES',
	CASE WHEN GENERATION_EXPRESSION <> '' THEN CONCAT('computed as ', GENERATION_EXPRESSION) WHEN EXTRA LIKE '%auto_increment%' THEN 'auto_increment'
		WHEN IS_NULLABLE <> 'YES' OR COLUMN_DEFAULT <> 'NULL' THEN COLUMN_DEFAULT END,
	COLUMN_COMMENT, CASE WHEN DATA_TYPE IN ('enum', 'set') THEN COLUMN_TYPE END
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION LIMIT 5000`,
	Listed: listed,
	Indexes: `
SELECT INDEX_NAME, NON_UNIQUE = 0, CONCAT(IF(NON_UNIQUE = 0, 'UNIQUE ', ''), INDEX_TYPE), NULL, IF(INDEX_NAME = 'PRIMARY', COLUMN_NAME, NULL),
	CONCAT(COALESCE(CONCAT('` + "`', REPLACE(COLUMN_NAME, '`', '``'), '`" + `'), '(expression)'),
		COALESCE(CONCAT('(', SUB_PART, ')'), ''), IF(COLLATION = 'D', ' DESC', '')), FALSE
FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX LIMIT 5000`,
	ForeignKeys: fmt.Sprintf(foreignKeys, ""), ReferencedBy: fmt.Sprintf(foreignKeys, "REFERENCED_"),
	Checks: func(s *reader.Session) string {
		if s.Conn.Driver.(*conn).mariadb {
			return checksOfMariaDB
		}
		return checks
	},
	Rights: rights,
}

func tables(_ *reader.Session, filter sql.TableFilter) (query string, args []any, err error) {
	where := "WHERE TABLE_SCHEMA" + ofUsers
	if filter.Schema != "" {
		where, args = "WHERE TABLE_SCHEMA = ? ", append(args, filter.Schema)
	}
	if filter.Glob != "" { // LIKE knows no brackets here
		where, args = where+"AND TABLE_NAME LIKE ? ", append(args, strings.NewReplacer(`\[`, `[`, `\]`, `]`).Replace(filter.Like()))
	}
	return tableColumns + where + "ORDER BY TABLE_SCHEMA, TABLE_NAME LIMIT ?", append(args, int64(filter.Limit)), nil
}

// listed are the texts in enum('a','b').
func listed(declared string) []string {
	tokens, err := lex(declared)
	if err != nil {
		return []string{declared}
	}
	var values []string
	for _, t := range tokens {
		if t.Kind == literal {
			values = append(values, strings.ReplaceAll(t.Text[1:len(t.Text)-1], "''", "'"))
		}
	}
	return values
}

// grant matches a line of SHOW GRANTS: the privileges, and their object.
var grant = regexp.MustCompile(`^GRANT (.+) ON (.+?) TO `)

// harmless are the rights with which nothing can be changed. PROCESS shows other sessions' statements.
var harmless = []string{"USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES", "REFERENCES", "PROCESS", "REPLICATION CLIENT", "BINLOG MONITOR", "SLAVE MONITOR"}

var columnList = regexp.MustCompile(`\s*\([^)]*\)`)

func rights(s *reader.Session) (found []sql.Finding, err error) {
	lines, err := reader.List[string](s, "SHOW GRANTS")
	for _, line := range lines {
		parts := grant.FindStringSubmatch(line)
		if parts == nil || parts[1] == "PROXY" {
			continue // a role has its rights in lines of their own
		}
		more := strings.Split(columnList.ReplaceAllString(parts[1], ""), ",")
		for i := range more {
			more[i] = strings.TrimSpace(more[i])
		}
		more = slices.DeleteFunc(more, func(right string) bool { return slices.Contains(harmless, right) })
		what := fmt.Sprintf("has %s on %s", reader.Excerpt(strings.Join(more, ", ")), reader.Excerpt(parts[2]))
		if slices.Contains(more, "ALL PRIVILEGES") {
			what = "may do everything on " + reader.Excerpt(parts[2])
		}
		if len(more) > 0 {
			found = append(found, sql.Finding{What: what, Fix: safeLogin})
		}
	}
	return found, err
}

// safeLogin makes a login that reads one database.
const safeLogin = `CREATE USER sandbox_reader IDENTIFIED BY '…';
GRANT SELECT, SHOW VIEW ON name_of_database.* TO sandbox_reader;`
