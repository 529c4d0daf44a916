package reader

import (
	"context"
	dbsql "database/sql"
	"encoding/json"
	"errors"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// defaultTables is how many tables are listed if the filter sets no limit.
const defaultTables = 1000

// Scan reads the columns of a row.
type Scan = func(...any) error

// Into returns a function that converts each row by one and appends it to a list.
func Into[T any](list *[]T, one func(Scan) (T, error)) func(Scan) error {
	return func(scan Scan) error {
		item, err := one(scan)
		*list = append(*list, item)
		return err
	}
}

// Schemas implements sql.Database. Servers show a login what it may use, and no more.
func (d *Database) Schemas(ctx context.Context) ([]sql.Schema, error) {
	var schemas []sql.Schema
	err := d.Look(ctx, func(s *Session) error {
		return s.Each(d.dialect.Catalog.Schemas, nil, Into(&schemas, func(scan Scan) (schema sql.Schema, err error) {
			var comment dbsql.NullString
			err = scan(&schema.Name, &schema.Tables, &comment)
			schema.Comment = comment.String
			return schema, err
		}))
	})
	return schemas, err
}

// Tables implements sql.Database.
func (d *Database) Tables(ctx context.Context, filter sql.TableFilter) ([]sql.Table, error) {
	if filter.Limit <= 0 {
		filter.Limit = defaultTables
	}
	tables := []sql.Table{}
	err := d.Look(ctx, func(s *Session) error {
		query, args, err := d.dialect.Catalog.Tables(s, filter)
		if err != nil {
			return err
		}
		err = s.Each(query, args, Into(&tables, func(scan Scan) (sql.Table, error) { return ScanTable(scan) }))
		for i := 0; err == nil && len(tables) <= filter.Columns && i < len(tables); i++ {
			tables[i].Described, err = d.described(s, tables[i])
		}
		return err
	})
	return tables, err
}

// described returns a table's columns and their types.
func (d *Database) described(s *Session, of sql.Table) (string, error) {
	var detail sql.TableDetail
	c := &d.dialect.Catalog
	_, key, err := c.Find(s, of.Schema, of.Name)
	if err == nil {
		err = c.columns(s, key, &detail)
	}
	var columns []string
	for _, column := range detail.Columns {
		columns = append(columns, column.Name+" "+column.Type)
	}
	return strings.Join(columns, ", "), err
}

// ScanTable reads a table's schema, name, kind, estimated rows and comment, and what stands before them into more.
func ScanTable(scan Scan, more ...any) (t sql.Table, err error) {
	var comment dbsql.NullString
	err = scan(append(more, &t.Schema, &t.Name, &t.Kind, &t.Rows, &comment)...)
	t.Comment = comment.String
	return t, err
}

// Rights implements sql.Database. A login that can do nothing but read makes everything else here a second lock.
func (d *Database) Rights(ctx context.Context) (found []sql.Finding, err error) {
	return found, d.Look(ctx, func(s *Session) (err error) {
		found, err = d.dialect.Catalog.Rights(s)
		return err
	})
}

// Table implements sql.Database.
func (d *Database) Table(ctx context.Context, schema, name string) (*sql.TableDetail, error) {
	detail := &sql.TableDetail{}
	c := &d.dialect.Catalog
	err := d.Look(ctx, func(s *Session) error {
		table, key, err := c.Find(s, schema, name)
		if err != nil {
			return err
		}
		detail.Table = table
		for _, read := range []func(*Session, []any, *sql.TableDetail) error{
			c.columns, c.primaryKey, c.indexes, c.foreignKeys, c.checks,
		} {
			if err := read(s, key, detail); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return detail, nil
}

// NotFound is the error for a table that there is not. own is the schema of names without one.
func NotFound(name, own string) error {
	return fault.New(fault.NotFound, "List the tables with describe_sql; give the schema too where it is not "+own+".",
		"There is no table or view %.200s that the login may see.", name)
}

func (c *Catalog) columns(s *Session, key []any, detail *sql.TableDetail) error {
	one := c.Column
	if one == nil {
		one = c.column
	}
	return s.Each(c.Columns, key, Into(&detail.Columns, one))
}

func (c *Catalog) column(scan Scan) (column sql.TableColumn, err error) {
	var standard, comment, listed dbsql.NullString
	err = scan(&column.Name, &column.Type, &column.Nullable, &standard, &comment, &listed)
	column.Default, column.Comment = standard.String, comment.String
	if listed.Valid {
		column.Values = c.Listed(listed.String)
	}
	return column, err
}

// JSONList reads a JSON array of texts.
func JSONList(text string) (list []string) {
	_ = json.Unmarshal([]byte(text), &list)
	return list
}

func (c *Catalog) primaryKey(s *Session, key []any, detail *sql.TableDetail) (err error) {
	if c.PrimaryKey != "" {
		detail.PrimaryKey, err = List[string](s, c.PrimaryKey, key...)
	}
	return err
}

func (c *Catalog) indexes(s *Session, key []any, detail *sql.TableDetail) error {
	var last *index
	end := func() {
		if last != nil {
			detail.Indexes = append(detail.Indexes, last.whole())
		}
	}
	err := s.Each(c.Indexes, key, func(scan Scan) error {
		var next index
		var primary, part dbsql.NullString
		var included bool
		if err := scan(&next.Name, &next.Unique, &next.Definition, &next.filter, &primary, &part, &included); err != nil {
			return err
		}
		if last == nil || last.Name != next.Name {
			end()
			last = &next
		}
		switch {
		case included:
			last.included = append(last.included, part.String)
		case part.Valid:
			last.keys = append(last.keys, part.String)
		}
		if primary.Valid {
			detail.PrimaryKey = append(detail.PrimaryKey, primary.String)
		}
		return nil
	})
	end()
	return err
}

// index is an index while its columns are read.
type index struct {
	sql.Index
	filter         dbsql.NullString
	keys, included []string
}

// whole writes the definition as in CREATE INDEX.
func (i *index) whole() sql.Index {
	if len(i.keys) > 0 {
		i.Definition += " (" + strings.Join(i.keys, ", ") + ")"
	}
	if len(i.included) > 0 {
		i.Definition += " INCLUDE (" + strings.Join(i.included, ", ") + ")"
	}
	if i.filter.Valid {
		i.Definition += " WHERE " + i.filter.String
	}
	return i.Index
}

// foreignKeys reads them both ways; a table that points to itself appears in both lists.
func (c *Catalog) foreignKeys(s *Session, key []any, detail *sql.TableDetail) error {
	read := func(query string, keys *[]sql.ForeignKey) error {
		return s.Each(query, key, func(scan Scan) error {
			var k sql.ForeignKey
			var column, referenced string
			if err := scan(&k.Name, &k.Table, &column, &k.References, &referenced); err != nil {
				return err
			}
			if n := len(*keys); n == 0 || (*keys)[n-1].Name != k.Name || (*keys)[n-1].Table != k.Table {
				*keys = append(*keys, k)
			}
			last := &(*keys)[len(*keys)-1]
			last.Columns, last.RefColumns = append(last.Columns, column), append(last.RefColumns, referenced)
			return nil
		})
	}
	return errors.Join(read(c.ForeignKeys, &detail.ForeignKeys), read(c.ReferencedBy, &detail.ReferencedBy))
}

// checks reads the check constraints that the server shows the login; some versions know none.
func (c *Catalog) checks(s *Session, key []any, detail *sql.TableDetail) error {
	err := s.Each(c.Checks(s), key, func(scan Scan) error {
		var check dbsql.NullString
		err := scan(&check)
		if check.Valid {
			detail.Checks = append(detail.Checks, check.String)
		}
		return err
	})
	if told, _ := s.db.dialect.Said(err, "", false); told != nil {
		return nil //nolint:nilerr // the server does not let the login see them
	}
	return err
}
