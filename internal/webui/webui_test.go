package webui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
)

const token = "a-token-that-nobody-guesses"

// served is a page of a server whose containers are processes.
type served struct {
	*Handler
	t       *testing.T
	manager *sandbox.Manager
	config  sandbox.Config
	engine  *enginetest.Processes
	network netlog.Log
	url     string
	client  *http.Client
}

func serve(t *testing.T, o Options) *served {
	t.Helper()
	engine := enginetest.New(t)
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir, config.Host = engine, t.TempDir(), "host"
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{
		sandbox.Python: {Image: enginetest.Image, Interpreter: "python3", Command: containers.Program("python"), Join: containers.Join()},
	}
	s := &served{t: t, config: config, engine: engine}
	s.manager = s.otherServer(engine)
	o.Sandbox, o.Network, o.Every = s.manager, &s.network, 10*time.Millisecond
	o.FileLink = func(session, path string) string { return "/files/" + session + "/" + url.PathEscape(path) }
	ending, end := context.WithCancel(context.Background())
	if o.Ending == nil {
		o.Ending = ending
	}
	s.Handler = New(o)
	s.url = s.open()
	t.Cleanup(end)
	jar, _ := cookiejar.New(nil)
	s.client = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// open serves the page as the program does, behind what guards it, and returns its address.
func (s *served) open() string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	server := httpserver.New(httpserver.Options{Open: map[string]http.Handler{"/{$}": s.Handler, Prefix: s.Handler}, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- server.Serve(ctx, l) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			s.t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// otherServer is a manager beside the page's.
func (s *served) otherServer(engine engine.Engine) *sandbox.Manager {
	config := s.config
	config.Engine = engine
	manager := sandbox.NewManager(config)
	s.t.Cleanup(func() { manager.Close(context.Background()) })
	return manager
}

// begin starts code.
func (s *served) begin(manager *sandbox.Manager, session, code string) *sandbox.Run {
	s.t.Helper()
	run, err := manager.Run(sandbox.RunOptions{SessionID: session, Language: sandbox.Python, Code: code})
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// finish runs code to its end.
func (s *served) finish(manager *sandbox.Manager, session, code string) *sandbox.Run {
	s.t.Helper()
	run := s.begin(manager, session, code)
	<-run.Done()
	if _, err := run.Result(); err != nil {
		s.t.Fatal(err)
	}
	return run
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *served) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

func (s *served) get(what string, parameters ...string) answer {
	s.t.Helper()
	query := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	return s.do(http.MethodGet, Prefix+what+"?"+query.Encode(), "")
}

// order does what the page's script does.
func (s *served) order(what string, body any) answer {
	s.t.Helper()
	text, _ := json.Marshal(body)
	return s.do(http.MethodPost, Prefix+what, string(text), "Content-Type", "application/json", ownHeader, "1", "Origin", s.url)
}

func (s *served) login(given string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, Prefix+"login", url.Values{"token": {given}}.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", s.url)
}

// isOpen reports whether the page's server has a session.
func (s *served) isOpen(id string) bool {
	return slices.ContainsFunc(s.manager.Known(), func(i sandbox.SessionInfo) bool { return i.ID == id })
}

// everything is what those alone get who are let in.
var everything = []string{
	"GET events", "GET run", "GET figure", "GET files", "GET file", "POST cancel", "POST close",
}

func (s *served) isClosedToAll() {
	s.t.Helper()
	for _, one := range everything {
		method, what, _ := strings.Cut(one, " ")
		if a := s.do(method, Prefix+what, "{}", ownHeader, "1"); a.status != http.StatusUnauthorized {
			s.t.Errorf("%s: %+v", one, a)
		}
	}
	if a := s.do(http.MethodGet, "/", ""); a.status != http.StatusOK || strings.Contains(a.body, "app.js") {
		s.t.Errorf("the page is there: %+v", a)
	}
}

func TestTheTokenLetsInOnce(t *testing.T) {
	s := serve(t, Options{Token: token})
	s.isClosedToAll()
	for name, given := range map[string]string{"none": "", "another": "b-token-that-nobody-guesses", "a part": token[:20], "a long one": strings.Repeat("x", 1<<20)} {
		if a := s.login(given); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	s.isClosedToAll()

	a := s.login(token + "\n")
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	if a.status != http.StatusOK || err != nil {
		t.Fatalf("%+v, %v", a, err)
	}
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.MaxAge != 0 || !cookie.Expires.IsZero() || cookie.Secure || strings.Contains(cookie.Value, token) {
		t.Errorf("the cookie is %v", cookie)
	}
	if a := s.do(http.MethodGet, "/", ""); !strings.Contains(a.body, "app.js") {
		t.Errorf("the page is not there: %+v", a)
	}
	if a := s.do(http.MethodPost, Prefix+"logout", "", "Origin", s.url); a.status != http.StatusSeeOther {
		t.Errorf("signing out: %+v", a)
	}
	s.isClosedToAll()
}

func TestTheCookieIsSecureWhereThePageIs(t *testing.T) {
	h := New(Options{Sandbox: serve(t, Options{}).manager, Token: token})
	r := httptest.NewRequest(http.MethodPost, "https://sandbox.example"+Prefix+"login", strings.NewReader("token="+token))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if cookie, err := http.ParseSetCookie(w.Header().Get("Set-Cookie")); err != nil || !cookie.Secure {
		t.Errorf("%v, %v", cookie, err)
	}
}

func TestALinkLetsInOnce(t *testing.T) {
	s := serve(t, Options{})
	link := s.Link()
	if a := s.do(http.MethodHead, link, ""); a.status != http.StatusOK || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a look at it: %+v", a)
	}
	for name, bad := range map[string]string{"none": Prefix + "enter", "another": link + "x"} {
		if a := s.do(http.MethodGet, bad, ""); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := s.login(""); a.status != http.StatusForbidden {
		t.Errorf("the form, where there is no token: %+v", a)
	}
	s.isClosedToAll()
	if a := s.do(http.MethodGet, link, ""); a.status != http.StatusOK {
		t.Errorf("got %+v", a)
	}
	if a := s.get("run"); a.status != http.StatusNotFound {
		t.Errorf("whom the link let in: %+v", a)
	}
	s.client.Jar, _ = cookiejar.New(nil)
	if a := s.do(http.MethodGet, link, ""); a.status != http.StatusForbidden {
		t.Errorf("the second time: %+v", a)
	}
	s.isClosedToAll()
}

func TestKeysAreBounded(t *testing.T) {
	var k keys
	first := k.add(time.Hour)
	for range maxKeys {
		k.add(2 * time.Hour)
	}
	if k.has(first) || len(k.ends) != maxKeys {
		t.Errorf("%d keys, the oldest good: %v", len(k.ends), k.has(first))
	}
	if late := k.add(-time.Second); k.has(late) || k.take(late) {
		t.Error("one that has expired is good")
	}
}

func TestOtherPagesGetAndDoNothing(t *testing.T) {
	s := serve(t, Options{NoAuth: true})
	s.finish(s.manager, "mine", "1")
	body := `{"session":"mine"}`
	for name, headers := range map[string][]string{
		"a page of another origin":                {ownHeader, "1", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"},
		"one of another port":                     {ownHeader, "1", "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"},
		"one whose browser tells the origin":      {ownHeader, "1", "Origin", "http://127.0.0.1:1"},
		"one without an origin":                   {ownHeader, "1", "Origin", "null"},
		"a form":                                  {"Content-Type", "text/plain", "Origin", s.url},
		"a program that does not send the header": {"Content-Type", "application/json"},
	} {
		if a := s.do(http.MethodPost, Prefix+"close", body, headers...); a.status != http.StatusForbidden {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for _, site := range []string{"cross-site", "same-site"} {
		for _, one := range everything {
			if method, what, _ := strings.Cut(one, " "); method == http.MethodGet {
				if a := s.do(method, Prefix+what+"?session=mine", "", "Sec-Fetch-Site", site); a.status != http.StatusForbidden {
					t.Errorf("%s from %s: %+v", one, site, a)
				}
			}
		}
	}
	if a := s.do(http.MethodGet, Prefix+"close?session=mine", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("a link: %+v", a)
	}
	if !s.isOpen("mine") {
		t.Fatal("the session was closed")
	}
	for name, bad := range map[string]string{"no JSON": "session=mine", "nothing": "", "too much": `{"session":"` + strings.Repeat("x", 1<<20)} {
		if a := s.do(http.MethodPost, Prefix+"close", bad, ownHeader, "1"); a.status != http.StatusBadRequest {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := s.order("close", asked{Session: "mine"}); a.status != http.StatusNoContent || s.isOpen("mine") {
		t.Errorf("the page itself: %+v", a)
	}
}

// markup is what would do something if it came to be markup.
const markup = `</script><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

// hostile prints, shows, raises and writes files with markup in it. The figure is a document with a script.
const hostile = `
import os
m = ` + "'''" + markup + "'''" + `
for name in ('<img src=x onerror=hacked=1>.txt', 'a\u202etxt.exe', "quote'\".csv"):
    open(name, 'w').write(m)
class Figure:
    def _repr_svg_(self):
        return '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>parent.hacked=1</script><rect width="9" height="9"/></svg>'
class Table:
    def _repr_html_(self):
        return m
display(Figure())
display(Table())
print(m, '\x1b[31m\u202e')
raise ValueError(m)
`

func TestHostileTextIsNoMarkup(t *testing.T) {
	s := serve(t, Options{NoAuth: true})
	run := s.finish(s.manager, "mine", hostile)
	s.network.Add(netlog.Entry{Session: "mine", Kind: "proxy", Host: markup, Path: markup, Rule: markup})
	of := []string{"session", "mine", "run", run.ID}
	for name, a := range map[string]answer{
		"the run": s.get("run", of...), "files": s.get("files", of...), "no session": s.get("run", "session", markup),
		"no run": s.get("run", "session", "mine", "run", markup), "a refusal": s.order("close", asked{Session: markup}),
	} {
		if a.header.Get("Content-Type") != "application/json" || strings.ContainsAny(a.body, "<>") || !json.Valid([]byte(a.body)) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	var told struct {
		Displays []displayFields
		Stdout   streamFields
	}
	if a := s.get("run", of...); json.Unmarshal([]byte(a.body), &told) != nil || len(told.Displays) != 2 || told.Displays[0].Figure != "image/svg+xml" || told.Displays[0].Version == "" ||
		!strings.Contains(told.Stdout.Head, markup) {
		t.Errorf("the run is told as %+v", a)
	}
	figure := s.get("figure", append(of, "at", "0")...)
	if figure.status != http.StatusOK || figure.header.Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(figure.header.Get("Content-Security-Policy"), "sandbox; default-src 'none'") {
		t.Errorf("the figure: %+v", figure)
	}
	for _, at := range []string{"1", "2", "-1", "x", ""} {
		if a := s.get("figure", append(of, "at", at)...); a.status != http.StatusNotFound {
			t.Errorf("figure %q: %+v", at, a)
		}
	}
	const odd = `<img src=x onerror=hacked=1>.txt`
	if a := s.get("file", "session", "mine", "path", odd); a.status != http.StatusSeeOther || a.header.Get("Location") != "/files/mine/"+url.PathEscape(odd) {
		t.Errorf("the file: %+v", a)
	}
}

func TestEveryAnswerKeepsTheBrowserIn(t *testing.T) {
	s := serve(t, Options{Token: token})
	for _, path := range []string{"/", Prefix + "app.js", Prefix + "style.css", Prefix + "enter", Prefix + "run", Prefix + "none"} {
		a := s.do(http.MethodGet, path, "")
		csp := a.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, part)
			}
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Cache-Control") != "no-store" || a.header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, a.header)
		}
		if strings.Contains(a.body, "<style") || strings.Contains(a.body, "<script>") || strings.Contains(a.body, "http://") || strings.Contains(a.body, "https://") {
			t.Errorf("%s has something inline, or from elsewhere", path)
		}
	}
}

// listen opens a stream. next returns the next event of a kind that is as wanted.
func (s *served) listen(session string) (next func(kind string, wanted func(data string) bool) string) {
	s.t.Helper()
	r, _ := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+Prefix+"events?session="+url.QueryEscape(session), nil)
	response, err := s.client.Do(r)
	if err != nil || response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("%+v, %v", response, err)
	}
	s.t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewReader(response.Body)
	return func(kind string, wanted func(string) bool) string {
		s.t.Helper()
		event := ""
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				s.t.Fatalf("waiting for %s: %v", kind, err)
			}
			if name, is := strings.CutPrefix(line, "event: "); is {
				event = strings.TrimSpace(name)
			}
			if data, is := strings.CutPrefix(line, "data: "); is && event == kind && wanted(data) {
				return data
			}
		}
	}
}

func with(parts ...string) func(string) bool {
	return func(data string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(data, p) })
	}
}

func TestAStreamTellsWhatIsNew(t *testing.T) {
	s := serve(t, Options{NoAuth: true})
	s.finish(s.manager, "mine", "'an earlier one'")
	next := s.listen("mine")
	next("sessions", with(`"session_id":"mine"`, `"owner":"this server"`))
	next("runs", with(`"total":1`, "an earlier one"))
	next("live", with("{}"))
	next("network", with(`"requests":[]`, `"total":0`))

	run := s.begin(s.manager, "mine", "import time\nprint('so ' + 'far', flush=True)\ntime.sleep(600)")
	next("runs", with(`"total":2`, run.ID, `"status":"running"`))
	next("live", with(run.ID, "so far"))
	if a := s.get("run", "session", "mine", "run", run.ID); !with("so far", `"status":"running"`)(a.body) {
		t.Errorf("the run meanwhile: %+v", a)
	}
	s.network.Add(netlog.Entry{Session: "mine", Kind: "proxy", Host: "refused.example", Rule: "not allowed"})
	next("network", with(`"total":1`, "refused.example"))

	if a := s.order("cancel", asked{Session: "another", Run: run.ID}); a.status != http.StatusNotFound {
		t.Errorf("cancelled in another session: %+v", a)
	}
	if a := s.order("cancel", asked{Session: "mine", Run: "run-none"}); a.status != http.StatusNotFound {
		t.Errorf("cancelled a run that is not there: %+v", a)
	}
	if a := s.order("cancel", asked{Session: "mine", Run: run.ID}); a.status != http.StatusNoContent {
		t.Errorf("cancel: %+v", a)
	}
	next("runs", with(run.ID, `"status":"cancelled"`))
	if a := s.order("close", asked{Session: "mine"}); a.status != http.StatusNoContent {
		t.Errorf("close: %+v", a)
	}
	next("sessions", func(data string) bool { return !strings.Contains(data, "mine") })
}

func TestAStreamEndsWithTheServerAndTheLogin(t *testing.T) {
	ending, end := context.WithCancel(context.Background())
	s := serve(t, Options{Token: token, Ending: ending})
	logout := func() { s.do(http.MethodPost, Prefix+"logout", "", "Origin", s.url) }
	for at, over := range []func(){logout, end} {
		s.login(token)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+Prefix+"events", nil)
		response, err := s.client.Do(r)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%d: %+v, %v", at, response, err)
		}
		over()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Errorf("%d: %v", at, err)
		}
		_ = response.Body.Close()
	}
}

func TestStreamsAreBounded(t *testing.T) {
	s := serve(t, Options{NoAuth: true})
	for range maxStreams {
		s.listen("")
	}
	if a := s.get("events"); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("got %+v", a)
	}
}

// What only another server knows is not shown, and nothing is done to its sessions.
func TestSessionsOfOtherServers(t *testing.T) {
	s := serve(t, Options{NoAuth: true})
	other := s.otherServer(s.engine.Open())
	over := s.finish(other, "theirs", "print('theirs ' + 'is over')")
	going := s.begin(other, "theirs", "import time\ntime.sleep(600)")
	next := s.listen("theirs")
	next("sessions", with(`"session_id":"theirs"`, `"owner":"another server"`))
	next("runs", with(over.ID, going.ID, `"status":"running"`, `"status":"completed"`))
	if a := s.get("run", "session", "theirs", "run", over.ID); !strings.Contains(a.body, "theirs is over") {
		t.Errorf("its run: %+v", a)
	}
	for name, a := range map[string]answer{
		"files": s.get("files", "session", "theirs"), "a file": s.get("file", "session", "theirs", "path", "x"),
		"cancel": s.order("cancel", asked{Session: "theirs", Run: going.ID}), "close": s.order("close", asked{Session: "theirs"}),
	} {
		if a.status != http.StatusConflict || !strings.Contains(a.body, "session_busy") {
			t.Errorf("%s: %+v", name, a)
		}
	}
	going.Interrupt()
	next("runs", with(going.ID, `"status":"cancelled"`))
	other.Close(t.Context())
	next("sessions", with(`"session_id":"theirs"`, `"owner":"none"`))
	if a := s.order("close", asked{Session: "theirs"}); a.status != http.StatusNoContent {
		t.Errorf("one that nobody has open: %+v", a)
	}
	next("sessions", func(data string) bool { return !strings.Contains(data, "theirs") })
}

// A list has the newest runs, and the code's beginning.
func TestLongHistories(t *testing.T) {
	s := serve(t, Options{NoAuth: true})
	for i := range shownRuns + 2 {
		s.finish(s.manager, "mine", fmt.Sprintf("import os\n%d # %s", i, strings.Repeat("x", 2*maxListedCode)))
	}
	data := s.listen("mine")("runs", with(fmt.Sprintf(`"total":%d`, shownRuns+2)))
	var list struct{ Runs []runFields }
	if err := json.Unmarshal([]byte(data), &list); err != nil || len(list.Runs) != shownRuns ||
		!strings.HasPrefix(list.Runs[0].Title, fmt.Sprintf("%d # ", shownRuns+1)) || !strings.HasPrefix(list.Runs[0].Code, "import os\n") || len([]rune(list.Runs[0].Code)) != maxListedCode+1 {
		t.Errorf("%d runs, %v", len(list.Runs), err)
	}
}
