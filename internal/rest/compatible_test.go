package rest

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

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
	{"modified", regexp.MustCompile(`("modified": )[\d.e+]+`)},
}

type dialogue struct {
	f     *fixture
	names map[string]string // of values
}

// named writes an answer with names in the place of what was minted, a new one for each value.
func (d *dialogue) named(answer string) string {
	for _, kind := range minted {
		answer = kind.form.ReplaceAllStringFunc(answer, func(value string) string {
			switch kind.name {
			case "time":
				return "{time}"
			case "modified":
				return kind.form.ReplaceAllString(value, `$1"{time}"`)
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
	d.f.t.Helper()
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
	status, body := d.f.do(method, path, strings.Join(lines[at:], "\n"), headers...)
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(body), "", "  ") == nil {
		body = indented.String()
	}
	return d.named(http.StatusText(status) + "\n" + strings.TrimRight(body, "\n"))
}

func TestDialogues(t *testing.T) {
	for _, golden := range []string{"librechat", "openterminal"} {
		t.Run(golden, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", golden+".txt")
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d := dialogue{startWith(t, everything, sandbox.Python, sandbox.Bash), make(map[string]string)}
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
				if len(request) == 0 {
					t.Fatalf("part %d has no request", n+1)
				}
				got.WriteString("> " + strings.Join(request, "\n> ") + "\n" + d.replay(strings.Join(request, "\n")) + "\n\n")
			}
			text := strings.TrimSpace(got.String()) + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
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
		if AcceptKey(r); r.Header.Get("Authorization") != test.want {
			t.Errorf("%s: %q", name, r.Header.Get("Authorization"))
		}
	}
}

// What a result has no room for is read from the file with all of it, also while it is written.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	f := startWith(t, everything, sandbox.Python, sandbox.Bash)
	var all strings.Builder
	for n := range 6000 {
		fmt.Fprintln(&all, n)
	}
	ran := f.want(200, "POST", "/librechat/exec", `{"lang": "py", "code": "for n in range(6000): print(n)"}`)
	if ran["stdout"] != all.String() {
		t.Errorf("%d bytes of %d", len(ran["stdout"].(string)), all.Len())
	}
	ran = f.want(200, "POST", "/librechat/exec", `{"lang": "py", "code": "for n in range(20000): print(n)"}`)
	if printed := ran["stdout"].(string); !strings.HasPrefix(printed, all.String()) || len(printed) > maxLibrechatText+200 || !strings.Contains(printed, "the whole text is in ") {
		t.Errorf("%d bytes of many more: %q", len(printed), printed[len(printed)-100:])
	}
	ran = f.want(200, "POST", "/open-terminal/execute", `{"command": "seq 0 5999; read -r line; echo the end"}`)
	process := "/open-terminal/execute/" + ran["id"].(string)
	var read strings.Builder
	offset := 0.0
	more := func(status map[string]any) {
		for _, part := range status["output"].([]any) {
			read.WriteString(part.(map[string]any)["data"].(string))
		}
		offset = status["next_offset"].(float64)
	}
	for more(ran); int(offset) < all.Len() && !t.Failed(); {
		more(f.want(200, "GET", fmt.Sprintf("%s/status?offset=%v", process, offset), ""))
	}
	f.want(200, "POST", process+"/input", `{"input": "\n"}`)
	more(f.want(200, "GET", fmt.Sprintf("%s/status?wait=60&offset=%v", process, offset), ""))
	if read.String() != all.String()+"the end\n" {
		t.Errorf("read %d bytes of %d, at last %q", read.Len(), all.Len(), read.String()[max(0, read.Len()-100):])
	}
}

// Milliseconds are what LibreChat counts in; a run that is over says so where a model reads it.
func TestATimeoutOfLibreChat(t *testing.T) {
	t.Parallel()
	f := startWith(t, everything, sandbox.Python, sandbox.Bash)
	ran := f.want(200, "POST", "/librechat/exec", `{"lang": "bash", "code": "sleep 600", "timeout": 700}`)
	if !strings.Contains(ran["stderr"].(string), "The run was timed out.") {
		t.Errorf("%v", ran)
	}
}

// Models of Open WebUI have the tools that its own document lists, at addresses below the prefix.
func TestTheTerminalsDocument(t *testing.T) {
	t.Parallel()
	f := startWith(t, everything, sandbox.Python, sandbox.Bash)
	document := f.want(200, "GET", "/open-terminal/openapi.json", "")
	var ids []string
	for path, operations := range document["paths"].(map[string]any) {
		for method, operation := range operations.(map[string]any) {
			ids = append(ids, operation.(map[string]any)["operationId"].(string))
			address := strings.NewReplacer("{process_id}", "x").Replace(path)
			if status, text := f.do(strings.ToUpper(method), "/open-terminal"+address, "{}"); status == 405 || strings.Contains(text, "nothing at") {
				t.Errorf("%s %s: %s", method, path, text)
			}
		}
	}
	slices.Sort(ids)
	if got := strings.Join(ids, " "); got != "display_file get_process_status glob_search grep_search kill_process list_files list_processes read_file replace_file_content run_command send_process_input write_file" {
		t.Errorf("tools: %s", got)
	}
}

// An archive has what was asked for, by names below the folder that it is in.
func TestTheTerminalsArchive(t *testing.T) {
	t.Parallel()
	f := startWith(t, everything, sandbox.Python, sandbox.Bash)
	f.want(200, "POST", "/open-terminal/execute?wait=60", `{"command": "mkdir -p a/b; echo 1 > a/b/c.txt; echo 2 > a.txt; echo 3 > other"}`)
	for _, test := range []struct{ paths, name, want string }{
		{`["/mnt/data/a/b"]`, "b.zip", "b/c.txt"},
		{`["a", "/mnt/data/a.txt"]`, "download.zip", "a.txt a/b/c.txt"},
		{`["/mnt/data"]`, "data.zip", "a.txt a/b/c.txt other"},
	} {
		answer := f.send(t.Context(), "POST", "/open-terminal/files/archive", strings.NewReader(`{"paths": `+test.paths+`}`))
		raw, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		packed, wrong := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
		if err != nil || wrong != nil {
			t.Fatalf("%s: %v, %v: %q", test.paths, err, wrong, raw)
		}
		var names []string
		for _, file := range packed.File {
			names = append(names, file.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != test.want || !strings.HasSuffix(answer.Header.Get("Content-Disposition"), "filename="+test.name) {
			t.Errorf("%s: %s, %s", test.paths, got, answer.Header.Get("Content-Disposition"))
		}
	}
	for paths, want := range map[string]int{`[]`: 400, `["none"]`: 404, `["/etc"]`: 400} {
		f.want(want, "POST", "/open-terminal/files/archive", `{"paths": `+paths+`}`)
	}
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
	of := map[string]*fixture{"alice": startWith(t, everything, sandbox.Python, sandbox.Bash), "bob": startWith(t, everything, sandbox.Python, sandbox.Bash)}
	protocol := func() *server.MCPServer { return server.NewMCPServer("x", "1") }
	own := of["alice"].Routes() // which nobody is served here: there is no token
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := httpserver.New(httpserver.Options{
		Site: httpserver.Site{MCP: protocol(), Routes: own}, Token: token, Authenticate: keys{"key-a": "alice", "key-b": "bob"}, Translate: AcceptKey,
		Of: func(p principal.Principal) (*httpserver.Site, error) {
			site := &httpserver.Site{MCP: protocol(), Routes: of[p.Name].Routes()}
			site.Prepare()
			return site, nil
		},
		Refuse: of["alice"].Refuse, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, l) }()
	defer func() { stop(); <-ended }()
	ask := &fixture{t: t, url: "http://" + l.Addr().String()}
	want := func(status int, method, path, key, body string) (answer librechatRan) {
		t.Helper()
		got, text := ask.do(method, path, body, "Authorization", "", "X-API-Key", key)
		if got != status {
			t.Fatalf("%s %s for %q: %d, want %d: %s", method, path, key, got, status, text)
		}
		_ = json.Unmarshal([]byte(text), &answer)
		return answer
	}
	made := want(200, "POST", "/librechat/exec", "key-a", `{"lang": "py", "code": "open('secret.txt', 'w').write('of alice')"}`)
	file := made.Files[0]
	input := fmt.Sprintf(`{"lang": "py", "code": "print(open('secret.txt').read())", "files": [{"id": %q, "name": "secret.txt", "session_id": %q}]}`, file.ID, made.SessionID)
	if again := want(200, "POST", "/librechat/exec", "key-a", input); again.Stdout != "of alice\n" {
		t.Errorf("alice reads %q", again.Stdout)
	}
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
	if status, text := ask.do("GET", "/librechat/files/"+made.SessionID, "", "Authorization", "Bearer key-b", "X-API-Key", "key-a"); status != 404 {
		t.Errorf("the header that all clients have counts more: %d %s", status, text)
	}
}

func TestFormsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := startWith(t, everything, sandbox.Python, sandbox.Bash)
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
			if status, text := f.do("POST", "/librechat/upload", test.body, "Content-Type", test.kind); status != test.status || !strings.Contains(text, test.want) {
				t.Errorf("got %d %s", status, text)
			}
		})
	}
	// What takes JSON reads no form, of which nobody has bounded the length.
	if status, text := f.do("POST", "/librechat/exec", form("a", "x"), "Content-Type", "multipart/form-data; boundary=XX"); status != 400 || !strings.Contains(text, "The body is a form.") {
		t.Errorf("code as a form: %d %s", status, text)
	}
	// Nothing is left of them.
	if list := f.want(200, "GET", "/v1/sessions", "")["sessions"].([]any); len(list) != 0 {
		t.Errorf("there are %v", list)
	}
}

// Whatever a path is, it leads below the work directory or nowhere.
func FuzzTerminalPaths(f *testing.F) {
	for _, path := range []string{"", ".", "~", "~/a", "../..", "/mnt/data/../x", "/mnt/database", "a/../../b", "//mnt//data//c", "a\x00b", "~root"} {
		f.Add("sub/folder", path)
	}
	f.Fuzz(func(t *testing.T, folder, path string) {
		at := terminal{folder: folder}
		below, err := at.resolve(path)
		if err == nil && (strings.HasPrefix(below, "/") || slices.Contains(strings.Split(below, "/"), "..")) {
			t.Errorf("%q in %q is %q", path, folder, below)
		}
	})
}

// A pattern without what is special is what it says, and a shell reads a quoted word as it was.
func FuzzTerminalPatterns(f *testing.F) {
	for _, pattern := range []string{"*.py", "**/*.go", "[!a]b", "[", "a?c", "\\", "é\xff"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		found, err := glob(pattern)
		if err == nil && !strings.ContainsAny(pattern, "*?[]") && (!found.MatchString(pattern) || found.MatchString("x"+pattern)) {
			t.Errorf("%q is %s", pattern, found)
		}
		word := quoted(pattern)
		if strings.ReplaceAll(word[1:len(word)-1], `'\''`, "'") != pattern || strings.Contains(strings.ReplaceAll(word[1:len(word)-1], `'\''`, ""), "'") {
			t.Errorf("%q is quoted as %s", pattern, word)
		}
	})
}

// What a dialect has run before code moves none of its lines, and forbids nothing that has to come first.
func TestWhatComesBeforeCodeIsNoneOfIt(t *testing.T) {
	t.Parallel()
	f := startWith(t, everything, sandbox.Python, sandbox.Bash, sandbox.JavaScript)
	for body, want := range map[string][2]string{
		`{"lang": "py", "args": ["a b", "c\n'd"], "code": "from __future__ import annotations\nimport sys\nprint(sys.argv[1:])\n1 / 0"}`: {`['a b', "c\n'd"]`, `line 4`},
		`{"lang": "bash", "args": ["a b", "c\n'd"], "code": "echo \"$1-$2\" $LINENO\nnone"}`:                                             {"a b-c\n'd 1\n", "line 2: none"},
		`{"lang": "js", "args": ["a b", "c\n'd"], "code": "console.log(process.argv.slice(2))\nthrow new Error('x')"}`:                   {`[ 'a b', "c\n'd" ]`, ":2"},
	} {
		got := f.want(200, "POST", "/librechat/exec", body)
		if out, err := got["stdout"].(string), got["stderr"].(string); !strings.Contains(out, want[0]) || !strings.Contains(err, want[1]) {
			t.Errorf("%s: %q, %q", body, out, err)
		}
	}
	for body, want := range map[string]string{
		`{"command": "echo $LINENO $A\nnone", "env": {"A": "b\nc"}}`: "1 b c\nbash: line 2: none: command not found\n",
		`{"command": "if )"}`:               "bash: line 1: syntax error near unexpected token `)'\nbash: line 1: `if )'\n",
		`{"command": "set -u; echo $NONE"}`: "bash: line 1: NONE: unbound variable\n",
	} {
		got := f.want(200, "POST", "/open-terminal/execute?wait=60", body)
		if out := got["output"].([]any)[0].(map[string]any)["data"].(string); out != want {
			t.Errorf("%s: %q", body, out)
		}
	}
}
