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
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest/resttest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// fixture is the interface on a real server, with an API beside it that has a route that is idle and one that reads a body.
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
			web.JSON(w, http.StatusOK, body)
		}
		return err
	}
	other := &API{
		Patterns: []string{"/other/"}, Refusal: func(_ int, fields map[string]any) { fields["status"] = "error" },
		Routes: []Route{
			{Method: "GET", Path: "/other/idle", ID: "other.idle", Tool: "session_info", Serve: nothing, Idle: true, Answer: Schema[struct{}]},
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
	if made := f.Want(201, "POST", "/v1/sessions", `{"session_id": "a"}`); made["session_id"] != "a" {
		t.Errorf("made %v", made)
	}
	f.Want(200, "POST", "/v1/sessions", `{"session_id": "a"}`)
	other := f.Want(201, "POST", "/v1/sessions", `{"limits": {"timeout_seconds": 7}}`)
	if limits := other["own_limits"].(map[string]any); limits["timeout_seconds"] != 7.0 || other["notes"] != nil {
		t.Errorf("with limits: %v", other)
	}
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
	if failed["status"] != "failed" || failed["error"].(map[string]any)["name"] != "ZeroDivisionError" {
		t.Errorf("failed: %v", failed)
	}
	begun := f.Want(202, "POST", "/v1/sessions/a/runs", `{"code": "import time\nprint('begun', flush=True)\ntime.sleep(600)"}`)
	run := "/v1/runs/" + begun["run_id"].(string)
	// A GET changes nothing, whatever it says.
	if now := f.Want(202, "GET", run+"?cancel=true", ""); now["status"] != "running" {
		t.Errorf("it goes on: %v", now)
	}
	if ended := f.Want(200, "POST", run+"/cancel", ""); ended["status"] != "cancelled" {
		t.Errorf("cancelled: %v", ended)
	}
	f.Want(200, "GET", run, "")
	begun = f.Want(202, "POST", "/v1/sessions/a/runs", `{"code": "import os, time\ntry: time.sleep(600)\nexcept KeyboardInterrupt:\n    while not os.path.exists('go'): time.sleep(.01)"}`)
	run = "/v1/runs/" + begun["run_id"].(string)
	if now := f.Want(202, "POST", run+"/cancel?wait_seconds=0", ""); now["status"] != "running" {
		t.Errorf("cancelled without a wait: %v", now)
	}
	f.Want(201, "PUT", "/v1/sessions/a/files/go", "x")
	f.Want(200, "GET", run+"?wait_seconds=45", "")
	should.Len(t, f.Want(200, "GET", "/v1/sessions", "")["sessions"].([]any), 2, "listed")
	f.Want(200, "DELETE", "/v1/sessions/a", "")
	f.Want(404, "GET", "/v1/sessions/a", "")
}

func TestFiles(t *testing.T) {
	f := start(t, everything)
	f.Want(201, "PUT", "/v1/sessions/a/files/output/in%20two%25.csv", "0123456789")
	if again := f.Want(409, "PUT", "/v1/sessions/a/files/output/in%20two%25.csv", "x"); again["code"] != "file_exists" {
		t.Errorf("again: %v", again)
	}
	f.Want(201, "POST", "/v1/sessions/a/files", `{"filename": "b.txt", "text": "b"}`)
	if list := f.Want(200, "GET", "/v1/sessions/a/files?glob=output/*.csv", "")["artifacts"].([]any); len(list) != 1 || list[0].(map[string]any)["path"] != "output/in two%.csv" {
		t.Errorf("listed: %v", list)
	}
	// People copy paths and addresses from answers.
	for _, request := range []struct{ method, path, body, want string }{
		{"PUT", "/v1/sessions/a/files/a%26b%3Cc", "x", `"a&b<c"`},
		{"GET", "/v1/sessions/a/files", "", `"a&b<c"`},
		{"POST", "/v1/sessions/a/runs?wait_seconds=60", `{"code": "'a&b<c'"}`, `"'a&b<c'"`},
	} {
		if _, text := f.Do(request.method, request.path, request.body); !strings.Contains(text, request.want) {
			t.Errorf("%s %s: %s", request.method, request.path, text)
		}
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
			if status != test.status || !strings.Contains(text, test.want) {
				t.Errorf("got %d %s", status, text)
			}
		})
	}
	if status, text := f.Do("PUT", "/v1/sessions/a/files/large", strings.Repeat("x", 100_001)); status != 413 || !strings.Contains(text, `"upload_too_large"`) {
		t.Errorf("too large: %d %s", status, text)
	}
	if status, text := f.Do("GET", "/v1/sessions/nobody/files/x", ""); status != 404 || !strings.Contains(text, `"session_not_found"`) {
		t.Errorf("of no session: %d %s", status, text)
	}
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

// The length is known before the body, which is not waited for.
func TestTooLargeABodyIsRefusedInTheSameWords(t *testing.T) {
	f := start(t, everything)
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.URL, "http://"))
	must.OK(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/sessions/a/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", resttest.Token, 73<<20)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.OK(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), `"upload_too_large"`) {
		t.Errorf("got %d %s, %v", response.StatusCode, text, err)
	}
}

func TestWhoMayAsk(t *testing.T) {
	f := start(t, everything)
	for path, want := range map[string]int{
		"/v1/sessions": 401, "/v1/openapi.json": 401, "/v1/else": 401, "/openapi.json": 401, "/other/idle": 401, "/other/else": 401,
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
			if err := json.Unmarshal(w.Body.Bytes(), &fields); err != nil || w.Code != test.status || fields["code"] != test.code {
				t.Errorf("%s, %s: %d %s", name, path, w.Code, w.Body)
			}
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
	if f.followers.TryAcquire(maxFollowers) || !f.followers.TryAcquire(maxFollowers-1) {
		t.Error("another number than one follows")
	}
	leave()
	response.Body.Close()
	if err := f.followers.Acquire(t.Context(), 1); err != nil { // the test's own timeout is the bound
		t.Fatal(err)
	}
	if now := f.Want(202, "GET", run, ""); now["status"] != "running" {
		t.Errorf("the run is %v", now)
	}
	if refused := f.Want(503, "GET", run+"/output", ""); refused["code"] != "server_busy" {
		t.Errorf("got %v", refused)
	}
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
		if refused := f.Want(503, "GET", "/v1/events", ""); refused["code"] != "server_busy" || !strings.Contains(refused["hint"].(string), "/v1/sessions ") {
			t.Errorf("got %v", refused)
		}
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
			if strings.Join(got, "|") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
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
	if two := list("?limit=1&before=" + last); len(two.Runs) != 1 || !strings.HasPrefix(two.Runs[0].Title, "1 # ") {
		t.Errorf("before %s: %+v", last, two)
	}
	if rest := list("?before=" + last); len(rest.Runs) != 2 {
		t.Errorf("before %s: %+v", last, rest)
	}
	if !f.readers.TryAcquire(maxReaders) {
		t.Fatal("somebody reads")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	waits := httptest.NewRecorder()
	f.ServeHTTP(waits, httptest.NewRequestWithContext(ctx, "GET", "/v1/sessions/mine/runs", nil))
	if waits.Code == 200 {
		t.Error("a list was read beside as many as may be")
	}
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
		if status, body := f.Do("GET", path, ""); status < 400 || status >= 500 || !strings.Contains(body, `"code":"`+want+`"`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
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
	run, err := other.Run(sandbox.RunOptions{SessionID: "theirs", Language: sandbox.Python, Code: "1"})
	must.OK(t, err)
	<-run.Done()
	path := "/v1/sessions/theirs/runs/" + run.ID
	for status, wait := any(nil), time.Now().Add(time.Minute); status != "completed"; { // a history is written behind the run
		if time.Now().After(wait) {
			t.Fatalf("the run is %v", status)
		}
		_, body := f.Do("GET", path, "")
		var told map[string]any
		_ = json.Unmarshal([]byte(body), &told)
		status = told["status"]
	}
	asked := engine.lists.Load()
	f.Want(200, "GET", path, "")
	f.Want(404, "GET", path+"/displays/0", "")
	if now := engine.lists.Load(); now != asked {
		t.Errorf("the engine was asked %d times", now-asked)
	}
}

func TestToolsThatAreOffAreNotServed(t *testing.T) {
	f := start(t, func(d *tools.Deps) { d.Disable = []string{"read_artifact", "upload_file", "list_sessions"} })
	for _, request := range []string{"GET /v1/sessions/a/files/x", "PUT /v1/sessions/a/files/x", "POST /v1/sessions/a/files", "GET /v1/sessions"} {
		method, path, _ := strings.Cut(request, " ")
		if status, _ := f.Do(method, path, "{}"); status != 404 && status != 405 {
			t.Errorf("%s: %d", request, status)
		}
	}
	if _, text := f.Do("GET", "/v1/openapi.json", ""); strings.Contains(text, "files/{path}") || !strings.Contains(text, "/v1/runs/{run_id}") {
		t.Errorf("the document has %s", text)
	}
}

// A request to whatever route is one call, however many tools it calls.
func TestEachRequestIsACall(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(d *tools.Deps) { d.CallsPerMinute, d.Calls = 1, fair.NewBudget(time.Hour, 1) }, sandbox.Python, sandbox.Bash)
	f.Want(201, "POST", "/v1/sessions", `{"session_id": "a", "limits": {"cpus": 1}}`) // a run, and a description
	for _, r := range f.routes() {
		name, want := r.Method+" "+r.Path, http.StatusTooManyRequests
		if r.Idle {
			want = http.StatusOK
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), r.Method, wildcard.ReplaceAllString(r.Path, "a"), strings.NewReader("{}")))
		after, _ := strconv.Atoi(w.Header().Get("Retry-After"))
		if w.Code != want || want == http.StatusTooManyRequests && (after < 3500 || after > 3600) {
			t.Errorf("%s: %d, Retry-After %d", name, w.Code, after)
		}
	}
	f.freeReads = true
	f.Want(200, "GET", "/v1/sessions", "")
	if status, _ := f.Do("DELETE", "/v1/sessions/a", ""); status != http.StatusTooManyRequests {
		t.Errorf("what changes something is %d where what reads is free", status)
	}
}
