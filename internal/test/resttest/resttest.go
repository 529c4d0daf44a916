// Package resttest serves a REST interface by a real server over containers that are processes, and holds its answers against its document.
package resttest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// Token is the token of every request.
const Token = "a-token-that-nobody-guesses"

// Served is the server under test. *rest.Server is one: its own tests could not use this package if that named it.
type Served interface {
	http.Handler
	Routes() map[string]http.Handler
	Open() map[string]http.Handler
	Refuse(w http.ResponseWriter, r *http.Request, status int, problem, advice string)
}

// Fixture is the interface on a real server, with a manager that runs containers as processes.
type Fixture struct {
	T      *testing.T
	URL    string
	Deps   *tools.Deps
	Served Served // nil: answers are not held against a document

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	document map[string]any
	paths    *http.ServeMux
}

// Start serves a server with every ability, after change.
func Start(t *testing.T, serve func(*tools.Deps) Served, change func(*tools.Deps), languages ...sandbox.Language) *Fixture {
	t.Helper()
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir, config.Host = enginetest.New(t), t.TempDir(), "host"
	config.Kernels = make(map[sandbox.Language]sandbox.KernelConfig)
	for _, l := range languages {
		config.Kernels[l] = sandbox.KernelConfig{Image: enginetest.Image, Interpreter: l.Info().Interpreter, Join: containers.Join()}
	}
	manager := sandbox.NewManager(config)
	t.Cleanup(func() { manager.Close(context.Background()) })
	d := &tools.Deps{
		Manager: manager, SoftWait: 45 * time.Second, Secrets: secrets.New(map[string]string{"KEY": "hunter22"}), Logger: slog.New(slog.DiscardHandler),
		Packages:    &tools.Packages{Summary: "All."},
		Databases:   &tools.Databases{Connections: sql.NewConnections([]sql.Source{{Name: "main", Dialect: sql.PostgreSQL}}, nil), InlineRows: 30, MaxRows: 1000},
		UploadBytes: 1 << 20, DownloadBytes: 100_000, ArtifactBytes: 1 << 20,
		Environments: func(context.Context) []tools.Environment { return nil },
	}
	if change != nil {
		change(d)
	}
	f := &Fixture{T: t, Deps: d, Served: serve(d)}
	f.URL = Listen(t, httpserver.Options{Site: httpserver.Site{MCP: server.NewMCPServer("x", "1"), Routes: f.Served.Routes()}, Token: Token, Open: f.Served.Open(), Refuse: f.Served.Refuse, Logger: d.Logger})
	return f
}

// Listen serves until the test ends, and returns the address.
func Listen(t *testing.T, o httpserver.Options) (url string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	web := httpserver.New(o)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		should.OK(t, <-ended)
	})
	return "http://" + l.Addr().String()
}

// Send sends a request.
func (f *Fixture) Send(ctx context.Context, method, path string, body io.Reader, headers ...string) *http.Response {
	f.T.Helper()
	r, err := http.NewRequestWithContext(ctx, method, f.URL+path, body)
	if err != nil {
		f.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+Token)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		f.T.Fatal(err)
	}
	return response
}

// Do sends a request and returns the status and the text of the answer.
func (f *Fixture) Do(method, path, body string, headers ...string) (int, string) {
	f.T.Helper()
	response := f.Send(f.T.Context(), method, path, strings.NewReader(body), headers...)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.T.Fatal(err)
	}
	if f.Served != nil && strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		f.holds(response.Request, response.StatusCode, text)
	}
	return response.StatusCode, string(text)
}

// Want sends a request, checks the status of the answer, and returns its members.
func (f *Fixture) Want(status int, method, path, body string) (members map[string]any) {
	f.T.Helper()
	got, text := f.Do(method, path, body)
	if got != status {
		f.T.Fatalf("%s %s: %d, want %d: %s", method, path, got, status, text)
	}
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		f.T.Fatalf("%s %s: %s", method, path, text)
	}
	return members
}

// Bad is a request, and the status and a part of the refusal.
type Bad = struct {
	Method, Path, Body string
	Status             int
	Want               string
}

// Refuses checks that requests beside a session a are refused in the shape of an error of this status, and leave nothing behind.
func (f *Fixture) Refuses(status string, requests map[string]Bad) {
	f.Want(http.StatusCreated, "POST", "/v1/sessions", `{"session_id": "a"}`)
	for name, bad := range requests {
		f.T.Run(name, func(t *testing.T) {
			got, text := f.Do(bad.Method, bad.Path, bad.Body)
			var refusal struct{ Code, Message, Hint, Status string }
			if err := json.Unmarshal([]byte(text), &refusal); err != nil || refusal.Code == "" || refusal.Message == "" || refusal.Hint == "" || refusal.Status != status {
				t.Errorf("%v: %s", err, text)
			}
			should.Hold(t, got == bad.Status && strings.Contains(text, bad.Want), "got %d %s", got, text)
		})
	}
	should.Len(f.T, f.Want(http.StatusOK, "GET", "/v1/sessions", "")["sessions"].([]any), 1)
}

const documentURL = "document.json"

// operations are those of all documents: true if one was tested.
var operations sync.Map

// Main runs the tests of a package, which together must test each operation of isOwn.
func Main(m *testing.M, isOwn func(id string) bool) {
	flag.Parse()
	code := m.Run()
	if flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" {
		operations.Range(func(id, kept any) bool {
			if kept == false && isOwn(id.(string)) {
				fmt.Fprintf(os.Stderr, "no test has an answer of %s\n", id)
				code = 1
			}
			return true
		})
	}
	os.Exit(code)
}

// read reads the document that the interface gives out.
func (f *Fixture) read() {
	w := httptest.NewRecorder()
	f.Served.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/openapi.json", nil))
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		f.T.Fatal(err)
	}
	f.compiler, f.document, f.paths = jsonschema.NewCompiler(), read.(map[string]any), http.NewServeMux()
	_ = f.compiler.AddResource(documentURL, read)
	for path, methods := range f.document["paths"].(map[string]any) {
		for method, operation := range methods.(map[string]any) {
			pattern := path
			if before, is := strings.CutSuffix(path, "/{path}"); is {
				pattern = before + "/{path...}"
			}
			f.paths.HandleFunc(strings.ToUpper(method)+" "+pattern, func(http.ResponseWriter, *http.Request) {})
			for _, answer := range member(operation, "responses").(map[string]any) {
				if member(answer, "content", "application/json") != nil {
					operations.LoadOrStore(member(operation, "operationId"), false)
				}
			}
		}
	}
}

// holds checks that an answer to a request is as the document says.
func (f *Fixture) holds(request *http.Request, status int, body []byte) {
	f.T.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.compiler == nil {
		f.read()
	}
	_, pattern := f.paths.Handler(request)
	method, path, _ := strings.Cut(strings.ReplaceAll(pattern, "...", ""), " ")
	operation, _ := member(f.document, "paths", path, strings.ToLower(method)).(map[string]any)
	if operation == nil { // such as the document itself
		return
	}
	at := []string{"paths", path, strings.ToLower(method), "responses", strconv.Itoa(status), "content", "application/json", "schema"}
	own := member(operation, "responses", strconv.Itoa(status)) != nil
	if status >= 400 && !own {
		at = []string{"components", "responses", "error", "content", "application/json", "schema"}
	}
	if member(f.document, at...) == nil {
		f.T.Errorf("%s: the document has no answer of status %d with JSON:\n%s", pattern, status, body)
		return
	}
	for i := range at {
		at[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(at[i])
	}
	schema, err := f.compiler.Compile(documentURL + "#/" + strings.Join(at, "/"))
	if err != nil {
		f.T.Fatal(err)
	}
	answer, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = schema.Validate(answer)
	}
	if err != nil {
		f.T.Errorf("%s: %d is not as the document says: %v\n%s", pattern, status, err, body)
	} else if status < 400 || own {
		operations.Store(operation["operationId"], true)
	}
}

// member returns the member of an object at a path.
func member(of any, path ...string) any {
	for _, name := range path {
		object, _ := of.(map[string]any)
		of = object[name]
	}
	return of
}

// Door is a request that takes room before it makes something, so many bytes at the worst.
type Door struct {
	Name, Method, Path, Body, Kind string
	Worst                          int64
	Answer                         func(ctx context.Context) (status int) // in the place of the request
}

// TakesRoomFirst checks that with a byte less a door is refused, and that all of it comes back.
func (f *Fixture) TakesRoomFirst(door Door) {
	f.T.Helper()
	for _, lacks := range []int64{0, 1} {
		m := room.New()
		ctx, giveBack := m.Serve(f.T.Context(), "192.0.2.1")
		another, answered := m.Serve(f.T.Context(), "192.0.2.1") // request of the same client
		held := []int64{room.Each - door.Worst + lacks}
		if door.Worst <= room.Small {
			held = nil
			for left := room.EachSmall - door.Worst + lacks; left > 0; left -= room.Small {
				held = append(held, min(left, room.Small))
			}
		}
		for _, bytes := range held {
			if _, err := room.Take(another, bytes); err != nil {
				f.T.Fatal(err)
			}
		}
		if lacks > 0 {
			m.Wait = 100 * time.Millisecond // within which a door that takes too little would get it
		}
		w := httptest.NewRecorder()
		if door.Answer != nil {
			w.Code = door.Answer(ctx)
		} else {
			r := httptest.NewRequestWithContext(ctx, door.Method, door.Path, strings.NewReader(door.Body))
			r.Header.Set("Content-Type", door.Kind)
			f.Served.ServeHTTP(w, r)
		}
		if want := map[int64]int{0: http.StatusOK, 1: http.StatusServiceUnavailable}[lacks]; w.Code != want {
			f.T.Errorf("%s, of %d bytes, of which %d lack: %d %s", door.Name, door.Worst, lacks, w.Code, w.Body)
		}
		answered()
		if giveBack(); !m.IsFree() {
			f.T.Errorf("%s does not give all back", door.Name)
		}
	}
}
