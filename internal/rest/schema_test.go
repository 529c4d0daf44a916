package rest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

func TestMain(m *testing.M) {
	// Nothing is installed here; the end-to-end tests check the tool's fields.
	resttest.Main(m, func(id string) bool { return id != "packages.install" && !strings.HasPrefix(id, "other.") })
}

// few is a database with a row of every kind.
type few struct{ sql.Database }

type fewRows struct {
	sql.Rows
	read bool
}

func (few) Query(context.Context, sql.Query) (sql.Rows, error) { return &fewRows{}, nil }
func (few) Table(context.Context, string, string, bool) (*sql.TableDetail, error) {
	return &sql.TableDetail{Columns: []sql.TableColumn{{Name: "a", Values: []string{"x"}}}, Indexes: []sql.Index{{}}}, nil
}

func (few) Schemas(context.Context) ([]sql.Schema, error) { return []sql.Schema{{Name: "s"}}, nil }
func (few) Tables(context.Context, sql.TableFilter) ([]sql.Table, error) {
	rows := int64(3)
	return []sql.Table{{Name: "t", Rows: &rows}}, nil
}
func (few) Close() {}

func (r *fewRows) Next() (more bool) { more, r.read = !r.read, true; return more }
func (*fewRows) Err() error          { return nil }
func (*fewRows) Close()              {}
func (*fewRows) Columns() (list []sql.Column) {
	for kind := sql.Text; kind <= sql.Array; kind++ {
		list = append(list, sql.Column{Name: fmt.Sprint(kind), Kind: kind})
	}
	return list
}

func (*fewRows) Values() [][]byte {
	return [][]byte{nil, []byte("true"), []byte("1"), []byte("NaN"), []byte("1.50"), []byte("2026-01-31"), []byte("13:05:00"), []byte("2026-01-31 13:05:00"),
		[]byte("2026-01-31 13:05:00+00"), []byte("PT1S"), []byte("ff"), []byte(`{"a": [1]}`), []byte("[1, null]")}
}

// What has no other test here has the answers that the document says.
func TestAnswersAreAsTheDocumentSays(t *testing.T) {
	f := startWith(t, func(d *tools.Deps) {
		d.Databases.Connections = sql.NewConnections([]sql.Source{{Name: "main"}}, func(sql.Source) (sql.Database, error) { return few{}, nil })
		d.Databases.Timeout, d.Databases.MaxBytes = time.Minute, 1<<20
	}, sandbox.Python, sandbox.Bash)
	const session = "/v1/sessions/a"
	f.Want(201, "POST", "/v1/sessions", `{"session_id": "a"}`)
	run := f.Want(200, "POST", session+"/runs?wait_seconds=45", `{"code": "x = 1", "copy": true}`)["run_id"].(string)
	f.Want(200, "GET", session, "")
	f.Want(200, "GET", session+"/packages", "")
	f.Want(200, "POST", session+"/restore", `{"run_id": "`+run+`"}`)
	f.Want(200, "POST", session+"/sql", `{"query": "SELECT"}`)
	f.Want(200, "POST", session+"/sql", `{"query": "SELECT", "save_as": "x.csv"}`)
	f.Want(200, "GET", "/v1/sql", "")
	f.Want(200, "GET", "/v1/sql?table=t", "")
}
