package rest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// promises holds every answer of JSON against the document that the same server gives out.
type promises struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	document map[string]any
}

// kept are the operations that kept what the document promises of them when they did what they should.
var kept sync.Map

const documentURL = "document.json"

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" {
		kept.Store("packages.install", true) // nothing is installed here; the end-to-end tests check the tool's fields
		for _, r := range table() {
			if _, seen := kept.Load(r.id); !seen && (r.answer == nil || r.answer["application/json"] != nil) {
				fmt.Fprintf(os.Stderr, "no test has an answer of %s %s\n", r.method, r.path)
				code = 1
			}
		}
	}
	os.Exit(code)
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
	f.want(201, "POST", "/v1/sessions", `{"session_id": "a"}`)
	run := f.want(200, "POST", session+"/runs?wait_seconds=45", `{"code": "x = 1", "copy": true}`)["run_id"].(string)
	f.want(200, "GET", session, "")
	f.want(200, "GET", session+"/packages", "")
	f.want(200, "POST", session+"/restore", `{"run_id": "`+run+`"}`)
	f.want(200, "POST", session+"/sql", `{"query": "SELECT"}`)
	f.want(200, "POST", session+"/sql", `{"query": "SELECT", "save_as": "x.csv"}`)
	f.want(200, "GET", "/v1/sql", "")
	f.want(200, "GET", "/v1/sql?table=t", "")
	f.want(501, "POST", "/librechat/exec/programmatic", "{}")
	const form = "--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--X--\r\n"
	if status, text := f.do("POST", "/librechat/upload/batch", form, "Content-Type", "multipart/form-data; boundary=X"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// holds checks an answer to a request.
func (p *promises) holds(f *fixture, request *http.Request, status int, body []byte) {
	f.t.Helper()
	_, pattern := f.mux.Handler(request)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.compiler == nil {
		p.compiler = jsonschema.NewCompiler()
		read, err := jsonschema.UnmarshalJSON(bytes.NewReader(document(f.routes(), f.tools, "1.2.3")))
		if err != nil {
			f.t.Fatal(err)
		}
		p.document = read.(map[string]any)
		_ = p.compiler.AddResource(documentURL, read)
	}
	method, path, _ := strings.Cut(strings.ReplaceAll(pattern, "...", ""), " ")
	operation, _ := member(p.document, "paths", path, strings.ToLower(method)).(map[string]any)
	if operation == nil { // such as the document itself
		return
	}
	at := []string{"paths", path, strings.ToLower(method), "responses", strconv.Itoa(status), "content", "application/json", "schema"}
	if status >= 400 && member(operation, "responses", strconv.Itoa(status)) == nil {
		at = []string{"components", "responses", "error", "content", "application/json", "schema"}
	}
	if member(p.document, at...) == nil {
		f.t.Errorf("%s: the document has no answer of status %d with JSON:\n%s", pattern, status, body)
		return
	}
	for i := range at {
		at[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(at[i])
	}
	schema, err := p.compiler.Compile(documentURL + "#/" + strings.Join(at, "/"))
	if err != nil {
		f.t.Fatal(err)
	}
	answer, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = schema.Validate(answer)
	}
	if err != nil {
		f.t.Errorf("%s: %d is not as the document says: %v\n%s", pattern, status, err, body)
	} else if status < 400 || operation["responses"].(object)[strconv.Itoa(status)] != nil {
		kept.Store(operation["operationId"], true)
	}
}

// member returns what is in an object at a path.
func member(of any, path ...string) any {
	for _, name := range path {
		object, _ := of.(map[string]any)
		of = object[name]
	}
	return of
}
