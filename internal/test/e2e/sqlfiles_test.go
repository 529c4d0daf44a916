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
		{code: "[name for name in os.listdir('/mnt/data') if 'query' in name]", result: "[]"},
	})
}
