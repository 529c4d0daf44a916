//go:build unix

package e2e

import (
	"testing"
)

// What the image has decides who reads the files, DuckDB or SQLite; the answers are the same.
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
		{code: "import sandbox_files\nsandbox_files._PIECE = 1\nwith open('codes.csv', 'w') as f:\n    f.write('id,zip,n\\n1,10115,5\\n007,01234,\\nNA,None,6\\n')\n" +
			"rows = sandbox.sql(\"select a.id, zip, a.n from 'codes.csv' a, 'input/sales.jsonl' s where s.n = 2 and a.id <> '1' order by a.id\")\n" +
			"(rows.id.tolist(), rows.zip.tolist(), str(rows.n.tolist()))",
			result: "(['007', 'NA'], ['01234', 'None'], '[<NA>, 6]')"},
		{code: "sandbox.sql(\"delete from 'codes.csv'\")", status: "failed", err: "SQLError", text: []string{"sql_"}},
		{code: "[name for name in os.listdir('/mnt/data') if 'query' in name]", result: "[]"},
	})
	play(t, s, javascript, []step{
		{code: "import { sql } from 'sandbox';\nawait sql(\"copy (select * from 'input/rates.csv') to 'rates.parquet'\", [], { connection: 'files' });\n" +
			"await sql(\"select day, big, rate::decimal(10,2) as r from 'rates.parquet' order by rate\")",
			result: "[\n  { day: '2026-01-01', big: 9007199254740993n, r: 1.5 },\n  { day: '2026-01-02', big: null, r: 2.25 }\n]"},
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
