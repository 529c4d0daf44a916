//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	testmssql "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/mssql"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
)

// curl asks a server for something below its address, as a person would, and returns the body and the status.
func (s *httpServer) curl(path string, args ...string) (body []byte, status string) {
	s.t.Helper()
	all := append([]string{"-sS", "-m", "300", "-w", "\n%{http_code}", "-H", "Authorization: Bearer " + s.token}, args...)
	out, err := exec.CommandContext(s.t.Context(), "curl", append(all, strings.TrimSuffix(s.url, "/mcp")+path)...).Output()
	if err != nil {
		s.t.Fatalf("curl %s: %v", path, err)
	}
	i := strings.LastIndex(string(out), "\n")
	return out[:i], string(out[i+1:])
}

// ask is curl for what has to be done, and is answered with an object.
func (s *httpServer) ask(into any, path string, args ...string) {
	s.t.Helper()
	body, status := s.curl(path, args...)
	if !strings.HasPrefix(status, "2") {
		s.t.Fatalf("%s: %s %s", path, status, body)
	}
	decode(s.t, body, into)
}

func post(value any) []string {
	text, _ := json.Marshal(value)
	return []string{"-H", "Content-Type: application/json", "-d", string(text)}
}

// What a client's headers bound holds for its requests over REST as for those of MCP.
func TestHeadersOverREST(t *testing.T) {
	t.Parallel()
	db, _ := database(t)
	own := clientDatabase(t, testmssql.Column{Name: "value", Type: testmssql.NVarChar(100)}, "of the client", testmssql.Password)
	s := startHTTPWith(t, setup{
		args: []string{"--header-credentials", "--idle-timeout", "30m", "--lifetime", "24h", "--max-run-timeout", "1h", "--max-sessions", "20"},
		env:  []string{"SANDBOX_SQL_MAIN=" + db.DSN(testpg.Superuser)},
	})
	run := object{"code": "while True: pass", "timeout_seconds": 3000}
	for name, test := range map[string]struct {
		path    string // below the session's
		body    object // nil: it is a GET
		headers withHeaders
		want    []string // in the answer
	}{
		"a run's time": {"/runs?wait_seconds=60", run, withHeaders{"X-Exec-Timeout": "1"}, []string{
			`"status":"timed_out"`, "timeout_seconds was lowered from 3000 to 1",
		}},
		"a session's times": {"/packages", nil, withHeaders{"X-Idle-Timeout": "60", "X-Session-TTL": "600", "X-Exec-Timeout": "20"}, []string{
			`"idle_seconds":60,`, `"lifetime_seconds":600,`, `"max_run_seconds":20,`,
		}},
		"few rows": {"/sql", object{"query": "SELECT * FROM generate_series(1, 3)"}, withHeaders{"X-Sql-Max-Inline-Rows": "2"}, []string{`"row_count":3`, `"path":"/mnt/data/`}},
		"rows":     {"/sql", object{"query": "SELECT * FROM generate_series(1, 3)"}, withHeaders{"X-Sql-Max-Inline-Rows": "3"}, []string{`"rows":[[1],[2],[3]]`}},
		"a database": {"/sql", object{"query": "SELECT * FROM dbo.values"}, withHeaders{
			"X-Db-Connection-String": "Server=" + strings.Replace(own.Address(), ":", ",", 1) + ";Database=shop;User ID=" + testmssql.User + ";Encrypt=disable",
			"X-Db-Password":          testmssql.Password,
		}, []string{`"connection":"header"`, "of the client", "[masked"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/v1/sessions/" + strings.NewReplacer(" ", "-", "'", "").Replace(name)
			var args []string
			for header, value := range test.headers {
				args = append(args, "-H", header+": "+value)
			}
			if made, status := s.curl(path+"/runs?wait_seconds=60", append(args, post(object{"code": "1"})...)...); status != "200" {
				t.Fatalf("%s %s", status, made)
			}
			if test.body != nil {
				args = append(args, post(test.body)...)
			}
			body, status := s.curl(path+test.path, args...)
			for _, want := range test.want {
				if !strings.Contains(string(body), want) {
					t.Errorf("%s is not in %s %s", want, status, body)
				}
			}
			if strings.Contains(string(body), testmssql.Password) {
				t.Errorf("the password is in %s", body)
			}
			var closed object
			s.ask(&closed, path, "-X", "DELETE")
		})
	}
}

func TestSQLOverREST(t *testing.T) {
	t.Parallel()
	db, conn := database(t)
	for _, statement := range []string{
		"CREATE SCHEMA rest", "CREATE TABLE rest.orders (id int PRIMARY KEY, state text)", "INSERT INTO rest.orders SELECT n, 'open' FROM generate_series(1, 100) n",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s := startHTTPWith(t, setup{env: []string{"SANDBOX_SQL_MAIN=" + db.DSN(testpg.Superuser)}})
	type answer struct {
		Connection string
		Columns    []struct{ Name, Type string }
		Rows       [][]any
		RowCount   int `json:"row_count"`
		Path       string
		Tables     []struct{ Table string }
		Schemas    []struct{ Schema string }
	}
	const path = "/v1/sessions/sql-by-rest"
	var few, many, saved, described, schemas answer
	s.ask(&few, path+"/sql", post(object{"query": "SELECT id, state FROM rest.orders WHERE id <= $1 ORDER BY id", "params": []any{2}})...)
	if got := fmt.Sprint(few); got != "{main [{id integer} {state text}] [[1 open] [2 open]] 2  [] []}" {
		t.Errorf("few rows: %s", got)
	}
	s.ask(&many, path+"/sql", post(object{"query": "SELECT id FROM rest.orders ORDER BY id"})...)
	s.ask(&saved, path+"/sql", post(object{"query": "SELECT count(*) AS n FROM rest.orders", "save_as": "count.csv"})...)
	if many.RowCount != 100 || many.Rows != nil || saved.Path != "/mnt/data/input/count.csv" {
		t.Errorf("many rows: %+v, saved: %+v", many, saved)
	}
	for file, want := range map[string]string{many.Path: "id\n1\n2\n", saved.Path: "n\n100\n"} {
		if content, status := s.curl(path + "/files/" + strings.TrimPrefix(file, "/mnt/data/")); status != "200" || !strings.HasPrefix(string(content), want) {
			t.Errorf("%s: %s %.100s", file, status, content)
		}
	}
	s.ask(&described, "/v1/sql?schema=rest")
	s.ask(&schemas, "/v1/sql")
	if got := fmt.Sprint(described.Tables); got != "[{orders}]" || !strings.Contains(fmt.Sprint(schemas.Schemas), "{rest}") {
		t.Errorf("described as %s and %+v", got, schemas)
	}
	for query, want := range map[string]string{"DELETE FROM rest.orders": "sql_rejected", "SELECT 1/0": "sql_failed"} {
		body, status := s.curl(path+"/sql", post(object{"query": query})...)
		var refused struct{ Code, Message, Hint string }
		if decode(t, body, &refused); status != "422" || refused.Code != want || refused.Message == "" {
			t.Errorf("%s: %s %s", query, status, body)
		}
	}
	var closed object
	s.ask(&closed, path, "-X", "DELETE")
	wantNothingLeft(t, []string{"sql-by-rest"})
}
