//go:build unix

package mysql

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mariadb"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	must.OK(t, err)
	return string(text)
}

func TestADatabaseIsDescribed(t *testing.T) {
	d := open(t, "reader", limits)
	schemas, err := d.Schemas(t.Context())
	if err != nil || len(schemas) != 1 || schemas[0].Name != "shop" || schemas[0].Tables < 8 {
		t.Error(schemas, err)
	}
	tables, err := d.Tables(t.Context(), sql.TableFilter{Glob: "*t?l*", Limit: 5})
	if got := asJSON(t, tables); err != nil || got != `[{"schema":"shop","table":"totals","kind":"view"}]` {
		t.Error(got, err)
	}
	if tables, err = d.Tables(t.Context(), sql.TableFilter{Schema: "shop", Glob: "acc_unts"}); err != nil || len(tables) != 0 {
		t.Error("_ is a wildcard:", tables, err)
	}
	accounts, err := d.Table(t.Context(), "", "accounts", true)
	must.OK(t, err)
	want := `{"schema":"shop","table":"accounts","kind":"table","rows_estimate":3,"comment":"of the shop","columns":[` +
		`{"name":"id","type":"int(11)","nullable":false,"examples":["1","2","3"]},` +
		`{"name":"owner","type":"varchar(20)","nullable":true,"default":"'nobody'","comment":"who","examples":["anna","bert"]},` +
		`{"name":"kind","type":"enum","nullable":true,"default":"'glad'","values":["glad","it's"],"examples":["glad","it's"]},` +
		`{"name":"balance","type":"decimal(12,2)","nullable":true,"examples":["10.00","20.25"]}],` +
		`"primary_key":["id"],"referenced_by":[{"name":"belongs","table":"shop.orders","columns":["account"],"references":"shop.accounts","referenced_columns":["id"]}],` +
		"\"indexes\":[{\"name\":\"by_owner\",\"definition\":\"BTREE (`owner`(3))\",\"unique\":false},{\"name\":\"PRIMARY\",\"definition\":\"UNIQUE BTREE (`id`)\",\"unique\":true}]," +
		"\"checks\":[\"CONSTRAINT_1: `balance` \\u003c 1000000\"]}"
	should.Equal(t, asJSON(t, accounts), want)
	orders, err := d.Table(t.Context(), "shop", "orders", false)
	if err != nil || len(orders.ForeignKeys) != 1 || orders.Columns[0].Default != "auto_increment" {
		t.Error(asJSON(t, orders), err)
	}
	if _, err := d.Table(t.Context(), "shop", "nothing", false); fault.From(err).Code != fault.NotFound {
		t.Error(err)
	}
}

func TestRightsBesideReadingAreSaid(t *testing.T) {
	for login, want := range map[string]string{
		"reader":             "",
		"clerk:a pass/word?": "has INSERT, UPDATE on `shop`.`accounts`",
		mariadb.Superuser:    "may do everything on *.*",
	} {
		findings, err := open(t, login, limits).Rights(t.Context())
		var said []string
		for _, f := range findings {
			said = append(said, f.What)
			should.Contain(t, f.Fix, "GRANT SELECT")
		}
		if err != nil || strings.Join(said, "; ") != want {
			t.Errorf("%s: %q %v, want %q", login, said, err, want)
		}
	}
}
