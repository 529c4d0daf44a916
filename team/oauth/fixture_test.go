package oauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

const (
	annsToken = "csm_anns0wnt0ken"
	verifier  = "0123456789-0123456789-0123456789-0123456789"
	callback  = "https://client.example/callback"
)

// site is an authorization server with what a test changes of it.
type site struct {
	*Server
	t      *testing.T
	url    string
	mux    *http.ServeMux
	file   string
	log    *locked.Buffer
	events *recorder
	mu     sync.Mutex
	now    time.Time
	gone   map[string]bool // credentials that are not good any more
	groups []string        // of everybody now
}

type recorder struct {
	mu     sync.Mutex
	events []audit.Event
}

func (r *recorder) Record(e audit.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) has(kind, outcome, principal string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind && e.Outcome == outcome && e.Principal == principal {
			return true
		}
	}
	return false
}

func (s *site) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *site) forget(credential string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[credential] = true
}

// serve begins a server in which ann may sign in with her token.
func serve(t *testing.T, change ...func(*Options)) *site {
	t.Helper()
	s := &site{t: t, groups: []string{"physics"}, log: &locked.Buffer{}, events: &recorder{}, now: time.Now(), gone: make(map[string]bool), file: filepath.Join(t.TempDir(), FileName)}
	mux := http.NewServeMux()
	listening := httptest.NewServer(mux)
	t.Cleanup(listening.Close)
	s.url, s.mux = listening.URL, mux
	o := Options{
		Issuer: listening.URL, Resource: "/mcp", Store: OpenStore(s.file),
		SignIn: func(token string) (principal.Principal, error) {
			if token != annsToken || !s.good(sumOf(token)) {
				return principal.Principal{}, errors.New("unknown")
			}
			return principal.Principal{Name: "ann", Groups: s.groups, Source: "token"}, nil
		},
		Still: func(p principal.Principal, credential string) (principal.Principal, error) {
			if !s.good(credential) {
				return principal.Principal{}, errors.New("unknown")
			}
			p.Groups = s.groups
			return p, nil
		},
		Audit: s.events, Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now: func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.now
		},
	}
	for _, change := range change {
		change(&o)
	}
	s.Server = New(o)
	for pattern, handler := range s.Handlers() {
		mux.Handle(pattern, handler)
	}
	return s
}

func (s *site) good(credential string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.gone[credential]
}

// browser is one that goes where it is told, and no further.
func (s *site) newBrowser() *http.Client {
	jar, _ := cookiejar.New(nil)
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (s *site) do(c *http.Client, method, path string, header http.Header, body string) reply {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	must.OK(s.t, err)
	maps.Copy(request.Header, header)
	response, err := c.Do(request)
	must.OK(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must.OK(s.t, err)
	return reply{response.StatusCode, response.Header, string(text)}
}

func (s *site) get(c *http.Client, path string) reply {
	s.t.Helper()
	return s.do(c, http.MethodGet, path, nil, "")
}

// post sends a form, as a page of here does.
func (s *site) post(c *http.Client, path string, form url.Values, header ...string) reply {
	s.t.Helper()
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return s.do(c, http.MethodPost, path, h, form.Encode())
}

// registered returns a new client.
func (s *site) registered(more map[string]any) metadata {
	s.t.Helper()
	asked := map[string]any{"client_name": "Claude", "redirect_uris": []string{callback}, "grant_types": []string{"authorization_code", "refresh_token"}}
	maps.Copy(asked, more)
	body, _ := json.Marshal(asked)
	got := s.do(http.DefaultClient, http.MethodPost, registerPath, http.Header{"Content-Type": {"application/json"}}, string(body))
	var m metadata
	if err := json.Unmarshal([]byte(got.body), &m); err != nil || got.status != http.StatusCreated {
		s.t.Fatalf("%d %s", got.status, got.body)
	}
	return m
}

// request is the query of a good authorization request; an empty value leaves one out.
func request(client string, change ...string) url.Values {
	q := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {callback}, "state": {"a state"}, "scope": {Scope},
		"code_challenge": {challengeOf(verifier)}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(change); i += 2 {
		q.Set(change[i], change[i+1])
		if change[i+1] == "" {
			q.Del(change[i])
		}
	}
	return q
}

var readTicket = regexp.MustCompile(`name="ticket" value="([^"]+)"`)

func (s *site) ticketOf(page reply) string {
	s.t.Helper()
	found := readTicket.FindStringSubmatch(page.body)
	if page.status != http.StatusOK || found == nil {
		s.t.Fatalf("%d %s", page.status, page.body)
	}
	return html.UnescapeString(found[1])
}

func (s *site) page(c *http.Client, q url.Values) reply {
	s.t.Helper()
	return s.get(c, authorizePath+"?"+q.Encode())
}

// allowed has ann allow what is asked for, and returns what the client gets to see.
func (s *site) allowed(q url.Values) url.Values {
	s.t.Helper()
	c := s.newBrowser()
	return s.answer(s.post(c, authorizePath, url.Values{"ticket": {s.ticketOf(s.page(c, q))}, "token": {annsToken}, "decision": {"allow"}}))
}

func (s *site) answer(got reply) url.Values {
	s.t.Helper()
	u, err := url.Parse(got.header.Get("Location"))
	if got.status != http.StatusFound && got.status != http.StatusSeeOther || err != nil || u.Host == "" && u.Opaque == "" && u.Path == "" {
		s.t.Fatalf("%d %q %s", got.status, got.header.Get("Location"), got.body)
	}
	return u.Query()
}

var readLink = regexp.MustCompile(`<a href="([^"]+)"`)

// linked is where the link of a page leads that sends its browser nowhere.
func (s *site) linked(page reply) *url.URL {
	s.t.Helper()
	found := readLink.FindStringSubmatch(page.body)
	if found == nil || page.header.Get("Location") != "" {
		s.t.Fatalf("%d %q %s", page.status, page.header.Get("Location"), page.body)
	}
	u, err := url.Parse(html.UnescapeString(found[1]))
	must.OK(s.t, err)
	return u
}

type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"`
	Scope   string
	Error   string
}

func (s *site) ask(form url.Values, header ...string) (tokens, reply) {
	s.t.Helper()
	got := s.post(http.DefaultClient, tokenPath, form, header...)
	var out tokens
	must.OK(s.t, json.Unmarshal([]byte(got.body), &out), "%d %s", got.status, got.body)
	return out, got
}

// redemption is a good form for a code; an empty value leaves one out.
func redemption(client, code string, change ...string) url.Values {
	form := url.Values{"grant_type": {grantCode}, "client_id": {client}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier}}
	for i := 0; i < len(change); i += 2 {
		form.Set(change[i], change[i+1])
		if change[i+1] == "" {
			form.Del(change[i])
		}
	}
	return form
}

// granted has ann allow a client, and returns its tokens.
func (s *site) granted(client string) tokens {
	s.t.Helper()
	out, got := s.ask(redemption(client, s.allowed(request(client)).Get("code")))
	must.Equal(s.t, got.status, http.StatusOK, "%s", got.body)
	return out
}

func (s *site) refreshed(client, token string) (tokens, reply) {
	s.t.Helper()
	return s.ask(url.Values{"grant_type": {grantRefresh}, "client_id": {client}, "refresh_token": {token}})
}

// who returns whose an access token is.
func (s *site) who(token string) (principal.Principal, error) {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return s.Authenticate(r)
}

func decoded(body string) string {
	text, _ := base64.RawURLEncoding.DecodeString(body)
	return string(text)
}
