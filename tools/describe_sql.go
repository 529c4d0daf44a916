// The tool describe_sql, fitted into an answer.

package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

const (
	// describedTables bounds a list of tables.
	describedTables = 200
	// withColumns is how many tables come with their columns.
	withColumns = 15
)

type describeFields struct {
	Connections []describedConnection `json:"connections,omitempty"`
	Connection  string                `json:"connection,omitempty"`
	Schemas     []sql.Schema          `json:"schemas,omitempty"`
	Tables      []sql.Table           `json:"tables,omitempty"`
	Table       *sql.TableDetail      `json:"table,omitempty"`
	Truncated   bool                  `json:"truncated,omitempty"`
	Hint        string                `json:"hint,omitempty"`
}

func (f describeFields) Meta() any {
	return describeFields{Connection: f.Connection, Truncated: f.Truncated}
}

type describedConnection struct {
	Name    string      `json:"connection"`
	Dialect sql.Dialect `json:"dialect"`
}

func (d *Deps) describeSQL() tool {
	definition := mcp.NewTool("describe_sql",
		mcp.WithToolTitle("List database tables"),
		mcp.WithDescription(fmt.Sprintf("List a database's tables and columns: its connections and schemas; with schema or glob its tables and views (at most %d), few with their columns; "+
			"with table one table's columns, keys and indexes.", describedTables)),
		connectionParam(d.Databases),
		mcp.WithString("schema", mcp.Description("Only this schema.")),
		mcp.WithString("table", mcp.Description("Table or view, also as schema.table.")),
		mcp.WithString("glob", mcp.Description("Pattern of table names, such as order*.")),
		hints(true))
	definition.Annotations.OpenWorldHint = mcp.ToBoolPtr(true)
	return tool{output: mcp.WithOutputSchema[describeFields](), definition: definition, handle: d.handleDescribeSQL, uses: []clientheader.Use{clientheader.Queries}}
}

func (d *Deps) handleDescribeSQL(ctx context.Context, p *params) (*render.Answer, error) {
	connection, schema, table, glob := p.text("connection"), p.text("schema"), p.text("table"), p.text("glob")
	if err := p.check(); err != nil {
		return nil, err
	}
	sources := d.Databases.sources(ctx)
	if connection == "" && len(sources) > 1 && schema+table+glob == "" {
		return render.JSON(describeFields{Connections: listConnections(sources), Hint: "Call again with a connection."})
	}
	source, database, release, err := d.Databases.get(ctx, connection)
	if err != nil {
		return nil, err
	}
	defer release()
	limited, cancel := d.Databases.limited(ctx)
	defer cancel()
	fields := describeFields{Connection: source.Name}
	switch {
	case table != "":
		fields.Table, err = describeTable(limited, database, schema, table)
	case schema != "" || glob != "":
		err = fields.listTables(limited, database, sql.TableFilter{Schema: schema, Glob: glob})
	default:
		if len(sources) == 1 {
			fields.Connections = listConnections(sources)
		}
		fields.Schemas, err = database.Schemas(limited)
		tables := 0
		for _, schema := range fields.Schemas {
			tables += schema.Tables
		}
		if err == nil && (len(fields.Schemas) == 1 || 0 < tables && tables <= withColumns) {
			err = fields.listTables(limited, database, sql.TableFilter{})
		}
	}
	if err != nil {
		return nil, d.Databases.inTime(ctx, err)
	}
	return fields.fitted(ctx, d.renderer())
}

// fitted shortens an answer that would be too long, dropping the least needed fields first.
func (f describeFields) fitted(ctx context.Context, r *render.Renderer) (*render.Answer, error) {
	a, err := render.JSON(f)
	for _, less := range []func(){f.withoutWords, f.withoutValues, f.halved, f.halved, f.halved, f.halved, f.halved, f.halved} {
		if err != nil || !r.TooLong(ctx, a) {
			break
		}
		less()
		f.Truncated, f.Hint = true, "The answer would be too long; parts of it are left out. Ask for less at once, or read information_schema with exec_sql."
		a, err = render.JSON(f)
	}
	return a, err
}

// withoutWords leaves comments and definitions out, which may be of any length.
func (f *describeFields) withoutWords() {
	for i := range f.Schemas {
		f.Schemas[i].Comment = ""
	}
	for i := range f.Tables {
		f.Tables[i].Comment, f.Tables[i].Described = "", ""
	}
	if f.Table == nil {
		return
	}
	f.Table.Comment, f.Table.Checks, f.Table.Indexes = "", nil, nil
	for i := range f.Table.Columns {
		f.Table.Columns[i].Comment, f.Table.Columns[i].Default = "", ""
	}
}

func (f *describeFields) withoutValues() {
	if f.Table == nil {
		return
	}
	for i := range f.Table.Columns {
		f.Table.Columns[i].Values = nil
	}
}

func (f *describeFields) halved() {
	f.Schemas, f.Tables = f.Schemas[:len(f.Schemas)/2], f.Tables[:len(f.Tables)/2]
	if t := f.Table; t != nil {
		t.Columns = t.Columns[:len(t.Columns)/2]
		t.ForeignKeys, t.ReferencedBy = t.ForeignKeys[:len(t.ForeignKeys)/2], t.ReferencedBy[:len(t.ReferencedBy)/2]
	}
}

func listConnections(sources []sql.Source) []describedConnection {
	var list []describedConnection
	for _, s := range sources {
		list = append(list, describedConnection{Name: s.Name, Dialect: s.Dialect})
	}
	return list
}

// listTables asks for one more than there is room for, which reports whether there are more.
func (f *describeFields) listTables(ctx context.Context, database sql.Database, filter sql.TableFilter) (err error) {
	filter.Limit, filter.Columns = describedTables+1, withColumns
	if f.Tables, err = database.Tables(ctx, filter); err != nil {
		return err
	}
	if len(f.Tables) > describedTables {
		f.Tables, f.Truncated = f.Tables[:describedTables], true
		f.Hint = "There are more tables; narrow them down with schema or glob."
	}
	if len(f.Tables) == 0 {
		f.Hint = "No table that this login may read is called so."
	}
	return nil
}

// describeTable finds a table by its name, and if there is none of that name by schema.table in it.
func describeTable(ctx context.Context, database sql.Database, schema, table string) (*sql.TableDetail, error) {
	detail, err := database.Table(ctx, schema, table)
	before, after, dotted := strings.Cut(table, ".")
	if err != nil && dotted && schema == "" && fault.From(err).Code == fault.NotFound {
		return database.Table(ctx, before, after)
	}
	return detail, err
}
