//go:build unix

package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

func open(t *testing.T, dsn string, limits sql.Limits) *reader.Database {
	t.Helper()
	if limits.Timeout == 0 {
		limits.Timeout = time.Minute
	}
	db := must.Get(Open(dsn, limits))(t)
	t.Cleanup(db.Close)
	return db
}

func owner(t *testing.T) *reader.Database {
	return open(t, server.DSN("owner"), sql.Limits{})
}

// admin is a connection that may do everything.
func admin(t *testing.T) *pgx.Conn {
	t.Helper()
	conn := must.Get(pgx.Connect(t.Context(), server.DSN("owner")))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func wantFault(t *testing.T, err error, code fault.Code, words ...string) *fault.Error {
	t.Helper()
	f := must.Code(t, err, code)
	for _, word := range words {
		should.Hold(t, strings.Contains(f.Message+"\n"+f.Hint, word), "%q is not in %q, hint %q", word, f.Message, f.Hint)
	}
	return f
}

func TestValuesComeInOneForm(t *testing.T) {
	db := owner(t)
	for _, c := range []struct {
		expression, typ string
		kind            sql.Kind
		want            string
	}{
		{"true", "boolean", sql.Boolean, "true"},
		{"null::boolean", "boolean", sql.Boolean, "NULL"},
		{"9223372036854775807", "bigint", sql.Integer, "9223372036854775807"},
		{"7::int2", "smallint", sql.Integer, "7"},
		{"0.1::float8", "double precision", sql.Float, "0.1"},
		{"'NaN'::float4", "real", sql.Float, "NaN"},
		{"'-infinity'::float8", "double precision", sql.Float, "-Infinity"},
		{"12345678901234567890.12::numeric", "numeric", sql.Decimal, "12345678901234567890.12"},
		{"1.5::numeric(10,2)", "numeric(10,2)", sql.Decimal, "1.50"},
		{"12345::numeric(2,-3)", "numeric(2,-3)", sql.Decimal, "12000"},
		{"'-1234567.5'::numeric::money", "money", sql.Text, "-$1,234,567.50"},
		{"date '2026-01-31'", "date", sql.Date, "2026-01-31"},
		{"time '13:05:00.5'", "time", sql.Time, "13:05:00.5"},
		{"timestamp '2026-01-31 13:05'", "timestamp", sql.Timestamp, "2026-01-31 13:05:00"},
		{"timestamptz '2026-07-31 13:05+02'", "timestamp with time zone", sql.TimestampTZ, "2026-07-31 11:05:00+00"},
		{"interval '1 day 2 hours'", "interval", sql.Interval, "P1DT2H"},
		{`'\x00ff'::bytea`, "bytea", sql.Bytes, "00ff"},
		{"'a'::char(3)", "character(3)", sql.Text, "a  "},
		{"'a'::varchar(9)", "character varying(9)", sql.Text, "a"},
		{"'00000000-0000-0000-0000-00000000000a'::uuid", "uuid", sql.Text, "00000000-0000-0000-0000-00000000000a"},
		{`'{"a": [1, null]}'::jsonb`, "jsonb", sql.JSON, `{"a": [1, null]}`},
		{"xmlparse(content '<a/>')", "xml", sql.Text, "<a/>"},
		{"int4range(1, 5)", "int4range", sql.Text, "[1,5)"},
		{"inet '10.0.0.1/8'", "inet", sql.Text, "10.0.0.1/8"},
		{"point '(1,2)'", "point", sql.Text, "(1,2)"},
		{"B'101'", "bit", sql.Text, "101"},
		{"array[1, null, 3]", "integer[]", sql.Array, "[1,null,3]"},
		{"array[[1, 2], [3, 4]]", "integer[]", sql.Array, "[[1,2],[3,4]]"},
		{"'[0:1]={5,6}'::int[]", "integer[]", sql.Array, "[5,6]"},
		{"'{}'::text[]", "text[]", sql.Array, "[]"},
		{`array['a "b"', 'c\d', 'NULL', '', 'x,y', E'z\n{}']`, "text[]", sql.Array, `["a \"b\"","c\\d","NULL","","x,y","z\n{}"]`},
		{"array[true, false]", "boolean[]", sql.Array, "[true,false]"},
		{"array[1.50::numeric, 'NaN']", "numeric[]", sql.Array, `[1.50,"NaN"]`},
		{`array['{"a": 1}'::json]`, "json[]", sql.Array, `[{"a": 1}]`},
		{`array['\x0a'::bytea]`, "bytea[]", sql.Array, `["0a"]`},
		{"array[timestamptz '2026-01-01 00:00+00']", "timestamp with time zone[]", sql.Array, `["2026-01-01 00:00:00+00"]`},
		{"array[box '((0,0),(1,1))', box '((2,2),(3,3))']", "box[]", sql.Array, `["(1,1),(0,0)","(3,3),(2,2)"]`},
	} {
		t.Run(c.expression, func(t *testing.T) {
			columns, rows, err := sqltest.Read(t.Context(), db, "SELECT "+c.expression+" AS it")
			must.OK(t, err)
			got, want := columns[0], (sql.Column{Name: "it", Type: c.typ, Kind: c.kind})
			should.Hold(t, got == want, "column %+v, want %+v", got, want)
			should.Equal(t, rows[0][0], c.want, "value")
		})
	}
}

func TestTypesOfTheDatabasesOwnAreKnown(t *testing.T) {
	conn := admin(t)
	for _, statement := range []string{
		"CREATE SCHEMA kinds", "CREATE TYPE kinds.mood AS ENUM ('glad', 'sad')", "CREATE DOMAIN kinds.age AS int CHECK (VALUE > 0)",
		"CREATE TYPE kinds.pair AS (a int, b text)",
	} {
		must.OK(t, should.ErrOf(conn.Exec(t.Context(), statement)))
	}
	columns, rows, err := sqltest.Read(t.Context(), owner(t), `SELECT 'sad'::kinds.mood AS m, '{glad,NULL}'::kinds.mood[] AS ms, 5::kinds.age AS a, ARRAY[5, NULL]::kinds.age[] AS ages,
		ROW(1, 'x')::kinds.pair AS p, $1::kinds.mood AS q, $2::kinds.mood[] AS qs`, "glad", []any{"sad", "glad"})
	must.OK(t, err)
	var kinds []string
	for _, c := range columns {
		kinds = append(kinds, fmt.Sprint(c.Type, " ", c.Kind))
	}
	should.EqualSlice(t, kinds, []string{"kinds.mood 0", "kinds.mood[] 12", "integer 2", "kinds.age[] 12", "kinds.pair 0", "kinds.mood 0", "kinds.mood[] 12"}, "types")
	should.EqualSlice(t, rows[0], []string{"sad", `["glad",null]`, "5", "[5,null]", "(1,x)", "glad", `["sad","glad"]`}, "values")
}

func TestParamsAreBound(t *testing.T) {
	hostile := `'; DROP TABLE x; -- "\ {}`
	for _, c := range []struct {
		name, text string
		params     []any
		want       []string
	}{
		{"every kind of value", "SELECT $1::int + 1, $2::text, $3::bool, $4::text, $5::numeric, $6::date + 1",
			[]any{float64(41), hostile, true, nil, 1.25, "2026-01-31"}, []string{"42", hostile, "true", "NULL", "1.25", "2026-02-01"}},
		{"everything as text", "SELECT $1::int + 1, $2::bool, $3::int[], $4::numeric, $5::timestamptz, $6::jsonb",
			[]any{"41", "true", "{1,NULL}", "1.50", "2026-01-31 01:00+01", `{"a":1}`}, []string{"42", "true", "[1,null]", "1.50", "2026-01-31 00:00:00+00", `{"a": 1}`}},
		{"large integers as text", "SELECT $1::bigint", []any{"9007199254740993"}, []string{"9007199254740993"}},
		{"large numbers are not written with an exponent", "SELECT $1::bigint", []any{float64(1e15)}, []string{"1000000000000000"}},
		{"numbers keep their digits", "SELECT $1::numeric, $2::numeric, $3::text, $4::jsonb, $5::numeric[], $6::float8, $7::numeric",
			[]any{json.Number("1.0000000000000000001"), json.Number("12345678901234567890123456789.50"), json.Number("3.0"),
				json.Number("12345678901234567890.10"), []any{json.Number("0.10000000000000000001")}, json.Number("0.1"), json.Number("1.50e3")},
			[]string{"1.0000000000000000001", "12345678901234567890123456789.50", "3.0", "12345678901234567890.10", "[0.10000000000000000001]", "0.1", "1500"}},
		{"whole numbers of any form are integers", "SELECT $1::bigint, $2::int, $3::smallint, $4::bigint[], $5::bigint",
			[]any{json.Number("9007199254740993"), json.Number("3.0"), json.Number("3e2"), []any{json.Number("-9.223372036854775808e18"), nil}, json.Number("9007199254740993.000")},
			[]string{"9007199254740993", "3", "300", "[-9223372036854775808,null]", "9007199254740993"}},
		{"numbers that JSON has not", "SELECT $1::float8, $2::numeric, $3::real", []any{json.Number("NaN"), json.Number("nan"), json.Number("-Infinity")},
			[]string{"NaN", "NaN", "-Infinity"}},
		{"lists as JSON text", "SELECT $1::int[], $2::text[], $3::bigint[], $4::int[], $5::jsonb, $6::text",
			[]any{"[1, null, 3]", `["a", "b,c"]`, "[9007199254740993]", "[0:1]={5,6}", "[1, 2]", "[1]"},
			[]string{"[1,null,3]", `["a","b,c"]`, "[9007199254740993]", "[5,6]", "[1, 2]", "[1]"}},
		{"lists of objects", "SELECT $1::jsonb[]", []any{[]any{map[string]any{"a": json.Number("1")}, "plain", nil}},
			[]string{`[{"a": 1},"plain",null]`}},
		{"lists are arrays", "SELECT $1::int[], $2::text[]", []any{[]any{float64(1), nil}, []any{hostile, "", nil, "NULL"}},
			[]string{"[1,null]", `["'; DROP TABLE x; -- \"\\ {}","",null,"NULL"]`}},
		{"lists in lists", "SELECT $1::int[]", []any{[]any{[]any{float64(1)}, []any{float64(2)}}}, []string{"[[1],[2]]"}},
		{"a list that chooses", "SELECT count(*) FROM generate_series(1, 9) n WHERE n = ANY($1)", []any{[]any{float64(2), float64(3), float64(77)}}, []string{"2"}},
		{"JSON", "SELECT $1::jsonb, $2::json, $3::jsonb", []any{map[string]any{"a": []any{float64(1)}}, `{"b":2}`, "plain"},
			[]string{`{"a": [1]}`, `{"b":2}`, `"plain"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			should.EqualSlice(t, sqltest.Runs(t, owner(t), c.text, c.params...)[0], c.want)
		})
	}
}

func TestWhatCannotRunIsSaid(t *testing.T) {
	db := owner(t)
	for _, c := range []struct {
		name, text string
		params     []any
		code       fault.Code
		words      []string
	}{
		{"a syntax error at the end shows its place", "SELECT 1 +", nil, fault.SQLFailed, []string{"line 1: SELECT 1 +\n                  ^"}},
		{"a syntax error shows its place", "SELECT 1,\n  é, FROM x", nil, fault.SQLFailed, []string{"42601", "line 2:   é, FROM x\n             ^"}},
		{"a lock of rows", "TABLE pg_class FOR UPDATE", nil, fault.SQLRejected, []string{"25006", "read-only", "exec_sql reads"}},
		{"a write inside a query", "WITH x AS (DELETE FROM pg_class RETURNING 1) SELECT 1", nil, fault.SQLRejected, []string{"25006", "read-only", "exec_sql reads"}},
		{"an unknown table", "SELECT * FROM nowhere", nil, fault.SQLFailed, []string{"42P01", `"nowhere"`, "describe_sql"}},
		{"an unknown column", "SELECT nothing FROM pg_class", nil, fault.SQLFailed, []string{"42703", "describe_sql"}},
		{"too few values", "SELECT $1::int, $2::int", []any{1.0}, fault.SQLRejected, []string{"2 parameters", "1 value"}},
		{"too many values", "SELECT 1", []any{1.0}, fault.SQLRejected, []string{"0 parameters", "1 value"}},
		{"a value of the wrong type", "SELECT $1::int", []any{"many"}, fault.SQLFailed, []string{"22P02", `"many"`}},
		{"a number that is not whole", "SELECT $1::bigint", []any{json.Number("9007199254740993.0000000000000001")}, fault.SQLFailed, []string{"22P02"}},
		{"a number that no integer is", "SELECT $1::text, $2::int", []any{"a", json.Number("NaN")}, fault.SQLFailed, []string{"22P02", "NaN"}},
		{"a number that JSON has not", "SELECT $1::jsonb", []any{json.Number("NaN")}, fault.SQLRejected, []string{"params[0], for $1, is NaN"}},
		{"an object where a number is asked", "SELECT $1::int", []any{map[string]any{}}, fault.SQLRejected, []string{"params[0]", "$1", "object"}},
		{"a list where a number is asked", "SELECT $1::int", []any{[]any{1.0}}, fault.SQLRejected, []string{"params[0]", "list", "integer"}},
		{"a list of more values than are taken", "SELECT $1::int[]", []any{"[0" + strings.Repeat(",0", 200_000) + "]"}, fault.SQLRejected, []string{"params[0]", "too many JSON values"}},
		{"NUL in a text", "SELECT $1::text", []any{"a\x00b"}, fault.SQLRejected, []string{"NUL"}},
		{"a type that cannot be told", "SELECT pg_typeof($1)", []any{"x"}, fault.SQLFailed, []string{"42P18", "$1::int"}},
		{"an error in the middle of the rows", "SELECT 1/(500-n) FROM generate_series(1, 1000) n", nil, fault.SQLFailed, []string{"22012", "division by zero"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantFault(t, sqltest.Fails(t, db, c.text, c.params...), c.code, c.words...)
			sqltest.Gives(t, db, "[[1]]", "SELECT 1")
		})
	}
}

func TestNoStatementLeavesTheTransaction(t *testing.T) {
	db := owner(t)
	conn := admin(t)
	must.OK(t, should.ErrOf(conn.Exec(t.Context(), "CREATE SCHEMA held; CREATE TABLE held.t (n int); INSERT INTO held.t VALUES (1)")))
	for _, text := range []string{
		"INSERT INTO held.t VALUES (2)", "WITH w AS (DELETE FROM held.t RETURNING n) SELECT * FROM w",
		"SET TRANSACTION READ WRITE", "SET transaction_read_only = off", "SELECT set_config('transaction_read_only', 'off', false)",
		"SELECT 1; INSERT INTO held.t VALUES (2)", "COMMIT; INSERT INTO held.t VALUES (2)", "TRUNCATE held.t", "DROP TABLE held.t",
		"CREATE TABLE held.u AS SELECT 1", "DO 'BEGIN COMMIT; INSERT INTO held.t VALUES (2); END'", "EXPLAIN ANALYZE INSERT INTO held.t VALUES (2)",
		"SELECT n FROM held.t FOR UPDATE", "COPY held.t FROM PROGRAM 'echo 2'",
	} {
		t.Run(text, func(t *testing.T) {
			rows, err := db.Run(t.Context(), &reader.Statement{Text: text}) // not checked: the server alone holds
			if err == nil {
				for rows.Next() {
				}
				err = rows.Err()
				rows.Close()
			}
			should.Hold(t, err != nil, "the server took it")
			var n int
			err = conn.QueryRow(t.Context(), "SELECT count(*) FROM held.t").Scan(&n)
			must.Hold(t, err == nil && n == 1, "the table has %d rows, %v", n, err)
		})
	}
	for _, text := range []string{"COMMIT", "ROLLBACK", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "SET work_mem = '1GB'", "SELECT pg_advisory_lock(7)"} {
		t.Run(text+" changes nothing for the next", func(t *testing.T) {
			rows, err := db.Run(t.Context(), &reader.Statement{Text: text})
			if err == nil {
				for rows.Next() {
				}
				rows.Close()
			}
			_, got, err := sqltest.Read(t.Context(), db, `SELECT current_setting('transaction_read_only'), current_setting('work_mem'),
				(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())`)
			should.Hold(t, err == nil && slices.Equal(got[0], []string{"on", "4MB", "0"}), "got %q, %v", got, err)
		})
	}
}

func TestACancelledStatementEndsInTheDatabase(t *testing.T) {
	db := owner(t)
	conn := admin(t)
	running := func() (n int) {
		must.OK(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1000)%' AND pid <> pg_backend_pid() AND state = 'active'").Scan(&n))
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		rows, err := db.Query(ctx, sql.Query{Text: "SELECT pg_sleep(1000)"})
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
			rows.Close()
		}
		ended <- err
	}()
	must.Soon(t, "the statement runs", func() bool { return running() == 1 })
	cancel()
	err := <-ended
	should.Hold(t, err != nil, "no error")
	must.Soon(t, "the statement has ended", func() bool { return running() == 0 })
}

func TestAResultThatIsNotReadToItsEndEndsInTheDatabase(t *testing.T) {
	db := owner(t)
	rows, err := db.Query(t.Context(), sql.Query{Text: "SELECT n, pg_sleep(n / 1000) FROM (SELECT generate_series(1, 1000000000) AS n) s"})
	must.OK(t, err)
	for range 5 {
		if !rows.Next() {
			t.Error(rows.Err())
		}
	}
	rows.Close()
	conn := admin(t)
	must.Soon(t, "the statement has ended", func() bool {
		var n int
		err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%1000000000%' AND pid <> pg_backend_pid() AND state = 'active'").Scan(&n)
		return err == nil && n == 0
	})
}

func TestTheTimeoutIsTheDatabases(t *testing.T) {
	db := open(t, server.DSN("owner"), sql.Limits{Timeout: 200 * time.Millisecond})
	err := sqltest.Fails(t, db, "SELECT pg_sleep(1000)")
	wantFault(t, err, fault.SQLFailed, "57014")
	should.Be(t, err, sql.ErrTimeout, "is no timeout")
}

func TestARowThatIsTooLargeIsRefused(t *testing.T) {
	db := open(t, server.DSN("owner"), sql.Limits{RowBytes: 1 << 20})
	wantFault(t, sqltest.Fails(t, db, "SELECT repeat('x', 2000000)"), fault.SQLFailed, "1048576", "SUBSTRING")
	should.Equal(t, len(sqltest.Runs(t, db, "SELECT repeat('x', 1000)")[0][0]), 1000, "afterwards")
}

func TestADatabaseThatWasRestartedIsReadAgain(t *testing.T) {
	db := owner(t)
	sqltest.Runs(t, db, "SELECT 1")
	server.Halt()
	wantFault(t, sqltest.Fails(t, db, "SELECT 1"), fault.SQLFailed, "not in reach")
	must.OK(t, server.Run(t.Context()))
	sqltest.Runs(t, db, "SELECT 1")
}

func TestConnectionFaultsSayNothingSecret(t *testing.T) {
	conn := admin(t)
	must.OK(t, should.ErrOf(conn.Exec(t.Context(), "CREATE ROLE locked LOGIN CONNECTION LIMIT 0")))
	const password = "correct-horse-battery"
	for _, c := range []struct {
		name, dsn, words string
	}{
		{"no such role", strings.Replace(server.DSN("ghostly"), "user=", "password="+password+" user=", 1), "refused the login"},
		{"no such database", strings.Replace(server.DSN("owner"), "dbname=postgres", "dbname=hidden password="+password, 1), "does not have the database"},
		{"no connection free", server.DSN("locked") + " password=" + password, "no connection free"},
		{"nobody there", "host=/nonexistent-folder user=ghostly dbname=hidden password=" + password, "not in reach"},
		{"port closed", "postgres://ghostly:" + password + "@127.0.0.1:1/hidden", "not in reach"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := wantFault(t, sqltest.Fails(t, open(t, c.dsn, sql.Limits{}), "SELECT 1"), fault.SQLFailed, c.words)
			for _, secret := range []string{password, "ghostly", "hidden"} {
				if strings.Contains(f.Message+f.Hint, secret) || strings.Contains(fmt.Sprint(f.Unwrap()), password) {
					t.Errorf("%q is in %q, %q or %v", secret, f.Message, f.Hint, f.Unwrap())
				}
			}
		})
	}
}

func TestALargeResultStreams(t *testing.T) {
	rows := must.Get(owner(t).Query(t.Context(), sql.Query{Text: "SELECT n, repeat('x', 50) FROM generate_series(1, 300000) n"}))(t)
	defer rows.Close()
	head, err := sql.ReadHead(rows, 30, 1<<20)
	must.Hold(t, err == nil && head.More, "%v %v", head, err)
	var lines int
	file := sql.NewExport(sql.CSV, head, rows, sql.ExportLimits{})
	buffer := make([]byte, 32<<10)
	for {
		n, err := file.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte("\n"))
		if err != nil {
			break
		}
	}
	should.Hold(t, lines == 300001 && file.Rows == 300000 && file.Cut == "", "%d lines, %d rows, cut %q", lines, file.Rows, file.Cut)
}
