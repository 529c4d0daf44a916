package oauth

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestAPersonAllowsAProgramIn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	if m.Method != "none" || m.Secret != "" || !reflect.DeepEqual(m.Redirects, []string{callback}) || !reflect.DeepEqual(m.Grants, []string{"authorization_code", "refresh_token"}) {
		t.Errorf("registered as %+v", m)
	}
	c := s.newBrowser()
	page := s.page(c, request(m.ID, "resource", s.url+"/mcp"))
	for _, part := range []string{"“Claude”", "Nobody has checked that", "the web site client.example", `type="password"`} {
		if !strings.Contains(page.body, part) {
			t.Errorf("the page does not have %q:\n%s", part, page.body)
		}
	}
	back := s.answer(s.post(c, authorizePath, url.Values{"ticket": {s.ticketOf(page)}, "token": {" " + annsToken + "\n"}, "decision": {"allow"}}, "Origin", s.url, "Sec-Fetch-Site", "same-origin"))
	if back.Get("state") != "a state" || back.Get("iss") != s.url || back.Has("error") || !strings.HasPrefix(back.Get("code"), codePrefix) {
		t.Fatalf("the client gets %v", back)
	}
	got, answered := s.ask(redemption(m.ID, back.Get("code"), "resource", s.url+"/mcp"))
	if answered.status != http.StatusOK || got.Type != "Bearer" || got.Expires != 3600 || got.Scope != Scope || got.Refresh == "" || answered.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%+v %+v", got, answered)
	}
	want := principal.Principal{Name: "ann", Groups: []string{"physics"}, Source: "oauth"}
	if who, err := s.who(got.Access); err != nil || !reflect.DeepEqual(who, want) {
		t.Errorf("%+v %v", who, err)
	}
	s.groups = []string{"maths"}
	next, _ := s.refreshed(m.ID, got.Refresh)
	if who, err := s.who(next.Access); err != nil || who.Name != "ann" || !reflect.DeepEqual(who.Groups, s.groups) || next.Refresh == got.Refresh {
		t.Errorf("%+v %v", who, err)
	}
	if !s.events.has(audit.KindSignIn, "success", "ann") {
		t.Error("nothing is recorded")
	}
	grants, err := s.o.Store.Grants()
	if err != nil || len(grants) != 1 || grants[0].Principal != "ann" || grants[0].ClientName != "Claude" || grants[0].Redirect != "client.example" {
		t.Errorf("%+v %v", grants, err)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	s := serve(t)
	want := map[string]any{
		"issuer": s.url, "authorization_endpoint": s.url + "/oauth/authorize", "token_endpoint": s.url + "/oauth/token",
		"registration_endpoint": s.url + "/oauth/register", "revocation_endpoint": s.url + "/oauth/revoke",
		"scopes_supported": []any{"sandbox", "offline_access"}, "response_types_supported": []any{"code"}, "response_modes_supported": []any{"query"},
		"grant_types_supported": []any{"authorization_code", "refresh_token"}, "code_challenge_methods_supported": []any{"S256"},
		"token_endpoint_auth_methods_supported":      []any{"none", "client_secret_post", "client_secret_basic"},
		"revocation_endpoint_auth_methods_supported": []any{"none", "client_secret_post", "client_secret_basic"},
		"client_id_metadata_document_supported":      true, "authorization_response_iss_parameter_supported": true,
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/mcp"} {
		reply := s.get(http.DefaultClient, path)
		var got map[string]any
		if err := json.Unmarshal([]byte(reply.body), &got); err != nil || !reflect.DeepEqual(got, want) || reply.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v %v", path, got, err)
		}
	}
}

func TestIssuers(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://sandbox.example.com": "https://sandbox.example.com", "https://Sandbox.Example.com/": "https://sandbox.example.com",
		"https://sandbox.example.com:443": "https://sandbox.example.com", "https://sandbox.example.com:8443": "https://sandbox.example.com:8443",
		"http://localhost:8000": "http://localhost:8000", "http://127.0.0.1:8000": "http://127.0.0.1:8000", "http://[::1]:80": "http://[::1]",
		"http://sandbox.example.com": "", "http://10.0.0.1": "", "https://sandbox.example.com/path": "", "https://user@sandbox.example.com": "",
		"https://sandbox.example.com?a": "", "https://sandbox.example.com#a": "", "ftp://sandbox.example.com": "", "sandbox.example.com": "", "": "",
		"http://localhost.example.com": "",
	} {
		if got, err := CheckIssuer(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v", address, got, err)
		}
	}
}

// What a client may be that has no secret, and what it may be that has one.
func TestClientsWithASecret(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, method := range []string{"client_secret_post", "client_secret_basic"} {
		m := s.registered(map[string]any{"token_endpoint_auth_method": method})
		if m.Method != method || len(m.Secret) < 32 || m.SecretEnds == nil || *m.SecretEnds != 0 {
			t.Fatalf("%s: registered as %+v", method, m)
		}
		basic := func(secret string) []string {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.SetBasicAuth(url.QueryEscape(m.ID), url.QueryEscape(secret))
			return []string{"Authorization", r.Header.Get("Authorization")}
		}
		for _, attempt := range []struct {
			name   string
			change []string
			header []string
			good   string
		}{
			{"without", nil, nil, ""},
			{"a wrong one", []string{"client_secret", "x"}, nil, ""},
			{"a wrong one in the header", []string{"client_id", ""}, basic("x"), ""},
			{"both ways", []string{"client_secret", m.Secret}, basic(m.Secret), ""},
			{"in the form", []string{"client_secret", m.Secret}, nil, "client_secret_post"},
			{"in the header", []string{"client_id", ""}, basic(m.Secret), "client_secret_basic"},
		} {
			code := s.allowed(request(m.ID)).Get("code")
			got, reply := s.ask(redemption(m.ID, code, attempt.change...), attempt.header...)
			if want := attempt.good == method; want != (got.Access != "") || !want && (got.Error != "invalid_client" || reply.status != http.StatusUnauthorized) {
				t.Errorf("%s, %s: %d %+v", method, attempt.name, reply.status, got)
			}
		}
	}
}

func TestRefreshTokensAreForWhoAsksForThem(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, c := range []struct {
		grants []string
		scope  string
		want   bool
	}{
		{[]string{"authorization_code"}, Scope, false},
		{nil, "", false},
		{[]string{"authorization_code"}, "sandbox offline_access", true},
		{[]string{"authorization_code", "refresh_token"}, "", true},
		{[]string{"authorization_code", "refresh_token"}, "offline_access", true},
	} {
		m := s.registered(map[string]any{"grant_types": c.grants})
		got, _ := s.ask(redemption(m.ID, s.allowed(request(m.ID, "scope", c.scope)).Get("code")))
		if got.Access == "" || (got.Refresh != "") != c.want || !strings.HasPrefix(got.Scope, Scope) {
			t.Errorf("%v, %q: %+v", c.grants, c.scope, got)
		}
	}
}

func TestTokensEnd(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	got := s.granted(m.ID)
	s.pass(time.Hour)
	should.Be(t, should.ErrOf(s.who(got.Access)), errExpired, "an access token after an hour")
	s.pass(29 * 24 * time.Hour)
	next, _ := s.refreshed(m.ID, got.Refresh)
	should.OK(t, should.ErrOf(s.who(next.Access)), "a refresh token before its end")
	s.pass(30 * 24 * time.Hour)
	if next, _ := s.refreshed(m.ID, next.Refresh); next.Error != "invalid_grant" {
		t.Errorf("a refresh token after its end: %+v", next)
	}
	_ = s.registered(nil) // a change forgets what is over
	if text, err := os.ReadFile(s.file); err != nil || strings.Contains(string(text), `"ann"`) {
		t.Errorf("the grant is kept: %s %v", text, err)
	}
}

func TestARevokedTokenOfAPersonEndsItsGrants(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	got := s.granted(m.ID)
	code := s.allowed(request(m.ID)).Get("code")
	s.forget(sumOf(annsToken))
	should.Be(t, should.ErrOf(s.who(got.Access)), errNotGood, "the access token")
	if next, _ := s.refreshed(m.ID, got.Refresh); next.Error != "invalid_grant" {
		t.Errorf("the refresh token: %+v", next)
	}
	if next, _ := s.ask(redemption(m.ID, code)); next.Error != "invalid_grant" {
		t.Errorf("the code: %+v", next)
	}
}

func TestGrantsAreRevoked(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	other := s.registered(nil)
	for name, revoke := range map[string]func(tokens) bool{
		"by its refresh token": func(got tokens) bool {
			return s.post(http.DefaultClient, revokePath, url.Values{"client_id": {m.ID}, "token": {got.Refresh}, "token_type_hint": {"refresh_token"}}).status == http.StatusOK
		},
		"by its access token": func(got tokens) bool {
			return s.post(http.DefaultClient, revokePath, url.Values{"client_id": {m.ID}, "token": {got.Access}}).status == http.StatusOK
		},
		"by a command": func(tokens) bool {
			revoked, err := OpenStore(s.file).Revoke(func(g *Grant) bool { return g.Principal == "ann" })
			return err == nil && len(revoked) == 1
		},
	} {
		got := s.granted(m.ID)
		for _, form := range []url.Values{{"client_id": {other.ID}, "token": {got.Refresh}}, {"token": {got.Access}}, {"client_id": {"unknown"}, "token": {got.Access}}} {
			if reply := s.post(http.DefaultClient, revokePath, form); reply.status == http.StatusOK {
				t.Errorf("another client has revoked it: %v", form)
			}
		}
		for _, none := range []string{"", "x", got.Access + "x", refreshPrefix, accessPrefix + "_", strings.Replace(got.Refresh, "_rt_", "_at_", 1)} {
			should.Equal(t, s.post(http.DefaultClient, revokePath, url.Values{"client_id": {m.ID}, "token": {none}}).status, http.StatusOK, "%q", none)
		}
		must.OK(t, should.ErrOf(s.who(got.Access)), "%s: before", name)
		if !revoke(got) {
			t.Errorf("%s: it is not done", name)
		}
		should.Be(t, should.ErrOf(s.who(got.Access)), errUnknown, "%s: the access token", name)
		if next, _ := s.refreshed(m.ID, got.Refresh); next.Error != "invalid_grant" {
			t.Errorf("%s: the refresh token: %+v", name, next)
		}
	}
}

func TestGrantsSurviveARestart(t *testing.T) {
	t.Parallel()
	s := serve(t)
	m := s.registered(nil)
	got := s.granted(m.ID)
	again := New(Options{Issuer: s.url, Resource: "/mcp", Store: OpenStore(s.file)})
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+got.Access)
	if who, err := again.Authenticate(r); err != nil || who.Name != "ann" {
		t.Errorf("%+v %v", who, err)
	}
	elsewhere := New(Options{Issuer: "https://other.example", Resource: "/mcp", Store: OpenStore(s.file)})
	should.Be(t, should.ErrOf(elsewhere.Authenticate(r)), errAudience, "a server with another address takes it")
	info, err := os.Stat(s.file)
	if err != nil || info.Mode().Perm() != 0o600 && filepath.Separator == '/' {
		t.Errorf("%v %v", info.Mode(), err)
	}
	text, _ := os.ReadFile(s.file)
	for _, secret := range []string{got.Access, got.Refresh, annsToken} {
		if strings.Contains(string(text), secret[len(secret)-12:]) {
			t.Errorf("the file has %q", secret)
		}
	}
}

func TestWhatIsNoAccessTokenIsForOthers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	got := s.granted(s.registered(nil).ID)
	for token, want := range map[string]error{
		"": principal.ErrNone, annsToken: principal.ErrNone, got.Refresh: principal.ErrNone,
		accessPrefix: errUnknown, got.Access[:len(got.Access)-1]: errUnknown, got.Access + "x": errUnknown, accessPrefix + "gx_y": errUnknown,
		strings.ToLower(got.Access): errUnknown,
	} {
		should.Be(t, should.ErrOf(s.who(token)), want, "%q", token)
	}
}
