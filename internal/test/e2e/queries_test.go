//go:build unix

package e2e

import (
	"testing"

	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
)

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
