//go:build unix

package e2e

import (
	"strings"
	"testing"

	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
)

func TestQueriesFromCode(t *testing.T) {
	t.Parallel()
	s := startSQL(t, testpg.Superuser, "--sql-max-rows", "1000")
	for name, test := range map[string]struct{ tool, code, want string }{
		"types":     {python, "import sandbox\nf = sandbox.sql(\"select 1 as n, 'é' as t, null::int as z, timestamp '2026-01-31 10:00' as at\")\n(f.n[0] + 1, f.t[0], str(f.z[0]), f['at'][0].year)", "(np.int64(2), 'é', '<NA>', 2026)"},
		"odd lists": {python, "sandbox.sql('select v from unnest($1::float8[]) as v', [[1.0, float('nan'), float('-inf')]])['v'].tolist()", "[1.0, nan, -inf]"},
		"javascript, numbers": {javascript, "await sandbox.sql(`select 9007199254740993::bigint as b, 12345678901234567890.12::numeric as n, 0.5::numeric as e, 'NaN'::float8 as f, array[9007199254740993] as a`)",
			"[\n  {\n    b: 9007199254740993n,\n    n: '12345678901234567890.12',\n    e: 0.5,\n    f: NaN,\n    a: [ 9007199254740993n ]\n  }\n]"},
		"javascript, params": {javascript, "await sandbox.sql('select $1::float8 = $$NaN$$ as n, $2::numeric as i, $3::bigint + 1 as b', [NaN, Infinity, 2n ** 53n])", "[ { n: true, i: Infinity, b: 9007199254740993n } ]"},
		"python, params":     {python, "sandbox.sql('select $1::float8 as n, $2::numeric as i', [float('nan'), float('inf')]).values.tolist()", "[[nan, inf]]"},
	} {
		t.Run(name, func(t *testing.T) {
			code := test.code
			if test.tool == python {
				code = "import sandbox\n" + code
			}
			if got := s.complete(test.tool, object{"code": code}).Meta.Run.value(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	s.py("import sandbox\nsandbox.sql('select generate_series(1, 5000) as i')").wantText(t, "note: The file has the first 1,000 rows")
	for tool, code := range map[string]string{
		python:     "import sandbox\nsandbox.sql('delete from pg_class')",
		javascript: "await sandbox.sql('delete from pg_class')",
	} {
		s.call(tool, object{"code": code}).wantText(t, "SQLError", "sql_rejected")
	}
	const imports = "import sandbox, { sql } from 'sandbox';\n"
	if got := s.complete(javascript, object{"code": imports + "[sandbox.sql === sql, (await sql('select 1 as n'))[0].n]"}).Meta.Run.value(); got != "[ true, 1 ]" {
		t.Errorf("imported in a cell: %s", got)
	}
	s.js("require('fs').writeFileSync('q.mjs', `"+imports+"export const n = (await sql('select 7 as n'))[0].n; console.log('n is', n)`); (await import('./q.mjs')).n").wantText(t, "n is 7")
	s.js("require('child_process').execFileSync('node', ['q.mjs'], { encoding: 'utf8' })").wantText(t, "n is 7")
	s.py("import os; [name for name in os.listdir('/mnt/data') if 'query' in name]").wantText(t, "[]")
	s.py("import os; os.chdir('/tmp')\nopen('/tmp/other.py', 'w').write('import sandbox; print(len(sandbox.sql(\"select 1\")))')\n!python3 /tmp/other.py").wantText(t, "1")
}

func TestQueriesEndWithTheirRun(t *testing.T) {
	t.Parallel()
	s := startSQL(t, testpg.Superuser)
	const slow = "select pg_sleep(1000)"
	for tool, code := range map[string]string{
		python:     "import sandbox; sandbox.sql('" + slow + "')",
		javascript: "await Promise.all([1, 2, 3, 4, 5].map(() => sandbox.sql('" + slow + "')))",
	} {
		if got := s.call(tool, object{"code": code, "timeout_seconds": 2}).Meta.Run.Status; got != "timed_out" {
			t.Errorf("%s: %s", tool, got)
		}
	}
	const left = "select count(*) as n from pg_stat_activity where state = 'active' and query = '" + slow + "'"
	s.py("import sandbox\nwhile sandbox.sql(\""+left+"\")['n'][0]: pass\nprint('all have ended')").wantText(t, "all have ended")
}

func TestNoQueriesFromCodeWhereTheyAreOff(t *testing.T) {
	t.Parallel()
	s := startSQL(t, testpg.Superuser, "--sql-from-code=false")
	got := s.call(python, object{"code": "import sandbox; sandbox.sql('select 1')"})
	got.wantText(t, "connection_not_found")
	if strings.Contains(got.text(), "password") {
		t.Error(got.text())
	}
}
