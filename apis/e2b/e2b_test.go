//go:build linux

package e2b

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcp "github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

func start(t *testing.T, seal *apis.Seal, log *slog.Logger, disabled ...string) *resttest.Fixture {
	t.Helper()
	return startWith(t, seal, func(d *tools.Deps) {
		d.Disable = disabled
		if log != nil {
			d.Logger = log
		}
	})
}

func startWith(t *testing.T, seal *apis.Seal, change func(*tools.Deps)) *resttest.Fixture {
	t.Helper()
	api := New(seal)
	f := resttest.Start(t, func(d *tools.Deps) resttest.Served {
		return rest.New(rest.Options{Deps: d, Logger: d.Logger, APIs: rest.APIs{api}})
	}, change, sandbox.Python, sandbox.Bash)
	f.URL = listen(t, api, f)
	return f
}

func listen(t *testing.T, api *rest.API, f *resttest.Fixture) (url string) {
	return resttest.Listen(t, httpserver.Options{
		Site:  httpserver.Site{MCP: mcp.NewMCPServer("x", "1"), Routes: f.Served.Routes()},
		Token: resttest.Token, Refuse: f.Served.Refuse, Translate: api.Translate, Logger: f.Deps.Logger,
	})
}

// box is a sandbox of a fixture's client.
type testBox struct {
	*resttest.Fixture
	made
}

func (b *testBox) headers(more ...string) []string {
	return append([]string{headerID, b.ID, headerPort, envdPort, headerToken, b.Token}, more...)
}

func (b *testBox) do(method, path string, body []byte, headers ...string) (int, string) {
	b.T.Helper()
	response := b.Send(b.T.Context(), method, path, bytes.NewReader(body), headers...)
	defer func() { _ = response.Body.Close() }()
	text := must.Get(io.ReadAll(response.Body))(b.T)
	return response.StatusCode, string(text)
}

// in sends a request to a sandbox, of JSON unless the headers say otherwise.
func (b *testBox) in(method, path, body string, headers ...string) (int, string) {
	b.T.Helper()
	return b.do(method, inSandbox+path, []byte(body), b.headers(append([]string{"Content-Type", typeUnary}, headers...)...)...)
}

func begin(t *testing.T, f *resttest.Fixture) *testBox {
	t.Helper()
	b := &testBox{Fixture: f}
	status, text := b.do("POST", "/e2b/v2/sandboxes", []byte(`{"templateID": "base", "envVars": {"SET": "yes"}}`))
	err := json.Unmarshal([]byte(text), &b.made)
	must.Hold(t, err == nil && status == http.StatusCreated, "%d %s", status, text)
	return b
}

func enveloped(flag byte, length int, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(length)), body...)
}

// stream opens a streaming call, and returns the answer and a function that reads its next message.
func (b *testBox) stream(path, request string) (*http.Response, func() map[string]any) {
	b.T.Helper()
	response := b.Send(b.T.Context(), "POST", b.path(path), bytes.NewReader(enveloped(0, len(request), request)), b.headers("Content-Type", typeStream)...)
	b.T.Cleanup(func() { _ = response.Body.Close() })
	return response, func() (message map[string]any) {
		b.T.Helper()
		var head [envelopeHead]byte
		must.OK(b.T, should.ErrOf(io.ReadFull(response.Body, head[:])))
		must.OK(b.T, json.NewDecoder(io.LimitReader(response.Body, int64(binary.BigEndian.Uint32(head[1:])))).Decode(&message))
		return message
	}
}

func (b *testBox) path(path string) string { return inSandbox + path }

func event(message map[string]any) map[string]any {
	found, _ := message["event"].(map[string]any)
	return found
}

func TestASandboxFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	file := filepath.Join(t.TempDir(), "a", "file.txt")
	for _, step := range []struct {
		method, path, body string
		status             int
		has                string
	}{
		{"GET", "/health", "", 204, ""},
		{"POST", "/files?path=" + file, "hello", 200, `"name":"file.txt"`},
		{"GET", "/files?path=" + file, "", 200, "hello"},
		{"GET", "/files?path=" + file + "-none", "", 404, "does not exist"},
		{"POST", "/filesystem.Filesystem/Stat", `{"path": "` + file + `"}`, 200, `"size": "5"`},
		{"POST", "/filesystem.Filesystem/MakeDir", `{"path": "` + filepath.Dir(file) + `"}`, 409, "already_exists"},
		{"POST", "/filesystem.Filesystem/Move", `{"source": "` + file + `", "destination": "` + file + `2"}`, 200, "file.txt2"},
		{"POST", "/filesystem.Filesystem/ListDir", `{"path": "` + filepath.Dir(file) + `"}`, 200, "file.txt2"},
		{"POST", "/filesystem.Filesystem/Remove", `{"path": "` + file + `2"}`, 200, "{}"},
	} {
		kind := typeUnary
		if strings.HasPrefix(step.path, "/files?") {
			kind = "text/plain"
		}
		status, text := b.in(step.method, step.path, step.body, "Content-Type", kind)
		if status != step.status || !strings.Contains(strings.ReplaceAll(text, `":"`, `": "`), strings.ReplaceAll(step.has, `":"`, `": "`)) {
			t.Errorf("%s %s: %d %s", step.method, step.path, status, text)
		}
	}
	status, text := b.in("POST", "/execute", `{"code": "import os\nprint(os.environ['SET'])\n6 * 7"}`, headerPort, interpreterPort)
	if status != 200 || !strings.Contains(text, `"text":"yes\n"`) || !strings.Contains(text, `"is_main_result":true,"text":"42"`) {
		t.Errorf("%d %s", status, text)
	}
	status, text = b.do("DELETE", "/e2b/sandboxes/"+b.ID, nil)
	again, _ := b.do("GET", "/e2b/sandboxes/"+b.ID, nil)
	should.Hold(t, status == 204 && again == 404, "%d %s, then %d", status, text, again)
	status, text = b.in("GET", "/health", "")
	should.Hold(t, status == 502 && strings.Contains(text, notRunning), "%d %s", status, text)
}

type onlySessions struct {
	rest.Host
	sessions *sandbox.Manager
}

func (o onlySessions) Sessions() *sandbox.Manager { return o.sessions }

// What cannot be recorded does not happen.
func TestASandboxThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	c := &call{server: &server{sandboxes: make(map[string]*box)}, Host: onlySessions{sessions: start(t, apis.NewSeal(), nil).Deps.Manager}}
	b := newBox(record{ID: "none"}) // has no folder
	err := c.sleep(b, func() error { return errors.New("it was closed") })
	should.Hold(t, err != nil && err.Error() != "it was closed", "%v", err)
	err = c.update(b, func(of *record) { of.Contexts = append(of.Contexts, codeContext{ID: "new"}) })
	should.Hold(t, err != nil, "a context was recorded")
	should.Equal(t, b.record.Paused || len(b.contexts)+len(b.record.Contexts) > 0, false, "something has changed")
}

func TestSandboxesAreListedByTheirBeginning(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	for after, want := range map[string]bool{"": true, "2000-01-01T00:00:00.5Z": true, time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano): false} {
		_, text := b.do("GET", "/e2b/v2/sandboxes?startedAfter="+after, nil)
		should.Hold(t, strings.Contains(text, b.ID) == want, "after %q: %s", after, text)
	}
	status, text := b.do("GET", "/e2b/v2/sandboxes?startedAfter=yesterday", nil)
	should.Hold(t, status == 400 && strings.Contains(text, "yesterday"), "%d %s", status, text)
}

func TestAPageBeginsBehindTheLastOneThoughThatIsGone(t *testing.T) {
	t.Parallel()
	f := start(t, apis.NewSeal(), nil)
	var all []string
	for range 4 {
		all = append([]string{begin(t, f).ID}, all...)
	}
	page := func(query string) (ids []string, next string) {
		response := f.Send(t.Context(), "GET", "/e2b/v2/sandboxes?limit=2&"+query, nil)
		defer func() { _ = response.Body.Close() }()
		var found []detail
		should.OK(t, json.NewDecoder(response.Body).Decode(&found))
		for _, d := range found {
			ids = append(ids, d.ID)
		}
		return ids, response.Header.Get("X-Next-Token")
	}
	first, next := page("")
	should.EqualSlice(t, first, all[:2], "the first page")
	status, text := (&testBox{Fixture: f}).do("DELETE", "/e2b/sandboxes/"+all[1], nil)
	should.Equal(t, status, 204, "%s", text)
	second, _ := page("nextToken=" + next)
	should.EqualSlice(t, second, all[2:], "the second page")
	status, text = (&testBox{Fixture: f}).do("GET", "/e2b/v2/sandboxes?nextToken=i12", nil)
	should.Hold(t, status == 400 && strings.Contains(text, "i12"), "%d %s", status, text)
}

func TestFilesThatAreNone(t *testing.T) {
	t.Parallel()
	b, folder := begin(t, start(t, apis.NewSeal(), nil)), t.TempDir()
	should.OK(t, os.Mkdir(folder+"/dir", 0o700))
	should.OK(t, os.Symlink("dir", folder+"/link"))
	should.OK(t, os.WriteFile(folder+"/file", nil, 0o600))
	should.OK(t, syscall.Mkfifo(folder+"/pipe", 0o600))
	for _, test := range []struct {
		method, path, body string
		want               int
		says               string
	}{
		{"POST", "/filesystem.Filesystem/Stat", `{"path": "FOLDER/link"}`, 200, `"isSymlink":true`},
		{"POST", "/filesystem.Filesystem/Move", `{"source": "FOLDER/file", "destination": "FOLDER/dir"}`, 400, "irectory"},
		{"POST", "/filesystem.Filesystem/Move", `{"source": "FOLDER/file", "destination": "FOLDER/new/file"}`, 200, "new/file"},
		{"GET", "/files?path=FOLDER/pipe", "", 400, "no regular file"}, // which waits for a writer otherwise
		{"GET", "/files?path=/proc/self/status", "", 200, "Name:"},     // which says that it is empty
	} {
		status, text := b.in(test.method, strings.ReplaceAll(test.path, "FOLDER", folder), strings.ReplaceAll(test.body, "FOLDER", folder))
		should.Hold(t, status == test.want && strings.Contains(strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(test.says, " ", "")),
			"%s %s: %d %s", test.path, test.body, status, text)
	}
}

func TestFaultsHaveTheVendorsCodes(t *testing.T) {
	for _, test := range []struct {
		err          error
		status, file int
		code         string
	}{
		{fault.New(fault.QuotaExceeded, "", ""), 429, 507, "resource_exhausted"},
		{fault.New(fault.UploadTooLarge, "", ""), 400, 413, codeInvalid},
		{fault.New(fault.SessionBusy, "", ""), 503, 503, codeUnavailable},
		{errMissing("x"), 503, 404, codeUnavailable},
		{&rpcError{Code: codeNotFound}, 404, 404, codeNotFound},
	} {
		var told *refused
		if !errors.As(httpError(test.err), &told) || told.status != test.file || rpcOf(test.err).Code != test.code || rpcOf(test.err).status() != test.status {
			t.Errorf("%v: %v, %v", test.err, told, rpcOf(test.err))
		}
	}
}

// Input is written as it comes, and the stream ends with the program.
func TestInputComesWhileItsStreamIsOpen(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	_, next := b.stream("/process.Process/Start", `{"process": {"cmd": "head", "args": ["-n", "1"]}, "stdin": true, "tag": "head"}`) //nolint:bodyclose // it ends with the test
	next()
	read, write := io.Pipe()
	defer func() { _ = write.Close() }()
	answer := make(chan *http.Response, 1)
	go func() {
		answer <- b.Send(t.Context(), "POST", inSandbox+"/process.Process/StreamInput", read, b.headers("Content-Type", typeStream)...) //nolint:bodyclose // the test does it
	}()
	for _, message := range []string{`{"start": {"process": {"tag": "head"}}}`, `{"data": {"input": {"stdin": "aGVsbG8K"}}}`} {
		should.OK(t, should.ErrOf(write.Write(enveloped(0, len(message), message))))
	}
	should.Equal(t, event(next())["data"].(map[string]any)["stdout"], "aGVsbG8K", "%v", "the output")
	response := <-answer
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	should.Contain(t, string(text), "has ended")
}

// The time of a message is none of the stream that it begins.
func TestAStreamLastsLongerThanAMessage(t *testing.T) {
	b := begin(t, start(t, apis.NewSeal(), nil))
	defer func(was time.Duration) { messageTime = was }(messageTime)
	messageTime = 100 * time.Millisecond
	_, next := b.stream("/process.Process/Start", `{"process": {"cmd": "sleep", "args": ["0.5"]}, "stdin": false}`) //nolint:bodyclose // it ends with the test
	next()
	should.Equal(t, event(next())["end"].(map[string]any)["exitCode"], 0.0, "%s", "the end")
}

// What goes back before a run leaves what commands have changed, and names no command.
func TestCommandsAreUndoneWithNoRun(t *testing.T) {
	t.Parallel()
	f := start(t, apis.NewSeal(), nil)
	b := begin(t, f)
	b.in("POST", "/execute", `{"code": "open('of-a-run', 'w').close()"}`, headerPort, interpreterPort)
	_, next := b.stream("/process.Process/Start", `{"process": {"cmd": "touch", "args": ["of-a-command"]}, "stdin": false, "tag": "it"}`) //nolint:bodyclose // it ends with the test
	for event(next())["end"] == nil {
	}
	var r *sandbox.Restoration
	var err error
	must.Soon(t, "its end is known", func() bool {
		r, err = f.Deps.Manager.Restore(t.Context(), sandbox.WayBack{SessionID: b.ID, Parts: sandbox.Parts{Files: true}}, func() {})
		return err == nil || fault.From(err).Code != fault.SessionBusy
	})
	must.OK(t, err)
	should.Hold(t, len(r.Undone) == 1 && r.Undone[0].Language == sandbox.Python, "undone: %v", r.Undone)
	_, files := b.in("POST", "/execute", `{"code": "import os; os.listdir()"}`, headerPort, interpreterPort)
	should.Hold(t, !strings.Contains(files, "of-a-run") && strings.Contains(files, "of-a-command"), "what there is: %s", files)
}

func TestInputOfAProgramWithout(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	_, next := b.stream("/process.Process/Start", `{"process": {"cmd": "sleep", "args": ["600"]}, "stdin": false, "tag": "sleep"}`) //nolint:bodyclose // it ends with the test
	next()
	status, text := b.in("POST", "/process.Process/SendInput", `{"process": {"tag": "sleep"}, "input": {"stdin": "aGVsbG8K"}}`)
	should.Equal(t, status, 400, "%s", text)
	should.Contain(t, text, codePrecondition)
}

func TestAProgramWithATerminalAndInput(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	_, next := b.stream("/process.Process/Start", `{"process": {"cmd": "bash", "args": ["-c", "stty size; read line; stty size; echo got $line"]}, "pty": {"size": {"rows": 11, "cols": 22}}, "tag": "it"}`) //nolint:bodyclose // it ends with the test
	pid := event(next())["start"].(map[string]any)["pid"]
	must.Hold(t, !(pid.(float64) <= 1), "%v", pid)
	printed := ""
	until := func(text string) {
		t.Helper()
		for !strings.Contains(printed, text) {
			data, _ := event(next())["data"].(map[string]any)
			var raw []byte
			must.OK(t, json.Unmarshal([]byte(`"`+data["pty"].(string)+`"`), &raw))
			printed += string(raw)
		}
	}
	until("11 22")
	for path, body := range map[string]string{
		"Update":    `{"process": {"tag": "it"}, "pty": {"size": {"rows": 33, "cols": 44}}}`,
		"SendInput": `{"process": {"tag": "it"}, "input": {"pty": "YWJjCg=="}}`,
	} {
		defer func() { _ = path }()
		if path == "SendInput" {
			continue
		}
		status, text := b.in("POST", "/process.Process/"+path, body)
		must.Hold(t, status == 200, "%d %s", status, text)
	}
	status, text := b.in("POST", "/process.Process/SendInput", `{"process": {"tag": "it"}, "input": {"pty": "YWJjCg=="}}`)
	must.Hold(t, status == 200, "%d %s", status, text)
	until("33 44")
	until("got abc")
	for {
		if end := event(next())["end"]; end != nil {
			should.Equal(t, end.(map[string]any)["exitCode"], 0.0, "%v", end)
			return
		}
	}
}

// Whatever a principal asks of another's sandbox, it is not there.
func TestSandboxesOfOthers(t *testing.T) {
	t.Parallel()
	seal := apis.NewSeal()
	own, others := begin(t, start(t, seal, nil)), start(t, seal, nil)
	thief := &testBox{Fixture: others, made: own.made}
	for _, path := range []string{"GET ", "DELETE ", "GET /metrics", "POST /timeout", "POST /pause", "POST /resume", "POST /connect", "POST /refreshes"} {
		method, path, _ := strings.Cut(path, " ")
		status, text := thief.do(method, "/e2b/sandboxes/"+own.ID+path, []byte(`{"timeout": 5}`))
		should.Hold(t, status == 404 && strings.Contains(text, `"code":404`), "%s %s: %d %s", method, path, status, text)
	}
	for _, path := range []string{
		"GET /health", "GET /contexts", "POST /contexts", "DELETE /contexts/python", "POST /contexts/python/restart", "POST /execute", "GET /files?path=/etc/hostname", "POST /files?path=x",
		"POST /process.Process/List", "POST /process.Process/SendSignal", "POST /process.Process/SendInput", "POST /process.Process/Connect", "POST /process.Process/Start",
		"POST /filesystem.Filesystem/Stat", "POST /filesystem.Filesystem/WatchDir", "POST /filesystem.Filesystem/CreateWatcher", "POST /filesystem.Filesystem/GetWatcherEvents",
	} {
		method, path, _ := strings.Cut(path, " ")
		status, text := thief.in(method, path, `{}`)
		should.Hold(t, status == gone && strings.Contains(text, notRunning), "%s %s: %d %s", method, path, status, text)
	}
	for _, id := range []string{"", "..", "../" + own.ID, "%2e%2e", "e2b.json", strings.Repeat("x", 100)} {
		status, _ := own.do("POST", b2(own, id), nil, headerID, id)
		should.Hold(t, status == gone || status == 401, "%q: %d", id, status)
	}
	// What belongs to another sandbox of the same principal is not there either.
	other := begin(t, own.Fixture)
	_, text := own.in("POST", "/filesystem.Filesystem/CreateWatcher", `{"path": "/tmp"}`)
	var made struct {
		ID string `json:"watcherId"`
	}
	err := json.Unmarshal([]byte(text), &made)
	must.Hold(t, err == nil && made.ID != "", "%v", text)
	if status, text := other.in("POST", "/filesystem.Filesystem/GetWatcherEvents", `{"watcherId": "`+made.ID+`"}`); status != 404 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := own.in("POST", "/filesystem.Filesystem/RemoveWatcher", `{"watcherId": "`+made.ID+`"}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	_, first := own.stream("/process.Process/Start", `{"process": {"cmd": "sleep", "args": ["600"]}, "tag": "own"}`) //nolint:bodyclose // it ends with the test
	process := fmt.Sprintf(`{"process": {"pid": %v}, "signal": "SIGNAL_SIGKILL"}`, event(first())["start"].(map[string]any)["pid"])
	for _, of := range []string{process, `{"process": {"tag": "own"}, "signal": "SIGNAL_SIGKILL"}`} {
		status, text := other.in("POST", "/process.Process/SendSignal", of)
		should.Hold(t, status == 404, "%d %s", status, text)
	}
	if status, text := own.in("POST", "/process.Process/SendSignal", process); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	_, text = own.in("POST", "/contexts", `{}`, headerPort, interpreterPort)
	var context codeContext
	must.OK(t, json.Unmarshal([]byte(text), &context), "%v", text)
	status, text := other.in("POST", "/execute", `{"code": "1", "context_id": "`+context.ID+`"}`, headerPort, interpreterPort)
	should.Hold(t, status == 404, "%d %s", status, text)
}

func b2(b *testBox, _ string) string { return b.path("/process.Process/List") }

func TestTemplates(t *testing.T) {
	t.Parallel()
	b := &testBox{Fixture: startWith(t, apis.NewSeal(), func(d *tools.Deps) { d.Can.Network = "open" })}
	for template, want := range map[string]int{"../../etc": 400, "/images/x": 400, `a\b`: 400, ".hidden": 400, "r": 404, "": 404, "localhost:5000": 404, "base:latest": 404} {
		status, text := b.do("POST", "/e2b/sandboxes", []byte(`{"templateID": `+string(done(json.Marshal(template)))+`}`))
		should.Hold(t, status == want && strings.Contains(text, `"message"`), "%q: %d %s", template, status, text)
	}
	for _, wanted := range []string{`"mcp": {"x": {}}`, `"iam": {"tokens": {}}`, `"volumeMounts": [{"name": "x"}]`, `"network": {"allowOut": ["*"]}`, `"allow_internet_access": false`, `"timeout": -1`, `"timeout": 1000000`} {
		status, text := b.do("POST", "/e2b/sandboxes", []byte(`{"templateID": "base", `+wanted+`}`))
		should.Hold(t, status == 400, "%s: %d %s", wanted, status, text)
	}
}

func TestTemplatesThatInstallNothing(t *testing.T) {
	t.Parallel()
	b := &testBox{Fixture: start(t, apis.NewSeal(), nil)}
	step := func(kind string, args ...string) string {
		return `"fromTemplate": "base", "steps": [` + string(done(json.Marshal(map[string]any{"type": kind, "args": args}))) + "]"
	}
	for wanted, says := range map[string]string{
		step("RUN", "apt-get update\nDEBIAN_FRONTEND=noninteractive apt-get install -y s3fs fuse", "root"): "",
		step("ENV", "FROM_TEMPLATE", "yes"): "",
		`"fromImage": "python:3"`:           "",
		step("RUN", "pip install --user 'none-of-these>=1' && sudo apt install -y none"): "lacks pip:none-of-these>=1 apt:none",
		step("RUN", "apt-get update; reboot"):                                            "step 1",
		step("RUN", "pip install $(cat x)"):                                              "step 1",
		step("RUN", strings.Repeat("x", 1<<20)):                                          "step 1",
		step("COPY", "a", "b"):                                                           "step 1",
		step("RUN"):                                                                      "step 1",
		step("WORKDIR", "/app"):                                                          "WORKDIR",
		step("USER", "root"):                                                             "USER",
		`"fromTemplate": "base", "startCmd": "serve"`:                                    "unasked",
		`"fromImage": "fedora"`:                                                          "fedora",
		`"fromTemplate": "none"`:                                                         "none",
	} {
		status, text := b.do("POST", "/e2b/v2/templates/mine/builds/1", []byte("{"+wanted+"}"))
		should.Hold(t, (status == 202) == (says == "") && strings.Contains(text, says) && len(text) < 1000, "%.200s: %d %.1000s", wanted, status, text)
	}
	for path, want := range map[string]int{"/templates/aliases/mine": 200, "/templates/mine/builds/1/status": 200, "/templates/aliases/none": 404} {
		status, text := b.do("GET", "/e2b"+path, nil)
		should.Hold(t, status == want, "%s: %d %s", path, status, text)
	}
	for body, want := range map[string]int{`{"name": "new"}`: 202, `{"name": "base"}`: 400, `{"name": "../x"}`: 400, `{"name": "x", "tags": ["v1"]}`: 400} {
		status, text := b.do("POST", "/e2b/v3/templates", []byte(body))
		should.Hold(t, status == want, "%s: %d %s", body, status, text)
	}
	b.do("POST", "/e2b/v2/templates/mine/builds/1", []byte("{"+step("ENV", "FROM_TEMPLATE", "yes")+"}"))
	status, text := b.do("POST", "/e2b/sandboxes", []byte(`{"templateID": "mine"}`))
	must.Hold(t, status == 201 && json.Unmarshal([]byte(text), &b.made) == nil, "%d %s", status, text)
	should.Contain(t, b.execute("import os; os.environ['FROM_TEMPLATE']", ""), "yes")
	build := func(name string) (int, string) {
		return b.do("POST", "/e2b/v2/templates/"+name+"/builds/1", []byte("{"+step("USER", user)+"}"))
	}
	for i := range maxTemplates - 1 {
		build(fmt.Sprint("t", i))
	}
	status, text = build("more")
	should.Hold(t, status == 429 && strings.Contains(text, "DELETE"), "one more than there may be: %d %s", status, text)
	for _, want := range []int{204, 404} {
		status, text = b.do("DELETE", "/e2b/templates/t0", nil)
		should.Hold(t, status == want, "a template is deleted: %d %s", status, text)
	}
	for _, name := range []string{"mine", "more", "mine"} {
		status, text = build(name)
		should.Hold(t, status == 202, "%s, where there is room: %d %s", name, status, text)
	}
}

func TestLongCommands(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	run := func(process map[string]any) (printed, told string) {
		request := string(done(json.Marshal(map[string]any{"process": process, "stdin": false})))
		_, next := b.stream("/process.Process/Start", request) //nolint:bodyclose // it ends with the test
		for {
			message := next()
			if data, _ := event(message)["data"].(map[string]any); data != nil {
				printed += string(done(base64.StdEncoding.DecodeString(data["stdout"].(string))))
			}
			if event(message)["end"] != nil || message["event"] == nil {
				return printed, string(done(json.Marshal(message)))
			}
		}
	}
	comment := "# " + strings.Repeat("x", 200_000) + "\n"
	printed, told := run(map[string]any{"cmd": "bash", "args": []string{"-c", comment + `echo "$0" "$#" "${c-unset}"; cat`}})
	should.Hold(t, printed == "bash 0 unset\n", "%q, %s", printed, told)
	printed, told = run(map[string]any{"cmd": "bash", "args": []string{"-c", comment + `echo "$0" "$@"`, "name", "a", "b"}})
	should.Hold(t, printed == "name a b\n", "%q, %s", printed, told)
	for _, process := range []map[string]any{
		{"cmd": "bash", "args": []string{"-c", strings.Repeat("x", maxCommand+1)}}, {"cmd": "echo", "args": []string{comment}},
		{"cmd": "true", "envs": map[string]string{"LONG": comment}},
	} {
		_, told = run(process)
		should.Contain(t, told, codeInvalid)
	}
}

// The list of programs shows no start over maxListed: it would be held for as long as the program runs, and be written whole for each list.
func TestALongStartIsListedShort(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	for at, length := range []int{10, maxListed} {
		argument := strings.Repeat("x", maxArgument/2)
		args := append([]string{"600"}, slices.Repeat([]string{argument}, length*2/maxArgument)...)
		request := string(done(json.Marshal(map[string]any{"process": map[string]any{"cmd": "sh", "args": append([]string{"-c", "sleep 600"}, args...), "envs": map[string]string{"A": "1"}}})))
		_, next := b.stream("/process.Process/Start", request) //nolint:bodyclose // it ends with the test
		next()
		status, list := b.in("POST", "/process.Process/List", `{}`)
		should.Hold(t, status == 200 && strings.Contains(list, `"cmd":"sh"`) && len(list) < 2*maxListed && strings.Count(list, "sleep 600") == 1, "%d: %d %.300s", at, status, list)
	}
}

func TestNamesOfTheWorkFolder(t *testing.T) {
	for given, want := range map[string]string{
		"": "/mnt/data", "~": "/mnt/data", "a": "/mnt/data/a", "/home/user/a": "/mnt/data/a", "/workspace": "/mnt/data", "/workspace/a/../b": "/mnt/data/b",
		"/workspaces": "/workspaces", "/tmp/workspace": "/tmp/workspace", "/workspace/../etc": "/etc",
	} {
		should.Equal(t, realPath(given), want, "%s", given)
	}
}

// An upload is a file that comes, gets its owner and is written, as with the vendor.
func TestAnUploadIsWatched(t *testing.T) {
	t.Parallel()
	b, folder := begin(t, start(t, apis.NewSeal(), nil)), t.TempDir()
	must.OK(t, os.Mkdir(folder+"/nested", 0o700))
	_, next := b.stream("/filesystem.Filesystem/WatchDir", `{"path": "`+folder+`", "recursive": true}`) //nolint:bodyclose // it ends with the test
	next()
	for _, name := range []string{"new", "new", "nested/new"} {
		b.in("POST", "/files?path="+folder+"/"+name, "hello", "Content-Type", "text/plain")
	}
	for _, want := range []string{"new CREATE", "new CHMOD", "new WRITE", "new CHMOD", "new WRITE", "nested/new CREATE", "nested/new CHMOD", "nested/new WRITE"} {
		one, _ := next()["filesystem"].(map[string]any)
		should.Equal(t, strings.ReplaceAll(fmt.Sprint(one["name"], " ", one["type"]), "EVENT_TYPE_", ""), want, "%v", one)
	}
}

func TestWhatAResultTells(t *testing.T) {
	mask := secrets.New(nil)
	for content, want := range map[string]string{
		`{"main": true, "text": "a", "html": "<b>", "data": {"a": [1.0]}, "other": 1}`: `{"data":{"a":[1.0]},"html":"<b>","is_main_result":true,"text":"a","type":"result"}`,
		`{"main": 1, "text": {}, "html": 5, "data": []}`:                               `null`,
		`not JSON`: `null`,
	} {
		line := resultLine(sandbox.Display{Data: map[string][]byte{data: []byte(content)}}, mask)
		should.Equal(t, string(web.Encode(line)), want, "%s", content)
	}
}

func TestAValueHasItsPicture(t *testing.T) {
	drawn := sandbox.Display{Data: map[string][]byte{"image/png": []byte(pngHead + part("tEXt", chartText+`{"text":"<Figure>"}`) + part("IEND", ""))}}
	for value, want := range map[string]string{"<Figure>": "true", "5": "false true"} {
		var main []string
		for _, line := range linesOf(&sandbox.Result{Displays: []sandbox.Display{drawn}, Value: &value}, secrets.New(nil)) {
			main = append(main, fmt.Sprint(line["is_main_result"]))
			should.Hold(t, (line["png"] != nil) == (len(main) == 1) && line["text"] != nil, "%s: %v", value, line)
		}
		should.Equal(t, strings.Join(main, " "), want, "%s", value)
	}
}

func done[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestHostileEnvelopes(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	const good = `{"process": {"cmd": "true"}}`
	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	_, _ = packed.Write(make([]byte, 1<<20))
	_ = packed.Close()
	for name, test := range map[string]struct {
		body    []byte
		headers []string
		code    string
	}{
		"none":             {nil, nil, codeInvalid},
		"a cut head":       {[]byte{0, 0}, nil, codeInvalid},
		"longer than sent": {enveloped(0, len(good)+1, good), nil, codeInvalid},
		"far longer":       {enveloped(0, 1<<32-1, good), nil, codeInvalid},
		"shorter":          {enveloped(0, len(good)-1, good), nil, codeInvalid},
		"no JSON":          {enveloped(0, 3, "abc"), nil, codeInvalid},
		"packed":           {enveloped(flagCompressed, bomb.Len(), bomb.String()), nil, codeUnimplemented},
		"packed, by name":  {enveloped(0, len(good), good), []string{headerConnectCoded, "gzip"}, codeUnimplemented},
		"a packed body":    {bomb.Bytes(), []string{headerEncoding, "gzip"}, codeUnimplemented},
		"another kind":     {enveloped(0, len(good), good), []string{"Content-Type", "application/connect+proto"}, codeUnimplemented},
		"deep":             {enveloped(0, 40_000, strings.Repeat(`[`, 40_000)), nil, codeInvalid},
	} {
		headers := b.headers(append([]string{"Content-Type", typeStream}, test.headers...)...)
		_, text := b.do("POST", b.path("/process.Process/Start"), test.body, headers...)
		should.Hold(t, strings.Contains(text, `"code":"`+test.code+`"`), "%s: %q", name, text)
	}
	status, text := b.in("POST", "/files?path="+filepath.Join(t.TempDir(), "bomb"), bomb.String(), "Content-Type", "application/octet-stream", headerEncoding, "gzip")
	should.Equal(t, status, http.StatusInsufficientStorage, "%s", text)
}

// What a transport takes for a form is one here too, and a body has its bounds in any way that it comes.
func TestBodiesAndTheirBounds(t *testing.T) {
	t.Parallel()
	b := begin(t, startWith(t, apis.NewSeal(), func(d *tools.Deps) { d.DownloadBytes = 17 << 20 }))
	const form, head = "Multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n"
	file := filepath.Join(t.TempDir(), "a")
	many := `{"code": "1", "other": [` + strings.Repeat("0,", jsonbound.Request.Values) + "0]}"
	for name, test := range map[string]struct {
		path, body, kind string
		want             int
	}{
		"a form":              {"/files?path=" + file, head + "hello\r\n--x--\r\n", form, 200},
		"an object as a form": {"/execute", `{"code": "1"}`, form, 400},
		"many values":         {"/execute", many, typeUnary, 400},
		"of a call":           {"/process.Process/List", many, typeUnary, 400},
		"a file as it is":     {"/files?path=" + file + "1", strings.Repeat("x", 17<<20), "application/octet-stream", 200},
		"a long file":         {"/files?path=" + file + "2", strings.Repeat("x", 17<<20+1), "text/plain", 507},
	} {
		status, text := b.in("POST", test.path, test.body, "Content-Type", test.kind, headerPort, "")
		should.Hold(t, status == test.want, "%s: %d %.200s", name, status, text)
	}
	b.in("POST", "/files?path="+file, strings.Repeat("x", 17<<20+1), "Content-Type", "text/plain")
	_, text := b.in("GET", "/files?path="+file, "")
	should.Hold(t, text == "hello", "behind a cut upload: %.80q", text)
	must.Soon(t, "what was refused is gone", func() bool {
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
		return len(left) == 2
	})
	deep := filepath.Join(t.TempDir(), strings.Repeat("/"+strings.Repeat("x", 250), 14))
	must.OK(t, os.MkdirAll(deep, 0o755))
	for i := range maxList / len(deep) {
		must.OK(t, os.WriteFile(filepath.Join(deep, strconv.Itoa(i)), nil, 0o600))
	}
	status, text := b.in("POST", "/filesystem.Filesystem/ListDir", `{"path": "`+deep+`"}`)
	should.Hold(t, status == 429, "%d %.200s", status, text)
}

// A client that reads nothing of an endless output holds up that program alone.
func TestStreamsThatNobodyReads(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	_, first := b.stream("/process.Process/Start", `{"process": {"cmd": "yes"}, "stdin": false, "tag": "loud"}`) //nolint:bodyclose // it ends with the test
	event(first())
	_, second := b.stream("/process.Process/Connect", `{"process": {"tag": "loud"}}`) //nolint:bodyclose // it ends with the test
	event(second())
	status, text := b.in("POST", "/process.Process/List", `{}`)
	should.Hold(t, status == 200 && strings.Contains(text, "loud"), "%d %s", status, text)
	status, text = b.in("POST", "/process.Process/SendSignal", `{"process": {"tag": "loud"}, "signal": "SIGNAL_SIGKILL"}`)
	should.Hold(t, status == 200, "%d %s", status, text)
	for secondEnds := any(nil); ; {
		if end := event(first())["end"]; end != nil {
			should.Equal(t, end.(map[string]any)["status"], "signal: killed", "%v", end)
			break
		}
		if secondEnds == nil {
			secondEnds = event(second())["end"]
		}
	}
}

// Each sandbox that begins, sleeps or ends is a call of a tool, which the audit log has; also when its time ends it.
func TestLivesAreCalls(t *testing.T) {
	t.Parallel()
	called := make(chan string, 16)
	f := startWith(t, apis.NewSeal(), func(d *tools.Deps) {
		d.Called = func(ctx context.Context, r mcpgo.CallToolRequest) (context.Context, func(string)) {
			called <- fmt.Sprint(r.Params.Name, " ", r.GetArguments()["session_id"], " ", r.GetArguments()["keep_files"])
			return ctx, func(string) {}
		}
	})
	b := begin(t, f)
	want := func(call string) {
		t.Helper()
		should.Equal(t, <-called, call)
	}
	want("session_info " + b.ID + " <nil>")
	b.do("POST", "/e2b/sandboxes/"+b.ID+"/pause", nil)
	want("close_session " + b.ID + " true")
	b.do("POST", "/e2b/sandboxes/"+b.ID+"/connect", []byte(`{"timeout": 60}`))
	b.do("POST", "/e2b/sandboxes/"+b.ID+"/timeout", []byte(`{"timeout": 0}`))
	want("close_session " + b.ID + " false")
}

// A route is there only if the tool is that does the same.
func TestToolsThatDoNotExist(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil, "run_bash", "upload_file", "read_artifact", "list_artifacts", "close_session"))
	for _, path := range []string{
		"POST /process.Process/Start", "POST /process.Process/List", "POST /filesystem.Filesystem/Remove", "POST /filesystem.Filesystem/ListDir",
		"POST /filesystem.Filesystem/WatchDir", "GET /files?path=a", "POST /files?path=a",
	} {
		method, path, _ := strings.Cut(path, " ")
		status, text := b.in(method, path, `{}`)
		should.Hold(t, status == 404 && strings.Contains(text, "There is nothing at"), "%s %s: %d %s", method, path, status, text)
	}
	status, text := b.do("DELETE", "/e2b/sandboxes/"+b.ID, nil)
	should.Hold(t, status == 405, "%d %s", status, text)
	for language, want := range map[string]int{"python": 200, "bash": 400} {
		status, text := b.in("POST", "/execute", `{"code": "1", "language": "`+language+`"}`, headerPort, interpreterPort)
		should.Hold(t, status == want, "%s: %d %s", language, status, text)
	}
}

// A secret in two pieces of an output is none in what is sent, and nothing is sent twice when the output becomes a long one.
func TestOutputInPieces(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	p := &printed{kind: "stdout", out: &lineWriter{w: answer, control: http.NewResponseController(answer)}, mask: secrets.New(map[string]string{"KEY": "hunter22"})}
	whole := "é hunter22, hunter" + strings.Repeat("é", maxPiece) + "hunter22é"
	open := func(_ string, from sandbox.ReadOptions) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(whole[from.Offset : from.Offset+from.Limit])), nil
	}
	follow := func(now sandbox.Stream, last bool) {
		t.Helper()
		must.OK(t, p.follow(t.Context(), now, open, last))
	}
	for _, head := range []string{"é hunt", p.mask.Mask("é hunter22, hu")} {
		follow(sandbox.Stream{Head: head, Bytes: int64(len(head))}, false)
	}
	for _, n := range []int{40, 41, len(whole) - 5, len(whole)} {
		follow(sandbox.Stream{Path: "file", Bytes: int64(n), OmittedBytes: 1}, n == len(whole))
	}
	var got strings.Builder
	for line := range strings.Lines(answer.Body.String()) {
		var one struct{ Text string }
		must.OK(t, json.Unmarshal([]byte(line), &one))
		got.WriteString(one.Text)
	}
	want := p.mask.Mask(whole)
	should.Hold(t, got.String() == want, "%.80q, not %.80q", got.String(), want)
}

// A download that is cut looks like one, packed too.
func TestACutDownload(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	content := make([]byte, 32<<20) // more than all buffers on the way
	_, _ = rand.Read(content)
	for _, coding := range []string{"identity", "gzip"} {
		file := filepath.Join(t.TempDir(), "a")
		must.OK(t, os.WriteFile(file, content, 0o600))
		response := b.Send(t.Context(), "GET", b.path("/files?path="+file), nil, b.headers("Accept-Encoding", coding)...)
		err := os.Truncate(file, 0)
		read, cut := io.ReadAll(response.Body)
		_ = response.Body.Close()
		should.Hold(t, err == nil && cut != nil && len(read) != 0, "%s: %d bytes, %v, %v", coding, len(read), cut, err)
	}
}

// A long output is all there: what is sent takes no room any more.
func TestALongOutput(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	const bytes = 20 << 20
	_, text := b.in("POST", "/execute", `{"code": "for i in range(20): print('x' * (1024 * 1024 - 1))"}`, headerPort, interpreterPort)
	got := strings.Count(text, "x")
	should.Hold(t, got >= bytes-21 && !strings.Contains(text, `"error"`), "%d: %.300s", got, text)
}

func TestSignalsReachProgramsAlone(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	for _, process := range []string{`{"pid": 1}`, `{"pid": 0}`, `{"pid": -1}`, `{"pid": ` + string(done(json.Marshal(os.Getpid()))) + `}`, `{"tag": ""}`, `{}`} {
		for _, call := range []string{"SendSignal", "SendInput", "Update", "CloseStdin"} {
			status, text := b.in("POST", "/process.Process/"+call, `{"process": `+process+`, "signal": "SIGNAL_SIGKILL"}`)
			should.Hold(t, status == 404 && strings.Contains(text, codeNotFound), "%s of %s: %d %s", call, process, status, text)
		}
	}
	status, _ := b.in("GET", "/health", "")
	should.Hold(t, status == 204, "then: %d", status)
}

// A key counts in its header alone, a sandbox's token opens that sandbox alone, and no log has either.
func TestKeysAndTokens(t *testing.T) {
	t.Parallel()
	var log locked.Buffer
	seal := apis.NewSeal()
	f := start(t, seal, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	b, other := begin(t, f), begin(t, f)
	send := func(method, path string, headers ...string) int {
		t.Helper()
		r := done(http.NewRequestWithContext(context.Background(), method, f.URL+path, strings.NewReader("{}")))
		r.Header.Set("Content-Type", typeUnary)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response := done(http.DefaultClient.Do(r)) //nolint:bodyclose // the next line does
		_ = response.Body.Close()
		return response.StatusCode
	}
	const list = inSandbox + "/process.Process/List"
	key := keyForm + hexed(resttest.Token)
	for name, test := range map[string]struct {
		got, want int
	}{
		"the key":                          {send("GET", "/e2b/v2/sandboxes", apiKey, key), 200},
		"the token as a key":               {send("GET", "/e2b/v2/sandboxes", apiKey, resttest.Token), 200},
		"another key":                      {send("GET", "/e2b/v2/sandboxes", apiKey, keyForm+"00"), 401},
		"a key in the URL":                 {send("GET", "/e2b/v2/sandboxes?api_key="+key+"&X-API-Key="+key), 401},
		"a sandbox's token as a key":       {send("GET", "/e2b/v2/sandboxes", apiKey, b.Token, headerToken, b.Token, headerID, b.ID), 401},
		"a sandbox's token":                {send("POST", list, headerToken, b.Token, headerID, b.ID), 200},
		"in the other header":              {send("POST", list, headerTraffic, b.Token, headerID, b.ID), 200},
		"of another sandbox":               {send("POST", list, headerToken, other.Token, headerID, b.ID), 401},
		"in the URL":                       {send("POST", list+"?access_token="+b.Token, headerID, b.ID), 401},
		"of another server":                {send("POST", list, headerToken, apis.NewSeal().Token(b.ID, "Bearer "+resttest.Token), headerID, b.ID), 401},
		"none":                             {send("POST", list, headerID, b.ID), 401},
		"a credential itself in its place": {send("POST", list, "Authorization", "Bearer "+resttest.Token, headerID, b.ID), 401},
		"beside a user":                    {send("POST", list, headerToken, b.Token, headerID, b.ID, "Authorization", "Basic dXNlcjo="), 200},
	} {
		should.Equal(t, test.got, test.want, "%s", name)
	}
	for _, secret := range []string{resttest.Token, key, b.Token} {
		should.Hold(t, !strings.Contains(log.String(), secret), "the log has %q", secret)
	}
	r := httptest.NewRequest(http.MethodGet, inSandbox+"x", nil) // no path below it
	r.Header.Set(headerToken, b.Token)
	translate(r, seal)
	should.Hold(t, r.Header.Get("Authorization") == "", "a token counts outside of sandboxes")
}

func hexed(text string) (digits string) {
	for _, b := range []byte(text) {
		digits += string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15])
	}
	return digits
}

// execute runs code in a context, the default one of Python for "", and returns the lines of the answer.
func (b *testBox) execute(code, context string) string {
	b.T.Helper()
	given := map[string]string{"code": code}
	if context != "" {
		given["context_id"] = context
	}
	body, _ := json.Marshal(given)
	status, text := b.in("POST", "/execute", string(body), headerPort, interpreterPort)
	should.Equal(b.T, status, 200, "%s", text)
	return text
}

// newContext makes a context in a folder.
func (b *testBox) newContext(folder string) string {
	b.T.Helper()
	_, text := b.in("POST", "/contexts", `{"cwd": "`+folder+`"}`, headerPort, interpreterPort)
	var one codeContext
	err := json.Unmarshal([]byte(text), &one)
	must.Hold(b.T, err == nil && one.ID != "", "%v", text)
	return one.ID
}

func TestContextsKeepTheirVariables(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(t *testing.T, b *testBox, context, folder string) *testBox{
		"nothing": func(_ *testing.T, b *testBox, _, _ string) *testBox { return b },
		"sleep": func(t *testing.T, b *testBox, _, _ string) *testBox {
			should.OK(t, should.ErrOf(b.Deps.Manager.CloseSession(t.Context(), b.ID, true)))
			return b
		},
		"pause": func(t *testing.T, b *testBox, _, _ string) *testBox {
			for _, path := range []string{"/pause", "/connect"} {
				status, text := b.do("POST", "/e2b/sandboxes/"+b.ID+path, []byte(`{}`))
				should.Hold(t, status/100 == 2, "%s: %d %s", path, status, text)
			}
			return b
		},
		"another server": func(t *testing.T, b *testBox, _, _ string) *testBox {
			api := New(apis.NewSeal())
			again := &resttest.Fixture{T: t, Deps: b.Deps, Served: rest.New(rest.Options{Deps: b.Deps, Logger: b.Deps.Logger, APIs: rest.APIs{api}})}
			again.URL = listen(t, api, again)
			other := &testBox{Fixture: again}
			_, text := other.do("POST", "/e2b/sandboxes/"+b.ID+"/connect", []byte(`{}`))
			should.OK(t, json.Unmarshal([]byte(text), &other.made), "%s", text)
			return other
		},
		"another context without its folder": func(t *testing.T, b *testBox, _, _ string) *testBox {
			should.Contain(t, b.execute("1", b.newContext("/nowhere")), "FileNotFoundError")
			return b
		},
		"its folder goes": func(t *testing.T, b *testBox, context, folder string) *testBox {
			should.OK(t, os.Remove(folder))
			b.execute("import os; os.chdir('/tmp')", context)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, folder := begin(t, start(t, apis.NewSeal(), nil)), filepath.Join(t.TempDir(), "of-context")
			should.OK(t, os.Mkdir(folder, 0o700))
			context := b.newContext(folder)
			b.execute("import threading, math\nwhere = 'default'\nlock = threading.Lock()", "")
			b.execute("where = 'context'\nhalf = lambda x: math.floor(x / 2)\nimport math", context)
			b = happens(t, b, context, folder)
			should.Contain(t, b.execute("where", ""), "default")
			should.Contain(t, b.execute("where, half(9)", context), "('context', 4)")
			should.Contain(t, b.execute("half", ""), "NameError")
		})
	}
}

func TestARestartedContextIsEmptyAndStopsItsCode(t *testing.T) {
	t.Parallel()
	b := begin(t, start(t, apis.NewSeal(), nil))
	for _, path := range []string{"POST /restart", "DELETE "} {
		method, path, _ := strings.Cut(path, " ")
		context := b.newContext("/tmp")
		b.execute("x = 1", context)
		b.execute("kept = 1", "")
		begun, stopped := filepath.Join(t.TempDir(), "begun"), make(chan string)
		go func() { stopped <- b.execute("open('"+begun+"', 'w').close()\nwhile True: pass", context) }()
		must.Soon(t, "the code began", func() bool { return fileExists(begun) })
		status, text := b.in(method, "/contexts/"+context+path, "", headerPort, interpreterPort)
		should.Hold(t, status == 200, "%d %s", status, text)
		should.Contain(t, <-stopped, "KeyboardInterrupt")
		should.Contain(t, b.execute("kept", ""), `"1"`)
		if path != "" {
			should.Contain(t, b.execute("x", context), "NameError")
		}
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
