package webui

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
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
	end     func() // of streams
}

func serve(t *testing.T, o Options) *served {
	t.Helper()
	engine := enginetest.New(t)
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir, config.Host = engine, t.TempDir(), "host"
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{
		sandbox.Python: {Image: enginetest.Image, Interpreter: "python3", Join: containers.Join()},
	}
	s := &served{t: t, config: config, engine: engine}
	s.manager = s.otherServer(engine)
	ending, end := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	s.end, o.Every = end, 10*time.Millisecond
	api := rest.New(rest.Options{Deps: &tools.Deps{Manager: s.manager, NetworkLog: &s.network, PageScripts: true, SoftWait: time.Minute, Logger: log}, Logger: log, Ending: ending, Every: o.Every})
	o.API = func(principal.Principal) (API, error) { return api, nil }
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
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(s.t)
	server := httpserver.New(httpserver.Options{Open: s.Routes(), Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- server.Serve(ctx, l) }()
	s.t.Cleanup(func() {
		stop()
		should.OK(s.t, <-stopped)
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
	run := must.Get(manager.Run(sandbox.RunOptions{SessionID: session, Language: sandbox.Python, Code: code}))(s.t)
	return run
}

// finish runs code to its end.
func (s *served) finish(manager *sandbox.Manager, session, code string) *sandbox.Run {
	s.t.Helper()
	run := s.begin(manager, session, code)
	<-run.Done()
	must.OK(s.t, should.ErrOf(run.Result()))
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
	r := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body)))(s.t)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response := must.Get(s.client.Do(r))(s.t)
	defer response.Body.Close()
	text := must.Get(io.ReadAll(response.Body))(s.t)
	return answer{response.StatusCode, response.Header, string(text)}
}

func (s *served) get(what string) answer {
	s.t.Helper()
	return s.do(http.MethodGet, Prefix+what, "")
}

// order does what the page's script does.
func (s *served) order(method, what string) answer {
	s.t.Helper()
	return s.do(method, Prefix+what, "", ownHeader, "1", "Origin", s.url)
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
	"GET v1/events", "GET v1/sessions/mine/runs/x", "GET v1/sessions/mine/runs/x/displays/0", "GET v1/sessions/mine/files", "GET v1/sessions/mine/files/x",
	"GET v1/sessions/mine/runs", "GET v1/sessions/mine/archive", "PUT v1/sessions/mine/files/x", "POST open/mine",
	"POST v1/runs/x/cancel", "POST v1/sessions/mine/restore", "DELETE v1/sessions/mine",
}

func (s *served) isClosedToAll() {
	s.t.Helper()
	for _, one := range everything {
		method, what, _ := strings.Cut(one, " ")
		a := s.do(method, Prefix+what, "{}", ownHeader, "1")
		should.Hold(s.t, a.status == http.StatusUnauthorized, "%s: %+v", one, a)
	}
	a := s.do(http.MethodGet, "/", "")
	should.Hold(s.t, a.status == http.StatusOK && !strings.Contains(a.body, "app.js"), "the page is there: %+v", a)
}

func TestTheTokenLetsInOnce(t *testing.T) {
	s := serve(t, Options{Token: token})
	s.isClosedToAll()
	for name, given := range map[string]string{"none": "", "another": "b-token-that-nobody-guesses", "a part": token[:20], "a long one": strings.Repeat("x", 1<<20)} {
		a := s.login(given)
		should.Hold(t, a.status == http.StatusForbidden && a.header.Get("Set-Cookie") == "", "%s: %+v", name, a)
	}
	s.isClosedToAll()

	a := s.login(token + "\n")
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	must.Hold(t, a.status == http.StatusOK && err == nil, "%+v, %v", a, err)
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

type knows string

func (name knows) Authenticate(*http.Request) (principal.Principal, error) {
	return principal.Principal{Name: string(name)}, nil
}

func TestThePageSaysWhoseItIs(t *testing.T) {
	s := serve(t, Options{Token: token, Authenticate: knows("<b>bob")})
	s.login("bob's token")
	a := s.do(http.MethodGet, "/", "")
	should.Hold(t, a.status == http.StatusOK && strings.Contains(a.body, "<h1>Code sandbox of &lt;b&gt;bob</h1>"), "%+v", a)
	s = serve(t, Options{Token: token})
	s.login(token)
	a = s.do(http.MethodGet, "/", "")
	should.Hold(t, strings.Contains(a.body, "<h1>Code sandbox</h1>"), "%+v", a)
}

func TestTheCookieIsSecureWhereThePageIs(t *testing.T) {
	h := New(Options{Token: token})
	r := httptest.NewRequest(http.MethodPost, "https://sandbox.example"+Prefix+"login", strings.NewReader("token="+token))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	cookie, err := http.ParseSetCookie(w.Header().Get("Set-Cookie"))
	should.Hold(t, err == nil && cookie.Secure, "%v, %v", cookie, err)
}

func TestALinkLetsInOnce(t *testing.T) {
	s := serve(t, Options{})
	link := s.Link()
	a := s.do(http.MethodHead, link, "")
	should.Hold(t, a.status == http.StatusOK && a.header.Get("Set-Cookie") == "", "a look at it: %+v", a)
	for name, bad := range map[string]string{"none": Prefix + "enter", "another": link + "x"} {
		a := s.do(http.MethodGet, bad, "")
		should.Hold(t, a.status == http.StatusForbidden && a.header.Get("Set-Cookie") == "", "%s: %+v", name, a)
	}
	a = s.login("")
	should.Hold(t, a.status == http.StatusForbidden, "the form, where there is no token: %+v", a)
	s.isClosedToAll()
	a = s.do(http.MethodGet, link, "")
	should.Hold(t, a.status == http.StatusOK, "got %+v", a)
	a = s.get("v1/sessions/none/runs/x")
	should.Hold(t, a.status == http.StatusNotFound, "whom the link let in: %+v", a)
	s.client.Jar, _ = cookiejar.New(nil)
	a = s.do(http.MethodGet, link, "")
	should.Hold(t, a.status == http.StatusForbidden, "the second time: %+v", a)
	s.isClosedToAll()
}

// A request's header belongs to its handler, which may change it while somebody looks whether its login lasts.
func TestALoginIsKnownWithoutItsRequest(t *testing.T) {
	v := newVisitors(Options{})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	key := v.logins.add(pass{ends: time.Now().Add(time.Hour)})
	r.AddCookie(&http.Cookie{Name: cookieName(r), Value: key})
	isGood := v.login(r)
	r.Header = nil
	_, good := isGood()
	should.Hold(t, good, "it is not good")
	v.logins.take(key)
	_, good = isGood()
	should.Hold(t, !good, "it is good after the end")
}

// authenticate is an Authenticator.
type authenticate func(r *http.Request) (principal.Principal, error)

func (a authenticate) Authenticate(r *http.Request) (principal.Principal, error) { return a(r) }

// Who has signed in by a token is who the token says now, and a proxy's word goes before the browser's cookie.
func TestWhoseALoginIsNow(t *testing.T) {
	group, revoked := "trusted", false
	v := newVisitors(Options{Token: token, Authenticate: authenticate(func(r *http.Request) (principal.Principal, error) {
		switch user, shown := r.Header.Get("X-User"), principal.Bearer(r); {
		case user == "bad" || shown != "" && revoked:
			return principal.Principal{}, errors.New("not good")
		case user != "" || shown != "":
			return principal.Principal{Name: user + shown, Groups: []string{group}}, nil
		}
		return principal.Principal{}, principal.ErrNone
	})})
	ends := time.Now().Add(time.Hour)
	user, alice := v.logins.add(pass{ends: ends}), v.logins.add(pass{ends: ends, as: principal.Principal{Name: "alice", Groups: []string{"trusted"}}, token: "alice"})
	group = "held"
	const nobody = "nobody"
	check := func(cookie, header, want string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: cookieName(r), Value: cookie})
		if header != "" {
			r.Header.Set("X-User", header)
		}
		p, ok := v.whose(r)
		got := nobody
		if ok {
			got = strings.Join(append(p.Groups, p.Name), " ")
		}
		should.Equal(t, got, want, "the cookie %.5q and the header %q", cookie, header)
	}
	check("none", "", nobody)
	check(user, "", "")
	check(alice, "", "held alice")
	for _, cookie := range []string{"none", user, alice} {
		check(cookie, "bob", "held bob")
		check(cookie, "bad", nobody)
	}
	revoked = true
	check(alice, "", nobody)
	check(user, "", "")
}

// Who is not known any more while a request is served is not taken for the user whose server it is.
func TestARequestIsOfWhoWasLetIn(t *testing.T) {
	asked := false
	var of []string
	h := New(Options{
		Token: token, Authenticate: authenticate(func(*http.Request) (principal.Principal, error) {
			if asked {
				return principal.Principal{}, principal.ErrNone
			}
			asked = true
			return principal.Principal{Name: "alice"}, nil
		}),
		API: func(p principal.Principal) (API, error) {
			of = append(of, p.Name)
			return nil, errors.New("none")
		},
		Questions: func(p principal.Principal) Questions {
			of = append(of, p.Name)
			return nil
		},
	})
	for _, path := range []string{"v1/events", "questions"} {
		asked = false
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, Prefix+path, nil))
	}
	should.EqualSlice(t, of, []string{"alice", "alice"}, "served as")
}

func TestKeysAreBounded(t *testing.T) {
	var k keys
	has := func(key string) bool {
		_, good := k.get(key)
		return good
	}
	in := func(d time.Duration, name string) pass {
		return pass{ends: time.Now().Add(d), as: principal.Principal{Name: name}}
	}
	first, other := k.add(in(time.Hour, "")), k.add(in(time.Hour, "another"))
	for range maxKeys {
		k.add(in(2*time.Hour, ""))
	}
	if has(first) || !has(other) || len(k.good) != maxKeys+1 {
		t.Errorf("%d keys, the oldest good: %v, another's: %v", len(k.good), has(first), has(other))
	}
	late := k.add(in(-time.Second, ""))
	_, good := k.take(late)
	should.Hold(t, !has(late) && !good, "one that has expired is good")
}

func TestOtherPagesGetAndDoNothing(t *testing.T) {
	s := serve(t, Options{NoAuth: true})
	s.finish(s.manager, "mine", "1")
	for name, headers := range map[string][]string{
		"a page of another origin":                {ownHeader, "1", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"},
		"one of another port":                     {ownHeader, "1", "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"},
		"one whose browser tells the origin":      {ownHeader, "1", "Origin", "http://127.0.0.1:1"},
		"one without an origin":                   {ownHeader, "1", "Origin", "null"},
		"a form":                                  {"Content-Type", "text/plain", "Origin", s.url},
		"a program that does not send the header": {"Content-Type", "application/json"},
	} {
		a := s.do(http.MethodDelete, Prefix+"v1/sessions/mine", "", headers...)
		should.Hold(t, a.status == http.StatusForbidden, "%s: %+v", name, a)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		for _, one := range everything {
			if method, what, _ := strings.Cut(one, " "); method == http.MethodGet {
				a := s.do(method, Prefix+what, "", "Sec-Fetch-Site", site)
				should.Hold(t, a.status == http.StatusForbidden, "%s from %s: %+v", one, site, a)
			}
		}
	}
	// What a browser would run as this origin's is none of a session's files.
	for dest, status := range map[string]int{
		"script": 403, "style": 403, "worker": 403, "sharedworker": 403, "serviceworker": 403, "audioworklet": 403, "json": 403, "font": 403,
		"object": 403, "embed": 403, "frame": 403, "xslt": 403, "manifest": 403, "empty": 404, "image": 404, "document": 404, "iframe": 404,
	} {
		a := s.do(http.MethodGet, Prefix+"v1/sessions/mine/files/x", "", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", dest)
		should.Hold(t, a.status == status, "a %s: %+v", dest, a)
	}
	a := s.do(http.MethodGet, Prefix+"v1/runs/x/cancel", "")
	should.Hold(t, a.status == http.StatusMethodNotAllowed, "a link: %+v", a)
	must.Hold(t, s.isOpen("mine"), "the session was closed")
	for bad, status := range map[string]int{"session=mine": http.StatusBadRequest, strings.Repeat(" ", 1<<20): http.StatusRequestEntityTooLarge} {
		a := s.do(http.MethodPost, Prefix+"v1/runs/x/cancel", bad, ownHeader, "1")
		should.Hold(t, a.status == status, "%.20q: %+v", bad, a)
	}
	// Its login is for what it shows, and for no more of the interface.
	for _, other := range []string{
		"POST v1/sessions", "GET v1/sessions/mine", "POST v1/sessions/mine/runs", "POST v1/sessions/mine/files",
		"GET v1/runs/x", "GET v1/sessions/mine/packages", "POST v1/sessions/mine/packages", "GET v1/sql", "GET v1/openapi.json", "POST execute", "GET v1/events/../sessions", "GET v1/sessions/mine%2fruns",
	} {
		method, what, _ := strings.Cut(other, " ")
		if a := s.order(method, what); a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed && a.status != http.StatusTemporaryRedirect {
			t.Errorf("%s: %+v", other, a)
		}
	}
	a = s.do(http.MethodGet, "/v1/sessions/mine", "")
	should.Hold(t, a.status == http.StatusNotFound, "without the prefix: %+v", a)
	a = s.order(http.MethodDelete, "v1/sessions/mine")
	should.Hold(t, a.status == http.StatusOK && !s.isOpen("mine"), "the page itself: %+v", a)
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
	of, other := "v1/sessions/mine/runs/"+run.ID, url.PathEscape(markup)
	for name, a := range map[string]answer{
		"the run": s.get(of), "files": s.get("v1/sessions/mine/files"), "no session": s.get("v1/sessions/" + other + "/runs/x"),
		"no run": s.get("v1/sessions/mine/runs/" + other), "a refusal": s.order(http.MethodDelete, "v1/sessions/"+other),
	} {
		if a.header.Get("Content-Type") != "application/json" || a.header.Get("X-Content-Type-Options") != "nosniff" || !json.Valid([]byte(a.body)) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	var told struct {
		Displays []struct{ Figure, Version string }
		Stdout   struct{ Head string }
	}
	if a := s.get(of); json.Unmarshal([]byte(a.body), &told) != nil || len(told.Displays) != 2 || told.Displays[0].Figure != "image/svg+xml" || told.Displays[0].Version == "" ||
		!strings.Contains(told.Stdout.Head, markup) {
		t.Errorf("the run is told as %+v", a)
	}
	if list := s.get("v1/sessions/mine/runs"); len(told.Displays) > 0 && !strings.Contains(list.body, `"figure":"displays/0?version=`+told.Displays[0].Version+`"`) {
		t.Errorf("the list lacks its figure: %+v", list)
	}
	figure := s.get(of + "/displays/0")
	if figure.status != http.StatusOK || figure.header.Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(figure.header.Get("Content-Security-Policy"), "sandbox; default-src 'none'") {
		t.Errorf("the figure: %+v", figure)
	}
	for _, at := range []string{"1", "2", "-1", "x"} {
		a := s.get(of + "/displays/" + at)
		should.Hold(t, a.status == http.StatusNotFound, "figure %q: %+v", at, a)
	}
	const odd = `<img src=x onerror=hacked=1>.txt`
	if a := s.get("v1/sessions/mine/files/" + url.PathEscape(odd)); a.status != http.StatusOK || a.body != markup || !strings.HasPrefix(a.header.Get("Content-Security-Policy"), "sandbox; default-src 'none'") {
		t.Errorf("the file: %+v", a)
	}
}

func TestEveryAnswerKeepsTheBrowserIn(t *testing.T) {
	s := serve(t, Options{Token: token})
	for _, path := range []string{"/", Prefix + "app.js", Prefix + "style.css", Prefix + "enter", Prefix + "v1/events", Prefix + "none"} {
		a := s.do(http.MethodGet, path, "")
		csp := a.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			should.Hold(t, strings.Contains(csp, part), "%s: the policy %q lacks %s", path, csp, part)
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
	r, _ := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+Prefix+"v1/events?session_id="+url.QueryEscape(session), nil)
	response, err := s.client.Do(r)
	must.Hold(s.t, err == nil && response.StatusCode == http.StatusOK && response.Header.Get("Content-Type") == "text/event-stream",
		"%+v, %v", response, err)
	s.t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewReader(response.Body)
	return func(kind string, wanted func(string) bool) string {
		s.t.Helper()
		event := ""
		for {
			line := must.Get(lines.ReadString('\n'))(s.t, "waiting for %s", kind)
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
	var log bytes.Buffer
	s := serve(t, Options{NoAuth: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.finish(s.manager, "mine", "'an earlier one'")
	next := s.listen("mine")
	next("sessions", with(`"session_id":"mine"`, `"owner":"this server"`))
	next("runs", with(`"total":1`, "an earlier one"))
	next("live", with("{}"))
	next("network", with(`"requests":[]`, `"total":0`))

	run := s.begin(s.manager, "mine", "import time\nprint('so ' + 'far', flush=True)\ntime.sleep(600)")
	next("runs", with(`"total":2`, run.ID, `"status":"running"`))
	next("live", with(run.ID, "so far"))
	a := s.get("v1/sessions/mine/runs/" + run.ID)
	should.Hold(t, with("so far", `"status":"running"`)(a.body), "the run meanwhile: %+v", a)
	s.network.Add(netlog.Entry{Session: "mine", Kind: "proxy", Host: "refused.example", Rule: "not allowed"})
	next("network", with(`"total":1`, "refused.example"))

	a = s.order(http.MethodPost, "v1/runs/run-none/cancel")
	should.Hold(t, a.status == http.StatusNotFound, "cancelled a run that is not there: %+v", a)
	a = s.order(http.MethodPost, "v1/runs/"+run.ID+"/cancel")
	should.Hold(t, a.status == http.StatusOK, "cancel: %+v", a)
	next("runs", with(run.ID, `"status":"cancelled"`))
	a = s.order(http.MethodDelete, "v1/sessions/mine")
	should.Hold(t, a.status == http.StatusOK, "close: %+v", a)
	next("sessions", func(data string) bool { return !strings.Contains(data, "mine") })
	should.Hold(t, with("run="+run.ID, "session=mine", "/cancel", "DELETE")(log.String()) && !strings.Contains(log.String(), "GET"),
		"logged: %s", log.String())
}

func TestAStreamEndsWithTheServerAndTheLogin(t *testing.T) {
	s := serve(t, Options{Token: token})
	logout := func() { s.do(http.MethodPost, Prefix+"logout", "", "Origin", s.url) }
	for at, over := range []func(){logout, s.end} {
		s.login(token)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+Prefix+"v1/events", nil)
		response, err := s.client.Do(r)
		must.Hold(t, err == nil && response.StatusCode == http.StatusOK, "%d: %+v, %v", at, response, err)
		over()
		should.OK(t, should.ErrOf(io.Copy(io.Discard, response.Body)), "%d", at)
		_ = response.Body.Close()
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
	if a := s.get("v1/sessions/theirs/runs/" + over.ID); !strings.Contains(a.body, "theirs is over") {
		t.Errorf("its run: %+v", a)
	}
	for name, a := range map[string]answer{
		"files": s.get("v1/sessions/theirs/files"), "a file": s.get("v1/sessions/theirs/files/x"), "close": s.order(http.MethodDelete, "v1/sessions/theirs"),
		"all files": s.get("v1/sessions/theirs/archive"), "an upload": s.order(http.MethodPut, "v1/sessions/theirs/files/x"), "open": s.order(http.MethodPost, "open/theirs"),
		"cancel": s.order(http.MethodPost, "v1/runs/"+going.ID+"/cancel"),
	} {
		should.Hold(t, a.status == http.StatusConflict && strings.Contains(a.body, "session_busy"), "%s: %+v", name, a)
	}
	going.Interrupt()
	next("runs", with(going.ID, `"status":"cancelled"`))
	other.Close(t.Context())
	next("sessions", with(`"session_id":"theirs"`, `"owner":"none"`))
	for _, what := range []string{"v1/sessions/theirs/files", "v1/sessions/theirs/files/x"} {
		a := s.get(what)
		should.Hold(t, a.status == http.StatusConflict && !s.isOpen("theirs"), "looking at it opens it: %+v", a)
	}
	a := s.order(http.MethodPost, "open/theirs")
	should.Hold(t, a.status == http.StatusOK && s.isOpen("theirs"), "a person opens it: %+v", a)
	a = s.order(http.MethodPost, "open/none")
	should.Hold(t, a.status == http.StatusNotFound && !s.isOpen("none"), "a session that there is not: %+v", a)
	a = s.order(http.MethodDelete, "v1/sessions/theirs")
	should.Hold(t, a.status == http.StatusOK, "one that nobody has open: %+v", a)
	next("sessions", func(data string) bool { return !strings.Contains(data, "theirs") })
}

// asked has somebody's code ask, and returns the answer when there is one.
func asked(t *testing.T, d *ask.Desk, host string) <-chan ask.Answer {
	t.Helper()
	answered := make(chan ask.Answer, 1)
	_, changed := d.Waiting()
	go func() {
		answer, _ := d.Ask(t.Context(), ask.Question{Session: "mine", Run: "r", Host: host, How: "GET /" + markup})
		answered <- answer
	}()
	<-changed
	return answered
}

func deskOf(name string, d *ask.Desk) func(principal.Principal) Questions {
	return func(p principal.Principal) Questions {
		if p.Name == name {
			return d
		}
		return nil
	}
}

func TestCodeAsksOnThePage(t *testing.T) {
	d := ask.New(ask.Options{})
	s := serve(t, Options{Token: token, Questions: deskOf("", d)})
	answered := asked(t, d, "a.example:443")
	for method, what := range map[string]string{http.MethodGet: "questions", http.MethodPost: "questions/x"} {
		a := s.do(method, Prefix+what, `{"answer":"once"}`, ownHeader, "1")
		should.Hold(t, a.status == http.StatusUnauthorized, "nobody is let in to %s: %+v", what, a)
	}
	s.login(token)
	var list struct {
		Questions []struct {
			ID       string
			Question map[string]string
			Answers  []string
		}
	}
	a := s.get("questions")
	must.Hold(t, json.Unmarshal([]byte(a.body), &list) == nil && len(list.Questions) == 1, "%+v", a)
	q := list.Questions[0]
	if q.Question["host"] != "a.example:443" || q.Question["session_id"] != "mine" || !strings.Contains(q.Question["allowed"], "everything can be sent to this host") || len(q.Answers) != 3 {
		t.Errorf("%+v", q)
	}
	path := Prefix + "questions/" + q.ID
	for name, one := range map[string]struct {
		body    string
		headers []string
		status  int
	}{
		"a form of another page":     {`{"answer":"once"}`, []string{"Origin", "https://evil.example", ownHeader, "1"}, http.StatusForbidden},
		"a form":                     {`{"answer":"once"}`, []string{"Origin", s.url}, http.StatusForbidden},
		"a page that another embeds": {`{"answer":"once"}`, []string{"Sec-Fetch-Site", "cross-site", ownHeader, "1"}, http.StatusForbidden},
		"no answer":                  {`once`, []string{"Origin", s.url, ownHeader, "1"}, http.StatusBadRequest},
		"one that is none":           {`{"answer":"perhaps"}`, []string{"Origin", s.url, ownHeader, "1"}, http.StatusConflict},
		"one that is not offered":    {`{"answer":"always"}`, []string{"Origin", s.url, ownHeader, "1"}, http.StatusConflict},
	} {
		a := s.do(http.MethodPost, path, one.body, one.headers...)
		should.Hold(t, a.status == one.status, "%s: %+v", name, a)
	}
	a = s.do(http.MethodPost, path, `{"answer":"once"}`, "Origin", s.url, ownHeader, "1")
	should.Hold(t, a.status == http.StatusOK, "%+v", a)
	should.Equal(t, <-answered, ask.Once, "it was answered with")
	a = s.do(http.MethodPost, path, `{"answer":"deny"}`, "Origin", s.url, ownHeader, "1")
	should.Hold(t, a.status == http.StatusConflict, "answered again: %+v", a)
}

func TestNothingIsAskedOfAnother(t *testing.T) {
	d := ask.New(ask.Options{})
	s := serve(t, Options{Token: token, Questions: deskOf("alice", d)})
	asked(t, d, "a.example:443")
	s.login(token)
	open, _ := d.Waiting()
	a := s.get("questions")
	should.Hold(t, a.status == http.StatusOK && a.body == `{"questions":null}`+"\n", "%+v", a)
	a = s.do(http.MethodPost, Prefix+"questions/"+open[0].ID, `{"answer":"once"}`, "Origin", s.url, ownHeader, "1")
	should.Hold(t, a.status == http.StatusNotFound, "%+v", a)
	if open, _ := d.Waiting(); len(open) != 1 {
		t.Error("it was answered")
	}
}

func TestAPersonAnswersInChromium(t *testing.T) {
	p := browser.Open(t)
	d := ask.New(ask.Options{Code: func(string, string, string) string { return "line 1: " + markup }})
	s := serve(t, Options{Questions: deskOf("", d)})
	p.Call("Page.navigate", map[string]any{"url": s.url + s.Link()}, nil)
	p.Await("document.querySelector('#questions')?.hidden === true")
	answered := asked(t, d, "a.example:443")
	p.Await("document.querySelector('#questions').hidden === false && document.title.startsWith('Code asks')")
	p.Await("document.querySelector('#questions li').innerText.includes('a.example:443') && document.querySelector('#questions li').innerText.includes('onerror')")
	p.Await("document.querySelector('#questions li').innerText.includes('everything can be sent to this host')")
	should.Equal(t, p.See("document.querySelectorAll('#questions script, #questions b, #questions img, #questions [onerror]').length"), 0.0, "elements are of the sandbox")
	p.Await("[...document.querySelectorAll('#questions button')].every(b => !b.disabled)")
	p.TabTo("e.textContent === 'Allow for this session'")
	p.Press("Enter")
	should.Equal(t, <-answered, ask.ForSession, "it was answered with")
	p.Await("document.querySelector('#questions').hidden")
	answer, err := d.Ask(context.Background(), ask.Question{Session: "mine", Run: "r2", Host: "a.example:443"})
	should.Hold(t, answer == ask.ForSession && err == nil, "in the session: %v, %v", answer, err)
}
