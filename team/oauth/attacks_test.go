package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/ownfile"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// What somebody can do who is at the wire, on another page, in another browser, or another client.

func TestCodesAreGoodOnceForTheirClient(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m, other := s.registered(nil), s.registered(map[string]any{"client_name": "Mallory"})
	for name, change := range map[string][]string{
		"of another client":                  {"client_id", other.ID},
		"of an unknown client":               {"client_id", "csm_client_none"},
		"of no client":                       {"client_id", ""},
		"without a verifier":                 {"code_verifier", ""},
		"with a wrong verifier":              {"code_verifier", strings.Repeat("x", 43)},
		"with the challenge as the verifier": {"code_verifier", challengeOf(verifier)},
		"with a verifier that is too short":  {"code_verifier", verifier[:42]},
		"with a verifier that is too long":   {"code_verifier", strings.Repeat("x", 129)},
		"with another address":               {"redirect_uri", callback + "/"},
		"without an address":                 {"redirect_uri", ""},
		"for another resource":               {"resource", "https://other.example/mcp"},
		"for the whole host":                 {"resource", s.url},
	} {
		code := s.allowed(request(m.ID)).Get("code")
		got, reply := s.ask(redemption(m.ID, code, change...))
		if got.Access != "" || got.Error == "" || reply.status < 400 {
			t.Errorf("a code %s: %d %+v", name, reply.status, got)
		}
		if change[0] != "resource" { // it was looked at, so whoever has it has no second try
			if again, _ := s.ask(redemption(m.ID, code)); again.Access != "" {
				t.Errorf("a code %s is good afterwards", name)
			}
		}
	}
	late := s.allowed(request(m.ID)).Get("code")
	s.pass(codeTime + time.Second)
	if got, _ := s.ask(redemption(m.ID, late)); got.Error != "invalid_grant" {
		t.Errorf("a code after its end: %+v", got)
	}
	for _, form := range []url.Values{
		{}, {"grant_type": {"password"}, "client_id": {m.ID}}, {"grant_type": {"client_credentials"}, "client_id": {m.ID}},
		{"grant_type": {grantCode}, "client_id": {m.ID}}, {"grant_type": {grantRefresh}, "client_id": {m.ID}}, {"grant_type": {grantCode, grantCode}, "client_id": {m.ID}},
	} {
		if got, reply := s.ask(form); got.Access != "" || reply.status < 400 {
			t.Errorf("%v: %+v", form, got)
		}
	}
}

func TestACodeThatComesAgainRevokesItsGrant(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	code := s.allowed(request(m.ID)).Get("code")
	first, _ := s.ask(redemption(m.ID, code))
	must.OK(t, should.ErrOf(s.who(first.Access)))
	if again, _ := s.ask(redemption(m.ID, code)); again.Error != "invalid_grant" {
		t.Errorf("the second time: %+v", again)
	}
	should.Be(t, should.ErrOf(s.who(first.Access)), errUnknown, "the access token")
	if next, _ := s.refreshed(m.ID, first.Refresh); next.Error != "invalid_grant" {
		t.Errorf("the refresh token: %+v", next)
	}
	if !s.events.has(audit.KindPolicy, audit.Success, "ann") {
		t.Error("nothing is recorded")
	}
}

func TestACodeThatComesOftenAtOnceGivesOneGrant(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	code := s.allowed(request(m.ID)).Get("code")
	var given atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodPost, tokenPath, strings.NewReader(redemption(m.ID, code).Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			s.token(w, r)
			if w.Code == http.StatusOK {
				given.Add(1)
			}
		})
	}
	all.Wait()
	if grants, err := s.o.Store.Grants(); given.Load() != 1 || len(grants) != 0 || err != nil {
		t.Errorf("%d answers have tokens, and %d grants are left: %v", given.Load(), len(grants), err)
	}
}

func TestARefreshTokenThatComesAgainRevokesItsFamily(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m, other := s.registered(nil), s.registered(nil)
	bystander := s.granted(m.ID)
	first := s.granted(m.ID)
	if got, _ := s.refreshed(other.ID, first.Refresh); got.Error != "invalid_grant" {
		t.Errorf("another client's: %+v", got)
	}
	for _, wrong := range []string{"", "x", refreshPrefix, strings.Replace(first.Refresh, "_rt_g", "_rt_h", 1), first.Access, first.Refresh[:strings.LastIndex(first.Refresh, "_")-1] + "1_Y"} {
		if got, _ := s.refreshed(m.ID, wrong); got.Error != "invalid_grant" {
			t.Errorf("%q: %+v", wrong, got)
		}
	}
	if got, _ := s.ask(url.Values{"grant_type": {grantRefresh}, "client_id": {m.ID}, "refresh_token": {first.Refresh}, "resource": {"https://other.example/mcp"}}); got.Error != "invalid_target" {
		t.Errorf("for another resource: %+v", got)
	}
	if got, _ := s.ask(url.Values{"grant_type": {grantRefresh}, "client_id": {m.ID}, "refresh_token": {first.Refresh}, "scope": {"sandbox admin"}}); got.Error != "invalid_scope" {
		t.Errorf("with more scope: %+v", got)
	}
	second, _ := s.refreshed(m.ID, first.Refresh)
	third, _ := s.refreshed(m.ID, second.Refresh)
	if third.Access == "" {
		t.Fatal("what is wrong has ended the grant")
	}
	if got, _ := s.refreshed(m.ID, first.Refresh); got.Error != "invalid_grant" {
		t.Errorf("the second time: %+v", got)
	}
	for _, token := range []tokens{first, second, third} {
		should.Be(t, should.ErrOf(s.who(token.Access)), errUnknown, "an access token of the family")
	}
	if got, _ := s.refreshed(m.ID, third.Refresh); got.Error != "invalid_grant" {
		t.Errorf("the last of the family: %+v", got)
	}
	should.OK(t, should.ErrOf(s.who(bystander.Access)), "another grant")
	if !s.events.has(audit.KindPolicy, audit.Success, "ann") {
		t.Error("nothing is recorded")
	}
}

// Addresses that nearly are one of the client's. Nothing is sent to any.
func TestRedirectURIsThatNearlyMatch(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(map[string]any{"redirect_uris": []string{callback, "https://client.example/q?a=b", "http://127.0.0.1/cb", "http://localhost:3000/cb", "http://[::1]/cb", "com.example.app:/cb"}})
	page := func(uri string) reply { return s.page(s.newBrowser(), request(m.ID, "redirect_uri", uri)) }
	for _, uri := range []string{
		callback, "https://client.example/q?a=b", "http://127.0.0.1/cb", "http://127.0.0.1:1234/cb", "http://localhost:65535/cb", "http://localhost/cb", "http://[::1]:1/cb", "com.example.app:/cb",
	} {
		should.Equal(t, page(uri).status, http.StatusOK, "%s", uri)
	}
	for _, uri := range []string{
		"", callback + "/", callback + "/more", callback + "?a=b", callback + "#f", callback + "%20", callback + "/..", callback + "/../callback", callback + ";x", callback + "&x", callback + "\t", " " + callback, callback + "\x00",
		"https://CLIENT.example/callback", "HTTPS://client.example/callback", "https://client.example/Callback", "https://client.example/%63allback", "https://client.example//callback", "https://client.example/./callback",
		"https://client.example./callback", "https://client.example:443/callback", "https://client.example:8443/callback", "http://client.example/callback",
		"https://user@client.example/callback", "https://client.example@evil.example/callback", "https://client.example\\@evil.example/callback", "https://client.example%2eevil.example/callback",
		"https://evil.example/callback", "https://client.example.evil.example/callback", "https://evilclient.example/callback", "https://sub.client.example/callback", "//client.example/callback", "/callback", "client.example/callback",
		"https://client.example/q", "https://client.example/q?a=b&c=d", "https://client.example/q?a=c", "https://client.example/q?",
		"http://127.0.0.1/cb/", "http://127.0.0.1/other", "http://127.0.0.1/cb?x", "http://127.0.0.1/cb#x", "http://127.0.0.2/cb", "http://127.0.0.1.evil.example/cb", "http://127.0.0.1:80@evil.example/cb", "http://127.0.0.1:x/cb", "http://127.0.0.1:/cb",
		"http://127.0.0.1:123456/cb", "https://127.0.0.1/cb", "http://127.1/cb", "http://2130706433/cb", "http://0x7f.1/cb", "http://localhost./cb", "http://LOCALHOST/cb", "http://localhost:3000/cb/", "http://localhost.evil.example/cb", "http://localhost@evil.example/cb",
		"http://[::1%25eth0]/cb", "http://[0:0:0:0:0:0:0:1]/cb", "http://[::ffff:127.0.0.1]/cb",
		"com.example.app:/cb/", "com.example.app://cb", "com.example.app:/CB", "COM.example.app:/cb", "com.example.app2:/cb", "javascript:alert(1)", "data:text/html,x",
	} {
		got := page(uri)
		if got.status != http.StatusBadRequest || got.header.Get("Location") != "" || strings.Contains(got.body, "<form") {
			t.Errorf("%q: %d %q", uri, got.status, got.header.Get("Location"))
		}
	}
	twice := request(m.ID)
	twice.Add("redirect_uri", "https://evil.example/")
	if got := s.page(s.newBrowser(), twice); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
		t.Errorf("two: %d %q", got.status, got.header.Get("Location"))
	}
}

func TestRedirectURIsThatCannotBeRegistered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	register := func(uris any) int {
		body, _ := json.Marshal(map[string]any{"client_name": "x", "redirect_uris": uris})
		return s.do(http.DefaultClient, http.MethodPost, registerPath, nil, string(body)).status
	}
	for _, uri := range []string{"https://claude.ai/api/mcp/auth_callback", "http://localhost/callback", "http://127.0.0.1:33418", "http://127.0.0.1:33418/", "http://[::1]:9/x", "com.example.app:/x", "com.example.app://host/x", "https://x.example:8443/?a=b"} {
		should.Equal(t, register([]string{uri}), http.StatusCreated, "%s", uri)
	}
	for _, uri := range []string{
		"", "x", "/x", "//x.example/", "http://x.example/", "http://10.0.0.1/", "https:///x", "https:x.example", "https://", "https://user@x.example/", "https://:pw@x.example/", "https://x.example/#", "https://x.example/#f",
		"https://x.example./", "https://*.example/", "https://x.example/\\y", "https://x.example/ y", "https://x.example/\ny", "https://x.example/<y>", "https://xn\u00e4.example/", "https://x.example:port/", "https://x.example;form-action/", "HTTPS://x.example/",
		"http://localhost.evil.example/", "http://localhost@evil.example/", "http://127.0.0.1.evil.example/", "http://[::1].evil.example/", "http://0.0.0.0/",
		"javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", "blob:https://x.example/y", "app:/x", "intent://x", "Com.Example.App:/x", "com..app:/x", ".app:/x", "https://x.example/" + strings.Repeat("x", 1000),
	} {
		should.Equal(t, register([]string{uri}), http.StatusBadRequest, "%q", uri)
		should.Equal(t, register([]string{callback, uri}), http.StatusBadRequest, "%q, as the second", uri)
	}
	for _, uris := range []any{nil, []string{}, "https://x.example/", []any{1}, slices.Repeat([]string{callback}, 11)} {
		should.Equal(t, register(uris), http.StatusBadRequest, "%v", uris)
	}
	for _, body := range []string{"", "x", "[]", `{"redirect_uris":["` + callback + `"],"grant_types":["implicit"]}`, `{"redirect_uris":["` + callback + `"],"response_types":["token"]}`, `{"client_name":"` + strings.Repeat("x", 20_000) + `","redirect_uris":["` + callback + `"]}`} {
		if got := s.do(http.DefaultClient, http.MethodPost, registerPath, nil, body); got.status != http.StatusBadRequest || !strings.Contains(got.body, `"error"`) {
			t.Errorf("%.60s: %d %s", body, got.status, got.body)
		}
	}
}

// Errors go to the client only once it and its address are known, where its person follows a link, and nothing goes anywhere else: anybody
// can register any address.
func TestErrorsAreNoOpenRedirect(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	for name, q := range map[string]url.Values{
		"an unknown client":        request("csm_client_none", "response_type", "token"),
		"no client":                request(m.ID, "client_id", "", "response_type", "token"),
		"a long client":            request(strings.Repeat("x", 600)),
		"another address":          request(m.ID, "redirect_uri", "https://evil.example/", "response_type", "token"),
		"no address":               request(m.ID, "redirect_uri", "", "code_challenge", ""),
		"a query that is too long": request(m.ID, "state", strings.Repeat("x", 5000)),
	} {
		if got := s.page(s.newBrowser(), q); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
			t.Errorf("%s: %d %q", name, got.status, got.header.Get("Location"))
		}
	}
	two := request(m.ID)
	two.Add("client_id", "csm_client_none")
	if got := s.page(s.newBrowser(), two); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
		t.Errorf("two clients: %d %q", got.status, got.header.Get("Location"))
	}
	stateTwice := request(m.ID)
	stateTwice.Add("scope", Scope)
	for name, c := range map[string]struct {
		q    url.Values
		want string
	}{
		"an implicit grant":        {request(m.ID, "response_type", "token"), "unsupported_response_type"},
		"no response type":         {request(m.ID, "response_type", ""), "unsupported_response_type"},
		"a hybrid":                 {request(m.ID, "response_type", "code token"), "unsupported_response_type"},
		"no challenge":             {request(m.ID, "code_challenge", ""), "invalid_request"},
		"a plain challenge":        {request(m.ID, "code_challenge_method", "plain"), "invalid_request"},
		"no method":                {request(m.ID, "code_challenge_method", ""), "invalid_request"},
		"the method in lower case": {request(m.ID, "code_challenge_method", "s256"), "invalid_request"},
		"a short challenge":        {request(m.ID, "code_challenge", "x"), "invalid_request"},
		"a fragment":               {request(m.ID, "response_mode", "fragment"), "invalid_request"},
		"a form":                   {request(m.ID, "response_mode", "form_post"), "invalid_request"},
		"another resource":         {request(m.ID, "resource", "https://other.example/mcp"), "invalid_target"},
		"the whole host":           {request(m.ID, "resource", s.url), "invalid_target"},
		"an unknown scope":         {request(m.ID, "scope", "admin"), "invalid_scope"},
		"no question":              {request(m.ID, "prompt", "none"), "consent_required"},
		"a request object":         {request(m.ID, "request", "e30.e30."), "request_not_supported"},
		"a request elsewhere":      {request(m.ID, "request_uri", "https://evil.example/"), "request_uri_not_supported"},
		"a parameter twice":        {stateTwice, "invalid_request"},
	} {
		got := s.page(s.newBrowser(), c.q)
		u := s.linked(got)
		if back := u.Query(); got.status != http.StatusBadRequest || !strings.HasPrefix(u.String(), callback+"?") || back.Get("error") != c.want || back.Get("state") != "a state" || back.Get("iss") != s.url || back.Has("code") {
			t.Errorf("%s: %d %s", name, got.status, u)
		}
	}
}

func TestAnswersKeepTheQueryOfTheAddress(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, uri := range []string{"https://client.example/q?a=b", "com.example.app:/cb", "com.example.app:cb?x=1", "http://127.0.0.1:4000/cb"} {
		m := s.registered(map[string]any{"redirect_uris": []string{uri}})
		got := s.page(s.newBrowser(), request(m.ID, "redirect_uri", uri, "response_type", "x"))
		location := s.linked(got).String()
		if separator := map[bool]string{true: "&", false: "?"}[strings.Contains(uri, "?")]; !strings.HasPrefix(location, uri+separator+"error=") {
			t.Errorf("%s: %s", uri, location)
		}
	}
}

func TestConsentIsOfOnePageInOneBrowserOnce(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	mine, other := s.newBrowser(), s.newBrowser()
	ticket := s.ticketOf(s.page(mine, request(m.ID)))
	another := s.ticketOf(s.page(other, request(m.ID)))
	body, mac, _ := strings.Cut(ticket, ".")
	_, otherMAC, _ := strings.Cut(another, ".")
	form := func(ticket string, more ...string) url.Values {
		v := url.Values{"ticket": {ticket}, "token": {annsToken}, "decision": {"allow"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	refused := func(name string, c *http.Client, form url.Values, header ...string) {
		t.Helper()
		if got := s.post(c, authorizePath, form, header...); got.status != http.StatusForbidden || got.header.Get("Location") != "" {
			t.Errorf("%s: %d %q", name, got.status, got.header.Get("Location"))
		}
	}
	refused("no ticket", mine, form(""))
	refused("without the cookie", s.newBrowser(), form(ticket))
	refused("in another browser", other, form(ticket))
	refused("another browser's", mine, form(another))
	refused("changed", mine, form(body+"A."+mac))
	refused("with another's sum", mine, form(body+"."+otherMAC))
	refused("without a sum", mine, form(body))
	refused("with an empty sum", mine, form(body+"."))
	refused("of another server's key", mine, form(New(s.o).seal(ticketWith(s, ticket))))
	refused("from another page", mine, form(ticket), "Origin", "https://evil.example")
	refused("from no page", mine, form(ticket), "Origin", "null")
	refused("from another site", mine, form(ticket), "Sec-Fetch-Site", "cross-site")
	refused("from the same site", mine, form(ticket), "Sec-Fetch-Site", "same-site")
	if got := s.get(mine, authorizePath+"?"+form(ticket).Encode()); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
		t.Errorf("by GET: %d", got.status)
	}
	should.Equal(t, s.post(mine, authorizePath+"?"+form(ticket).Encode(), url.Values{}).status, http.StatusForbidden, "in the address")
	if back := s.answer(s.post(mine, authorizePath, form(ticket), "Origin", s.url, "Sec-Fetch-Site", "same-origin")); back.Get("code") == "" {
		t.Fatalf("the good one: %v", back)
	}
	refused("a second time", mine, form(ticket))
	if back := s.answer(s.post(mine, authorizePath, form(ticket, "decision", "refuse"))); back.Get("error") != "access_denied" || back.Has("code") {
		t.Errorf("to refuse it afterwards: %v", back)
	}

	ticket = s.ticketOf(s.page(mine, request(m.ID)))
	if back := s.answer(s.post(mine, authorizePath, url.Values{"ticket": {ticket}, "decision": {"refuse"}})); back.Get("error") != "access_denied" || back.Has("code") {
		t.Errorf("refused: %v", back)
	}

	ticket = s.ticketOf(s.page(mine, request(m.ID)))
	if back := s.answer(s.post(mine, authorizePath, url.Values{"ticket": {ticket}, "token": {annsToken}})); back.Get("error") != "access_denied" {
		t.Errorf("without a decision: %v", back)
	}
	ticket = s.ticketOf(s.page(mine, request(m.ID)))
	s.pass(ticketTime + time.Second)
	refused("too late", mine, form(ticket))
}

// ticketWith reads a ticket of the browser that it is of.
func ticketWith(s *site, sealed string) ticket {
	body, _, _ := strings.Cut(sealed, ".")
	var t ticket
	must.OK(s.t, json.Unmarshal([]byte(decoded(body)), &t))
	return t
}

// A person who has allowed a program once is asked again.
func TestConsentIsNotRemembered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	c := s.newBrowser()
	for range 2 {
		s.answer(s.post(c, authorizePath, url.Values{"ticket": {s.ticketOf(s.page(c, request(m.ID)))}, "token": {annsToken}, "decision": {"allow"}}))
	}
}

func TestThePageCannotBeFramedAndRunsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const evil = `</span><script>alert(1)</script><img src=x onerror=alert(1)>"'><b>&amp;` + "\u202e\x07"
	m := s.registered(map[string]any{"client_name": evil, "redirect_uris": []string{callback, "https://client.example/?%22%3E%3Cscript%3E&'x'", "http://[::1]/cb", "com.example.app:/cb"}})
	for uri, action := range map[string]string{
		callback: "https://client.example", "https://client.example/?%22%3E%3Cscript%3E&'x'": "https://client.example", "http://[::1]:80/cb": "http:", "com.example.app:/cb": "com.example.app:",
	} {
		pages := map[string]reply{"the page": s.page(s.newBrowser(), request(m.ID, "redirect_uri", uri, "state", evil))}
		c := s.newBrowser()
		pages["a wrong token"] = s.post(c, authorizePath, url.Values{"ticket": {s.ticketOf(s.page(c, request(m.ID, "redirect_uri", uri)))}, "token": {evil}, "decision": {"allow"}})
		for name, got := range pages {
			policy := got.header.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || !strings.Contains(policy, "; form-action 'self' "+action+";") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
				t.Errorf("%s: %s", name, policy)
			}
			for header, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store"} {
				should.Equal(t, got.header.Get(header), want, "%s: %s", name, header)
			}
			for _, part := range []string{"<script", "<img", "<b>", "\u202e", "\x07", "onerror=alert(1)>"} {
				if strings.Contains(got.body, part) {
					t.Errorf("%s has %q:\n%s", name, part, got.body)
				}
			}
		}
		should.Contain(t, pages["the page"].body, "&lt;script&gt;alert(1)", "the name is not shown as text")
	}
	got := s.page(s.newBrowser(), request("<script>alert(1)</script>"))
	if !strings.Contains(got.header.Get("Content-Security-Policy"), "form-action 'none'") || strings.Contains(got.body, "<script") {
		t.Errorf("the page of an error: %v %s", got.header, got.body)
	}
	got = s.page(s.newBrowser(), request(m.ID, "state", evil, "response_type", evil))
	if s.linked(got).Query().Get("state") != evil || strings.Contains(got.body, "<script") || strings.Contains(got.body, "<img") || strings.Contains(got.body, `"'>`) {
		t.Errorf("the page of a client's error: %s", got.body)
	}
	cookie := s.page(s.newBrowser(), request(m.ID)).header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Lax", "Path=/"} {
		should.Contain(t, cookie, part, "the cookie")
	}
	secure := serve(t, func(o *Options) { o.Issuer = "https://sandbox.example.com" })
	if cookie := secure.page(secure.newBrowser(), request(secure.registered(nil).ID)).header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-csm_oauth=") || !strings.Contains(cookie, "Secure") {
		t.Errorf("over TLS the cookie is %s", cookie)
	}
}

// Whatever strangers do whose requests come from the same address, as all do behind a proxy, people let programs in.
func TestStrangersStopNobody(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	tokens := s.granted(m.ID)
	mallory := s.newBrowser()
	ticket := s.ticketOf(s.page(mallory, request(m.ID)))
	try := func(token, decision string) reply {
		r := httptest.NewRequest(http.MethodPost, authorizePath, strings.NewReader(url.Values{"ticket": {ticket}, "token": {token}, "decision": {decision}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		u, _ := url.Parse(s.url)
		r.AddCookie(mallory.Jar.Cookies(u)[0])
		w := httptest.NewRecorder()
		s.decide(w, r)
		return reply{w.Code, w.Header(), w.Body.String()}
	}
	for i := range 11_000 {
		// Each has a ticket of its own, as that of a page that was opened anew.
		other := ticketWith(s, ticket)
		other.ID = fmt.Sprint(i)
		ticket = s.seal(other)
		if got := try("", "refuse"); s.answer(got).Get("error") != "access_denied" {
			t.Fatalf("refusal %d: %d %s", i, got.status, got.body)
		}
	}
	for i := range 100 {
		if got := try(fmt.Sprint("csm_wrong", i), "allow"); got.status != http.StatusForbidden || !strings.Contains(got.body, "not a token that is good") || readTicket.FindString(got.body) == "" {
			t.Fatalf("wrong token %d: %d %s", i, got.status, got.body)
		}
	}
	for range 110 {
		s.registered(nil)
	}
	if back := s.answer(try(annsToken, "allow")); back.Get("code") == "" {
		t.Errorf("a person with a good token: %v", back)
	}
	if back := s.allowed(request(s.registered(nil).ID)); back.Get("code") == "" {
		t.Errorf("with a new program: %v", back)
	}
	should.OK(t, should.ErrOf(s.who(tokens.Access)), "who was let in before")
	if n := strings.Count(s.log.String(), "not good"); n == 0 || n > 50 {
		t.Errorf("the log has %d lines of wrong tokens", n)
	}
}

// Nor does a flood of registrations, however many come at once, keep people from the file.
func TestFloodsStopNobody(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	got := s.granted(m.ID)
	flood, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	begun := make(chan struct{}, 100)
	body := `{"redirect_uris":["` + callback + "?" + strings.Repeat("&", maxRedirectLen-len(callback)-1) + `"]}`
	for range cap(begun) {
		all.Go(func() {
			for flood.Err() == nil {
				s.register(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, registerPath, strings.NewReader(body)))
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		})
	}
	for range cap(begun) {
		<-begun
	}
	if next, reply := s.refreshed(m.ID, got.Refresh); next.Access == "" {
		t.Errorf("%d %s", reply.status, reply.body)
	}
	stop()
	all.Wait()
}

func TestWhatIsNoTokenDoesNotLockTheFile(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	got := s.granted(m.ID)
	lock, err := os.OpenFile(s.file+".lock", os.O_RDWR, 0)
	must.OK(t, err)
	defer lock.Close()
	must.OK(t, filelock.Try(lock))
	for _, wrong := range []string{"", "x", got.Access, strings.ReplaceAll(got.Refresh, "_", "-"), strings.Replace(got.Refresh, "_rt_g", "_rt_h", 1)} {
		if next, _ := s.refreshed(m.ID, wrong); next.Error != "invalid_grant" {
			t.Errorf("%q: %+v", wrong, next)
		}
	}
}

// One person who lets programs in without end is stopped, and nobody else.
func TestCodesOfOnePersonAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) {
		o.SignIn = func(token string) (principal.Principal, error) {
			return principal.Principal{Name: token, Source: "token"}, nil
		}
	})
	m := s.registered(nil)
	allow := func(name string) reply {
		c := s.newBrowser()
		return s.post(c, authorizePath, url.Values{"ticket": {s.ticketOf(s.page(c, request(m.ID)))}, "token": {name}, "decision": {"allow"}})
	}
	for range maxCodes {
		s.answer(allow("ann"))
	}
	if got := allow("ann"); got.status != http.StatusForbidden || !strings.Contains(got.body, "50 times") {
		t.Errorf("one more: %d %s", got.status, got.body)
	}
	if back := s.answer(allow("bob")); back.Get("code") == "" {
		t.Errorf("another person: %v", back)
	}
	s.pass(ticketTime + codeTime + time.Second)
	if back := s.answer(allow("ann")); back.Get("code") == "" {
		t.Errorf("later: %v", back)
	}
}

func TestRegistrationsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	granted := s.registered(nil)
	tokens := s.granted(granted.ID)
	// The most that is taken, of characters that JSON may write in six.
	long := callback + "?" + strings.Repeat("&", maxRedirectLen-len(callback)-1)
	body := func(uris ...string) string {
		text, _ := json.Marshal(map[string]any{"client_name": strings.Repeat("&", 1000), "redirect_uris": uris})
		return string(text)
	}
	should.Equal(t, s.do(http.DefaultClient, http.MethodPost, registerPath, nil, body(long, callback)).status, http.StatusBadRequest, "more than %d bytes", maxRedirectLen)
	m := s.registered(map[string]any{"client_name": strings.Repeat("&", 1000), "redirect_uris": []string{long}})
	err := s.o.Store.change(func(c *contents, now time.Time) error {
		for i := len(c.Clients); i < maxClients; i++ {
			more := *c.Clients[m.ID]
			more.Used = now.Add(time.Duration(i) * time.Millisecond)
			c.Clients[fmt.Sprint("flood", i)] = &more
		}
		return nil
	})
	must.OK(t, err)
	s.pass(time.Second)
	last := s.registered(nil)
	c, err := s.o.Store.file.Read()
	if err != nil || len(c.Clients) != maxClients || c.Clients[granted.ID] == nil || c.Clients[last.ID] == nil || c.Clients[m.ID] != nil {
		t.Errorf("%d clients are kept: %v", len(c.Clients), err)
	}
	should.OK(t, should.ErrOf(s.who(tokens.Access)), "the grant")
	if info, err := os.Stat(s.file); err != nil || info.Size() > ownfile.MaxBytes/8 {
		t.Errorf("the file has %d bytes: %v", info.Size(), err)
	}
}

func TestGrantsOfOnePersonAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	first := s.granted(m.ID)
	for range maxGrants {
		s.pass(15 * time.Second)
		s.granted(m.ID)
	}
	if grants, err := s.o.Store.Grants(); err != nil || len(grants) != maxGrants {
		t.Errorf("%d grants: %v", len(grants), err)
	}
	should.Be(t, should.ErrOf(s.who(first.Access)), errUnknown, "the longest unused")
	last := s.granted(m.ID)
	all := []tokens{last}
	for range maxAccess {
		next, _ := s.refreshed(m.ID, all[len(all)-1].Refresh)
		all = append(all, next)
		s.pass(time.Second)
	}
	good := 0
	for _, token := range all {
		if _, err := s.who(token.Access); err == nil {
			good++
		}
	}
	should.Equal(t, good, maxAccess, "access tokens are good")
}

// An answer says whose it is, so that a client that talks to several servers does not send this one's code to another.
func TestAnswersSayWhoseTheyAre(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	for name, back := range map[string]url.Values{
		"a code":   s.allowed(request(m.ID, "state", "")),
		"an error": s.linked(s.page(s.newBrowser(), request(m.ID, "response_type", "x", "state", ""))).Query(),
	} {
		if got := back["iss"]; len(got) != 1 || got[0] != s.url || back.Has("state") {
			t.Errorf("%s: %v", name, back)
		}
	}
}

func TestNoSecretIsInALog(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(map[string]any{"token_endpoint_auth_method": "client_secret_post"})
	c := s.newBrowser()
	ticket := s.ticketOf(s.page(c, request(m.ID)))
	s.post(c, authorizePath, url.Values{"ticket": {ticket}, "token": {"csm_wr0ngt0ken"}, "decision": {"allow"}})
	answer := s.post(c, authorizePath, url.Values{"ticket": {ticket}, "token": {annsToken}, "decision": {"allow"}})
	if answer.status != http.StatusSeeOther || answer.header.Get("Referrer-Policy") != "no-referrer" || answer.body != "" {
		t.Errorf("the client's address is sent to with %v and %q", answer.header, answer.body)
	}
	code := s.answer(answer).Get("code")
	form := redemption(m.ID, code, "client_secret", m.Secret)
	got, _ := s.ask(form)
	refresh := url.Values{"grant_type": {grantRefresh}, "client_id": {m.ID}, "client_secret": {m.Secret}, "refresh_token": {got.Refresh}}
	next, _ := s.ask(refresh)
	s.ask(refresh)
	s.ask(form)
	s.post(http.DefaultClient, revokePath, url.Values{"client_id": {m.ID}, "client_secret": {m.Secret}, "token": {next.Access}})
	said := s.log.String() + fmt.Sprint(s.events.events)
	if !strings.Contains(said, "used twice") || !strings.Contains(said, "ann") {
		t.Errorf("the log has %s", said)
	}
	for _, secret := range []string{ticket, "csm_wr0ngt0ken", annsToken, code, m.Secret, got.Access, got.Refresh, next.Access, next.Refresh, verifier} {
		if secret == "" || strings.Contains(said, secret) {
			t.Errorf("a log has %q:\n%s", secret, said)
		}
	}
}

// A document about a client is fetched from the open internet alone: nothing of this machine or its network is reached.
func TestDocumentsOfClientsReachNothingPrivate(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil { // only who may
		t.Logf("nothing listens on port 443: %v", err)
	} else {
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				reached.Add(1)
				c.Close()
			}
		}()
	}
	s := serve(t)
	for _, id := range []string{
		"https://127.0.0.1/c.json", "https://localhost/c.json", "https://10.0.0.1/c.json", "https://192.168.1.1/c.json", "https://169.254.169.254/latest/meta-data", "https://0.0.0.0/c.json",
		"https://2130706433/c.json", "https://127.1/c.json", "https://localhost:8443/c.json", "https://127.0.0.1:22/c.json", "https://[::1]/c.json", "https://[::ffff:127.0.0.1]/c.json",
		"https://client.example", "https://client.example/", "https://client.example/c.json?x", "https://client.example/c.json#x", "https://user:pw@client.example/c.json", "https://client.example/../c.json", "https://client.example/./c.json",
		"https://client.example/" + strings.Repeat("x", 500), "https:client.example/c.json", "https://", "https:///c.json", "https://cli ent.example/c.json", "http://client.example/c.json", "https://client.example./c.json",
	} {
		if got := s.page(s.newBrowser(), request(id)); got.status != http.StatusBadRequest || got.header.Get("Location") != "" || strings.Contains(got.body, "dial tcp") {
			t.Errorf("%s: %d %s", id, got.status, got.body)
		}
	}
	should.Equal(t, reached.Load(), 0, "this machine was reached")
}

// Whoever has documents looked up that never come has a few places, and none of those of clients that people have allowed.
func TestSlowDocumentsShutNobodyOut(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan string)
	d := newDocuments(transport(func(r *http.Request) (*http.Response, error) {
		asked <- r.URL.Hostname()
		if r.URL.Hostname() != "client.com" {
			<-ctx.Done()
		}
		w := httptest.NewRecorder()
		_, _ = fmt.Fprintf(w, `{"client_id": %q, "redirect_uris": [%q]}`, r.URL, callback)
		return w.Result(), nil
	}), time.Now)
	get := func(id string, isGranted bool) {
		go func() { _, _ = d.get(ctx, id, isGranted) }()
	}
	for _, host := range []string{"a.evil.com", "b.evil.com", "c.evil.com", "d.evil.com", "e.github.io", "f.github.io", "g.github.io"} {
		get("https://"+host+"/x", false)
	}
	for range 2 * hostFetches {
		<-asked
	}
	get("https://client.com/new", false)
	should.Equal(t, <-asked, "client.com", "has more places than others")
	for i := range maxFetches {
		get(fmt.Sprintf("https://evil%d.com/x", i), false)
	}
	for range maxFetches - 2*hostFetches {
		<-asked
	}
	get("https://client.com/known", true)
	should.Equal(t, <-asked, "client.com", "has a kept place")
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestDocumentsOfClients(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int32
	answers := map[string]func(w http.ResponseWriter){}
	document := func(path string, change map[string]any) {
		d := map[string]any{"client_id": "https://client.example" + path, "client_name": "Claude <b>", "redirect_uris": []string{callback, "http://localhost/callback"}, "grant_types": []string{"authorization_code", "refresh_token"}, "token_endpoint_auth_method": "none"}
		maps.Copy(d, change)
		body, _ := json.Marshal(d)
		answers[path] = func(w http.ResponseWriter) { _, _ = w.Write(body) }
	}
	document("/good.json", nil)
	document("/key.json", map[string]any{"token_endpoint_auth_method": "private_key_jwt"})
	document("/other.json", map[string]any{"client_id": "https://client.example/good.json"})
	document("/none.json", map[string]any{"client_id": ""})
	document("/secret.json", map[string]any{"client_secret": "x"})
	document("/post.json", map[string]any{"token_endpoint_auth_method": "client_secret_post"})
	document("/http.json", map[string]any{"redirect_uris": []string{"http://client.example/"}})
	document("/nowhere.json", map[string]any{"redirect_uris": []string{}})
	document("/implicit.json", map[string]any{"grant_types": []string{"implicit"}})
	document("/long.json", map[string]any{"client_name": strings.Repeat("x", 20_000)})
	answers["/text.json"] = func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }
	answers["/redirect.json"] = func(w http.ResponseWriter) {
		w.Header().Set("Location", "https://client.example/good.json")
		w.WriteHeader(http.StatusFound)
	}
	answers["/private.json"] = func(w http.ResponseWriter) {
		w.Header().Set("Location", "http://127.0.0.1/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	s := serve(t, func(o *Options) {
		o.Documents = transport(func(r *http.Request) (*http.Response, error) {
			fetched.Add(1)
			w := httptest.NewRecorder()
			if answer := answers[r.URL.Path]; answer != nil && r.URL.Host == "client.example" && r.Header.Get("Referer") == "" && r.Header.Get("Cookie") == "" {
				answer(w)
			} else {
				w.WriteHeader(http.StatusNotFound)
			}
			return w.Result(), nil
		})
	})
	const good = "https://client.example/good.json"
	page := s.page(s.newBrowser(), request(good))
	if page.status != http.StatusOK || !strings.Contains(page.body, "a program of <span class=\"who\">client.example</span>") || !strings.Contains(page.body, "“Claude &lt;b&gt;”") {
		t.Errorf("%d %s", page.status, page.body)
	}
	got := s.granted(good)
	if store := OpenStore(s.file); store.isGranted("https://client.example/other.json") || !store.isGranted(good) {
		t.Error("who has allowed it is not known")
	}
	next, _ := s.refreshed(good, got.Refresh)
	if who, err := s.who(next.Access); err != nil || who.Name != "ann" {
		t.Errorf("%+v %v", who, err)
	}
	should.Equal(t, fetched.Load(), 1, "it is fetched")
	s.pass(documentsFresh)
	if s.page(s.newBrowser(), request(good, "redirect_uri", "http://localhost:4711/callback")); fetched.Load() != 2 {
		t.Error("it is not fetched again")
	}
	should.Equal(t, s.page(s.newBrowser(), request(good, "redirect_uri", "https://evil.example/")).status, http.StatusBadRequest, "another address")
	if got := s.page(s.newBrowser(), request("https://client.example/key.json")); got.status != http.StatusOK {
		t.Errorf("a client with a key: %d %s", got.status, got.body)
	}
	if got, _ := s.ask(redemption(good, s.allowed(request(good)).Get("code"), "client_secret", "x")); got.Error != "invalid_client" {
		t.Errorf("with a secret: %+v", got)
	}
	for path := range answers {
		if path == "/good.json" || path == "/key.json" {
			continue
		}
		if got := s.page(s.newBrowser(), request("https://client.example"+path)); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	s.pass(documentsFresh)
	for i := range 200 {
		s.page(s.newBrowser(), request(fmt.Sprintf("https://client.example/flood%d.json", i)))
	}
	if got := s.page(s.newBrowser(), request(good)); got.status != http.StatusOK {
		t.Errorf("after many that strangers have asked for: %d %s", got.status, got.body)
	}
}
