//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	testmssql "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mssql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/stores"
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
	should.Hold(t, !strings.Contains(s.stderr.String()+strings.Join(answers, ""), testmssql.Password),
		"the password is in the log or in an answer: %q", answers)
}

func wantContent(t *testing.T, address, content string) {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Errorf("%q: %v", address, err)
		return
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || string(body) != content {
		t.Errorf("%s: %d, %.200q, %v", address, answer.StatusCode, body, err)
	}
}

// storeURL is the address that an answer's text has of a file in Azure.
var storeURL = regexp.MustCompile(`http://\S+[?&]sig=\S+`)

func TestStoresOfClientsAreTheirOwn(t *testing.T) {
	t.Parallel()
	azure := stores.Azure(t)
	db, _ := database(t)
	s := startHTTPWith(t, setup{args: []string{"--header-credentials"}, env: []string{"SANDBOX_SQL_MAIN=" + db.DSN(testpg.Superuser), "AZURE_BLOB_CONTAINER_NAME=by-default"}})
	var answers []string
	for name, test := range map[string]struct {
		headers   withHeaders
		container string
	}{
		"first":        {withHeaders{"X-Blob-Connection-String": azure, "X-Blob-Container-Name": "first", "X-Blob-SAS-Expiry-Hours": "2"}, "first"},
		"second":       {withHeaders{"X-Blob-Connection-String": azure, "X-Blob-Container-Name": "second", "X-Blob-SAS-Expiry-Hours": "48"}, "second"},
		"no container": {withHeaders{"X-Blob-Connection-String": azure}, "by-default"},
	} {
		c := s.client(t, test.headers)
		ran := c.call(t, python, object{"code": fmt.Sprintf("open('a.txt', 'w').write('of %s'); print('%s' + '%s')", name, stores.Secret[:9], stores.Secret[9:])})
		address := storeURL.FindString(ran)
		if !strings.Contains(address, "/testing/"+test.container+"/") || !strings.Contains(ran, "[masked: X-Blob-Connection-String") {
			t.Errorf("%s: %s", name, ran)
			continue
		}
		wantContent(t, address, "of "+name)
		should.Equal(t, strings.Contains(ran, "X-Blob-SAS-Expiry-Hours was lowered from 48 to 24"), name == "second", "%s: %s", name, ran)
		info := c.call(t, "session_info", object{})
		should.Contain(t, info, `"artifact_store":"azblob://`+test.container+`"`, "%s", name)
		table := c.call(t, execSQL, object{"query": "SELECT 1 AS n", "save_as": "t.csv"})
		should.Contain(t, table, "/testing/"+test.container+"/", "%s", name)
		answers = append(answers, ran, info, table)
	}
	none := s.client(t, nil)
	ran := none.call(t, python, object{"code": "open('a.txt', 'w').write('of nobody')"})
	should.Hold(t, !storeURL.MatchString(ran) && !strings.Contains(ran, "Note:"), "a client without headers: %s", ran)
	info := none.call(t, "session_info", object{})
	should.Hold(t, !strings.Contains(info, "artifact_store"), "a client without headers: %s", info)
	should.Hold(t, !strings.Contains(s.stderr.String()+strings.Join(answers, ""), stores.Secret),
		"the key is in the log or in an answer: %q", answers)
}
