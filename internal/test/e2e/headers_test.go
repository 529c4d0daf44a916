//go:build unix

package e2e

import (
	"net/http"
	"strings"
	"testing"

	testmssql "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mssql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// withHeaders adds headers to a client's requests.
type withHeaders map[string]string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// client returns a client in a session of its own that sends these headers.
func (s *httpServer) client(t *testing.T, h withHeaders) *httpClient {
	t.Helper()
	c := s.plain()
	c.client = &http.Client{Transport: h}
	must.OK(t, c.initialize(t.Context()))
	return c
}

// clientDatabase starts one that answers queries of dbo.values with these rows, and those of dbo.leak with an error that
// tells the password.
func clientDatabase(t *testing.T, rows ...[]any) *testmssql.Server {
	t.Helper()
	reply := testmssql.Reply{Columns: []testmssql.Column{{Name: "value", Type: testmssql.NVarChar(100)}}, Rows: rows}
	fails := func(message string) testmssql.Reply {
		return testmssql.Reply{Error: &testmssql.Error{Number: 208, State: 1, Class: 16, Message: message, Line: 1}}
	}
	db, err := testmssql.Start(func(r testmssql.Request) testmssql.Reply {
		switch {
		case strings.Contains(r.Text, "describe_first_result_set"):
			return fails("Invalid object name 'sys.dm_exec_describe_first_result_set'.")
		case strings.Contains(r.Text, "dbo.leak"):
			return fails("No " + testmssql.Password + " here.")
		case strings.Contains(r.Text, "dbo.values"):
			return reply
		}
		return testmssql.Reply{}
	})
	must.OK(t, err)
	t.Cleanup(db.Stop)
	return db
}

// Each client's database is its own, and its password is in no answer and not in the log.
func TestDatabasesOfClientsAreTheirOwn(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, "--header-credentials")
	clients := make(map[string]*httpClient)
	for _, name := range []string{"first", "second"} {
		db := clientDatabase(t, []any{"of " + name}, []any{testmssql.Password})
		clients[name] = s.client(t, withHeaders{
			"X-Db-Connection-String": "Driver={ODBC Driver 18 for SQL Server};Server=tcp:" + strings.Replace(db.Address(), ":", ",", 1) +
				";Database=shop;Uid=" + testmssql.User + ";Pwd={your_password_here};Encrypt=disable;",
			"X-Db-Password": testmssql.Password,
		})
	}
	var answers []string
	for name, c := range clients {
		answer := c.call(t, execSQL, object{"query": "SELECT * FROM dbo.values"})
		if !strings.Contains(answer, "of "+name) || !strings.Contains(answer, `"connection":"header"`) || !strings.Contains(answer, "[masked") {
			t.Errorf("%s: %s", name, answer)
		}
		answers = append(answers, answer, c.call(t, execSQL, object{"query": "SELECT * FROM dbo.leak", "connection": "header"}), c.call(t, "describe_sql", object{}))
	}
	none := s.client(t, nil).call(t, execSQL, object{"query": "SELECT * FROM dbo.values", "connection": "header"})
	should.Contain(t, none, "connection_not_found", "a client without headers")
	for _, dsn := range []string{"Server=db.example;Certificate=/etc/passwd;Uid=me", "Server=db.example;Authentication=ActiveDirectoryDefault"} {
		c := s.client(t, withHeaders{"X-Db-Connection-String": dsn, "X-Db-Password": "correct-horse"})
		should.Contain(t, c.call(t, execSQL, object{"query": "SELECT 1"}), "comes from a client", "%s", dsn)
	}
	if strings.Contains(s.stderr.String()+strings.Join(answers, ""), testmssql.Password) {
		t.Errorf("the password is in the log or in an answer: %q", answers)
	}
}
