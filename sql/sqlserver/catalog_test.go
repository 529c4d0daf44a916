package sqlserver

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	testmssql "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mssql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// result is an answer whose columns have the types of the first row's values: text, int or bool.
func result(rows ...[]any) testmssql.Reply {
	reply := testmssql.Reply{Rows: rows}
	for i := range rows[0] {
		typ := testmssql.NVarChar(testmssql.Max)
		for _, row := range rows {
			switch row[i].(type) {
			case int:
				typ = testmssql.Int(8)
			case bool:
				typ = testmssql.Bit()
			}
		}
		reply.Columns = append(reply.Columns, testmssql.Column{Name: "c", Type: typ})
	}
	return reply
}

// byText answers each of our own statements by a piece of its text.
func byText(answers map[string]testmssql.Reply) func(testmssql.Request) testmssql.Reply {
	return func(r testmssql.Request) testmssql.Reply {
		for piece, answer := range answers {
			if strings.Contains(r.Text, piece) {
				return answer
			}
		}
		return testmssql.Reply{}
	}
}

func TestOurOwnStatementsPassTheCheck(t *testing.T) {
	for _, statement := range []string{schemasStatement, tablesStatement, tableStatement, systemStatement,
		columnsStatement, indexesStatement, catalog.ForeignKeys, catalog.ReferencedBy, checksStatement, rightsStatement} {
		should.OK(t, check(statement, parametersOf(statement)), "%s", statement)
	}
}

func TestSchemasAndTablesAreListed(t *testing.T) {
	rows := int64(12)
	server := serve(t, byText(map[string]testmssql.Reply{
		"GROUP BY s.schema_id": result([]any{"dbo", 3, nil}, []any{"sales", 0, "what was sold"}),
		"SELECT TOP (@p1) s.name": result(
			[]any{"dbo", "archive", "foreign table", nil, nil},
			[]any{"dbo", "people", "table", 12, "who there is"}),
	}))
	db := open(t, server.DSN(), limits)
	schemas, err := db.Schemas(t.Context())
	if want := []sql.Schema{{Name: "dbo", Tables: 3}, {Name: "sales", Comment: "what was sold"}}; err != nil || !slices.Equal(schemas, want) {
		t.Errorf("%+v, %v", schemas, err)
	}
	tables, err := db.Tables(t.Context(), sql.TableFilter{Schema: "dbo", Glob: `p*_%[x]\?`, Limit: 7})
	want := []sql.Table{
		{Schema: "dbo", Name: "archive", Kind: "foreign table"},
		{Schema: "dbo", Name: "people", Kind: "table", Rows: &rows, Comment: "who there is"},
	}
	should.Hold(t, err == nil && reflect.DeepEqual(tables, want), "%+v, %v", tables, err)
	requests := server.Requests()
	sent := requests[len(requests)-2]
	values := []any{sent.Params[0].Value, sent.Params[1].Value, sent.Params[2].Value}
	should.EqualSlice(t, values, []any{int64(7), "dbo", `p%\_\%\[x\]\\_`}, "sent")
}

func TestATableIsDescribed(t *testing.T) {
	server := serve(t, byText(map[string]testmssql.Reply{
		"OBJECT_ID(@p1) AND o.type IN ('U', 'V', 'ET', 'S', 'IT')": result([]any{77, "dbo", "orders", "table", 12, "what was ordered"}),
		"FROM sys.all_columns AS c\nJOIN sys.types": result(
			[]any{"id", "bigint", nil, 8, 19, 0, false, "identity(1,1)", nil},
			[]any{"person", "int", nil, 4, 10, 0, true, "((0))", "who ordered"},
			[]any{"note]", "nvarchar", nil, 100, 0, 0, true, nil, nil},
			[]any{"phone", "phonenumber", "varchar", 20, 0, 0, true, nil, nil},
			[]any{"total", "decimal", nil, 9, 10, 2, true, "computed as ([n]*[price])", nil},
			[]any{"at", "datetime2", nil, 8, 27, 7, false, nil, nil},
			[]any{"doc", "varbinary", nil, -1, 0, 0, true, nil, nil},
			[]any{"price", "money", nil, 8, 19, 4, true, nil, nil},
			[]any{"tax", "tax", "smallmoney", 4, 10, 4, true, nil, nil},
			[]any{"share", "float", nil, 8, 53, 0, true, nil, nil},
			[]any{"rate", "real", nil, 4, 24, 0, true, nil, nil}),
		"FROM sys.indexes AS i": result(
			[]any{"PK_orders", true, "UNIQUE CLUSTERED", nil, "id", "[id]", false},
			[]any{"ix_person", false, "NONCLUSTERED", "([person]>(0))", nil, "[person]", false},
			[]any{"ix_person", false, "NONCLUSTERED", "([person]>(0))", nil, "[total] DESC", false},
			[]any{"ix_person", false, "NONCLUSTERED", "([person]>(0))", nil, "[note]]]", true}),
		"WHERE k.parent_object_id": result(
			[]any{"FK_parent", "dbo.orders", "parent", "dbo.orders", "id"},
			[]any{"FK_person", "dbo.orders", "person", "dbo.people", "id"},
			[]any{"FK_person", "dbo.orders", "shop", "dbo.people", "shop"}),
		"WHERE k.referenced_object_id": result(
			[]any{"FK_parent", "dbo.orders", "parent", "dbo.orders", "id"},
			[]any{"FK_order", "dbo.lines", "order_id", "dbo.orders", "id"}),
		"FROM sys.check_constraints": result([]any{"CK_total: ([total]>=(0))"}, []any{nil}),
	}))
	db := open(t, server.DSN(), limits)
	got := must.Get(db.Table(t.Context(), "dbo", "orders"))(t)
	rows := int64(12)
	self := sql.ForeignKey{Name: "FK_parent", Table: "dbo.orders", Columns: []string{"parent"}, References: "dbo.orders", RefColumns: []string{"id"}}
	want := &sql.TableDetail{
		Table: sql.Table{Schema: "dbo", Name: "orders", Kind: "table", Rows: &rows, Comment: "what was ordered"},
		Columns: []sql.TableColumn{
			{Name: "id", Type: "bigint", Default: "identity(1,1)"},
			{Name: "person", Type: "int", Nullable: true, Default: "((0))", Comment: "who ordered"},
			{Name: "note]", Type: "nvarchar(50)", Nullable: true},
			{Name: "phone", Type: "phonenumber (varchar(20))", Nullable: true},
			{Name: "total", Type: "decimal(10,2)", Nullable: true, Default: "computed as ([n]*[price])"},
			{Name: "at", Type: "datetime2(7)"},
			{Name: "doc", Type: "varbinary(max)", Nullable: true},
			{Name: "price", Type: "money", Nullable: true},
			{Name: "tax", Type: "tax (smallmoney)", Nullable: true},
			{Name: "share", Type: "float", Nullable: true},
			{Name: "rate", Type: "real", Nullable: true},
		},
		PrimaryKey: []string{"id"},
		ForeignKeys: []sql.ForeignKey{self,
			{Name: "FK_person", Table: "dbo.orders", Columns: []string{"person", "shop"}, References: "dbo.people", RefColumns: []string{"id", "shop"}}},
		ReferencedBy: []sql.ForeignKey{self,
			{Name: "FK_order", Table: "dbo.lines", Columns: []string{"order_id"}, References: "dbo.orders", RefColumns: []string{"id"}}},
		Indexes: []sql.Index{
			{Name: "PK_orders", Definition: "UNIQUE CLUSTERED ([id])", Unique: true},
			{Name: "ix_person", Definition: "NONCLUSTERED ([person], [total] DESC) INCLUDE ([note]]]) WHERE ([person]>(0))"}},
		Checks: []string{"CK_total: ([total]>=(0))"},
	}
	should.Hold(t, reflect.DeepEqual(got, want), "got\n%+v, want\n%+v", got, want)
	for _, r := range server.Requests() {
		if strings.Contains(r.Text, "OBJECT_ID(@p1)") && r.Params[0].Value != "[dbo].[orders]" {
			t.Errorf("looked for %v", r.Params[0].Value)
		}
	}
}

func TestATableThatThereIsNot(t *testing.T) {
	db := open(t, serve(t, always(testmssql.Reply{})).DSN(), limits)
	must.Code(t, should.ErrOf(db.Table(t.Context(), "", "x]; DROP TABLE y")), fault.NotFound, "[x]]; DROP TABLE y]")
}

func TestRightsTellWhatALoginCouldWrite(t *testing.T) {
	// what it is and may: sysadmin, control, owner, writer, ddl, security, access, backup, INSERT, UPDATE, DELETE, ALTER, EXECUTE, tables
	for name, c := range map[string]struct {
		row  []any
		want []string
		fix  string
	}{
		"a reader":         {[]any{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, nil, ""},
		"an administrator": {[]any{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 9}, []string{"administers the server"}, "CREATE LOGIN"},
		"an owner":         {[]any{0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 9}, []string{"owns the database (db_owner)"}, "db_datareader"},
		"a writer": {[]any{0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 9},
			[]string{"is a member of db_datawriter", "has INSERT, UPDATE, DELETE in the whole database"}, "ALTER ROLE db_datawriter DROP MEMBER [us]]er];"},
		"who runs procedures":       {[]any{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, []string{"has EXECUTE in the whole database"}, "DENY EXECUTE TO [us]]er];"},
		"a writer of single tables": {[]any{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, []string{"may write to 2 tables or views"}, "DENY INSERT, UPDATE, DELETE TO [us]]er];"},
		"a reader elsewhere": {[]any{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "Babelfish for PostgreSQL with SQL Server Compatibility - 12.0.2000.8"},
			[]string{`is on a server that calls itself "Babelfish for PostgreSQL with SQL Server Compatibility - 12.0.2000.8": what holds writes back here is made for SQL Server itself`}, "cannot write"},
	} {
		t.Run(name, func(t *testing.T) {
			if len(c.row) == 14 {
				c.row = append(c.row, "Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64)")
			}
			db := open(t, serve(t, always(result(append([]any{"us]er"}, c.row...)))).DSN(), limits)
			found := must.Get(db.Rights(t.Context()))(t)
			var what []string
			for _, f := range found {
				what = append(what, f.What)
			}
			should.EqualSlice(t, what, c.want, "found")
			if len(found) > 0 && !strings.Contains(found[0].Fix, c.fix) {
				t.Errorf("the fix is %q", found[0].Fix)
			}
		})
	}
}

func TestACatalogWithoutEndIsCutOff(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		row     []any
		endless func(testmssql.Request) bool
		use     func(*reader.Database) error
	}{
		"the schemas": {[]any{long, 1, long}, func(r testmssql.Request) bool { return !isSetup(r) },
			func(db *reader.Database) error { _, err := db.Schemas(t.Context()); return err }},
		"a statement's description": {[]any{long, long, false, nil}, isDescription,
			func(db *reader.Database) error {
				_, err := db.Query(t.Context(), sql.Query{Text: "SELECT 1"})
				return err
			}},
	} {
		t.Run(name, func(t *testing.T) {
			endless := result(c.row)
			endless.More = func() ([]any, bool) { return c.row, true }
			server := must.Get(testmssql.Start(func(r testmssql.Request) testmssql.Reply {
				if c.endless(r) {
					return endless
				}
				return testmssql.Reply{}
			}))(t)
			t.Cleanup(server.Stop)
			if f := faultOf(t, c.use(open(t, server.DSN(), limits))); f.Code != fault.SQLFailed || !strings.Contains(f.Message, "catalog's answer has more than") {
				t.Errorf("the error is %v", f)
			}
		})
	}
}

func TestEveryListOfTheCatalogHasAnEnd(t *testing.T) {
	for _, statement := range []string{schemasStatement, tablesStatement, columnsStatement, indexesStatement, foreignKeysStatement, checksStatement} {
		should.Hold(t, strings.Contains(statement, "SELECT TOP (") && !strings.Contains(statement, "16384"), "%s", statement)
	}
}
