//go:build unix

package e2e

import (
	"context"
	dbsql "database/sql"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mariadb"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// What MySQL has and PostgreSQL has not in the same form, as pandas and JavaScript get it.
func TestMySQLIsReadThroughTheTools(t *testing.T) {
	t.Parallel()
	server, err := mariadb.Start(context.Background())
	must.OK(t, err)
	t.Cleanup(server.Stop)
	db, err := dbsql.Open("mysql", server.DSN(mariadb.Superuser, ""))
	must.OK(t, err)
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
		wantText(t, "[np.uint64(18446744073709551615), 'UInt64', '0000-00-00', b'\\x00\\xff', 'b',", "np.int64(5), np.int64(5)]")
	s.js("(await sandbox.sql('SELECT id, raw, flags FROM odd WHERE born < ?', ['2000-01-01']))[0]").wantText(t, "{ id: 18446744073709551615n, raw: '00ff', flags: 5 }")
	s.call("describe_sql", object{"table": "odd"}).wantText(t, "bigint(20) unsigned", `"values":["a","b"]`)
	s.call(execSQL, object{"query": "DELETE FROM odd"}).wantCode(t, "sql_rejected")
	if strings.Contains(s.stderr.String(), "secret/password") {
		t.Error("the password is in the log")
	}
}
