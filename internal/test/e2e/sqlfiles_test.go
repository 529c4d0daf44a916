//go:build unix

package e2e

import (
	"testing"
)

func TestSQLOverFiles(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.call("upload_file", object{"filename": "rates.csv", "text": "day,rate,big\n2026-01-01,1.5,9007199254740993\n2026-01-02,2.25,\n"})
	s.call("upload_file", object{"filename": "sales.jsonl", "text": "{\"day\":\"2026-01-01\",\"n\":2}\n{\"day\":\"2026-01-02\",\"n\":null}\n"})
	play(t, s, python, []step{
		{code: "import os, sandbox, pandas as pd\nf = sandbox.sql(\"select rate, big from 'input/rates.csv' order by rate\")\n(f.rate.tolist(), f.big[0], str(f.big[1]), str(f.big.dtype))",
			result: "([1.5, 2.25], np.int64(9007199254740993), '<NA>', 'Int64')"},
		{code: "orders = pd.DataFrame({'n': [2, 3], 'who': ['anna', 'bert']})\n" +
			"sandbox.sql(\"select who, rate from 'input/rates.csv' r join 'input/sales.jsonl' s on cast(r.day as text) = cast(s.day as text) join orders using (n) where rate > $1\", [1]).values.tolist()",
			result: "[['anna', 1.5]]"},
		{code: "def total():\n    mine = orders[orders.n > 2]\n    return sandbox.sql('select count(*) as c from mine', connection='files').c[0]\nint(total())", result: "1"},
		{code: "sandbox.sql(\"select * from 'input/rates.csv' order by rate\", max_rows=1).rate.tolist()", result: "[1.5]"},
		{code: "sandbox.sql(\"select nothing from 'input/rates.csv'\")", status: "failed", err: "SQLError", text: []string{"sql_failed", "nothing"}},
		{code: "sandbox.sql(\"select * from 'rates.csv'\")", status: "failed", err: "SQLError", text: []string{"not_found", "input/rates.csv"}},
		{code: "odd = pd.DataFrame({'n': [1, 2], 'month': pd.period_range('2026', periods=2, freq='M')})\nsandbox.sql('select n from odd', connection='files')",
			status: "failed", err: "SQLError", text: []string{"column 'month' of odd (period[M])", "Hint: Make it text: odd['month'] = odd['month'].astype(str)"}},
		{code: "late = pd.DataFrame({'x': pd.Series([1] * 17 + [1.5] + [1] * 30000, dtype=object)})\nfloat(sandbox.sql('select max(x) as most from late', connection='files').most[0])", result: "1.5"},
		{code: "with open('wide.jsonl', 'w') as f:\n    f.write('{\"id\": 18446744073709551616}')\nlen(sandbox.sql(\"select * from 'wide.jsonl'\"))", result: "1", text: []string{"note: id has numbers that may be rounded"}},
		{code: "import duckdb\nduckdb.sql(\"select current_setting('enable_progress_bar') as bar\").fetchall()", result: "[(False,)]"},
		{code: "[name for name in os.listdir('/mnt/data') if 'query' in name]", result: "[]"},
	})
	play(t, s, javascript, []step{
		{code: "import { sql } from 'sandbox';\nawait sql(\"copy (select * from 'input/rates.csv') to 'rates.parquet'\", [], { connection: 'files' });\n" +
			"await sql(\"select day, big, rate::decimal(10,2) as r from 'rates.parquet' order by rate\")",
			result: "[\n  { day: '2026-01-01', big: 9007199254740993n, r: 1.5 },\n  { day: '2026-01-02', big: null, r: 2.25 }\n]"},
		{code: "await sql(\"select {a: 1::variant} as v, id from 'wide.jsonl'\")", result: "[ { v: { a: 1 }, id: 18446744073709552000 } ]", text: []string{"note: id has numbers that may be rounded"}},
		{code: "const days = [{ day: '2026-01-01', hour: '10:30', n: 2n ** 64n }, { hour: 1, later: NaN }];\nawait sql('select day, hour, n, later from days', [], { tables: { days } })",
			result: "[\n  {\n    day: '2026-01-01',\n    hour: '10:30',\n    n: 18446744073709551616n,\n    later: null\n  },\n  { day: null, hour: '1', n: null, later: NaN }\n]"},
		{code: "const orders = [{ n: 2, who: 'anna', id: 9007199254740993n }, { n: 3, who: 'bert' }];\n" +
			"await sql(\"select who, id, list(rate) as l from orders join 'input/sales.jsonl' using (n) join 'rates.parquet' using (day) where rate > $1 group by all\", [1], { tables: { orders } })",
			result: "[ { who: 'anna', id: 9007199254740993n, l: [ 1.5 ] } ]"},
		{code: "await sql('select i from range(1000000) t(i)', [], { connection: 'files', maxRows: 2 })", result: "[ { i: 0 }, { i: 1 } ]"},
		{code: "(await sql(\"select current_setting('memory_limit') as m\", [], { connection: 'files' }))[0].m.slice(0, 3)", result: "'614'"},
		{code: "await sql(\"select * from 'https://example.com/a.csv'\")", status: "failed", err: "SQLError", text: []string{"Download it first"}},
		{code: "await sql(\"select * from read_csv('https://example.com/a.csv')\", [], { connection: 'files' })", status: "failed", err: "SQLError", text: []string{"no network for DuckDB's extensions"}},
		{code: "await sql('select count(*) from range(1000000000000) a', [], { connection: 'files' })", args: object{"timeout_seconds": 2}, status: "timed_out"},
		{code: "const left = () => require('fs').readdirSync('/mnt/data').filter((name) => name.includes('query'));\n" +
			"while (left().length > 0) await new Promise((resolve) => setTimeout(resolve, 20));\nleft()", result: "[]"},
	})
}
