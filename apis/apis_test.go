package apis_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"flag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/codebox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis/librechat"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

var update = flag.Bool("update", false, "write testdata anew")

func TestMain(m *testing.M) {
	resttest.Main(m, func(id string) bool { return strings.HasPrefix(id, "compatible.") })
}

// all are the APIs, as a server has them.
func all() rest.APIs {
	return rest.APIs{librechat.New(), codebox.New()}
}

func start(t *testing.T, change func(*tools.Deps), languages ...sandbox.Language) *resttest.Fixture {
	t.Helper()
	return resttest.Start(t, func(d *tools.Deps) resttest.Served {
		return rest.New(rest.Options{Deps: d, Version: "1.2.3", Logger: d.Logger, APIs: all()})
	}, change, languages...)
}

// A dialogue is a recorded one: what a client sends, line by line, and what it reads. A line begins with ">" where it is a request's,
// which has a method, a path, and headers or a body behind it; the rest is the answer. What is different each time is a NAME in
// braces, which the first answer that has it gives a value.
var minted = []struct {
	name string
	form *regexp.Regexp
}{
	{"session", regexp.MustCompile(`\blc[ru][a-z2-7]{18}\b`)},
	{"run", regexp.MustCompile(`\brun-[a-z2-7]{13}\b`)},
	{"time", regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)},
}

type dialogue struct {
	f     *resttest.Fixture
	names map[string]string // of values
}

// named writes an answer with names in the place of what was minted, a new one for each value.
func (d *dialogue) named(answer string) string {
	for _, kind := range minted {
		answer = kind.form.ReplaceAllStringFunc(answer, func(value string) string {
			if kind.name == "time" {
				return "{time}"
			}
			if d.names[value] == "" {
				n := 1
				for _, name := range d.names {
					if strings.HasPrefix(name, "{"+kind.name) {
						n++
					}
				}
				d.names[value] = "{" + kind.name + strings.Repeat("'", n-1) + "}"
			}
			return d.names[value]
		})
	}
	return answer
}

// replay sends a recorded request, and returns the answer.
func (d *dialogue) replay(request string) string {
	d.f.T.Helper()
	for value, name := range d.names { // no name is a part of another: the braces are one's, too
		request = strings.ReplaceAll(request, name, value)
	}
	lines := strings.Split(request, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	var headers []string
	at := 1
	for ; at < len(lines); at++ {
		name, value, found := strings.Cut(lines[at], ": ")
		if !found || strings.ContainsAny(name, ` {"`) {
			break
		}
		headers = append(headers, name, value)
	}
	status, body := d.f.Do(method, path, strings.Join(lines[at:], "\n"), headers...)
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(body), "", "  ") == nil {
		body = indented.String()
	}
	return d.named(http.StatusText(status) + "\n" + strings.TrimRight(body, "\n"))
}

func TestDialogues(t *testing.T) {
	for _, golden := range []string{"librechat"} {
		t.Run(golden, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", golden+".txt")
			want := must.Get(os.ReadFile(file))(t)
			d := dialogue{start(t, nil, sandbox.Python, sandbox.Bash), make(map[string]string)}
			var got strings.Builder
			for n, part := range strings.Split(strings.TrimSpace(string(want)), "\n\n") {
				var request []string
				for line := range strings.Lines(part) {
					if sent, is := strings.CutPrefix(line, "> "); is {
						request = append(request, strings.TrimSuffix(sent, "\n"))
					} else if strings.HasPrefix(line, "# ") {
						got.WriteString(line)
					}
				}
				must.Hold(t, len(request) != 0, "part %d has no request", n+1)
				got.WriteString("> " + strings.Join(request, "\n> ") + "\n" + d.replay(strings.Join(request, "\n")) + "\n\n")
			}
			text := strings.TrimSpace(got.String()) + "\n"
			if *update {
				must.OK(t, os.WriteFile(file, []byte(text), 0o644))
			} else if text != string(want) {
				t.Errorf("it is not %s: look at what -update makes of it:\n%s", file, text)
			}
		})
	}
}

func TestAcceptKey(t *testing.T) {
	for name, test := range map[string]struct{ path, authorization, want string }{
		"LibreChat's":               {"/librechat/exec", "", "Bearer key"},
		"one that shows another":    {"/librechat/exec", "Bearer own", "Bearer own"},
		"a path that only looks so": {"/librechatter", "", ""},
		"ours":                      {"/v1/sessions", "", ""},
	} {
		r := httptest.NewRequest(http.MethodPost, test.path, nil)
		r.Header.Set("X-API-Key", "key")
		if test.authorization != "" {
			r.Header.Set("Authorization", test.authorization)
		}
		if all().Translate(r); r.Header.Get("Authorization") != test.want {
			t.Errorf("%s: %q", name, r.Header.Get("Authorization"))
		}
	}
}

// What a result has no room for is read from the file with all of it, also while it is written.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	f := start(t, nil, sandbox.Python, sandbox.Bash)
	var all strings.Builder
	for n := range 6000 {
		fmt.Fprintln(&all, n)
	}
	ran := f.Want(200, "POST", "/librechat/exec", `{"lang": "py", "code": "for n in range(6000): print(n)"}`)
	if ran["stdout"] != all.String() {
		t.Errorf("%d bytes of %d", len(ran["stdout"].(string)), all.Len())
	}
	ran = f.Want(200, "POST", "/librechat/exec", `{"lang": "py", "code": "for n in range(20000): print(n)"}`)
	if printed := ran["stdout"].(string); !strings.HasPrefix(printed, all.String()) || len(printed) > 64<<10+200 || !strings.Contains(printed, "the whole text is in ") {
		t.Errorf("%d bytes of many more: %q", len(printed), printed[len(printed)-100:])
	}
}

// Milliseconds are what LibreChat counts in; a run that is over says so where a model reads it.
func TestATimeoutOfLibreChat(t *testing.T) {
	t.Parallel()
	f := start(t, nil, sandbox.Python, sandbox.Bash)
	ran := f.Want(200, "POST", "/librechat/exec", `{"lang": "bash", "code": "sleep 600", "timeout": 700}`)
	should.Contain(t, ran["stderr"].(string), "The run was timed out.", "%v", ran)
}

// librechatRun is what the tests read of an answer.
type librechatRun struct {
	SessionID string `json:"session_id"`
	Stdout    string
	Files     []struct{ ID string }
}

type keys map[string]string

func (k keys) Authenticate(r *http.Request) (principal.Principal, error) {
	if name := k[principal.Bearer(r)]; name != "" {
		return principal.Principal{Name: name, Source: "test"}, nil
	}
	return principal.Principal{}, principal.ErrNone
}

// A key finds its principal's sessions alone, by either header. What another one has is not there.
func TestKeysOfPrincipals(t *testing.T) {
	t.Parallel()
	of := map[string]*resttest.Fixture{"alice": start(t, nil, sandbox.Python, sandbox.Bash), "bob": start(t, nil, sandbox.Python, sandbox.Bash)}
	protocol := func() *server.MCPServer { return server.NewMCPServer("x", "1") }
	own := of["alice"].Served.Routes() // which nobody is served here: there is no token
	url := resttest.Listen(t, httpserver.Options{
		Site: httpserver.Site{MCP: protocol(), Routes: own}, Token: resttest.Token, Authenticate: keys{"key-a": "alice", "key-b": "bob"}, Translate: all().Translate,
		Of: func(p principal.Principal) (*httpserver.Site, error) {
			site := &httpserver.Site{MCP: protocol(), Routes: of[p.Name].Served.Routes()}
			site.Prepare()
			return site, nil
		},
		Refuse: of["alice"].Served.Refuse, Logger: slog.New(slog.DiscardHandler),
	})
	ask := &resttest.Fixture{T: t, URL: url}
	want := func(status int, method, path, key, body string) (answer librechatRun) {
		t.Helper()
		got, text := ask.Do(method, path, body, "Authorization", "", "X-API-Key", key)
		must.Hold(t, got == status, "%s %s for %q: %d, want %d: %s", method, path, key, got, status, text)
		_ = json.Unmarshal([]byte(text), &answer)
		return answer
	}
	made := want(200, "POST", "/librechat/exec", "key-a", `{"lang": "py", "code": "open('secret.txt', 'w').write('of alice')"}`)
	file := made.Files[0]
	input := fmt.Sprintf(`{"lang": "py", "code": "print(open('secret.txt').read())", "files": [{"id": %q, "name": "secret.txt", "session_id": %q}]}`, file.ID, made.SessionID)
	should.Equal(t, want(200, "POST", "/librechat/exec", "key-a", input).Stdout, "of alice\n", "alice reads")
	for _, key := range []string{"key-b"} {
		want(404, "POST", "/librechat/exec", key, input)
		want(404, "GET", "/librechat/files/"+made.SessionID, key, "")
		want(404, "GET", "/librechat/download/"+made.SessionID+"/"+file.ID, key, "")
		want(404, "GET", "/librechat/sessions/"+made.SessionID+"/objects/"+file.ID, key, "")
	}
	alone := fmt.Sprintf(`{"lang": "bash", "code": "ls", "session_id": %q}`, made.SessionID)
	if other := want(200, "POST", "/librechat/exec", "key-b", alone); other.SessionID == made.SessionID || strings.Contains(other.Stdout, "secret") {
		t.Errorf("bob ran in %s and saw %q", other.SessionID, other.Stdout)
	}
	want(401, "POST", "/librechat/exec", "key-c", input)
	want(401, "POST", "/librechat/exec", "", input)
	want(401, "GET", "/v1/sessions", "key-a", "") // a header of LibreChat's is good there alone
	status, text := ask.Do("GET", "/librechat/files/"+made.SessionID, "", "Authorization", "Bearer key-b", "X-API-Key", "key-a")
	should.Hold(t, status == 404, "the header that all clients have counts more: %d %s", status, text)
}

func TestFormsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := start(t, nil, sandbox.Python, sandbox.Bash)
	form := func(name, content string) string {
		return "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n" + content + "\r\n--XX--\r\n"
	}
	for name, test := range map[string]struct {
		kind, body string
		status     int
		want       string
	}{
		"a long file":   {"multipart/form-data; boundary=XX", form("a", strings.Repeat("x", 100_001)), 413, "The file is longer than 100000 bytes"},
		"outside":       {"multipart/form-data; boundary=XX", form("../../etc/passwd", "x"), 400, "invalid_path"},
		"cut off":       {"multipart/form-data; boundary=XX", strings.TrimSuffix(form("a", "x"), "--XX--\r\n"), 400, "invalid_content"},
		"without files": {"multipart/form-data; boundary=XX", "--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--XX--\r\n", 400, "has no file"},
		"no boundary":   {"multipart/form-data", form("a", "x"), 400, "invalid_content"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := f.Do("POST", "/librechat/upload", test.body, "Content-Type", test.kind)
			should.Hold(t, status == test.status && strings.Contains(text, test.want), "got %d %s", status, text)
		})
	}
	// What takes JSON reads no form, of which nobody has bounded the length.
	status, text := f.Do("POST", "/librechat/exec", form("a", "x"), "Content-Type", "multipart/form-data; boundary=XX")
	should.Hold(t, status == 400 && strings.Contains(text, "The body is a form."), "code as a form: %d %s", status, text)
	// Nothing is left of them.
	should.Len(t, f.Want(200, "GET", "/v1/sessions", "")["sessions"].([]any), 0)
}

// What a dialect has run before code moves none of its lines, and forbids nothing that has to come first.
func TestWhatComesBeforeCodeIsNoneOfIt(t *testing.T) {
	t.Parallel()
	f := start(t, nil, sandbox.Python, sandbox.Bash, sandbox.JavaScript)
	for body, want := range map[string][2]string{
		`{"lang": "py", "args": ["a b", "c\n'd"], "code": "from __future__ import annotations\nimport sys\nprint(sys.argv[1:])\n1 / 0"}`: {`['a b', "c\n'd"]`, `line 4`},
		`{"lang": "bash", "args": ["a b", "c\n'd"], "code": "echo \"$1-$2\" $LINENO\nnone"}`:                                             {"a b-c\n'd 1\n", "line 2: none"},
		`{"lang": "js", "args": ["a b", "c\n'd"], "code": "console.log(process.argv.slice(2))\nthrow new Error('x')"}`:                   {`[ 'a b', "c\n'd" ]`, ":2"},
	} {
		got := f.Want(200, "POST", "/librechat/exec", body)
		out, err := got["stdout"].(string), got["stderr"].(string)
		should.Hold(t, strings.Contains(out, want[0]) && strings.Contains(err, want[1]), "%s: %q, %q", body, out, err)
	}
}

func TestTheShapesOfCodeBox(t *testing.T) {
	f := start(t, nil, sandbox.Python)
	made := f.Want(200, "POST", "/sessions", `{"dependencies": [], "execution_options": {"timeout": 300, "memory_limit": "512M", "cpu_limit": "1", "environment_variables": {"A": "b\"'\\c"}}}`)
	session := made["session_id"].(string)
	should.Hold(t, made["status"] == "created" && made["created_at"] != "", "made %v", made)
	begun := f.Want(200, "POST", "/execute", `{"code": "import os\nprint(os.environ['A'])\n[n for n in dir() if 'json' in n]", "session_id": "`+session+`", "disable_validation": ["x"]}`)
	should.Hold(t, begun["status"] == "created" && len(begun) == 3, "begun %v", begun)
	id := begun["request_id"].(string)
	f.Want(200, "GET", "/v1/runs/"+id+"?wait_seconds=60", "")
	status := f.Want(200, "GET", "/execute/"+id+"/status", "")
	if status["status"] != "completed" || status["completed_at"] == nil || status["created_at"] != begun["created_at"] || status["request_id"] != id {
		t.Errorf("status %v", status)
	}
	_, results := f.Do("GET", "/execute/"+id+"/results", "")
	if !strings.HasPrefix(results, `{"status":"completed","output":[{"type":"stream","content":"b\"'\\c\n"},{"type":"result","content":"[]"}],"error":null,"files":[],"completed_at":"`) {
		t.Errorf("results %s", results)
	}
	id = f.Want(200, "POST", "/execute", `{"code": "1/0", "session_id": "`+session+`"}`)["request_id"].(string)
	f.Want(200, "GET", "/v1/runs/"+id+"?wait_seconds=60", "")
	failed := f.Want(200, "GET", "/execute/"+id+"/results", "")["error"].(map[string]any)
	if failed["ename"] != "ZeroDivisionError" || failed["evalue"] != "division by zero" || len(failed["traceback"].([]any)) < 2 {
		t.Errorf("failed %v", failed)
	}
	id = f.Want(200, "POST", "/execute", `{"code": "import time; time.sleep(600)", "session_id": "`+session+`"}`)["request_id"].(string)
	now := f.Want(200, "GET", "/execute/"+id+"/results", "")
	should.Hold(t, now["status"] == "running" && now["completed_at"] == nil, "running %v", now)
	// Its clients ask until a status is one of theirs.
	f.Want(200, "POST", "/v1/runs/"+id+"/cancel", "")
	theyEnded(f, id, "cancelled")
	id = f.Want(200, "POST", "/execute", `{"code": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "session_id": "`+session+`"}`)["request_id"].(string)
	f.Want(200, "GET", "/v1/runs/"+id+"?wait_seconds=60", "")
	theyEnded(f, id, "killed")
	lowered := f.Want(200, "POST", "/sessions", `{"execution_options": {"memory_limit": "900G"}}`)
	should.Contain(t, fmt.Sprint(lowered["notes"]), "memory from 900 GiB to 1.0 GiB", "lowered %v", lowered)
	id = f.Want(200, "POST", "/v1/sessions/"+session+"/runs?wait_seconds=60", `{"code": "import time; time.sleep(600)", "timeout_seconds": 1}`)["run_id"].(string)
	theyEnded(f, id, "timed_out")
	closed := f.Want(200, "DELETE", "/sessions/"+session, "")
	should.Hold(t, len(closed) == 1 && closed["status"] == "cleaned up", "closed %v", closed)
}

// theyEnded checks what the other system's clients see of a run that ended in a way that it has no word for.
func theyEnded(f *resttest.Fixture, id, name string) {
	f.T.Helper()
	status, results := f.Want(200, "GET", "/execute/"+id+"/status", ""), f.Want(200, "GET", "/execute/"+id+"/results", "")
	if wrong, _ := results["error"].(map[string]any); status["status"] != "error" || status["completed_at"] == nil || results["status"] != "error" || wrong["ename"] != name {
		f.T.Errorf("%s: %v, %v", name, status, results)
	}
}

func TestBadInputOfCodeBox(t *testing.T) {
	t.Parallel()
	f := start(t, nil, sandbox.Python)
	f.Refuses("error", map[string]resttest.Bad{
		"a text for a list":        {"POST", "/sessions", `{"dependencies": "numpy"}`, 400, `"dependencies has a text where a list belongs."`},
		"numbers for texts":        {"POST", "/sessions", `{"dependencies": [true]}`, 400, `"dependencies has true or false where a text belongs."`},
		"a list for an object":     {"POST", "/sessions", `{"execution_options": {"environment_variables": []}}`, 400, `"execution_options.environment_variables has a list where an object belongs."`},
		"mounts":                   {"POST", "/sessions", `{"execution_options": {"mount_points": [{"host_path": "/"}]}}`, 400, `"status":"error"`},
		"memory":                   {"POST", "/sessions", `{"execution_options": {"memory_limit": "much"}}`, 400, `memory_limit is \"much\"`},
		"processors":               {"POST", "/sessions", `{"execution_options": {"cpu_limit": "NaN"}}`, 400, `cpu_limit is \"NaN\"`},
		"a variable without name":  {"POST", "/sessions", `{"execution_options": {"environment_variables": {"": "x"}}}`, 400, `could not be prepared`},
		"execution in no session":  {"POST", "/execute", `{"code": "1"}`, 400, `session_id is missing`},
		"execution in unknown one": {"POST", "/execute", `{"code": "1", "session_id": "nobody"}`, 404, `"status":"error"`},
		"execution of nothing":     {"POST", "/execute", `{"session_id": "a"}`, 400, `The code is empty`},
		"status of nothing":        {"GET", "/execute/x/status", ``, 404, `"run_not_found"`},
		"results of nothing":       {"GET", "/execute/x/results", ``, 404, `"run_not_found"`},
		"clean-up of nothing":      {"DELETE", "/sessions/nobody", ``, 404, `"session_not_found"`},
		"another method of theirs": {"GET", "/execute", ``, 405, `Use POST`},
	})
}

// What makes something takes room for the worst case first.
func TestWhatIsMadeTakesRoomFirst(t *testing.T) {
	f := start(t, nil, sandbox.Python, sandbox.Bash)
	const length = 3000
	const form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n--b--\r\n"
	const kind = "multipart/form-data; boundary=b"
	for _, door := range []resttest.Door{
		{Name: "the heads of a form", Method: "POST", Path: "/librechat/upload", Body: form, Kind: kind, Worst: 512 << 10},
		{Name: "the files of a form", Method: "POST", Path: "/librechat/upload", Body: form, Kind: kind, Worst: 2 * room.Small},
		{Name: "the output of a run", Method: "POST", Path: "/librechat/exec", Body: `{"lang": "py", "code": "print('x' * 2999)"}`, Worst: apis.TextRoom(length)},
	} {
		f.TakesRoomFirst(door)
	}
}

// What has no other test here has the answers that the document says.
func TestAnswersAreAsTheDocumentSays(t *testing.T) {
	t.Parallel()
	f := start(t, nil, sandbox.Python, sandbox.Bash)
	f.Want(501, "POST", "/librechat/exec/programmatic", "{}")
	const form = "--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--X--\r\n"
	status, text := f.Do("POST", "/librechat/upload/batch", form, "Content-Type", "multipart/form-data; boundary=X")
	should.Hold(t, status == 200, "%d %s", status, text)
}

// The document is reviewed like code, and what it refers to is there.
func TestTheDocument(t *testing.T) {
	f := start(t, nil, sandbox.Python, sandbox.Bash)
	_, text := f.Do("GET", "/v1/openapi.json", "")
	var indented bytes.Buffer
	must.OK(t, json.Indent(&indented, []byte(text), "", "  "))
	const golden = "testdata/openapi.json"
	if *update {
		must.OK(t, os.WriteFile(golden, indented.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	should.Hold(t, err == nil && bytes.Equal(want, indented.Bytes()), "%v; it is not %s: look at what -update makes of it", err, golden)
	var document struct {
		OpenAPI string
		Info    struct{ Title, Version string }
		Paths   map[string]map[string]struct {
			OperationID string
			Summary     string
			Tags        []string
			Parameters  []struct {
				Name, In string
				Required bool
				Schema   map[string]any
			}
			RequestBody map[string]any
			Responses   map[string]map[string]any
		}
		Components map[string]map[string]any
	}
	must.OK(t, json.Unmarshal([]byte(text), &document))
	should.Hold(t, document.OpenAPI == "3.1.0" && document.Info.Title != "" && document.Info.Version == "1.2.3",
		"it is %s of %+v", document.OpenAPI, document.Info)
	for _, found := range regexp.MustCompile(`"\$ref":"([^"]+)"`).FindAllStringSubmatch(text, -1) {
		parts := strings.Split(found[1], "/")
		if len(parts) != 4 || document.Components[parts[2]][parts[3]] == nil {
			t.Errorf("there is no %s", found[1])
		}
	}
	ids := make(map[string]bool)
	for path, operations := range document.Paths {
		for method, o := range operations {
			if ids[o.OperationID] || o.Summary == "" || len(o.Tags) != 1 || len(o.Responses) < 2 || (method == "post" || method == "put") != (o.RequestBody != nil) {
				t.Errorf("%s %s: %+v", method, path, o)
			}
			ids[o.OperationID] = true
			var inPath, declared []string
			for _, found := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
				inPath = append(inPath, found[1])
			}
			for _, p := range o.Parameters {
				if p.In == "path" && p.Required {
					declared = append(declared, p.Name)
				}
				should.Hold(t, p.Schema != nil, "%s %s: %s has no schema", method, path, p.Name)
			}
			should.Hold(t, slices.Equal(inPath, declared), "%s %s: parameters %v", method, path, declared)
		}
	}
}
