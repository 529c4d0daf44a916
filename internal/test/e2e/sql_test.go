//go:build unix

package e2e

import (
	"context"
	dbsql "database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mariadb"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const (
	execSQL = "exec_sql"
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
	must.OK(t, postgresErr)
	conn := must.Get(pgx.Connect(t.Context(), postgres.DSN(testpg.Superuser)))(t)
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
	must.Hold(s.t, !res.IsError, "refused:\n%s", res.text())
	decode(s.t, json.RawMessage(res.text()), &f)
	if f.SessionID != "" {
		s.mu.Lock()
		s.sessions[f.SessionID] = true
		s.mu.Unlock()
	}
	return f
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
	{"m", "'1234.5'::numeric::money", "value == '$1,234.50'"},
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
		should.Hold(t, len(f.Notes) == 1 && strings.Contains(f.Notes[0], "old"), "%s: notes %q", name, f.Notes)
		text := res.text()
		should.Hold(t, !strings.Contains(text, "wrong") && !strings.Contains(text, "no NULL"), "%s: %s", name, text)
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
	{"JSON beside decimals", `SELECT 12345678901234567890.123456789 AS n, '{"a": 1.5}'::json AS j, array[0.5] AS a, '9007199254740993'::json AS i UNION ALL SELECT NULL, NULL, NULL, NULL`,
		"[type(df.j[0]['a']), type(df.a[0][0])] == [float] * 2 and df.n[0] == decimal.Decimal('12345678901234567890.123456789') and df.j[1] is None and df.i[0] == 9007199254740993"},
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
			should.Hold(t, strings.Contains(res.text(), "right"), "%s as %s: %s\n%s", c.name, format, res.text(), f.Load)
		}
	}
}

func TestQueriesEndWithTheirRun(t *testing.T) {
	t.Parallel()
	s := startSQL(t, testpg.Superuser)
	const slow = "select pg_sleep(1000)"
	for tool, code := range map[string]string{
		python:     "import sandbox; sandbox.sql('" + slow + "')",
		javascript: "await Promise.all([1, 2, 3, 4, 5].map(() => sandbox.sql('" + slow + "')))",
	} {
		should.Equal(t, s.call(tool, object{"code": code, "timeout_seconds": 2}).Meta.Run.Status, "timed_out", "%s", tool)
	}
	const left = "select count(*) as n from pg_stat_activity where state = 'active' and query = '" + slow + "'"
	s.py("import sandbox\nwhile sandbox.sql(\""+left+"\")['n'][0]: pass\nprint('all have ended')").wantText(t, "all have ended")
}

// What MySQL has and PostgreSQL has not in the same form, as pandas and JavaScript get it.
func TestMySQLIsReadThroughTheTools(t *testing.T) {
	t.Parallel()
	server := must.Get(mariadb.Start(context.Background()))(t)
	t.Cleanup(server.Stop)
	db := must.Get(dbsql.Open("mysql", server.DSN(mariadb.Superuser, "")))(t)
	defer db.Close()
	for _, statement := range []string{
		"CREATE DATABASE shop", "CREATE TABLE shop.odd (id BIGINT UNSIGNED, born DATE, at TIMESTAMP NULL, raw VARBINARY(8), kind ENUM('a','b'), flags BIT(3))",
		"SET STATEMENT sql_mode = '' FOR INSERT INTO shop.odd VALUES (18446744073709551615, '0000-00-00', NULL, x'00ff', 'b', b'101'), (NULL, '2026-01-31', NULL, '', NULL, NULL)",
		"CREATE USER reader IDENTIFIED BY 'a secret/password'", "GRANT SELECT ON shop.* TO reader",
	} {
		must.OK(t, should.ErrOf(db.Exec(statement)), "%v", statement)
	}
	dsn := "mysql://reader:a%20secret%2Fpassword@" + server.Address() + "/shop?ssl-mode=VERIFY_CA&ssl-ca=" + server.Certificate()
	s := start(t, setup{env: []string{"SANDBOX_SQL_SHOP=" + dsn}})
	f := s.query(object{"query": "SELECT * FROM odd WHERE id = ? OR id IS NULL ORDER BY born", "params": []any{"18446744073709551615"}, "save_as": "odd.csv"})
	s.py(f.Load+"\n[df.id[0], str(df.id.dtype), df.born[0], df.raw[0], df.kind[0], df['flags'][0], df.isna().sum().sum()]").
		wantText(t, "[np.uint64(18446744073709551615),\n 'UInt64',\n '0000-00-00',\n b'\\x00\\xff',\n 'b',\n np.int64(5),\n np.int64(5)]")
	s.js("(await sandbox.sql('SELECT id, raw, flags FROM odd WHERE born < ?', ['2000-01-01']))[0]").wantText(t, "{ id: 18446744073709551615n, raw: '00ff', flags: 5 }")
	s.call("describe_sql", object{"table": "odd"}).wantText(t, "bigint(20) unsigned", `"values":["a","b"]`)
	s.call(execSQL, object{"query": "DELETE FROM odd"}).wantCode(t, "sql_rejected")
	should.Hold(t, !strings.Contains(s.stderr.String(), "secret/password"), "the password is in the log")
}
