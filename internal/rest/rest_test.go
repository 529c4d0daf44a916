package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// fixture is the interface on a real server, with an API beside it that has a route.
type fixture struct {
	*resttest.Fixture
	*Server
}

func start(t *testing.T, change func(*tools.Deps)) *fixture {
	t.Helper()
	return startWith(t, change, sandbox.Python)
}

func startWith(t *testing.T, change func(*tools.Deps), languages ...sandbox.Language) *fixture {
	t.Helper()
	f := new(fixture)
	nothing := func(_ Host, w http.ResponseWriter, r *http.Request) error {
		var body struct{}
		err := Decode(r, &body)
		if err == nil {
			web.JSON(w, r, http.StatusOK, body)
		}
		return err
	}
	other := &API{
		Patterns: []string{"/other/"}, Refusal: func(_ int, fields map[string]any) { fields["status"] = "error" },
		Routes: []Route{
			{Method: "POST", Path: "/other/body", ID: "other.body", Tool: "session_info", Serve: nothing, Answer: Schema[struct{}]},
		},
	}
	f.Fixture = resttest.Start(t, func(d *tools.Deps) resttest.Served {
		f.Server = New(Options{Deps: d, Version: "1.2.3", Logger: d.Logger, APIs: APIs{other}})
		return f.Server
	}, change, languages...)
	return f
}

func everything(*tools.Deps) {}

func TestSessionsAndRuns(t *testing.T) {
	f := start(t, everything)
	made := f.Want(201, "POST", "/v1/sessions", `{"session_id": "a"}`)
	should.Hold(t, made["session_id"] == "a", "made %v", made)
	f.Want(200, "POST", "/v1/sessions", `{"session_id": "a"}`)
	other := f.Want(201, "POST", "/v1/sessions", `{"limits": {"timeout_seconds": 7}}`)
	limits := other["own_limits"].(map[string]any)
	should.Hold(t, limits["timeout_seconds"] == 7.0 && other["notes"] == nil, "with limits: %v", other)
	lowered := f.Want(201, "POST", "/v1/sessions", `{"session_id": "low", "limits": {"memory_mb": 99999, "cpu": 1}, "<odd>": 1}`)
	if notes := fmt.Sprint(lowered["notes"]); notes != `[ignored "<odd>": the members are session_id, language, limits. ignored "cpu": the members are memory_mb, cpus, timeout_seconds.`+
		` Limits were changed to what this server allows: memory from 98 GiB to 1.0 GiB.]` {
		t.Errorf("lowered: %s", notes)
	}
	again := f.Want(200, "POST", "/v1/sessions", `{"session_id": "low", "limits": {"memory_mb": 64}}`)
	should.Contain(t, fmt.Sprint(again["notes"]), "keeps the limits that it began with", "again: %v", again)
	f.Want(200, "DELETE", "/v1/sessions/low", "")
	done := f.Want(200, "POST", "/v1/sessions/a/runs?wait_seconds=60", `{"code": "print('hi <', 'hunt' + 'er22')\n12345678901234567", "language": "py", "color": "red"}`)
	if done["status"] != "completed" || done["stdout"] != "hi < [masked: KEY]\n" || done["result"] != "12345678901234567" || !strings.Contains(done["notes"].([]any)[0].(string), `ignored "color"`) ||
		done["notes"].([]any)[1] != "wait_seconds was lowered from 60 to 45, the most that this server allows." {
		t.Errorf("ran: %v", done)
	}
	if out := f.Want(200, "POST", "/v1/sessions/a/runs?wait_seconds=45&timeout_seconds=5", `{"code": "1"}`); fmt.Sprint(out["notes"]) != `[ignored "timeout_seconds" in the address: a POST has its arguments in its body.]` {
		t.Errorf("out of place: %v", out["notes"])
	}
	many := f.Want(200, "POST", "/v1/sessions/a/runs?wait_seconds=45", `{"code": "for i in range(102): open(f'{i}.txt', 'w').close()\nopen('a\\tb', 'w').close()"}`)
	should.Equal(t, fmt.Sprint(many["notes"]), "[3 more files of this run not listed.]", "many files")
	if list := f.Want(200, "GET", "/v1/sessions/a/files", ""); list["total"] != 102.0 || !strings.Contains(fmt.Sprint(list["notes"]), "1 file with names that") {
		t.Errorf("files: %v, %v", list["total"], list["notes"])
	}
	failed := f.Want(200, "POST", "/v1/sessions/a/runs?wait_seconds=60", `{"code": "1/0"}`)
	should.Hold(t, failed["status"] == "failed" && failed["error"].(map[string]any)["name"] == "ZeroDivisionError", "failed: %v", failed)
	begun := f.Want(202, "POST", "/v1/sessions/a/runs", `{"code": "import time\nprint('begun', flush=True)\ntime.sleep(600)"}`)
	run := "/v1/runs/" + begun["run_id"].(string)
	// A GET changes nothing, whatever it says.
	now := f.Want(202, "GET", run+"?cancel=true", "")
	should.Hold(t, now["status"] == "running", "it goes on: %v", now)
	ended := f.Want(200, "POST", run+"/cancel", "")
	should.Hold(t, ended["status"] == "cancelled", "cancelled: %v", ended)
	f.Want(200, "GET", run, "")
	begun = f.Want(202, "POST", "/v1/sessions/a/runs", `{"code": "import os, time\ntry: open('begun', 'w').close(); time.sleep(600)\nexcept KeyboardInterrupt:\n    while not os.path.exists('go'): time.sleep(.01)"}`)
	run = "/v1/runs/" + begun["run_id"].(string)
	for status := 0; status != 200 && t.Context().Err() == nil; {
		status, _ = f.Do("GET", "/v1/sessions/a/files/begun", "")
	}
	now = f.Want(202, "POST", run+"/cancel?wait_seconds=0", "")
	should.Hold(t, now["status"] == "running", "cancelled without a wait: %v", now)
	f.Want(201, "PUT", "/v1/sessions/a/files/go", "x")
	f.Want(200, "GET", run+"?wait_seconds=45", "")
	should.Len(t, f.Want(200, "GET", "/v1/sessions", "")["sessions"].([]any), 2, "listed")
	f.Want(200, "DELETE", "/v1/sessions/a", "")
	f.Want(404, "GET", "/v1/sessions/a", "")
}

func TestFiles(t *testing.T) {
	f := start(t, everything)
	f.Want(201, "PUT", "/v1/sessions/a/files/output/in%20two%25.csv", "0123456789")
	again := f.Want(409, "PUT", "/v1/sessions/a/files/output/in%20two%25.csv", "x")
	should.Hold(t, again["code"] == "file_exists", "again: %v", again)
	f.Want(201, "POST", "/v1/sessions/a/files", `{"filename": "b.txt", "text": "b"}`)
	list := f.Want(200, "GET", "/v1/sessions/a/files?glob=output/*.csv", "")["artifacts"].([]any)
	should.Hold(t, len(list) == 1 && list[0].(map[string]any)["path"] == "output/in two%.csv", "listed: %v", list)
	// People copy paths and addresses from answers.
	for _, request := range []struct{ method, path, body, want string }{
		{"PUT", "/v1/sessions/a/files/a%26b%3Cc", "x", `"a&b<c"`},
		{"GET", "/v1/sessions/a/files", "", `"a&b<c"`},
		{"POST", "/v1/sessions/a/runs?wait_seconds=60", `{"code": "'a&b<c'"}`, `"'a&b<c'"`},
	} {
		_, text := f.Do(request.method, request.path, request.body)
		should.Hold(t, strings.Contains(text, request.want), "%s %s: %s", request.method, request.path, text)
	}
	for name, test := range map[string]struct {
		method, path, ranges string
		status               int
		want                 string
	}{
		"whole":            {"GET", "output/in%20two%25.csv", "", 200, "0123456789"},
		"head":             {"HEAD", "output/in%20two%25.csv", "", 200, ""},
		"part":             {"GET", "output/in%20two%25.csv", "bytes=2-3", 206, "23"},
		"beyond the end":   {"GET", "output/in%20two%25.csv", "bytes=10-", 416, `"The range \"bytes=10-\" is none of the file's."`},
		"no range":         {"GET", "output/in%20two%25.csv", "bytes=x", 416, `"The range \"bytes=x\" is none of the file's."`},
		"that is not":      {"GET", "output/none", "", 404, `"not_found"`},
		"a folder":         {"GET", "output", "", 404, `"not_found"`},
		"outside":          {"GET", "..%2f..%2fetc%2fpasswd", "", 400, `"invalid_path"`},
		"an upload of ..":  {"PUT", "a%2f..%2f..%2fb", "", 400, `"invalid_path"`},
		"an odd overwrite": {"PUT", "b?overwrite=perhaps", "", 400, `"invalid_argument"`},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := f.Do(test.method, "/v1/sessions/a/files/"+test.path, "", "Range", test.ranges)
			should.Hold(t, status == test.status && strings.Contains(text, test.want), "got %d %s", status, text)
		})
	}
	status, text := f.Do("PUT", "/v1/sessions/a/files/large", strings.Repeat("x", 100_001))
	should.Hold(t, status == 413 && strings.Contains(text, `"upload_too_large"`), "too large: %d %s", status, text)
	status, text = f.Do("GET", "/v1/sessions/nobody/files/x", "")
	should.Hold(t, status == 404 && strings.Contains(text, `"session_not_found"`), "of no session: %d %s", status, text)
}

func TestBadInput(t *testing.T) {
	f := start(t, everything)
	f.Refuses("", map[string]resttest.Bad{
		"unknown session":          {"GET", "/v1/sessions/nobody", "", 404, `"session_not_found"`},
		"close of an unknown one":  {"DELETE", "/v1/sessions/nobody", "", 404, `"session_not_found"`},
		"bad session":              {"POST", "/v1/sessions/%2e%2e%2fx/runs", `{"code": "1"}`, 400, `"invalid_session_id"`},
		"bad name of a new one":    {"POST", "/v1/sessions", `{"session_id": "a b"}`, 400, `"invalid_session_id"`},
		"negative limit":           {"POST", "/v1/sessions", `{"limits": {"cpus": -1}}`, 400, "cpus is -1"},
		"wrong type of a limit":    {"POST", "/v1/sessions", `{"limits": {"cpus": "many"}}`, 400, `"limits.cpus has a text where a number belongs."`},
		"wrong type of the limits": {"POST", "/v1/sessions", `{"limits": [2]}`, 400, `"limits has a list where an object belongs."`},
		"a number for a name":      {"POST", "/v1/sessions", `{"session_id": 5}`, 400, `"session_id has a number where a text belongs."`},
		"a number out of range":    {"POST", "/v1/sessions", `{"limits": {"cpus": 1e999}}`, 400, `"limits.cpus is 1e999, which is out of range."`},
		"no language":              {"POST", "/v1/sessions/a/runs", `{"code": "1", "language": "cobol"}`, 400, `language \"cobol\"`},
		"one that is off":          {"POST", "/v1/sessions/a/runs", `{"code": "1", "language": "javascript"}`, 400, `There are: python`},
		"half a body":              {"POST", "/v1/sessions/a/runs", `{"code": `, 400, `begins with \"{\\\"code`},
		"a list":                   {"POST", "/v1/sessions/a/runs", `[1]`, 400, `"invalid_argument"`},
		"null":                     {"POST", "/v1/sessions/a/runs", `null`, 400, `"invalid_argument"`},
		"no body":                  {"POST", "/v1/sessions/a/runs", ``, 400, `code is missing`},
		"wrong type":               {"POST", "/v1/sessions/a/runs", `{"code": 5}`, 400, `code is the number 5`},
		"odd wait":                 {"POST", "/v1/sessions/a/runs?wait_seconds=long", `{"code": "1"}`, 400, `wait_seconds is \"long\"`},
		"negative wait":            {"GET", "/v1/runs/x?wait_seconds=-1", ``, 400, `wait_seconds is \"-1\"`},
		"no such run":              {"GET", "/v1/runs/x", ``, 404, `"run_not_found"`},
		"no output":                {"GET", "/v1/runs/x/output", ``, 404, `"run_not_found"`},
		"odd glob":                 {"GET", "/v1/sessions/a/files?glob=%5B", ``, 400, `"invalid_argument"`},
		"no such database":         {"POST", "/v1/sessions/a/sql", `{"query": "SELECT 1", "connection": "none"}`, 404, `"connection_not_found"`},
		"no packages":              {"POST", "/v1/sessions/a/packages", `{"language": "python", "packages": []}`, 400, `packages is empty`},
		"too many values":          {"POST", "/v1/sessions/a/runs", `{"code": "1", "more": [` + strings.Repeat("0,", 100_000) + `0]}`, 400, "too many JSON values"},
		"code that is too large":   {"POST", "/v1/sessions/a/runs", `{"code": "` + strings.Repeat("#", 200_000) + `"}`, 413, `"code_too_large"`},
		"method":                   {"PATCH", "/v1/sessions", ``, 405, `Use GET or POST`},
		"path":                     {"GET", "/v1/else", ``, 404, `"not_found"`},
	})
}

// The owner's own commands and pages upload as much as the session may hold, and hear why the rest is refused, even while they send.
func TestTheOwnersProcessesMayFillASession(t *testing.T) {
	f := resttest.Start(t, func(d *tools.Deps) resttest.Served {
		return New(Options{
			Deps: d, Logger: d.Logger, Uses: func(context.Context) ([]door.Use, error) { return nil, nil },
			Export: func(context.Context, string, io.Writer, url.Values) (any, error) { return nil, nil },
		})
	}, everything, sandbox.Python)
	f.Want(201, "POST", "/v1/sessions", `{"session_id": "a"}`)
	large := strings.Repeat("x", 8<<20)
	f.Want(201, "PUT", "/v1/sessions/a/files/large", large)
	again := f.Want(409, "PUT", "/v1/sessions/a/files/large", large)
	should.Hold(t, again["code"] == "file_exists", "refused: %v", again)
}

// The length is known before the body, which is not waited for.
func TestTooLargeABodyIsRefusedInTheSameWords(t *testing.T) {
	f := start(t, everything)
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(f.URL, "http://")))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/sessions/a/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", resttest.Token, 73<<20)
	response := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), `"upload_too_large"`) {
		t.Errorf("got %d %s, %v", response.StatusCode, text, err)
	}
}

func TestWhoMayAsk(t *testing.T) {
	f := start(t, everything)
	for path, want := range map[string]int{
		"/v1/sessions": 401, "/v1/openapi.json": 401, "/v1/else": 401, "/openapi.json": 401, "/other/body": 401, "/other/else": 401,
		"/v1/docs": 200, "/docs": 200,
	} {
		status, text := f.Do("GET", path, "", "Authorization", "")
		if status != want || want == 401 && !f.isError(path, text, "unauthorized", "Send the header Authorization: Bearer TOKEN.") {
			t.Errorf("%s: %d, want %d: %s", path, status, want, text)
		}
		status, text = f.Do("GET", path, "", "Origin", "https://elsewhere.example")
		if status != 403 || path != "/docs" && !f.isError(path, text, "forbidden", `Pages of "https://elsewhere.example" may not use this server.`) {
			t.Errorf("%s for a foreign page: %d %s", path, status, text)
		}
	}
	response := f.Send(t.Context(), "GET", "/v1/sessions", nil, "Authorization", "Bearer wrong")
	response.Body.Close()
	if h := response.Header; !strings.Contains(h.Get("WWW-Authenticate"), "invalid_token") || h.Get("Content-Type") != "application/json" {
		t.Errorf("a wrong token: %v", h)
	}
}

// isError reports whether a text is an error in the shape of a path's, with this code and message.
func (f *fixture) isError(path, text, code, message string) bool {
	f.T.Helper()
	var fields map[string]string
	should.OK(f.T, json.Unmarshal([]byte(text), &fields), "%s: %q is no JSON", path, text)
	return fields["code"] == code && fields["message"] == message && fields["hint"] != "" && (fields["status"] == "error") == strings.HasPrefix(path, "/other/")
}

// What is refused of the bodies that the transport reads.
func TestBodiesThatDoNotCome(t *testing.T) {
	f := start(t, everything)
	for name, test := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"too slow":   {os.ErrDeadlineExceeded, http.StatusRequestTimeout, "invalid_content"},
		"too long":   {&http.MaxBytesError{Limit: 7}, http.StatusRequestEntityTooLarge, "upload_too_large"},
		"broken off": {io.ErrUnexpectedEOF, http.StatusBadRequest, "invalid_content"},
	} {
		for path, route := range map[string]string{"/v1/sessions/a/runs": "/v1/", "/other/body": "/other/"} {
			w := httptest.NewRecorder()
			f.Routes()[route].ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, iotest.ErrReader(test.err)))
			var fields map[string]any
			err := json.Unmarshal(w.Body.Bytes(), &fields)
			should.Hold(t, err == nil && w.Code == test.status && fields["code"] == test.code, "%s, %s: %d %s", name, path, w.Code, w.Body)
		}
	}
}

// events reads a stream to its end, as event and data.
func eventsOf(t *testing.T, from io.Reader) (list [][2]string) {
	t.Helper()
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			list = append(list, [2]string{name})
		} else if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			list[len(list)-1][1] = data
		}
	}
	return list
}

func TestOutputComesAsItIsPrinted(t *testing.T) {
	f := start(t, everything)
	begun := f.Want(202, "POST", "/v1/sessions/a/runs", `{"code": "print('é1&', flush=True)\nimport os, time\nwhile not os.path.exists('go'): time.sleep(.01)\nprint('2')\n3"}`)
	response := f.Send(t.Context(), "GET", "/v1/runs/"+begun["run_id"].(string)+"/output", nil)
	defer response.Body.Close()
	must.Equal(t, response.Header.Get("Content-Type"), "text/event-stream")
	first := make([]byte, 1<<10)
	n, err := response.Body.Read(first) // it came while the code runs
	if err != nil || !strings.Contains(string(first[:n]), `{"stream":"stdout","text":"é1&\n"}`) {
		t.Fatalf("%q, %v", first[:n], err)
	}
	f.Want(201, "PUT", "/v1/sessions/a/files/go", "x")
	rest := eventsOf(t, response.Body)
	if len(rest) != 2 || rest[0] != [2]string{"output", `{"stream":"stdout","text":"2\n"}`} || rest[1][0] != "result" || !strings.Contains(rest[1][1], `"result":"3"`) {
		t.Errorf("then %q", rest)
	}
}

func TestAFollowerThatGoesAwayEndsNothingElse(t *testing.T) {
	f := start(t, everything)
	begun := f.Want(202, "POST", "/v1/sessions/a/runs", `{"code": "import time\ntime.sleep(600)"}`)
	run := "/v1/runs/" + begun["run_id"].(string)
	ctx, leave := context.WithCancel(t.Context())
	response := f.Send(ctx, "GET", run+"/output", nil)
	should.Hold(t, !f.followers.TryAcquire(maxFollowers) && f.followers.TryAcquire(maxFollowers-1), "another number than one follows")
	leave()
	response.Body.Close()
	if err := f.followers.Acquire(t.Context(), 1); err != nil { // the test's own timeout is the bound
		t.Fatal(err)
	}
	now := f.Want(202, "GET", run, "")
	should.Hold(t, now["status"] == "running", "the run is %v", now)
	refused := f.Want(503, "GET", run+"/output", "")
	should.Hold(t, refused["code"] == "server_busy", "got %v", refused)
	f.Want(200, "POST", run+"/cancel", "")
}

// Events have what the other answers have: masked, and nothing of runs where the tool that reads them does not exist.
func TestEvents(t *testing.T) {
	for want, disabled := range map[string][]string{"sessions runs live network": nil, "sessions": {"wait_for_run"}} {
		var network netlog.Log
		f := start(t, func(d *tools.Deps) { d.NetworkLog, d.Disable = &network, disabled })
		network.Add(netlog.Entry{Session: "mine", Kind: "proxy", Host: "hunter22.example"})
		f.Want(201, "POST", "/v1/sessions", `{"session_id": "mine"}`)
		f.every = time.Millisecond
		response := f.Send(t.Context(), "GET", "/v1/events?session_id=mine", nil)
		defer response.Body.Close()
		var kinds []string
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() && !strings.Contains(lines.Text(), `"other"`) { // the list of sessions once more, when all else was told
			if strings.Contains(lines.Text(), "hunter22") {
				t.Errorf("a secret: %s", lines.Text())
			}
			if kind, is := strings.CutPrefix(lines.Text(), "event: "); is && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
				if kind == "sessions" {
					f.Want(201, "POST", "/v1/sessions", `{"session_id": "other"}`)
				}
			}
		}
		should.Equal(t, strings.Join(kinds, " "), want, "without %v: %v", disabled, kinds)
		f.watchers.TryAcquire(maxWatchers - 1)
		refused := f.Want(503, "GET", "/v1/events", "")
		should.Hold(t, refused["code"] == "server_busy" && strings.Contains(refused["hint"].(string), "/v1/sessions "), "got %v", refused)
	}
}

func TestPrintedTextsAreSentOnce(t *testing.T) {
	for name, test := range map[string]struct {
		looks []sandbox.Stream
		want  string
	}{
		"whole":                              {[]sandbox.Stream{{Head: "ab", Bytes: 2}, {Head: "ab", Bytes: 2}, {}, {Head: "abcd", Bytes: 4}}, "ab|cd"}, // one look had no answer
		"a character that comes in parts":    {[]sandbox.Stream{{Head: "a\ufffd", Bytes: 2}, {Head: "aé", Bytes: 3}}, "a\ufffd|é"},
		"a secret that is masked once whole": {[]sandbox.Stream{{Head: "key=hun", Bytes: 7}, {Head: "key=[masked: KEY]!", Bytes: 13}}, "key=hun|[masked: KEY]!"},
		"that was cut at once":               {[]sandbox.Stream{{Head: "aa", Tail: "zz", Bytes: 10, OmittedBytes: 6}}, "aa|6:zz"},
		"that is cut then": {[]sandbox.Stream{{Head: "aabb", Bytes: 4}, {Head: "aa", Tail: "yz", Bytes: 7, OmittedBytes: 3}, {Head: "aa", Tail: "z!", Bytes: 8, OmittedBytes: 4},
			{Head: "aa", Tail: "89", Bytes: 20, OmittedBytes: 16}}, "aabb|1:yz|!|10:89"},
		"whose shown bytes are fewer": {[]sandbox.Stream{{Head: "aabb", Bytes: 10}, {Head: "aa", Tail: "yz", Bytes: 17, OmittedBytes: 3}, {Head: "aa", Tail: "z!", Bytes: 20, OmittedBytes: 4}},
			"aabb|1:yz|!"},
		"that ends with a bar": {[]sandbox.Stream{{Head: "aa", Tail: "10", Bytes: 20, OmittedBytes: 4}, {Head: "aa", Tail: "20", Bytes: 30, OmittedBytes: 4}}, "aa|4:10"},
	} {
		t.Run(name, func(t *testing.T) {
			client := httptest.NewRecorder()
			e := web.NewEvents(client)
			var p printed
			for _, look := range test.looks {
				p.follow(e, "stdout", look)
			}
			var got []string
			for _, data := range strings.Split(client.Body.String(), "data: ")[1:] {
				var event outputEvent
				data, _, _ = strings.Cut(data, "\n")
				should.OK(t, json.Unmarshal([]byte(data), &event))
				if event.OmittedBytes > 0 {
					event.Text = fmt.Sprintf("%d:%s", event.OmittedBytes, event.Text)
				}
				got = append(got, event.Text)
			}
			should.Hold(t, strings.Join(got, "|") == test.want, "got %q, want %q", got, test.want)
		})
	}
}

// A list has the newest runs, and the code's beginning; what is secret is masked in it.
func TestHistories(t *testing.T) {
	f := start(t, everything)
	for i := range maxListedRuns + 2 {
		f.Want(200, "POST", "/v1/sessions/mine/runs?wait_seconds=60", fmt.Sprintf(`{"code": "import os\n%d # %s"}`, i, strings.Repeat("x", 2*maxListedCode)))
		// A history is written behind the run, and leaves out what comes faster than the disk takes it.
		for body, wait := "", time.Now().Add(time.Minute); !strings.Contains(body, fmt.Sprintf(`"total":%d`, i+1)) && time.Now().Before(wait); {
			_, body = f.Do("GET", "/v1/sessions/mine/runs?limit=1", "")
		}
	}
	list := func(query string) (listed listedRuns) {
		t.Helper()
		if status, body := f.Do("GET", "/v1/sessions/mine/runs"+query, ""); status != 200 || json.Unmarshal([]byte(body), &listed) != nil || listed.Total != maxListedRuns+2 {
			t.Fatalf("%s: %d %s", query, status, body)
		}
		return listed
	}
	all := list("")
	first := all.Runs[0]
	if len(all.Runs) != maxListedRuns || first.Status != "completed" || !strings.HasPrefix(first.Title, fmt.Sprintf("%d # ", maxListedRuns+1)) || !strings.HasPrefix(first.Code, "import os\n") || len([]rune(first.Code)) != maxListedCode+1 {
		t.Errorf("%d runs, first %+v", len(all.Runs), first)
	}
	last := all.Runs[maxListedRuns-1].RunID
	two := list("?limit=1&before=" + last)
	should.Hold(t, len(two.Runs) == 1 && strings.HasPrefix(two.Runs[0].Title, "1 # "), "before %s: %+v", last, two)
	rest := list("?before=" + last)
	should.Hold(t, len(rest.Runs) == 2, "before %s: %+v", last, rest)
	must.Hold(t, f.readers.TryAcquire(maxReaders), "somebody reads")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	waits := httptest.NewRecorder()
	f.ServeHTTP(waits, httptest.NewRequestWithContext(ctx, "GET", "/v1/sessions/mine/runs", nil))
	should.Hold(t, waits.Code != 200, "a list was read beside as many as may be")
	f.readers.Release(maxReaders)
	f.Want(200, "POST", "/v1/sessions/secret/runs?wait_seconds=60", `{"code": "'hunter' + '22' # hunter22"}`)
	_, runs := f.Do("GET", "/v1/sessions/secret/runs", "")
	id := regexp.MustCompile(`run-[\w-]+`).FindString(runs)
	_, run := f.Do("GET", "/v1/sessions/secret/runs/"+id, "")
	if strings.Contains(runs+run, "hunter22") || !strings.Contains(runs, "[masked: KEY]") || !strings.Contains(run, "[masked: KEY]") {
		t.Errorf("%s %s", runs, run)
	}
	for path, want := range map[string]string{
		"/v1/sessions/none/runs": "session_not_found", "/v1/sessions/none/runs/x": "session_not_found", "/v1/sessions/a%20b/runs": "invalid_session_id",
		"/v1/sessions/mine/runs?limit=0": "invalid_argument", "/v1/sessions/mine/runs?limit=101": "invalid_argument", "/v1/sessions/mine/runs?limit=x": "invalid_argument",
		"/v1/sessions/mine/runs?before=run-none": "run_not_found", "/v1/sessions/mine/runs/run-none": "run_not_found", "/v1/sessions/mine/runs/" + first.RunID + "/displays/0": "not_found",
	} {
		status, body := f.Do("GET", path, "")
		should.Hold(t, status >= 400 && status < 500 && strings.Contains(body, `"code":"`+want+`"`), "%s: %d %s", path, status, body)
	}
}

// questions counts what an engine is asked.
type questions struct {
	engine.Engine
	lists atomic.Int32
}

func (q *questions) List(ctx context.Context, key, value string) (engine.Inventory, error) {
	q.lists.Add(1)
	return q.Engine.List(ctx, key, value)
}

// A page asks for many figures of a session that is not open here.
func TestARunIsReadWithoutTheEngine(t *testing.T) {
	var engine questions
	var other *sandbox.Manager
	f := start(t, func(d *tools.Deps) {
		other = d.Manager
		config := other.Config()
		engine.Engine, config.Engine = config.Engine, &engine
		d.Manager = sandbox.NewManager(config)
		t.Cleanup(func() { d.Manager.Close(context.Background()) })
	})
	run := must.Get(other.Run(sandbox.RunOptions{SessionID: "theirs", Language: sandbox.Python, Code: "1"}))(t)
	<-run.Done()
	path := "/v1/sessions/theirs/runs/" + run.ID
	for status, wait := any(nil), time.Now().Add(time.Minute); status != "completed"; { // a history is written behind the run
		must.Hold(t, !time.Now().After(wait), "the run is %v", status)
		_, body := f.Do("GET", path, "")
		var told map[string]any
		_ = json.Unmarshal([]byte(body), &told)
		status = told["status"]
	}
	asked := engine.lists.Load()
	f.Want(200, "GET", path, "")
	f.Want(404, "GET", path+"/displays/0", "")
	now := engine.lists.Load()
	should.Hold(t, now == asked, "the engine was asked %d times", now-asked)
}

func TestToolsThatAreOffAreNotServed(t *testing.T) {
	f := start(t, func(d *tools.Deps) { d.Disable = []string{"read_artifact", "upload_file", "list_sessions"} })
	for _, request := range []string{"GET /v1/sessions/a/files/x", "PUT /v1/sessions/a/files/x", "POST /v1/sessions/a/files", "GET /v1/sessions"} {
		method, path, _ := strings.Cut(request, " ")
		status, _ := f.Do(method, path, "{}")
		should.Hold(t, status == 404 || status == 405, "%s: %d", request, status)
	}
	_, text := f.Do("GET", "/v1/openapi.json", "")
	should.Hold(t, !strings.Contains(text, "files/{path}") && strings.Contains(text, "/v1/runs/{run_id}"), "the document has %s", text)
}

// A request to whatever route is one call, however many tools it calls.
func TestEachRequestIsACall(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(d *tools.Deps) { d.CallsPerMinute, d.Calls = 1, fair.NewBudget(time.Hour, 1) }, sandbox.Python, sandbox.Bash)
	f.Want(201, "POST", "/v1/sessions", `{"session_id": "a", "limits": {"cpus": 1}}`) // a run, and a description
	for _, r := range f.routes() {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), r.Method, wildcard.ReplaceAllString(r.Path, "a"), strings.NewReader("{}")))
		after, _ := strconv.Atoi(w.Header().Get("Retry-After"))
		should.Hold(t, w.Code == http.StatusTooManyRequests && after >= 3500 && after <= 3600,
			"%s %s: %d, Retry-After %d", r.Method, r.Path, w.Code, after)
	}
	f.freeReads = true
	f.Want(200, "GET", "/v1/sessions", "")
	status, _ := f.Do("DELETE", "/v1/sessions/a", "")
	should.Hold(t, status == http.StatusTooManyRequests, "what changes something is %d where what reads is free", status)
}

func TestTitles(t *testing.T) {
	for code, want := range map[string]string{
		"":                                 "",
		"x = 1\ny = 2":                     "x = 1",
		"import numpy as np\n\nnp.ones(3)": "np.ones(3)",
		"import os; print(os.getcwd())":    "print(os.getcwd())",
		"import os":                        "import os",
		"from a import (\n    b,\n    c,\n)\nb()":                        "b()",
		"import {\n  a,\n  b\n} from 'x';\na(b)":                         "a(b)",
		"import a from 'a'\nconst b = require('b')\nb(a)":                "b(a)",
		"const {x} = await import('x');\nlet y = x()":                    "let y = x()",
		"'use strict';\n// Add the numbers\n1 + 1":                       "Add the numbers",
		"# Load the sales\nimport pandas as pd\npd.read_csv('x')":        "Load the sales",
		"#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nprint(1)":       "print(1)",
		"# %%\nimport x\n%matplotlib inline\nx.plot()":                   "x.plot()",
		"\"\"\"\nThe report.\n\"\"\"\nreport()":                          "The report.",
		"/* Draw it */ draw()":                                           "Draw it",
		"#######\n# Totals\n#######":                                     "Totals",
		"import a\ntry:\n    a.b()\nexcept: pass":                        "a.b()",
		"%pip install polars":                                            "%pip install polars",
		"let a = require('a'); let b = 1; b":                             "let b = 1; b",
		"import a\n6 * 7":                                                "6 * 7",
		"6 * 7":                                                          "6 * 7",
		"imported = 1":                                                   "imported = 1",
		"print('" + strings.Repeat("x", 200) + "')":                      "print('" + strings.Repeat("x", maxTitle-7) + "…",
		"import a\n" + strings.Repeat("import b\n", 10_000) + "print(1)": "import a",
	} {
		should.Equal(t, title(code), want, "%.60q", code)
	}
}

// What makes something takes room for the worst case first: with a byte less it is refused, and all of it comes back.
func TestWhatIsMadeTakesRoomFirst(t *testing.T) {
	f := start(t, everything)
	f.Want(200, "POST", "/v1/sessions/mine/runs?wait_seconds=60", `{"code": "1"}`)
	var history int64
	for history == 0 { // it is written behind the run
		files, _ := filepath.Glob(filepath.Join(f.Deps.Manager.Config().StateDir, "*", "history", "*-run-*.over"))
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), `"code":"1"`) {
				history = int64(len(text))
			}
		}
	}
	_, listed := f.Do("GET", "/v1/sessions/mine/runs", "")
	_, id, _ := strings.Cut(listed, `"run-`)
	id = "run-" + id[:13]
	f.Want(200, "POST", "/v1/sessions/files/runs?wait_seconds=60", `{"code": "open('b.bin', 'wb').write(bytes(2000))"}`)
	read := func(ctx context.Context) int { // looked at, and read
		if _, err := f.Call(ctx, "read_artifact", Arguments{"path": web.Encode("b.bin"), "session_id": web.Encode("files")}); err != nil {
			return web.StatusOf(err)
		}
		return http.StatusOK
	}
	for _, door := range []resttest.Door{
		{Name: "a file that a model reads", Worst: 2 * 6 * 2000, Answer: read},
		{Name: "a list of runs", Method: "GET", Path: "/v1/sessions/mine/runs", Worst: historyRoom * history},
		{Name: "a run", Method: "GET", Path: "/v1/sessions/mine/runs/" + id, Worst: historyRoom*history + 2*JSONRoom*2},
	} {
		f.TakesRoomFirst(door)
	}
}

func TestEarlierFilesAreSeen(t *testing.T) {
	f := start(t, everything)
	run := func(code string) string {
		return f.Want(200, "POST", "/v1/sessions/a/runs?wait_seconds=60", fmt.Sprintf(`{"code": %q}`, code))["run_id"].(string)
	}
	var first, second string
	var versions []any
	for began := time.Now(); ; { // a run that begins at once leaves no time for a copy
		first = run("_ = open('f.txt', 'w').write('one')")
		second = run("_ = open('f.txt', 'w').write('three'); import os; os.remove('g') if os.path.exists('g') else open('g', 'w').close()")
		versions = f.Want(200, "GET", "/v1/sessions/a/versions/f.txt", "")["versions"].([]any)
		if len(versions) > 1 && versions[0].(map[string]any)["path"] == "f.txt@"+second {
			break
		}
		must.Hold(t, time.Since(began) <= time.Minute, "there is no version: %v", versions)
	}
	_, text := f.Do("GET", "/v1/sessions/a/files/f.txt@"+second, "")
	should.Hold(t, text == "one", "it was %q", text)
	_, text = f.Do("GET", "/v1/sessions/a/files?before="+second, "")
	should.Hold(t, strings.Contains(text, `"f.txt@`+second+`"`), "listed %s", text)
	f.Want(201, "PUT", "/v1/sessions/a/files/f.txt@"+second, "a file of this name")
	_, text = f.Do("GET", "/v1/sessions/a/files/f.txt@"+second, "")
	should.Hold(t, text == "a file of this name", "it is %q", text)
	for began, last := time.Now(), (map[string]any)(nil); ; { // it is written after the answer
		last = f.Want(200, "GET", "/v1/sessions/a/runs", "")["runs"].([]any)[0].(map[string]any)
		if did, known := last["files"].(map[string]any); known {
			should.Hold(t, did["changed"] == 1.0 && strings.Contains(fmt.Sprint(did["paths"]), "map[how:changed path:f.txt]"),
				"it did %v", did)
			break
		}
		must.Hold(t, time.Since(began) <= time.Minute, "nothing is known: %v", last)
	}
	for range 6 {
		run("1")
	}
	for path, want := range map[string]string{
		"files?before=run-none":     `"run_not_found"`,
		"files?before=" + first:     `"total":0`,
		"files/g@" + first:          `"not_found"`,
		"files/f.txt@run-none":      `"run_not_found"`,
		"versions/..%2ff":           `"invalid_path"`,
		"versions/none":             `"versions":[]`,
		"files?before=../../../etc": `"run_not_found"`,
	} {
		status, text := f.Do("GET", "/v1/sessions/a/"+path, "")
		should.Hold(t, strings.Contains(text, want), "%s: %d %s", path, status, text)
	}
}

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
func (few) Table(context.Context, string, string) (*sql.TableDetail, error) {
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
