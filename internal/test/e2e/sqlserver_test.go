//go:build unix

package e2e

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	testmssql "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mssql"
)

// sqlServerTypes is a column of each type that SQL Server has and PostgreSQL has not in the same form, and what
// pandas is to make of it.
var sqlServerTypes = []struct {
	column testmssql.Column
	value  any
	check  string
}{
	{testmssql.Column{Name: "id", Type: testmssql.Int(8)}, 9007199254740993, "value == 9007199254740993"},
	{testmssql.Column{Name: "yes", Type: testmssql.Bit()}, true, "value == True and df.yes.dtype == 'boolean'"},
	{testmssql.Column{Name: "price", Type: testmssql.Decimal(10, 2)}, "12.50", "value == 12.5"},
	{testmssql.Column{Name: "exact", Type: testmssql.Decimal(38, 10)}, "1234567890123456789012345678.0123456789", "value == decimal.Decimal('1234567890123456789012345678.0123456789')"},
	{testmssql.Column{Name: "paid", Type: testmssql.Money()}, 123450000, "value == 12345"},
	{testmssql.Column{Name: "ratio", Type: testmssql.Float()}, 0.1, "value == 0.1"},
	{testmssql.Column{Name: "born", Type: testmssql.Date()}, time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC), "value == pd.Timestamp('2026-01-31')"},
	{testmssql.Column{Name: "seen", Type: testmssql.DateTimeOffset(3)}, time.Date(2026, 1, 31, 1, 5, 0, 0, time.FixedZone("", 5*3600)), "value == pd.Timestamp('2026-01-30 20:05', tz='UTC')"},
	{testmssql.Column{Name: "at", Type: testmssql.DateTime2(7)}, time.Date(2026, 1, 31, 13, 5, 0, 500, time.UTC), "value == pd.Timestamp('2026-01-31 13:05:00.0000005')"},
	{testmssql.Column{Name: "guid", Type: testmssql.Identifier()}, []byte{0x33, 0x22, 0x11, 0, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}, "value == '00112233-4455-6677-8899-AABBCCDDEEFF'"},
	{testmssql.Column{Name: "name", Type: testmssql.NVarChar(50)}, `größer, "日本"`, "value == 'größer, \"日本\"'"},
	{testmssql.Column{Name: "raw", Type: testmssql.VarBinary(8)}, []byte{0, 0xff}, "value == b'\\x00\\xff'"},
	{testmssql.Column{Name: "doc", Type: testmssql.XML()}, "<a>é</a>", "value == '<a>é</a>'"},
	{testmssql.Column{Name: "place", Type: testmssql.CLR("geometry")}, []byte{0, 1}, "value == b'\\x00\\x01'"},
}

func TestSQLServerIsReadThroughTheTools(t *testing.T) {
	t.Parallel()
	var reply testmssql.Reply
	row, nulls := []any{}, []any{}
	var checks []string
	for _, c := range sqlServerTypes {
		reply.Columns = append(reply.Columns, c.column)
		row, nulls = append(row, c.value), append(nulls, nil)
		checks = append(checks, "value = df['"+c.column.Name+"'].iloc[0]\nif not ("+c.check+"): print('wrong', '"+c.column.Name+"', repr(value))",
			"if not pd.isna(df['"+c.column.Name+"'].iloc[1]): print('no NULL', '"+c.column.Name+"')")
	}
	reply.Rows = [][]any{row, nulls}
	db, err := testmssql.Start(func(r testmssql.Request) testmssql.Reply {
		missing := func(name string) testmssql.Reply {
			return testmssql.Reply{Error: &testmssql.Error{Number: 208, State: 1, Class: 16, Message: "Invalid object name '" + name + "'.", Line: 1}}
		}
		switch {
		case strings.Contains(r.Text, "describe_first_result_set"):
			return missing("sys.dm_exec_describe_first_result_set")
		case strings.Contains(r.Text, "dbo.everything"):
			return reply
		case strings.Contains(r.Text, "dbo.nothing"):
			return missing("dbo.nothing")
		case strings.Contains(r.Text, "dbo.slow"):
			return testmssql.Reply{Hang: true}
		}
		return testmssql.Reply{}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Stop)
	dsn := "Driver={ODBC Driver 18 for SQL Server};Server=tcp:" + strings.Replace(db.Address(), ":", ",", 1) + ";Database=shop;Uid=" + testmssql.User + ";Encrypt=disable;"
	most := slowed(3 * time.Second).String()
	s := start(t, setup{args: []string{"--sql-timeout", most}, env: []string{"AZURE_DATABASE_CONNECTION_STRING=" + dsn, "AZURE_DATABASE_PASSWORD=" + testmssql.Password}})

	f := s.query(object{"query": "SELECT * FROM dbo.everything", "save_as": "everything.csv"})
	if f.Connection != "azure" || f.RowCount != 2 {
		t.Errorf("odd fields: %+v", f)
	}
	res := s.py("import decimal\n" + f.Load + "\n" + strings.Join(checks, "\n") + "\nprint('checked', len(df.columns))")
	res.wantText(t, "checked")
	if text := res.text(); strings.Contains(text, "wrong") || strings.Contains(text, "no NULL") {
		t.Error(text)
	}
	s.js("const rows = await sandbox.sql('SELECT * FROM dbo.everything'); rows.map(({ id, exact, price, ratio, raw }) => [id, exact, price, ratio, raw].join()).join('; ')").
		wantText(t, "'9007199254740993,1234567890123456789012345678.0123456789,12.5,0.1,00ff; ,,,,'", "note: exact has a value as text")
	s.query(object{"query": "SELECT * FROM dbo.everything WHERE id = @p1 AND ratio < @p2", "params": []any{json.Number("9007199254740993"), 1.5}})
	failed := s.call(execSQL, object{"query": "SELECT * FROM dbo.nothing"})
	failed.wantCode(t, "sql_failed")
	failed.wantText(t, "208", "dbo.nothing")
	slow := s.call(execSQL, object{"query": "SELECT * FROM dbo.slow"})
	slow.wantCode(t, "sql_failed")
	slow.wantText(t, most, "--sql-timeout", "TOP (n)")
	if strings.Contains(slow.text(), "LIMIT") || strings.Contains(slow.text(), "EXPLAIN") {
		t.Errorf("PostgreSQL's hint: %s", slow.text())
	}
	s.call(execSQL, object{"query": "SELECT 1 DELETE FROM dbo.everything"}).wantCode(t, "sql_rejected")
	for _, secret := range []string{testmssql.Password, hex.EncodeToString([]byte(testmssql.Password))} {
		if strings.Contains(s.stderr.String()+string(failed.line), secret) {
			t.Error("the password is in the log or in an answer")
		}
	}
}
