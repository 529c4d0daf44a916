package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// issuer is a place where everybody who comes is bob.
type issuer struct {
	url    string
	codes  map[string]url.Values // what they were asked for with
	answer func(asked url.Values) (idToken string)
	name   string // by which it calls itself
	basic  bool
	secret string         // of the client; empty: it has none, and shows its id in the form
	change map[string]any // in what it says of itself
	asked  atomic.Int32   // for that
	groups []string       // that it says of people
	until  time.Time      // when what it says ends
	renews string         // is the refresh token that is good; empty: it gives out none
	says   int            // the status of an answer to one
}

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{secret: "s3cret", codes: make(map[string]url.Values), answer: func(asked url.Values) string { return "bob " + asked.Get("nonce") }}
	mux := http.NewServeMux()
	listening := httptest.NewServer(mux)
	t.Cleanup(listening.Close)
	i.url, i.name = listening.URL, listening.URL
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		methods := []string{methodPost}
		if i.basic || i.secret == "" {
			methods = []string{methodBasic, methodPost}
		}
		i.asked.Add(1)
		says := map[string]any{"issuer": i.name, "authorization_endpoint": i.url + "/authorize?tenant=1", "token_endpoint": i.url + "/token", "token_endpoint_auth_methods_supported": methods}
		maps.Copy(says, i.change)
		_ = json.NewEncoder(w).Encode(says)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		id, secret := r.PostFormValue("client_id"), r.PostFormValue("client_secret")
		if i.basic {
			id, secret, _ = r.BasicAuth()
		}
		answer := map[string]string{"access_token": "unused", "refresh_token": i.renews}
		if r.PostFormValue("grant_type") == grantRefresh {
			if good := i.renews != "" && r.PostFormValue("refresh_token") == i.renews && id == "sandbox" && secret == i.secret; !good || i.says != http.StatusOK {
				w.WriteHeader(max(i.says, http.StatusBadRequest))
				return
			}
			i.renews += "+"
			answer["refresh_token"], answer["id_token"] = i.renews, i.answer(url.Values{})
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
		asked := i.codes[r.PostFormValue("code")]
		delete(i.codes, r.PostFormValue("code"))
		if asked == nil || id != "sandbox" || secret != i.secret || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") || challengeOf(r.PostFormValue("code_verifier")) != asked.Get("code_challenge") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return
		}
		answer["id_token"] = i.answer(asked)
		_ = json.NewEncoder(w).Encode(answer)
	})
	return i
}

// signIn answers as the issuer does to a browser.
func (i *issuer) signIn(t *testing.T, sentTo string) string {
	t.Helper()
	u, err := url.Parse(sentTo)
	q := u.Query()
	if err != nil || !strings.HasPrefix(sentTo, i.url+"/authorize?") || q.Get("tenant") != "1" || q.Get("client_id") != "sandbox" || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" || !strings.Contains(q.Get("scope"), "openid") {
		t.Fatalf("the browser is sent to %s: %v", sentTo, err)
	}
	code := fmt.Sprint("code", len(i.codes), q.Get("nonce")[:8])
	i.codes[code] = q
	return callbackPath + "?" + url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.url}}.Encode()
}

func (i *issuer) provider() *Provider {
	return &Provider{Issuer: i.url, ClientID: "sandbox", ClientSecret: i.secret, Verify: func(_ context.Context, idToken string) (principal.Principal, string, time.Time, error) {
		name, nonce, is := strings.Cut(idToken, " ")
		if !is {
			return principal.Principal{}, "", time.Time{}, errors.New("not signed")
		}
		return principal.Principal{Name: name, Source: "oidc", Groups: i.groups}, nonce, i.until, nil
	}}
}

func TestPeopleSignInAtAnIssuer(t *testing.T) {
	t.Parallel()
	for _, client := range []struct {
		basic  bool
		secret string
	}{{false, "s3cret"}, {true, "s3cret"}, {false, ""}} {
		i := startIssuer(t)
		i.basic, i.secret = client.basic, client.secret
		s := serve(t, func(o *Options) { o.Provider, o.SignIn = i.provider(), nil })
		m := s.registered(nil)
		c := s.newBrowser()
		sent := s.page(c, request(m.ID))
		back := i.signIn(t, sent.header.Get("Location"))
		page := s.get(c, back)
		if !strings.Contains(page.body, `signed in as <span class="who">bob</span>`) || strings.Contains(page.body, `type="password"`) {
			t.Errorf("%d %s", page.status, page.body)
		}
		form := url.Values{"ticket": {s.ticketOf(page)}, "decision": {"allow"}}
		should.Equal(t, s.get(c, back).status, http.StatusForbidden, "the issuer's answer a second time")
		got, _ := s.ask(redemption(m.ID, s.answer(s.post(c, authorizePath, form)).Get("code")))
		if who, err := s.who(got.Access); err != nil || who.Name != "bob" || who.Source != "oauth" {
			t.Errorf("%+v %v", who, err)
		}
		should.Equal(t, s.post(c, authorizePath, form).status, http.StatusForbidden, "the page a second time")
		// What an issuer said once does not last for ever, however often it is refreshed.
		for range 31 {
			s.pass(24*time.Hour - time.Second)
			if next, _ := s.refreshed(m.ID, got.Refresh); next.Access != "" {
				got = next
			}
		}
		if _, err := s.who(got.Access); !errors.Is(err, errExpired) && !errors.Is(err, errUnknown) {
			t.Errorf("after 31 days: %v", err)
		}
		s.forget(i.url)
		if next, _ := s.refreshed(m.ID, got.Refresh); next.Error != "invalid_grant" {
			t.Errorf("without the issuer: %+v", next)
		}
	}
}

// The groups of a person are as old as their sign-in: they sign in again when the issuer's word ends, and after an hour at the latest.
func TestGroupsOfAnIssuerDoNotLast(t *testing.T) {
	t.Parallel()
	for until, lasts := range map[time.Duration]time.Duration{10 * time.Minute: 10 * time.Minute, 24 * time.Hour: accessTime} {
		i := startIssuer(t)
		s := serve(t, func(o *Options) { o.Provider, o.SignIn = i.provider(), nil })
		i.groups, i.until = []string{"staff"}, s.now.Add(until)
		m, c := s.registered(nil), s.newBrowser()
		page := s.get(c, i.signIn(t, s.page(c, request(m.ID)).header.Get("Location")))
		got, _ := s.ask(redemption(m.ID, s.answer(s.post(c, authorizePath, url.Values{"ticket": {s.ticketOf(page)}, "decision": {"allow"}})).Get("code")))
		s.pass(lasts - time.Second)
		got, _ = s.refreshed(m.ID, got.Refresh)
		if who, err := s.who(got.Access); err != nil || who.Name != "bob" {
			t.Errorf("before %v: %+v %v", lasts, who, err)
		}
		s.pass(2 * time.Second)
		if who, err := s.who(got.Access); err == nil {
			t.Errorf("after %v: %+v", lasts, who)
		}
		if next, _ := s.refreshed(m.ID, got.Refresh); next.Access != "" {
			t.Errorf("refreshed after %v", lasts)
		}
	}
}

// Where the issuer gives out a refresh token, it is asked anew when its word ends, without the person.
func TestGroupsOfAnIssuerAreRenewed(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	s := serve(t, func(o *Options) { o.Provider, o.SignIn = i.provider(), nil })
	i.groups, i.until, i.renews, i.says = []string{"staff"}, s.now.Add(5*time.Minute), "issuers-own-token", http.StatusOK
	m, c := s.registered(nil), s.newBrowser()
	page := s.get(c, i.signIn(t, s.page(c, request(m.ID)).header.Get("Location")))
	got, _ := s.ask(redemption(m.ID, s.answer(s.post(c, authorizePath, url.Values{"ticket": {s.ticketOf(page)}, "decision": {"allow"}})).Get("code")))
	if got.Expires != 300 {
		t.Errorf("it lasts %d s", got.Expires)
	}
	for _, step := range []struct {
		says  int
		who   string
		group string
		want  string // the error
	}{
		{200, "bob", "admins", ""}, {200, "bob", "staff", ""}, {503, "bob", "staff", "server_error"}, {429, "bob", "staff", "server_error"}, {200, "bob", "staff", ""},
		{200, "eve", "staff", "invalid_grant"}, {200, "bob", "staff", "invalid_grant"},
	} {
		s.pass(5 * time.Minute)
		if who, err := s.who(got.Access); err == nil {
			t.Errorf("after its end: %+v", who)
		}
		i.says, i.groups, i.until = step.says, []string{step.group}, s.now.Add(5*time.Minute)
		i.answer = func(url.Values) string { return step.who + " " }
		next, _ := s.refreshed(m.ID, got.Refresh)
		should.Equal(t, next.Error, step.want, "%+v: %+v", step, next)
		if step.want != "" {
			continue
		}
		got = next
		grants, _ := OpenStore(s.file).Grants()
		if who, err := s.who(got.Access); err != nil || who.Name != "bob" || !slices.Equal(grants[0].Groups, i.groups) || got.Expires != 300 {
			t.Errorf("%+v: %+v %v, for %d s, of %v", step, who, err, got.Expires, grants)
		}
		if text, err := os.ReadFile(s.file); err != nil || bytes.Contains(text, []byte("issuers-own")) || !bytes.Contains(text, []byte(`"renewal"`)) {
			t.Errorf("the file is %s, %v", text, err)
		}
	}
	if grants, _ := OpenStore(s.file).Grants(); len(grants) > 0 {
		t.Errorf("there is %+v", grants)
	}
	if strings.Contains(page.body, "issuers-own") || reveal("another key", hide("a key", "x")) != "" {
		t.Error("what is hidden can be read")
	}
}

func TestAnswersOfAnIssuerThatAreNotTaken(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	s := serve(t, func(o *Options) { o.Provider, o.SignIn = i.provider(), nil })
	m := s.registered(nil)
	begin := func() (*http.Client, url.Values) {
		c := s.newBrowser()
		back, _ := url.Parse(i.signIn(t, s.page(c, request(m.ID)).header.Get("Location")))
		return c, back.Query()
	}
	come := func(c *http.Client, q url.Values) reply { return s.get(c, callbackPath+"?"+q.Encode()) }
	_, theirs := begin()
	mine, q := begin()
	if got := come(mine, theirs); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
		t.Errorf("what another browser has begun: %d", got.status)
	}
	for name, change := range map[string][2]string{
		"without a state": {"state", ""}, "with a wrong one": {"state", "x.y"}, "of another issuer": {"iss", "https://other.example"},
	} {
		wrong := url.Values{"code": q["code"], "state": q["state"], "iss": q["iss"]}
		wrong.Set(change[0], change[1])
		if got := come(mine, wrong); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	mixed := url.Values{"code": theirs["code"], "state": q["state"]}
	should.Equal(t, come(mine, mixed).status, http.StatusForbidden, "another's code")
	for name, answer := range map[string]func(url.Values) string{
		"no token": func(url.Values) string { return "" }, "another's nonce": func(url.Values) string { return "bob x" },
		"no nonce": func(url.Values) string { return "bob " }, "nobody": func(asked url.Values) string { return " " + asked.Get("nonce") },
	} {
		i.answer = answer
		c, q := begin()
		if got := come(c, q); got.status != http.StatusForbidden || strings.Contains(got.body, "<form") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	c, q := begin()
	refusal := url.Values{"state": q["state"], "error": {"login_required"}}
	if back := s.linked(come(c, refusal)).Query(); back.Get("error") != "access_denied" {
		t.Errorf("who has not signed in: %v", back)
	}
	// The ticket of a request is none of a person who has signed in.
	should.Equal(t, s.post(c, authorizePath, url.Values{"ticket": q["state"], "token": {annsToken}, "decision": {"allow"}}).status, http.StatusForbidden, "without signing in")
	if strings.Contains(s.log.String(), "s3cret") {
		t.Error("the log has the secret")
	}
}

// Strangers do not wear an issuer down, and what one of them waits for is the others' too.
func TestAnIssuerIsAskedSeldom(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	s := serve(t, func(o *Options) { o.Provider, o.SignIn = i.provider(), nil })
	m := s.registered(nil)
	come := func(want int, asked int32) {
		t.Helper()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				w := httptest.NewRecorder()
				if s.authorize(w, httptest.NewRequest(http.MethodGet, authorizePath+"?"+request(m.ID).Encode(), nil)); w.Code != want {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		all.Wait()
		if n := i.asked.Load(); n != asked {
			t.Errorf("it was asked %d times, and not %d", n, asked)
		}
	}
	come(http.StatusFound, 1)
	s.pass(discoveryFresh)
	i.name = "https://other.example"
	come(http.StatusBadGateway, 2)
	i.name = i.url
	s.pass(discoveryAgain)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.authorize(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, http.MethodGet, authorizePath+"?"+request(m.ID).Encode(), nil))
	come(http.StatusFound, 3)
}

// A secret goes nowhere in clear, nor a browser to where somebody on the way says what it shows.
func TestEndpointsOfAnIssuerAreSafe(t *testing.T) {
	t.Parallel()
	for _, changed := range []string{"token_endpoint", "authorization_endpoint"} {
		for _, address := range []string{"", "http://id.example/x", "http://10.0.0.1/x", "ftp://127.0.0.1/x", "//id.example/x", "javascript:alert(1)"} {
			i := startIssuer(t)
			i.change = map[string]any{changed: address}
			s := serve(t, func(o *Options) { o.Provider, o.SignIn = i.provider(), nil })
			if got := s.page(s.newBrowser(), request(s.registered(nil).ID)); got.status != http.StatusBadGateway || got.header.Get("Location") != "" {
				t.Errorf("%s %q: %d %s", changed, address, got.status, got.header.Get("Location"))
			}
		}
	}
}
