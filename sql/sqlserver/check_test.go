package sqlserver

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

var parameterPattern = regexp.MustCompile(`@p([0-9]+)`)

// parametersOf counts the parameters of a statement that has none in strings or comments.
func parametersOf(statement string) int {
	highest := 0
	for _, found := range parameterPattern.FindAllStringSubmatch(statement, -1) {
		n, _ := strconv.Atoi(found[1])
		highest = max(highest, n)
	}
	return highest
}

func TestAnAttackIsRefusedWhereverItIsPutIn(t *testing.T) {
	attacks := []string{"DELETE dbo.people", "EXEC sp_who", "UPDATE dbo.people SET a = 1", "INSERT dbo.people VALUES (1)", "DROP TABLE dbo.people",
		"COMMIT", "; SELECT 2", "INTO dbo.copy", "MERGE dbo.people USING dbo.b ON 1 = 1 WHEN MATCHED THEN DELETE", "BEGIN TRAN", "USE master", "SELECT 2", "GRANT CONTROL TO public"}
	for _, statement := range sqltest.Corpus(t, "legitimate") {
		tokens := must.Get(lex(statement))(t)
		for at := range tokens {
			if at == 0 && tokens[0].Key == "(" || at > 0 && mayGoOn(tokens[at-1]) {
				continue // the attack's first word would be a name, or its SELECT would belong there
			}
			for _, attack := range attacks {
				if strings.HasPrefix(attack, ";") && strings.Trim(written(tokens[:at]), ";\n") == "" {
					continue
				}
				whole := written(tokens[:at]) + attack + "\n" + written(tokens[at:])
				should.Hold(t, check(whole, parametersOf(whole)) != nil, "admitted: %s", whole)
			}
		}
	}
}

// mayGoOn reports whether what follows a token is a name, or a SELECT that belongs to the statement.
func mayGoOn(t token) bool {
	return slices.Contains([]string{".", "(", "UNION", "ALL", "EXCEPT", "INTERSECT", ";"}, t.Key)
}

func written(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(t.Text + "\n")
	}
	return b.String()
}

func TestWhatServersMayReadInTwoWaysIsRefused(t *testing.T) {
	for name, statement := range map[string]string{
		"a carriage return ends a comment":    "SELECT 1 --\rDELETE dbo.people",
		"a form feed ends a comment":          "SELECT 1 --\fDELETE dbo.people",
		"a line separator ends a comment":     "SELECT 1 --\u2028DELETE dbo.people",
		"a next line ends a comment":          "SELECT 1 --\u0085DELETE dbo.people",
		"NUL":                                 "SELECT 1\x00DELETE dbo.people",
		"NUL in a string":                     "SELECT 'a\x00' DELETE dbo.people",
		"no UTF-8":                            "SELECT '\xff'",
		"a control character is a space":      "SELECT 1\x01DELETE\x1fdbo.people",
		"a no-break space is a space":         "SELECT 1\u00a0DELETE\u00a0dbo.people",
		"an ideographic space is a space":     "SELECT 1\u3000DELETE\u3000dbo.people",
		"a zero-width space":                  "SELECT a\u200bDELETE dbo.people",
		"a soft hyphen":                       "SELECT 1 DEL\u00adETE dbo.people",
		"a byte order mark":                   "\ufeffSELECT 1",
		"a word joiner":                       "SELECT a\u2060DELETE dbo.people",
		"a combining dot":                     "SELECT 1 i\u0307nsert dbo.people VALUES (1)",
		"a letter that a server may not know": "SELECT a\U0001E900DELETE dbo.people",
		"too many parentheses":                "SELECT " + strings.Repeat("(", 2000) + "1" + strings.Repeat(")", 2000),
		"too long":                            "SELECT '" + strings.Repeat("x", sql.MaxStatement) + "'",
	} {
		t.Run(name, func(t *testing.T) { wantRejected(t, statement, check(statement, 0)) })
	}
}

func TestLinesMayEndAsOnWindows(t *testing.T) {
	should.OK(t, check("SELECT a -- first\r\nFROM dbo.t\r\n", 0))
}

func TestARefusalTellsTheWordTheLineAndWhatToDo(t *testing.T) {
	var f *fault.Error
	must.Hold(t, errors.As(check("SELECT a\nFROM dbo.t\nDELETE dbo.t", 0), &f), "not refused")
	should.Equal(t, f.Message, `Refused at "DELETE": it writes. Line 3: DELETE dbo.t`, "the message")
	should.Hold(t, f.Fields["line"] == 3 && f.Fields["word"] == "DELETE", "the fields are %v", f.Fields)
	should.Hold(t, strings.Contains(f.Hint, "[delete]"), "the hint %q does not tell how to write a name", f.Hint)
}

func TestARefusalTellsWhatThereIsInstead(t *testing.T) {
	for statement, want := range map[string]string{
		"DECLARE @d date = '2026-01-01'; SELECT @d": "params",
		"SET NOCOUNT ON; SELECT 1":                  "params",
		"CREATE TABLE #t (a int)":                   "WITH name AS",
		"SELECT * INTO #t FROM dbo.people":          "the result comes back",
		"USE shop SELECT 1":                         "database.schema.table",
		"EXEC sp_help 'dbo.people'":                 "describe_sql",
		"sp_help 'dbo.people'":                      "describe_sql",
		"SELECT * FROM dbo.t WHERE a = ?":           "@p1",
		"SELECT * FROM dbo.t WHERE a = @name":       "@p1",
		"SELECT `a` FROM dbo.t":                     "[brackets]",
	} {
		var f *fault.Error
		err := check(statement, 0)
		should.Hold(t, errors.As(err, &f) && strings.Contains(f.Hint, want), "%s: %v, hint %q", statement, err, f.Hint)
	}
}

func TestParametersAreCounted(t *testing.T) {
	for _, c := range []struct {
		statement string
		given     int
	}{
		{"SELECT @p1", 0}, {"SELECT @p1", 2}, {"SELECT 1", 1}, {"SELECT @p2", 1}, {"SELECT '@p1'", 1}, {"SELECT @p0", 0}, {"SELECT @p1 -- @p2", 2},
	} {
		wantRejected(t, c.statement, check(c.statement, c.given))
	}
	should.OK(t, check("SELECT @p2, @P1, @p2, '@p7' -- @p9", 2))
}

func wantRejected(t *testing.T, statement string, err error) {
	t.Helper()
	var f *fault.Error
	switch {
	case err == nil:
		t.Errorf("admitted: %.200s", statement)
	case !errors.As(err, &f) || f.Code != fault.SQLRejected:
		t.Errorf("%.200s: the error is %v, want sql_rejected", statement, err)
	case f.Message == "" || f.Hint == "":
		t.Errorf("%.200s: message %q, hint %q", statement, f.Message, f.Hint)
	}
}

// FuzzCheck looks for statements that are read differently with more space between their pieces, and for
// texts that the check cannot end with. What a server could read otherwise than the check does would show
// as the first.
func FuzzCheck(f *testing.F) {
	for _, name := range []string{"attacks", "legitimate"} {
		for _, statement := range sqltest.Corpus(f, name) {
			f.Add(statement)
		}
	}
	f.Fuzz(func(t *testing.T, statement string) {
		tokens, err := lex(statement)
		if err != nil {
			return
		}
		var spaced strings.Builder
		for _, token := range tokens {
			if strings.Contains(statement, token.Text) {
				spaced.WriteString(token.Text)
				spaced.WriteByte('\n')
				continue
			}
			t.Errorf("%q is not in %q", token.Text, statement)
		}
		again := must.Get(lex(spaced.String()))(t, "%q", spaced.String())
		must.Hold(t, len(again) == len(tokens), "%d tokens in %q, %d in %q", len(tokens), statement, len(again), spaced.String())
		if check(statement, 0) == nil && len(refusedIn(tokens)) > 0 {
			t.Errorf("%q is admitted with %v", statement, refusedIn(tokens))
		}
	})
}

// refusedIn is the words that no reading statement has in any place but after a dot.
func refusedIn(tokens []token) []string {
	var found []string
	for i, t := range tokens {
		if t.Kind != word || i > 0 && tokens[i-1].Key == "." {
			continue
		}
		switch t.Key {
		case "INSERT", "UPDATE", "DELETE", "EXEC", "EXECUTE", "INTO", "DROP", "CREATE", "ALTER", "SET", "DECLARE", "COMMIT", "ROLLBACK", "BEGIN":
			found = append(found, t.Key)
		}
	}
	return found
}
