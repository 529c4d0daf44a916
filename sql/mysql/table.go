// Tables and columns as describe_sql shows them.

package mysql

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// Table implements sql.Database.
func (d *Database) Table(ctx context.Context, schema, name string, examples bool) (*sql.TableDetail, error) {
	detail := &sql.TableDetail{}
	found := false
	err := d.list(ctx, tableColumns+"WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?", []any{schema, name}, func(scan func(...any) error) (err error) {
		found = true
		detail.Table, err = scanTable(scan)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fault.New(fault.NotFound, "List the tables with describe_sql; give the schema too where it is not the connection's own database.",
			"There is no table or view %.200s that the login may see.", strings.TrimPrefix(schema+"."+name, "."))
	}
	for _, part := range []func(context.Context, *sql.TableDetail) error{d.readColumns, d.readIndexes, d.readForeignKeys, d.readChecks} {
		if err := part(ctx, detail); err != nil {
			return nil, err
		}
	}
	if examples {
		d.readExamples(ctx, detail)
	}
	return detail, nil
}

const columnsStatement = `
SELECT COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, IS_NULLABLE = 'YES', COLUMN_DEFAULT, EXTRA, COALESCE(GENERATION_EXPRESSION, ''), COLUMN_COMMENT
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION LIMIT 5000`

func (d *Database) readColumns(ctx context.Context, detail *sql.TableDetail) error {
	return d.list(ctx, columnsStatement, []any{detail.Schema, detail.Name}, func(scan func(...any) error) error {
		var c sql.TableColumn
		var kind, extra, generated string
		var standard dbsql.NullString
		if err := scan(&c.Name, &c.Type, &kind, &c.Nullable, &standard, &extra, &generated, &c.Comment); err != nil {
			return err
		}
		if kind == "enum" || kind == "set" {
			c.Values = listed(c.Type)
			c.Type = kind
		}
		c.Default = standard.String
		switch {
		case generated != "":
			c.Default = "computed as " + generated
		case strings.Contains(extra, "auto_increment"):
			c.Default = "auto_increment"
		case c.Nullable && c.Default == "NULL": // which MariaDB writes if there is none
			c.Default = ""
		}
		detail.Columns = append(detail.Columns, c)
		return nil
	})
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

const indexesStatement = `
SELECT INDEX_NAME, NON_UNIQUE = 0, INDEX_TYPE, COALESCE(COLUMN_NAME, ''), COALESCE(SUB_PART, 0), COALESCE(COLLATION, '') = 'D'
FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX LIMIT 5000`

// readIndexes reads indexes and the primary key, which is one.
func (d *Database) readIndexes(ctx context.Context, detail *sql.TableDetail) error {
	last := ""
	return d.list(ctx, indexesStatement, []any{detail.Schema, detail.Name}, func(scan func(...any) error) error {
		var index sql.Index
		var kind, column string
		var length int
		var descending bool
		if err := scan(&index.Name, &index.Unique, &kind, &column, &length, &descending); err != nil {
			return err
		}
		if index.Name == "PRIMARY" {
			detail.PrimaryKey = append(detail.PrimaryKey, column)
		}
		part := quote(column)
		if column == "" {
			part = "(expression)"
		}
		if length > 0 {
			part += fmt.Sprintf("(%d)", length)
		}
		if descending {
			part += " DESC"
		}
		if index.Name == last {
			definition := &detail.Indexes[len(detail.Indexes)-1].Definition
			*definition = strings.TrimSuffix(*definition, ")") + ", " + part + ")"
			return nil
		}
		last = index.Name
		index.Definition = kind + " (" + part + ")"
		if index.Unique {
			index.Definition = "UNIQUE " + index.Definition
		}
		detail.Indexes = append(detail.Indexes, index)
		return nil
	})
}

const foreignKeysStatement = `
SELECT CONSTRAINT_NAME, CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), COLUMN_NAME, CONCAT(REFERENCED_TABLE_SCHEMA, '.', REFERENCED_TABLE_NAME), REFERENCED_COLUMN_NAME
FROM information_schema.KEY_COLUMN_USAGE
WHERE REFERENCED_TABLE_NAME IS NOT NULL AND (TABLE_SCHEMA = ? AND TABLE_NAME = ? OR REFERENCED_TABLE_SCHEMA = ? AND REFERENCED_TABLE_NAME = ?)
ORDER BY CONSTRAINT_NAME, TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION LIMIT 2000`

// readForeignKeys reads them both ways; a table that points to itself appears in both lists.
func (d *Database) readForeignKeys(ctx context.Context, detail *sql.TableDetail) error {
	var keys []sql.ForeignKey
	err := d.list(ctx, foreignKeysStatement, []any{detail.Schema, detail.Name, detail.Schema, detail.Name}, func(scan func(...any) error) error {
		var k sql.ForeignKey
		var column, referenced string
		if err := scan(&k.Name, &k.Table, &column, &k.References, &referenced); err != nil {
			return err
		}
		if n := len(keys); n == 0 || keys[n-1].Name != k.Name || keys[n-1].Table != k.Table {
			keys = append(keys, k)
		}
		last := &keys[len(keys)-1]
		last.Columns, last.RefColumns = append(last.Columns, column), append(last.RefColumns, referenced)
		return nil
	})
	own := detail.Schema + "." + detail.Name
	for _, k := range keys {
		if strings.EqualFold(k.Table, own) {
			detail.ForeignKeys = append(detail.ForeignKeys, k)
		}
		if strings.EqualFold(k.References, own) {
			detail.ReferencedBy = append(detail.ReferencedBy, k)
		}
	}
	return err
}

// checksStatement is MySQL's: a check's name is unique in a schema. In MariaDB it is unique in a table, and the catalog names the table.
const (
	checksStatement = `
SELECT CONCAT(c.CONSTRAINT_NAME, ': ', LEFT(c.CHECK_CLAUSE, 1000)) FROM information_schema.CHECK_CONSTRAINTS c
JOIN information_schema.TABLE_CONSTRAINTS t USING (CONSTRAINT_SCHEMA, CONSTRAINT_NAME)
WHERE t.TABLE_SCHEMA = ? AND t.TABLE_NAME = ? AND t.CONSTRAINT_TYPE = 'CHECK' ORDER BY 1 LIMIT 200`
	checksOfMariaDB = `
SELECT CONCAT(CONSTRAINT_NAME, ': ', LEFT(CHECK_CLAUSE, 1000)) FROM information_schema.CHECK_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ? ORDER BY 1 LIMIT 200`
)

// readChecks reads the check constraints that the server knows; MySQL before 8.0.16 knows none.
func (d *Database) readChecks(ctx context.Context, detail *sql.TableDetail) error {
	ctx, cancel := d.withTimeout(ctx)
	defer cancel()
	read := func(statement string) error {
		return d.tryList(ctx, statement, []any{detail.Schema, detail.Name}, func(scan func(...any) error) error {
			var check string
			err := scan(&check)
			detail.Checks = append(detail.Checks, check)
			return err
		})
	}
	err := read(checksOfMariaDB)
	var said *mysql.MySQLError
	if errors.As(err, &said) {
		err = read(checksStatement)
	}
	if err == nil || errors.As(err, &said) {
		return nil
	}
	return d.fail(ctx, err, "")
}

// shown matches the types with values that are readable as text.
var shown = regexp.MustCompile(`int|^decimal|^float|^double|char|text|^date|^time|^year|^enum|^set|^json|^uuid|^inet`)

// readExamples reads a few values of each column from the table's first rows. A login that may see the table and not read it gets none; nor
// does a view, which may call unknown functions.
func (d *Database) readExamples(ctx context.Context, detail *sql.TableDetail) {
	var columns []*sql.TableColumn
	var parts []string
	for i := range detail.Columns {
		c := &detail.Columns[i]
		if len(columns) == checked.ExampleColumns || !shown.MatchString(c.Type) {
			continue
		}
		columns = append(columns, c)
		parts = append(parts, fmt.Sprintf("LEFT(CAST(%s AS CHAR CHARACTER SET utf8mb4), %d)", quote(c.Name), checked.ExampleLetters))
	}
	if len(columns) == 0 || detail.Kind == "view" {
		return
	}
	statement := fmt.Sprintf("SELECT %s FROM %s.%s LIMIT %d", strings.Join(parts, ", "), quote(detail.Schema), quote(detail.Name), checked.ExampleRows)
	_ = d.list(ctx, statement, nil, checked.Examples(columns, func(_, value string) string { return value }))
}
