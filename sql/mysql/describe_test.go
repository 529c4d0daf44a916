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
	text := must.Get(json.Marshal(value))(t)
	return string(text)
}

func TestADatabaseIsDescribed(t *testing.T) {
	d := open(t, "reader", limits)
	schemas, err := d.Schemas(t.Context())
	should.Hold(t, err == nil && len(schemas) == 1 && schemas[0].Name == "shop" && schemas[0].Tables >= 8, "%v %v", schemas, err)
	tables, err := d.Tables(t.Context(), sql.TableFilter{Glob: "*t?l*", Limit: 5})
	got := asJSON(t, tables)
	should.Hold(t, err == nil && got == `[{"schema":"shop","table":"totals","kind":"view"}]`, "%v %v", got, err)
	tables, err = d.Tables(t.Context(), sql.TableFilter{Schema: "shop", Glob: "acc_unts"})
	should.Hold(t, err == nil && len(tables) == 0, "_ is a wildcard: %v %v", tables, err)
	accounts := must.Get(d.Table(t.Context(), "", "accounts"))(t)
	want := `{"schema":"shop","table":"accounts","kind":"table","rows_estimate":3,"comment":"of the shop","columns":[` +
		`{"name":"id","type":"int(11)","nullable":false},` +
		`{"name":"owner","type":"varchar(20)","nullable":true,"default":"'nobody'","comment":"who"},` +
		`{"name":"kind","type":"enum","nullable":true,"default":"'glad'","values":["glad","it's"]},` +
		`{"name":"balance","type":"decimal(12,2)","nullable":true}],` +
		`"primary_key":["id"],"referenced_by":[{"name":"belongs","table":"shop.orders","columns":["account"],"references":"shop.accounts","referenced_columns":["id"]}],` +
		"\"indexes\":[{\"name\":\"by_owner\",\"definition\":\"BTREE (`owner`(3))\",\"unique\":false},{\"name\":\"PRIMARY\",\"definition\":\"UNIQUE BTREE (`id`)\",\"unique\":true}]," +
		"\"checks\":[\"CONSTRAINT_1: `balance` \\u003c 1000000\"]}"
	should.Equal(t, asJSON(t, accounts), want)
	orders, err := d.Table(t.Context(), "shop", "orders")
	if err != nil || len(orders.ForeignKeys) != 1 || orders.Columns[0].Default != "auto_increment" {
		t.Error(asJSON(t, orders), err)
	}
	_, err = d.Table(t.Context(), "shop", "nothing")
	should.Hold(t, fault.From(err).Code == fault.NotFound, "%v", err)
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
		should.Hold(t, err == nil && strings.Join(said, "; ") == want, "%s: %q %v, want %q", login, said, err, want)
	}
}
