//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
)

const (
	execSQL     = "exec_sql"
	describeSQL = "describe_sql"
)

// sqlFields is what exec_sql tells.
type sqlFields struct {
	Connection string `json:"connection"`
	Columns    []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"columns"`
	Rows        [][]any  `json:"rows"`
	SessionID   string   `json:"session_id"`
	Path        string   `json:"path"`
	Preview     [][]any  `json:"preview"`
	RowCount    int64    `json:"row_count"`
	Truncated   bool     `json:"truncated"`
	TruncatedBy string   `json:"truncated_by"`
	Load        string   `json:"load"`
	Notes       []string `json:"notes"`
}

var (
	postgresOnce sync.Once
	postgres     *testpg.Server
	postgresErr  error
)

// database is the PostgreSQL that the tests share, and a connection that may do everything in it.
func database(t *testing.T) (*testpg.Server, *pgx.Conn) {
	t.Helper()
	postgresOnce.Do(func() { postgres, postgresErr = testpg.Start(context.Background()) })
	if postgresErr != nil {
		t.Fatal(postgresErr)
	}
	conn, err := pgx.Connect(t.Context(), postgres.DSN(testpg.Superuser))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return postgres, conn
}

func stopPostgres() {
	if postgres != nil {
		postgres.Stop()
	}
}

// startSQL starts a server with one connection, as the role reader or as the superuser.
func startSQL(t *testing.T, role string, args ...string) *server {
	t.Helper()
	db, _ := database(t)
	return start(t, setup{args: args, env: []string{"SANDBOX_SQL_MAIN=" + db.DSN(role)}})
}

// query calls exec_sql, which must work.
func (s *server) query(arguments object) (f sqlFields) {
	s.t.Helper()
	res := s.call(execSQL, arguments)
	if res.IsError {
		s.t.Fatalf("refused:\n%s", res.text())
	}
	decode(s.t, json.RawMessage(res.text()), &f)
	if f.SessionID != "" {
		s.mu.Lock()
		s.sessions[f.SessionID] = true
		s.mu.Unlock()
	}
	return f
}

func TestSmallResultsComeInline(t *testing.T) {
	t.Parallel()
	s := startSQL(t, testpg.Superuser)
	f := s.query(object{"query": "SELECT n, n * $1::numeric AS price, $2::text AS name, NULL AS nothing FROM generate_series(1, 3) n", "params": []any{1.5, "O'Brien; --"}})
	if got, want := fmt.Sprint(f.Rows), "[[1 1.5 O'Brien; -- <nil>] [2 3 O'Brien; -- <nil>] [3 4.5 O'Brien; -- <nil>]]"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	if f.RowCount != 3 || f.Truncated || f.Path != "" || f.Columns[1].Type != "numeric" {
		t.Errorf("odd fields: %+v", f)
	}
	f = s.query(object{"query": "SELECT generate_series(1, 500) AS n", "max_rows": 7})
	if len(f.Rows) != 7 || !f.Truncated || f.TruncatedBy != "rows" || f.Path != "" {
		t.Errorf("with max_rows: %+v", f)
	}
	f = s.query(object{"query": "SELECT repeat('x', 5000) AS wide"})
	if value := f.Rows[0][0].(string); len(value) > 2100 || !strings.Contains(value, "… (5,000 characters)") || len(f.Notes) != 1 {
		t.Errorf("a wide value: %.80q, notes %q", value, f.Notes)
	}
	if ids := s.sessionIDs(); len(ids) != 0 {
		t.Errorf("a query made a session: %q", ids)
	}
}

func TestLargeResultsGoToTheSession(t *testing.T) {
	t.Parallel()
	s := startSQL(t, testpg.Superuser)
	s.py("before = 1")
	f := s.query(object{"query": "SELECT n, 'row ' || n AS name FROM generate_series(1, 20000) n"})
	if f.RowCount != 20000 || f.Truncated || len(f.Preview) != 5 || !strings.HasPrefix(f.Path, "/mnt/data/input/query-") {
		t.Fatalf("odd fields: %+v", f)
	}
	res := s.py(f.Load + "\nprint(len(df), int(df.n.sum()), df.name.iloc[-1], before)")
	res.wantText(t, "20000 200010000 row 20000 1")

	f = s.query(object{"query": "SELECT 1 AS a, 2 AS a, '' AS b, '[1]'::json AS c", "save_as": "tables/one.jsonl"})
	if f.Path != "/mnt/data/input/tables/one.jsonl" || f.RowCount != 1 {
		t.Errorf("odd fields: %+v", f)
	}
	s.py("print(open('input/tables/one.jsonl').read())").wantText(t, `{"a":1,"a_2":2,"b":"","c":[1]}`)
	s.py(f.Load+"\nprint(df.to_dict('records'))").wantText(t, "[{'a': 1, 'a_2': 2, 'b': '', 'c': [1]}]")

	s.call(execSQL, object{"query": "SELECT 5", "save_as": "tables/one.jsonl"}).wantCode(t, "file_exists")
	s.query(object{"query": "SELECT 5 AS n", "save_as": "tables/one.jsonl", "overwrite": true})
	s.py("print(open('input/tables/one.jsonl').read())").wantText(t, `{"n":5}`)
	s.call(execSQL, object{"query": "SELECT 5", "save_as": "one.xls"}).wantCode(t, "invalid_filename")
	// An error in the middle is an error, and leaves no file.
	s.call(execSQL, object{"query": "SELECT 1/(500-n) AS q FROM generate_series(1, 900) n", "save_as": "half.csv"}).wantCode(t, "sql_failed")
	s.py("import os\nprint(os.path.exists('input/half.csv'))").wantText(t, "False")
}

// everyType is an expression of each type, and what pandas is to make of it: a Python expression of value.
var everyType = []struct{ column, expression, check string }{
	{"b", "true", "value is np.True_ or value == True"},
	{"i2", "7::int2", "value == 7"},
	{"i8", "9223372036854775807", "value == 9223372036854775807"},
	{"f4", "0.5::float4", "value == 0.5"},
	{"f8", "1e300::float8", "value == 1e300"},
	{"inf", "'-Infinity'::float8", "value == float('-inf')"},
	{"nan", "'NaN'::float8", "pd.isna(value)"},
	{"price", "12.50::numeric(10,2)", "value == 12.5 and df.price.dtype == 'float64'"},
	{"exact", "12345678901234567890.123456789::numeric", "value == decimal.Decimal('12345678901234567890.123456789')"},
	{"m", "'1234.5'::numeric::money", "value == 1234.5"},
	{"t", "'a, \"b\"' || chr(10) || 'ü'", "value == 'a, \"b\"\\nü'"},
	{"zip", "'01234'::text", "value == '01234'"},
	{"na", "'NA'::text", "value == 'NA'"},
	{"d", "date '2026-01-31'", "value == pd.Timestamp('2026-01-31')"},
	{"ts", "timestamp '2026-01-31 13:05:00.25'", "value == pd.Timestamp('2026-01-31 13:05:00.25')"},
	{"tz", "timestamptz '2026-07-31 13:05+02'", "value == pd.Timestamp('2026-07-31 11:05', tz='UTC')"},
	{"old", "date '0044-03-15 BC'", "value == '0044-03-15 BC'"},
	{"tm", "time '13:05'", "value == '13:05:00'"},
	{"iv", "interval '1 day 2 hours'", "pd.Timedelta(value) == pd.Timedelta(hours=26)"},
	{"by", `'\x00ff'::bytea`, "value == b'\\x00\\xff'"},
	{"u", "'00000000-0000-0000-0000-00000000000a'::uuid", "value == '00000000-0000-0000-0000-00000000000a'"},
	{"j", `'{"a": [1, null]}'::jsonb`, "value == {'a': [1, None]}"},
	{"ia", "array[1, null, 3]", "value == [1, None, 3]"},
	{"ta", "array['x,\"y\"', null]", "value == ['x,\"y\"', None]"},
	{"r", "int4range(1, 5)", "value == '[1,5)'"},
	{"x", "xmlparse(content '<a/>')", "value == '<a/>'"},
	{"ip", "inet '10.0.0.1'", "value == '10.0.0.1'"},
	{"p", "point '(1,2)'", "value == '(1,2)'"},
}

func TestPandasReadsEveryType(t *testing.T) {
	t.Parallel()
	s := startSQL(t, testpg.Superuser)
	var values, nulls, checks []string
	for _, e := range everyType {
		values = append(values, e.expression+" AS "+e.column)
		nulls = append(nulls, "NULL")
		checks = append(checks, fmt.Sprintf("value = df[%q].iloc[0]\nif not (%s): print('wrong', %[1]q, repr(value), df[%[1]q].dtype)\nif not pd.isna(df[%[1]q].iloc[1]): print('no NULL', %[1]q, df[%[1]q].iloc[1])", e.column, e.check))
	}
	query := "SELECT " + strings.Join(values, ", ") + " UNION ALL SELECT " + strings.Join(nulls, ", ")
	for _, name := range []string{"types.csv", "types.jsonl"} {
		f := s.query(object{"query": query, "save_as": name})
		res := s.py("import numpy as np, decimal\n" + f.Load + "\n" + strings.Join(checks, "\n") + "\nprint('checked', len(df.columns))")
		res.wantText(t, fmt.Sprintf("checked %d", len(everyType)))
		if len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "old") {
			t.Errorf("%s: notes %q", name, f.Notes)
		}
		if text := res.text(); strings.Contains(text, "wrong") || strings.Contains(text, "no NULL") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// oddResults are results whose file is easily read wrong, and what pandas is to make of each: a Python
// expression of df.
var oddResults = []struct{ name, query, check string }{
	{"one column with NULLs", "SELECT nullif(n, 2) AS n FROM generate_series(1, 3) n", "df.n.tolist() == [1, pd.NA, 3] and df.n.dtype == 'Int64'"},
	{"no columns", "SELECT FROM generate_series(1, 3)", "df.shape == (3, 0)"},
	{"no rows", "SELECT 1 AS i, 'x' AS t, now() AS z, date '2020-01-01' AS d, ''::bytea AS y, 1.5 AS p WHERE false",
		"[str(t).replace('[s', '[ns') for t in df.dtypes] == ['Int64', 'string', 'datetime64[ns, UTC]', 'datetime64[ns]', 'object', 'float64']"},
	{"nothing but NULL", "SELECT NULL::int AS i, NULL::date AS d, NULL::bool AS b, NULL::json AS j, NULL::bytea AS y, NULL::text AS t FROM generate_series(1, 2)",
		"df.isna().all().all() and df.shape == (2, 6) and df.d.dtype.kind == 'M'"},
	{"empty values", "SELECT '' AS t, ''::bytea AS y, 1.5 AS p", "df.t[0] == '' and df.y[0] == b''"},
	{"whole numbers beside a NULL", "VALUES (9007199254740993), (NULL)", "df.column1[0] == 9007199254740993"},
	{"decimals beside a NULL", "VALUES (12345678901234567890.123456789), (NULL), ('NaN')", "df.column1[0] == decimal.Decimal('12345678901234567890.123456789') and df.column1[1] is None"},
	{"floats to the last digit", "VALUES (0.1::float8 + 0.2), (1.7976931348623157e308), (5e-324), (0.49999999999999994)",
		"df.column1.tolist() == [0.1 + 0.2, 1.7976931348623157e308, 5e-324, 0.49999999999999994]"},
	{"JSON of several lines", `SELECT E'{"a":\n 1,\r\n "big": 123456789012345678901234567890}'::json AS j, array[E'[\n1]'::json] AS a`,
		"df.j[0] == {'a': 1, 'big': 123456789012345678901234567890} and df.a[0] == [[1]]"},
	{"odd names", `SELECT 1 AS "a""b", 2 AS "two
lines", 3 AS "ü🙂", 4 AS " ", 5 AS "x", 6 AS "x", 7 AS "it's \ {d}"`,
		"df.iloc[0].tolist() == [1, 2, 3, 4, 5, 6, 7] and list(df.columns) == ['a\"b', 'two\\nlines', 'ü🙂', ' ', 'x', 'x_2', \"it's \\\\ {d}\"]"},
	{"an offset with seconds", "SELECT timestamptz '1880-01-01 00:00+00' AS at", "df['at'][0] == '1880-01-01 01:05:21+01:05:21'"},
}

func TestPandasReadsOddResults(t *testing.T) {
	t.Parallel()
	db, _ := database(t)
	s := start(t, setup{env: []string{"SANDBOX_SQL_MAIN=" + db.DSN(testpg.Superuser) + " timezone=Europe/Vienna"}})
	s.py("import decimal")
	for _, format := range []string{"csv", "jsonl"} {
		for i, c := range oddResults {
			f := s.query(object{"query": c.query, "save_as": fmt.Sprintf("%d.%s", i, format)})
			res := s.py(f.Load + fmt.Sprintf("\nprint('right' if %s else ('wrong', df.to_dict('records'), df.dtypes))", c.check))
			if !strings.Contains(res.text(), "right") {
				t.Errorf("%s as %s: %s\n%s", c.name, format, res.text(), f.Load)
			}
		}
	}
}

func TestWhatIsWrongWithAQueryIsSaid(t *testing.T) {
	t.Parallel()
	db, conn := database(t)
	if _, err := conn.Exec(t.Context(), "CREATE ROLE confined LOGIN; CREATE TABLE private_things (n int)"); err != nil {
		t.Fatal(err)
	}
	const password = "correct-horse-battery"
	s := start(t, setup{env: []string{
		"SANDBOX_SQL_MAIN=" + db.DSN("confined"), "SANDBOX_SQL_GONE=postgres://ghost:" + password + "@127.0.0.1:1/hidden", "SANDBOX_SQL_BROKEN=postgres://[",
	}})
	for _, c := range []struct {
		name      string
		arguments object
		code      string
		words     []string
	}{
		{"no connection named", object{"query": "SELECT 1"}, "connection_not_found", []string{"broken, gone, main"}},
		{"a host that is down", object{"query": "SELECT 1", "connection": "gone"}, "sql_failed", []string{"nothing listens"}},
		{"a connection string that is none", object{"query": "SELECT 1", "connection": "broken"}, "sql_failed", []string{"SANDBOX_SQL_BROKEN"}},
		{"a write", object{"query": "DELETE FROM private_things", "connection": "main"}, "sql_rejected", []string{"DELETE"}},
		{"a syntax error", object{"query": "SELECT 1 +\n FROM x", "connection": "main"}, "sql_failed", []string{"42601", "line 2:  FROM x"}},
		{"less than no rows", object{"query": "SELECT 1", "connection": "main", "max_rows": -1}, "invalid_argument", []string{"max_rows"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := s.call(execSQL, c.arguments)
			res.wantCode(t, c.code)
			res.wantText(t, c.words...)
			if strings.Contains(string(res.line), password) || strings.Contains(string(res.line), "ghost") {
				t.Errorf("a credential is in the answer: %s", res.line)
			}
		})
	}
	if log := s.stderr.String(); strings.Contains(log, password) {
		t.Error("the password is in the log")
	}
	s.py("import os\nprint([v for v in os.environ.values() if 'ghost' in v or 'confined' in v])").wantText(t, "[]")
}

func TestADatabaseIsDescribed(t *testing.T) {
	t.Parallel()
	_, conn := database(t)
	for _, statement := range []string{
		"CREATE SCHEMA shop",
		"CREATE TABLE shop.customers (id int PRIMARY KEY, name text NOT NULL)",
		"CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer int NOT NULL REFERENCES shop.customers)", "CREATE VIEW shop.open_orders AS SELECT * FROM shop.orders",
		"INSERT INTO shop.customers VALUES (1, 'Ada'), (2, 'Bob')",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s := startSQL(t, testpg.Superuser)
	s.call(describeSQL, object{}).wantText(t, `"schema":"shop"`, `"connection":"main"`)
	s.call(describeSQL, object{"glob": "open_*"}).wantText(t, `"table":"open_orders"`, `"kind":"view"`)
	s.call(describeSQL, object{"table": "customers", "schema": "shop", "examples": true}).wantText(t, `"Ada"`, `"referenced_by"`)
	res := s.call(describeSQL, object{"table": "shop.order"})
	res.wantCode(t, "not_found")
	res.wantText(t, "orders")
	s.call(describeSQL, object{"connection": "other"}).wantCode(t, "connection_not_found")
}

func TestDoctorTellsWhatALoginCouldDo(t *testing.T) {
	t.Parallel()
	db, conn := database(t)
	for _, statement := range []string{"CREATE ROLE plain_reader LOGIN", "GRANT pg_read_all_data TO plain_reader"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, "doctor", "--json")
	cmd.Env = append(os.Environ(), "SANDBOX_SQL_STRONG="+db.DSN(testpg.Superuser), "SANDBOX_SQL_PLAIN="+db.DSN("plain_reader"),
		"SANDBOX_SQL_GONE=postgres://ghost:correct-horse-battery@127.0.0.1:1/x", "SANDBOX_SQL_ODD=correct-horse-battery")
	out, _ := cmd.Output() // the machine may lack something else
	var report struct {
		Checks []struct{ Name, Status, Found, Fix string }
	}
	decode(t, out, &report)
	found := make(map[string]string)
	for _, c := range report.Checks {
		found[c.Name] += c.Status + ": " + c.Found + " " + c.Fix + "\n"
	}
	for name, words := range map[string][]string{
		"database strong": {"warn", "superuser", "CREATE ROLE"}, "database plain": {"ok", "can only read"},
		"database gone": {"warn", "nothing listens"}, "database": {"warn", "SANDBOX_SQL_ODD"},
	} {
		for _, word := range words {
			if !strings.Contains(found[name], word) {
				t.Errorf("%s: %q is not in %q", name, word, found[name])
			}
		}
	}
	if strings.Contains(string(out), "correct-horse-battery") {
		t.Error("a password is in the report")
	}
}

func TestAnswersAreBoundedWhateverTheDatabaseHas(t *testing.T) {
	t.Parallel()
	_, conn := database(t)
	columns := func(name string) string {
		var list []string
		for i := range 1600 {
			list = append(list, fmt.Sprintf("\"%s%04d\" date", name, i))
		}
		return strings.Join(list, ", ")
	}
	long := strings.Repeat("\x01", 59)
	for _, statement := range []string{
		"CREATE SCHEMA wide", "CREATE TABLE wide.plain (" + columns("c") + ")", "CREATE TABLE wide.nasty (" + columns(long) + ")",
		"INSERT INTO wide.nasty DEFAULT VALUES", "INSERT INTO wide.plain SELECT FROM generate_series(1, 30)",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s := startSQL(t, testpg.Superuser)
	bounded := func(name, tool string, arguments object) toolResult {
		t.Helper()
		res := s.call(tool, arguments)
		if len(res.line) > 1_000_000 || len(res.text()) > 16_001 {
			t.Errorf("%s: %d bytes, %d of text", name, len(res.line), len(res.text()))
		}
		return res
	}
	f := s.query(object{"query": "SELECT repeat(E'\\x01', 1000) AS a FROM generate_series(1, 25)"})
	if f.RowCount != 25 || len(f.Rows)+len(f.Preview) < 5 {
		t.Errorf("%d rows inline, %d in the preview", len(f.Rows), len(f.Preview))
	}
	bounded("a long connection", execSQL, object{"query": "SELECT 1", "connection": strings.Repeat("x", 2_000_000)}).wantCode(t, "connection_not_found")
	bounded("1600 columns", execSQL, object{"query": "TABLE wide.plain", "save_as": "plain.csv"}).wantText(t, "Only the first", `"row_count":30`)
	bounded("1600 long names in a file", execSQL, object{"query": "TABLE wide.nasty", "save_as": "nasty.csv"}).wantText(t, "Only the first", `"row_count":1`)
	bounded("a table of long names", describeSQL, object{"table": "wide.nasty", "examples": true}).wantText(t, "left out")
	if f := s.query(object{"query": "SELECT FROM generate_series(1, 2)"}); f.Columns == nil || f.RowCount != 2 {
		t.Errorf("no columns: %+v", f)
	}
	s.call(execSQL, object{"query": "SELECT 1", "session_id": "../x"}).wantCode(t, "invalid_session_id")
}

// runningIn tells how many statements with a text in them the database works on.
func runningIn(t *testing.T, conn *pgx.Conn, text string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE position($1 IN query) > 0 AND pid <> pg_backend_pid() AND state = 'active'", text).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAQueryEndsWithItsServer(t *testing.T) {
	t.Parallel()
	_, conn := database(t)
	s := startSQL(t, testpg.Superuser)
	const query = "SELECT n, repeat('x', 1000), pg_sleep(0.001) AS s8766 FROM generate_series(1, 1000000) n"
	s.beginCall(execSQL, object{"query": query, "save_as": "ended.csv"})
	eventually(t, "the query runs", func() (bool, string) { return runningIn(t, conn, query) == 1, "" })
	s.end()
	eventually(t, "the query has ended", func() (bool, string) { return runningIn(t, conn, query) == 0, "" })
}

func TestACancelledExportLeavesNoFile(t *testing.T) {
	t.Parallel()
	_, conn := database(t)
	s := startSQL(t, testpg.Superuser)
	s.py("1")
	const query = "SELECT n, repeat('x', 1000), pg_sleep(0.001) AS s8767 FROM generate_series(1, 1000000) n"
	call := s.beginCall(execSQL, object{"query": query, "save_as": "cancelled.csv"})
	eventually(t, "the query runs", func() (bool, string) { return runningIn(t, conn, query) == 1, "" })
	call.cancel()
	eventually(t, "the query has ended", func() (bool, string) { return runningIn(t, conn, query) == 0, "" })
	s.py("import os\nprint([f for f in os.listdir('input')] if os.path.exists('input') else [])").wantText(t, "[]")
	s.query(object{"query": "SELECT 1 AS n", "save_as": "cancelled.csv"})
}
