// Tables and columns as describe_sql shows them.

package sqlserver

import (
	"context"
	dbsql "database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// Table implements sql.Database.
func (d *Database) Table(ctx context.Context, schema, name string, examples bool) (*sql.TableDetail, error) {
	table, id, err := d.findTable(ctx, schema, name)
	if err != nil {
		return nil, err
	}
	detail := &sql.TableDetail{Table: table}
	for _, part := range []func(context.Context, int64, *sql.TableDetail) error{d.readColumns, d.readIndexes, d.readForeignKeys, d.readChecks} {
		if err := part(ctx, id, detail); err != nil {
			return nil, err
		}
	}
	if examples {
		d.readExamples(ctx, detail)
	}
	return detail, nil
}

const tableStatement = "SELECT o.object_id, " + tableColumns + "WHERE o.object_id = OBJECT_ID(@p1) AND o.type IN ('U', 'V', 'ET', 'S', 'IT')"

// systemStatement is for the server's own views, which are in a list of their own.
const systemStatement = `SELECT o.object_id, s.name, o.name, RTRIM(o.type), 0, 0, CAST(NULL AS bigint), CAST(NULL AS nvarchar(500))
FROM sys.all_objects AS o
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.object_id = OBJECT_ID(@p1) AND o.type IN ('U', 'V', 'S')`

func (d *Database) findTable(ctx context.Context, schema, name string) (table sql.Table, id int64, err error) {
	full := bracket(name)
	if schema != "" {
		full = bracket(schema) + "." + full
	}
	found := false
	for _, statement := range []string{tableStatement, systemStatement} {
		err = d.list(ctx, statement, []any{full}, func(scan func(...any) error) error {
			found = true
			table, err = scanTable(scan, &id)
			return err
		})
		if err != nil || found {
			return table, id, err
		}
	}
	return table, 0, fault.New(fault.NotFound, "List the tables with describe_sql; give the schema too where it is not the login's own.",
		"There is no table or view %s that the login may see.", full)
}

const columnsStatement = `
SELECT TOP (5000) c.name, t.name, CASE WHEN t.is_user_defined = 1 AND t.is_assembly_type = 0 THEN TYPE_NAME(c.system_type_id) END,
	c.max_length, c.precision, c.scale, c.is_nullable, LEFT(f.definition, 500), LEFT(k.definition, 500),
	CAST(i.seed_value AS nvarchar(40)), CAST(i.increment_value AS nvarchar(40)), CAST(p.value AS nvarchar(500))
FROM sys.all_columns AS c
JOIN sys.types AS t ON t.user_type_id = c.user_type_id
LEFT JOIN sys.default_constraints AS f ON f.object_id = c.default_object_id
LEFT JOIN sys.computed_columns AS k ON k.object_id = c.object_id AND k.column_id = c.column_id
LEFT JOIN sys.identity_columns AS i ON i.object_id = c.object_id AND i.column_id = c.column_id
LEFT JOIN sys.extended_properties AS p ON p.class = 1 AND p.major_id = c.object_id AND p.minor_id = c.column_id AND p.name = N'MS_Description'
WHERE c.object_id = @p1
ORDER BY c.column_id`

func (d *Database) readColumns(ctx context.Context, id int64, detail *sql.TableDetail) error {
	return d.list(ctx, columnsStatement, []any{id}, func(scan func(...any) error) error {
		var c sql.TableColumn
		var base, standard, computed, seed, step, comment dbsql.NullString
		var kind string
		var length, precision, scale int
		if err := scan(&c.Name, &kind, &base, &length, &precision, &scale, &c.Nullable, &standard, &computed, &seed, &step, &comment); err != nil {
			return err
		}
		c.Type = declaredType(kind, length, precision, scale)
		if base.Valid {
			c.Type = fmt.Sprintf("%s (%s)", kind, declaredType(base.String, length, precision, scale))
		}
		c.Default, c.Comment = standard.String, comment.String
		switch {
		case computed.Valid:
			c.Default = "computed as " + computed.String
		case seed.Valid:
			c.Default = fmt.Sprintf("identity(%s,%s)", seed.String, step.String)
		}
		detail.Columns = append(detail.Columns, c)
		return nil
	})
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

const indexesStatement = `
SELECT TOP (5000) i.name, i.type_desc, i.is_unique, i.is_primary_key, LEFT(i.filter_definition, 500), c.name, ic.is_descending_key, ic.is_included_column
FROM sys.indexes AS i
JOIN sys.index_columns AS ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id
JOIN sys.all_columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
WHERE i.object_id = @p1 AND i.is_hypothetical = 0 AND i.name IS NOT NULL
ORDER BY i.index_id, ic.is_included_column, ic.key_ordinal, ic.index_column_id`

// readIndexes reads indexes and the primary key, which is one.
func (d *Database) readIndexes(ctx context.Context, id int64, detail *sql.TableDetail) error {
	var parts []indexParts
	err := d.list(ctx, indexesStatement, []any{id}, func(scan func(...any) error) error {
		var name, kind, column string
		var filter dbsql.NullString
		var unique, primary, descending, included bool
		if err := scan(&name, &kind, &unique, &primary, &filter, &column, &descending, &included); err != nil {
			return err
		}
		if len(parts) == 0 || parts[len(parts)-1].name != name {
			parts = append(parts, indexParts{name: name, kind: kind, filter: filter.String, unique: unique})
		}
		parts[len(parts)-1].add(column, descending, included)
		if primary && !included {
			detail.PrimaryKey = append(detail.PrimaryKey, column)
		}
		return nil
	})
	for _, p := range parts {
		detail.Indexes = append(detail.Indexes, sql.Index{Name: p.name, Definition: p.definition(), Unique: p.unique})
	}
	return err
}

// indexParts is an index while its columns are read.
type indexParts struct {
	name, kind, filter string
	unique             bool
	keys, included     []string
}

func (p *indexParts) add(column string, descending, included bool) {
	column = bracket(column)
	switch {
	case included:
		p.included = append(p.included, column)
	case descending:
		p.keys = append(p.keys, column+" DESC")
	default:
		p.keys = append(p.keys, column)
	}
}

// definition writes the definition in CREATE INDEX.
func (p *indexParts) definition() string {
	text := p.kind
	if p.unique {
		text = "UNIQUE " + text
	}
	if len(p.keys) > 0 {
		text += " (" + strings.Join(p.keys, ", ") + ")"
	}
	if len(p.included) > 0 {
		text += " INCLUDE (" + strings.Join(p.included, ", ") + ")"
	}
	if p.filter != "" {
		text += " WHERE " + p.filter
	}
	return text
}

const foreignKeysStatement = `
SELECT TOP (2000) k.object_id, k.name, CASE WHEN k.parent_object_id = @p1 THEN 1 ELSE 0 END,
	OBJECT_SCHEMA_NAME(k.parent_object_id) + N'.' + OBJECT_NAME(k.parent_object_id), a.name,
	OBJECT_SCHEMA_NAME(k.referenced_object_id) + N'.' + OBJECT_NAME(k.referenced_object_id), b.name
FROM sys.foreign_keys AS k
JOIN sys.foreign_key_columns AS c ON c.constraint_object_id = k.object_id
JOIN sys.columns AS a ON a.object_id = c.parent_object_id AND a.column_id = c.parent_column_id
JOIN sys.columns AS b ON b.object_id = c.referenced_object_id AND b.column_id = c.referenced_column_id
WHERE k.parent_object_id = @p1 OR k.referenced_object_id = @p1
ORDER BY k.name, k.object_id, c.constraint_column_id`

// readForeignKeys reads them both ways; a table that points to itself appears in both lists.
func (d *Database) readForeignKeys(ctx context.Context, id int64, detail *sql.TableDetail) error {
	type key struct {
		id  int64
		own bool
		sql.ForeignKey
	}
	var keys []key
	err := d.list(ctx, foreignKeysStatement, []any{id}, func(scan func(...any) error) error {
		var k key
		var column, referenced string
		if err := scan(&k.id, &k.Name, &k.own, &k.Table, &column, &k.References, &referenced); err != nil {
			return err
		}
		if len(keys) == 0 || keys[len(keys)-1].id != k.id {
			keys = append(keys, k)
		}
		last := &keys[len(keys)-1]
		last.Columns, last.RefColumns = append(last.Columns, column), append(last.RefColumns, referenced)
		return nil
	})
	for _, k := range keys {
		if k.own {
			detail.ForeignKeys = append(detail.ForeignKeys, k.ForeignKey)
		}
		if !k.own || k.Table == k.References {
			detail.ReferencedBy = append(detail.ReferencedBy, k.ForeignKey)
		}
	}
	return err
}

const checksStatement = "SELECT TOP (200) name, LEFT(definition, 1000) FROM sys.check_constraints WHERE parent_object_id = @p1 ORDER BY name"

func (d *Database) readChecks(ctx context.Context, id int64, detail *sql.TableDetail) error {
	return d.list(ctx, checksStatement, []any{id}, func(scan func(...any) error) error {
		var name string
		var definition dbsql.NullString // hidden from logins that may not see definitions
		if err := scan(&name, &definition); err != nil {
			return err
		}
		if definition.Valid {
			detail.Checks = append(detail.Checks, name+": "+definition.String)
		}
		return nil
	})
}

// readExamples looks at the first rows of the table for a few values of each column. A login that may see the
// table and not read it gets none.
func (d *Database) readExamples(ctx context.Context, detail *sql.TableDetail) {
	var columns []*sql.TableColumn
	var parts []string
	for i := range detail.Columns {
		if c := &detail.Columns[i]; len(columns) < checked.ExampleColumns && shown[baseType(c.Type)] {
			columns = append(columns, c)
			parts = append(parts, fmt.Sprintf("LEFT(CONVERT(nvarchar(400), %s%s), %d)", bracket(c.Name), style(c.Type), checked.ExampleLetters))
		}
	}
	if len(columns) == 0 {
		return
	}
	statement := fmt.Sprintf("SELECT TOP (%d) %s FROM %s.%s", checked.ExampleRows, strings.Join(parts, ", "), bracket(detail.Schema), bracket(detail.Name))
	_ = d.list(ctx, statement, nil, checked.Examples(columns, shortest))
}

// shown are the types with values that are readable as text.
var shown = words("tinyint smallint int bigint bit decimal numeric money smallmoney float real date time datetime datetime2 " +
	"smalldatetime datetimeoffset char varchar nchar nvarchar sysname uniqueidentifier")

// baseType is a type's name without its length. That of an alias is in parentheses.
func baseType(declared string) string {
	if _, base, ok := strings.Cut(declared, " ("); ok {
		declared = base
	}
	name, _, _ := strings.Cut(strings.TrimSuffix(declared, ")"), "(")
	return name
}

// style selects ISO dates, and money and floats with all their digits.
func style(declared string) string {
	switch base := baseType(declared); {
	case strings.Contains(base, "date"), base == "time":
		return ", 121"
	case strings.Contains(base, "money"):
		return ", 2"
	case base == "float", base == "real":
		return ", 3"
	}
	return ""
}

// shortest writes a float with the fewest digits that identify it; the server sends all.
func shortest(declared, value string) string {
	bits := 64
	switch baseType(declared) {
	case "real":
		bits = 32
	case "float":
	default:
		return value
	}
	f, err := strconv.ParseFloat(value, bits)
	if err != nil {
		return value
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}
