//go:build unix

package mysql

import (
	"context"
	dbsql "database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mariadb"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

func TestEveryTypeIsReadAsWhatItIs(t *testing.T) {
	types := []struct {
		declared, value string // as SQL writes them
		kind            sql.Kind
		name, text      string
	}{
		{"TINYINT", "-128", sql.Integer, "tinyint", "-128"},
		{"SMALLINT UNSIGNED", "65535", sql.Integer, "smallint unsigned", "65535"},
		{"MEDIUMINT", "-8388608", sql.Integer, "mediumint", "-8388608"},
		{"INT UNSIGNED", "4294967295", sql.Integer, "int unsigned", "4294967295"},
		{"BIGINT", "-9223372036854775808", sql.Integer, "bigint", "-9223372036854775808"},
		{"BIGINT UNSIGNED", "18446744073709551615", sql.Integer, "bigint unsigned", "18446744073709551615"},
		{"BIT(1)", "b'1'", sql.Integer, "bit", "1"},
		{"BIT(64)", "b'1000000000000000000000000000000000000000000000000000000000000001'", sql.Integer, "bit", "9223372036854775809"},
		{"DECIMAL(40,10)", "123456789012345678901234567890.0123456789", sql.Decimal, "decimal(40,10)", "123456789012345678901234567890.0123456789"},
		{"DECIMAL(7,2) ZEROFILL", "1.5", sql.Decimal, "decimal(6,2)", "1.50"}, // the driver counts a sign
		{"INT(5) ZEROFILL", "0", sql.Integer, "int unsigned", "0"},
		{"DOUBLE ZEROFILL", "0.5", sql.Float, "double", "0.5"},
		{"FLOAT", "0.1", sql.Float, "float", "0.1"},
		{"DOUBLE", "1e300", sql.Float, "double", "1e+300"},
		{"DATE", "'2026-01-31'", sql.Date, "date", "2026-01-31"},
		{"DATE", "'0000-00-00'", sql.Date, "date", "0000-00-00"},
		{"DATE", "'2026-00-00'", sql.Date, "date", "2026-00-00"},
		{"DATETIME(6)", "'2026-01-31 13:05:00.5'", sql.Timestamp, "datetime", "2026-01-31 13:05:00.500000"},
		{"DATETIME", "'0000-00-00 00:00:00'", sql.Timestamp, "datetime", "0000-00-00 00:00:00"},
		{"TIMESTAMP(3) NULL", "'2026-01-31 13:05:00.25'", sql.TimestampTZ, "timestamp", "2026-01-31 13:05:00.250+00"},
		{"TIME", "'-838:59:59'", sql.Time, "time", "-838:59:59"},
		{"TIME(3)", "'01:02:03.5'", sql.Time, "time", "01:02:03.500"},
		{"YEAR", "2026", sql.Integer, "year", "2026"},
		{"CHAR(5)", "'é'", sql.Text, "char", "é"},
		{"VARCHAR(20) CHARACTER SET latin1", "'größe'", sql.Text, "varchar", "größe"},
		{"LONGTEXT", "'日本 😀'", sql.Text, "text", "日本 😀"},
		{"ENUM('a','it''s')", "'it''s'", sql.Text, "enum", "it's"},
		{"SET('a','b')", "'a,b'", sql.Text, "set", "a,b"},
		{"BINARY(3)", "x'00ff'", sql.Bytes, "binary", "00ff00"},
		{"VARBINARY(8)", "''", sql.Bytes, "varbinary", ""},
		{"BLOB", "x'c328'", sql.Bytes, "blob", "c328"},
		{"POINT", "POINT(1, 2)", sql.Bytes, "geometry", "000000000101000000000000000000f03f0000000000000040"},
		{"UUID", "'00112233-4455-6677-8899-aabbccddeeff'", sql.Text, "char", "00112233-4455-6677-8899-aabbccddeeff"},
	}
	var columns, values, nulls []string
	for i, c := range types {
		columns = append(columns, fmt.Sprintf("c%d %s", i, c.declared))
		values, nulls = append(values, c.value), append(nulls, "NULL")
	}
	err := fill([]string{"SET sql_mode = ''", "SET NAMES utf8mb4", "SET time_zone = '+00:00'", "CREATE TABLE shop.everything (" + strings.Join(columns, ", ") + ")",
		"INSERT INTO shop.everything VALUES (" + strings.Join(values, ", ") + "), (" + strings.Join(nulls, ", ") + ")"})
	must.OK(t, err)
	found, rows, err := sqltest.Read(t.Context(), open(t, "reader", limits), "SELECT * FROM everything")
	must.Hold(t, err == nil && len(rows) == 2, "%v %v", rows, err)
	for i, c := range types {
		if found[i].Kind != c.kind || found[i].Type != c.name || rows[0][i] != c.text || rows[1][i] != "NULL" {
			t.Errorf("%s %s: kind %d, type %s, %s and %s; want %d, %s, %s and NULL", c.declared, c.value, found[i].Kind, found[i].Type, rows[0][i], rows[1][i], c.kind, c.name, c.text)
		}
	}
}

func TestParametersAreBoundAndNeverPasted(t *testing.T) {
	d := open(t, "reader", limits)
	sqltest.Gives(t, d, "[[it's \\' -- ? 😀 NULL 1 18446744073709551615 0.1]]",
		"SELECT ?, ?, ?, ?, ?", "it's \\' -- ? 😀", nil, true, json.Number("18446744073709551615"), json.Number("0.1"))
	sqltest.Gives(t, d, "[[2]]", "SELECT id FROM accounts WHERE owner = ? AND balance > ? LIMIT ?", "bert", "20", json.Number("5"))
	for _, c := range []struct {
		params []any
		says   string
	}{
		{nil, "1 parameters and 0 values"}, {[]any{"a", "b"}, "1 parameters and 2 values"}, {[]any{[]any{"a"}}, "is an array"}, {[]any{json.Number("NaN")}, "is NaN"},
		{[]any{json.Number("12345678901234567890.123456789")}, "neither BIGINT nor a float holds exactly"},
	} {
		if _, _, err := sqltest.Read(t.Context(), d, "SELECT ?", c.params...); err == nil || !strings.Contains(err.Error(), c.says) || fault.From(err).Code != fault.SQLRejected {
			t.Errorf("%v: %v, want %q", c.params, err, c.says)
		}
	}
}

// running counts the statements that the server runs and that have a mark in them.
func running(t *testing.T, mark string) (n int) {
	t.Helper()
	if err := asOwner(func(conn *dbsql.Conn) error {
		return conn.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE CONCAT('%', ?, '%') AND ID <> CONNECTION_ID()", mark).Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// forever is a statement that takes hours, with a mark to find it by. None of its rows comes before all are there.
func forever(mark string) string {
	return "SELECT COUNT(*), '" + mark + "' FROM information_schema.COLLATIONS a, information_schema.COLLATIONS b, information_schema.COLLATIONS c, information_schema.COLLATIONS d"
}

func TestACancelledStatementEndsInTheDatabase(t *testing.T) {
	d := open(t, "reader", limits)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, _, err := sqltest.Read(ctx, d, forever("cancelled one"))
		ended <- err
	}()
	must.Soon(t, "it runs", func() bool { return running(t, "cancelled one") == 1 })
	cancel()
	should.Fail(t, <-ended, "The statement was cancelled")
	must.Soon(t, "it has ended", func() bool { return running(t, "cancelled one") == 0 })
	sqltest.Runs(t, d, "SELECT 1")
}

func TestAStatementEndsInTime(t *testing.T) {
	d := open(t, "reader", sql.Limits{Timeout: time.Second, RowBytes: 1 << 20})
	for _, statement := range []string{forever("late"), "SELECT SLEEP(3600)"} {
		_, _, err := sqltest.Read(t.Context(), d, statement)
		should.Hold(t, errors.Is(err, sql.ErrTimeout) && strings.Contains(err.Error(), "ended after 1s"), "%s: %v", statement, err)
	}
	must.Soon(t, "it has ended", func() bool { return running(t, "late") == 0 })
}

func TestAResultIsNeverWholeInMemoryAndMayBeLeft(t *testing.T) {
	d := open(t, "reader", limits)
	// Some 10¹⁴ rows, of which the server has sent some thousands when they are left.
	rows, err := d.Query(t.Context(), sql.Query{Text: "SELECT a.ID, 'left early' FROM information_schema.COLLATIONS a, information_schema.COLLATIONS b, " +
		"information_schema.COLLATIONS c, information_schema.COLLATIONS d, information_schema.COLLATIONS e, information_schema.COLLATIONS f"})
	must.OK(t, err)
	for range 1000 {
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
	}
	rows.Close()
	should.Hold(t, !rows.Next(), "there is a row after the end")
	rows.Close() // which does nothing
	must.Soon(t, "it has ended", func() bool { return running(t, "left early") == 0 })
}

func TestARowThatIsTooLongIsRefused(t *testing.T) {
	d := open(t, "reader", limits)
	for _, size := range []int{3 << 19, 12 << 20} { // one that arrives, and one that is stopped on its way
		_, _, err := sqltest.Read(t.Context(), d, fmt.Sprintf("SELECT REPEAT('x', %d)", size))
		should.Fail(t, err, "more than 1048576 bytes", "%d bytes", size)
	}
}

func TestErrorsSayWhatToDoAndNothingOfTheLogin(t *testing.T) {
	for i := range maxViews + 1 {
		must.OK(t, fill([]string{fmt.Sprintf("CREATE OR REPLACE VIEW shop.v%d AS SELECT 1 AS r", i)}))
	}
	for _, c := range []struct{ login, statement, says, hint string }{
		{"reader", "SELECT *\nFROM\nWHERE", "line 3: WHERE", "MySQL's SQL"},
		{"reader", "SELECT nothing FROM accounts", "Unknown column 'nothing'", "describe_sql"},
		{"reader", "SELECT * FROM nothing", "Table 'shop.nothing' doesn't exist", "describe_sql"},
		{"reader", "SELECT * FROM mysql.global_priv", "denied to user the login", "may not read this"},
		{"reader", "SELECT missing(1)", "denied to user the login", "may not call"},
		{"reader", "INSERT(1)", "only reads", "SELECT"},
		{"blind", "SELECT r FROM writing", "may not see what the view shop.writing does", "GRANT SHOW VIEW ON shop.writing"},
		{"reader", manyViews("SELECT r FROM v%d"), "more than 200 views", "fewer views"},
		{"nobody:wrong secret", "SELECT 1", "MySQL refused the connection (error 1045", "user or the password"},
	} {
		f := fault.From(sqltest.Fails(t, open(t, c.login, limits), c.statement))
		should.Hold(t, strings.Contains(f.Message, c.says) && strings.Contains(f.Hint, c.hint),
			"%s: %s\n\t%s", c.statement, f.Message, f.Hint)
		for _, secret := range []string{"reader", "nobody", "wrong secret", "localhost", server.Socket()} {
			should.Hold(t, !strings.Contains(f.Message+f.Hint, secret), "%s tells %q: %s", c.statement, secret, f.Message)
		}
	}
}

// manyViews joins a statement for each of more views than are looked at.
func manyViews(each string) string {
	var all []string
	for i := range maxViews + 1 {
		all = append(all, fmt.Sprintf(each, i))
	}
	return strings.Join(all, " UNION ALL ")
}

func TestTheSessionIsAsTheCheckTakesIt(t *testing.T) {
	d := open(t, mariadb.Superuser, limits)
	for range 2 { // of a new connection and of one that is used again
		sqltest.Gives(t, d, "[[text a'b 1 utf8mb4 +00:00 60 1]]",
			`SELECT "text", 'a\'b', @@tx_read_only, @@character_set_client, @@time_zone, @@max_statement_time, @@autocommit`)
	}
	own := must.Get(Open(server.DSN("reader", "shop")+"?time_zone=%2B02:00", limits))(t)
	defer own.Close()
	columns, rows, err := sqltest.Read(t.Context(), own, "SELECT TIMESTAMP(FROM_UNIXTIME(0)), @@time_zone")
	should.Hold(t, err == nil && fmt.Sprint(rows) == "[[1970-01-01 02:00:00 +02:00]]" && columns[0].Kind == sql.Timestamp,
		"%v %v %v", columns, rows, err)
}

// server is the tests' own MariaDB, with the database shop. It would write and read any file that a statement asks it to.
var server *mariadb.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if server, err = mariadb.Start(context.Background(), "--secure-file-priv=", "--local-infile=1", "--max-connections=100"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop()
	if err := fill(fixture); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
