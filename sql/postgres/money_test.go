//go:build unix

package postgres

import (
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// moneyLocales are how locales write money: the currency, the point, what is between thousands, the minus, the digits
// behind the point, and whether the currency comes first, a space is beside it, and where the minus stands.
var moneyLocales = map[string][]any{
	"behind":      {"<U20AC>", ",", ".", "-", 2, 0, 1, 1},
	"parentheses": {"$", ",", "<U00A0>", "-", 2, 0, 1, 0},
	"whole":       {"<UFFE5>", ".", ",", "-", 0, 1, 0, 4},
	"thousandths": {"<U062F>.<U062A>.", ".", ",", "-", 3, 1, 1, 2},
	"minus":       {"Fr.", ".", "'", "<U2212>", 2, 1, 1, 3},
}

const localeSource = `LC_CTYPE
copy "POSIX"
END LC_CTYPE
LC_MONETARY
int_curr_symbol "XXX "
currency_symbol "%s"
mon_decimal_point "%s"
mon_thousands_sep "%s"
mon_grouping 3;3
positive_sign ""
negative_sign "%s"
int_frac_digits 2
frac_digits %d
p_cs_precedes 1
p_sep_by_space 0
n_cs_precedes %d
n_sep_by_space %d
p_sign_posn 1
n_sign_posn %d
END LC_MONETARY
`

func makeLocale(t *testing.T, name string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), name)
	must.OK(t, os.WriteFile(source, fmt.Appendf(nil, localeSource, moneyLocales[name]...), 0o600))
	out, err := osexec.Command("localedef", "--quiet", "-c", "-i", source, "-f", "UTF-8", filepath.Join(localeDir, name)).CombinedOutput()
	must.OK(t, should.ErrOf(os.Stat(filepath.Join(localeDir, name, "LC_MONETARY"))), "localedef: %v\n%s", err, out)
}

func TestMoneyIsExactInEveryLocale(t *testing.T) {
	exec(t, server.DSN("owner"), "CREATE DOMAIN price AS money; CREATE VIEW amounts AS SELECT (-1234567.5)::numeric::money AS a, (-1234567.5)::numeric::price AS b")
	t.Cleanup(func() { exec(t, server.DSN("owner"), "DROP VIEW amounts; DROP DOMAIN price") })
	for name, c := range map[string]struct{ large, half, cent string }{
		"":            {"-1234567.50", "0.50", "0.01"},
		"behind":      {"-1234567.50", "0.50", "0.01"},
		"parentheses": {"-1234567.50", "0.50", "0.01"},
		"whole":       {"-1234568", "1", "0"},
		"thousandths": {"-1234567.500", "0.500", "0.010"},
		"minus":       {"-1234567.50", "0.50", "0.01"},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := server.DSN("owner")
			if name != "" {
				makeLocale(t, name)
				dsn += " options='-c lc_monetary=" + name + "'"
			}
			db := open(t, dsn, sql.Limits{})
			_, rows, err := rowsOf(t, db, `SELECT (-1234567.5)::numeric::money, ARRAY[0.01::numeric::money, NULL],
				$1::money, $2::money, $3::money, $4::money[], $1::money = (-1234567.5)::numeric::money`,
				json.Number("-1234567.5"), "0.5", json.Number("1e-2"), []any{"0.5", json.Number("-1234567.50"), nil})
			must.OK(t, err)
			want := []string{c.large, "[" + c.cent + ",null]", c.large, c.half, c.cent,
				fmt.Sprintf("[%s,%s,null]", c.half, c.large), "true"}
			should.EqualSlice(t, rows[0], want)
			detail, err := db.Table(t.Context(), "public", "amounts", true)
			must.OK(t, err)
			for _, column := range detail.Columns {
				should.EqualSlice(t, column.Examples, []string{c.large}, "examples of %s", column.Type)
			}
		})
	}
}
