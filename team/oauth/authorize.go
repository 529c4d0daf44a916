// The authorization endpoint, and the page on which a person decides.

package oauth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

const (
	// ticketTime is the time in which a person must decide.
	ticketTime = 10 * time.Minute
	// maxQuery bounds a request, which a page carries along, and the address of a Provider too.
	maxQuery = 4 << 10
	maxForm  = 16 << 10
	// maxTicket is the largest form with a ticket, which has the groups of a person.
	maxTicket = 256 << 10
	// maxCodes is how often one principal may allow something while codes are remembered.
	maxCodes = 50
)

// isChallenge is a SHA-256 sum in base64url.
var isChallenge = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// asked is an authorization request that may be answered: its client is known, and the address is one of its own.
type asked struct {
	Client    string `json:"c"`
	Name      string `json:"n,omitempty"`
	Redirect  string `json:"u"`
	State     string `json:"s,omitempty"`
	Challenge string `json:"p"`
	Scope     string `json:"o"`
	Refresh   bool   `json:"r,omitempty"`
}

// ticket is the data that a page carries from a request to the decision on it, signed: the server keeps nothing of undecided requests.
type ticket struct {
	asked
	ID      string    `json:"id"`
	Browser string    `json:"b"` // the sum of its cookie
	Ends    time.Time `json:"e"`
	// Person signed in at the Provider.
	Person *principal.Principal `json:"w,omitempty"`
	// Until is how long the Provider says so.
	Until time.Time `json:"until,omitzero"`
	// Renewal is the Provider's refresh token, hidden from the browser.
	Renewal string `json:"renewal,omitempty"`
}

// code is a person's decision until its client asks for the tokens, and for a while longer, to know it again.
type code struct {
	asked
	grant Grant
	ends  time.Time
	spent bool
}

// protocolError is an error that a client is told: by a browser, where its person follows a link.
type protocolError struct{ code, description string }

func (e protocolError) Error() string { return e.code + ": " + e.description }

// read returns the request with which a browser was sent here. An error that is no protocolError is for the person alone.
func (s *Server) read(r *http.Request) (asked, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(r.URL.RawQuery) > maxQuery {
		return asked{}, errNoClient(fmt.Sprintf("The address that you were sent to cannot be read, or has more than %d bytes.", maxQuery))
	}
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(q[name]) > 1 {
			return asked{}, errNoClient("The request has " + name + " twice.")
		}
	}
	known, err := s.find(r.Context(), q.Get("client_id"))
	if err != nil {
		return asked{}, err
	}
	if !isRedirect(known.Redirects, q.Get("redirect_uri")) {
		return asked{}, errNoClient("The request has an address for its answer (redirect_uri) that is none of those of the program. Nothing is sent there.")
	}
	a := asked{Client: q.Get("client_id"), Name: known.Name, Redirect: q.Get("redirect_uri"), State: q.Get("state"), Challenge: q.Get("code_challenge"), Scope: Scope}
	scopes := strings.Fields(q.Get("scope"))
	a.Refresh = known.Refresh || slices.Contains(scopes, scopeOffline)
	invalid := func(description string) (asked, error) { return a, protocolError{"invalid_request", description} }
	for name, values := range q {
		if len(values) > 1 {
			return invalid(text.Shorten(fmt.Sprintf("%q is there twice", name), 60))
		}
	}
	switch {
	case q.Has("request"):
		return a, protocolError{"request_not_supported", "send the parameters themselves"}
	case q.Has("request_uri"):
		return a, protocolError{"request_uri_not_supported", "send the parameters themselves"}
	case q.Get("response_type") != "code":
		return a, protocolError{"unsupported_response_type", "response_type must be code"}
	case q.Has("response_mode") && q.Get("response_mode") != "query":
		return invalid("response_mode must be query")
	case q.Get("code_challenge_method") != "S256":
		return invalid("PKCE is required: code_challenge_method must be S256")
	case !isChallenge.MatchString(a.Challenge):
		return invalid("PKCE is required: code_challenge must be a SHA-256 sum in base64url")
	case q.Has("resource") && !s.isResource(q.Get("resource")):
		return a, protocolError{"invalid_target", "tokens are given out for " + s.resource + " alone"}
	case len(scopes) > 0 && !slices.Contains(scopes, Scope) && !slices.Contains(scopes, scopeOffline):
		return a, protocolError{"invalid_scope", "the scope is " + Scope}
	case slices.Contains(strings.Fields(q.Get("prompt")), "none"):
		return a, protocolError{"consent_required", "a person is always asked"}
	}
	if a.Refresh && slices.Contains(scopes, scopeOffline) {
		a.Scope += " " + scopeOffline
	}
	return a, nil
}

// isResource reports whether a resource indicator (RFC 8707) names the one that tokens are good for.
func (s *Server) isResource(indicator string) bool {
	return strings.TrimSuffix(indicator, "/") == s.resource
}

// authorize is where clients send browsers to.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	a, err := s.read(r)
	var told protocolError
	switch {
	case errors.As(err, &told):
		s.offer(w, http.StatusBadRequest, a, "The program that sent you here asks for something that this server does not do: "+told.description+".", told)
		return
	case err != nil:
		s.showError(w, http.StatusBadRequest, err)
		return
	}
	t := ticket{asked: a, ID: rand.Text(), Browser: sumOf(s.browser(w, r)), Ends: s.o.Now().Add(ticketTime).UTC()}
	if s.provider == nil {
		s.show(w, http.StatusOK, t, "")
		return
	}
	address, err := s.provider.address(r.Context(), s.o.Issuer+callbackPath, s.seal(t), s.derive(t, "nonce"), challengeOf(s.derive(t, "verifier")))
	if err != nil {
		s.warn("nobody can sign in", "issuer", s.provider.Issuer, "error", err)
		s.showError(w, http.StatusBadGateway, errNoClient("The server cannot reach the place where people sign in. Try again in a minute."))
		return
	}
	s.lead(w, r, address)
}

// callback is where the Provider sends a browser to.
func (s *Server) callback(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	t, err := s.open(q.Get("state"), r)
	switch {
	case s.provider == nil || err == nil && t.Person != nil:
		err = errNoClient("There is nothing here.")
	case err == nil && q.Has("iss") && q.Get("iss") != s.provider.Issuer:
		err = errNoClient("The answer comes from another place than that where you were sent to sign in.")
	}
	if err != nil {
		s.showError(w, http.StatusBadRequest, err)
		return
	}
	if q.Get("code") == "" {
		s.offer(w, http.StatusForbidden, t.asked, "You have not signed in.", protocolError{"access_denied", "the person has not signed in"})
		return
	}
	now, err := s.provider.exchange(r.Context(), q.Get("code"), s.o.Issuer+callbackPath, s.derive(t, "verifier"), s.derive(t, "nonce"))
	if err != nil {
		s.warn("somebody could not sign in", "issuer", s.provider.Issuer, "error", err)
		s.showError(w, http.StatusForbidden, errNoClient("You could not be signed in. The server's log says why."))
		return
	}
	t.Person, t.Until, t.Renewal = &now.who, now.until, hide(string(s.key), now.renewal)
	s.show(w, http.StatusOK, t, "")
}

// decide handles a person's decision on the page.
func (s *Server) decide(w http.ResponseWriter, r *http.Request) {
	if err := s.origin.Check(r); err != nil {
		s.showError(w, http.StatusForbidden, errNoClient("This came from a page of another place."))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxTicket)
	if err := r.ParseForm(); err != nil {
		s.showError(w, http.StatusBadRequest, errNoClient("The form cannot be read."))
		return
	}
	t, err := s.open(r.PostForm.Get("ticket"), r)
	if err == nil && s.provider != nil && t.Person == nil {
		err = errStale
	}
	if err != nil {
		s.showError(w, http.StatusForbidden, err)
		return
	}
	if r.PostForm.Get("decision") != "allow" {
		// It is not remembered: whoever refuses did not sign in, and the page is soon too old.
		s.answer(w, r, t.asked, url.Values{"error": {"access_denied"}, "error_description": {"the person has refused"}})
		return
	}
	made, err := s.signedIn(r, t)
	if err != nil {
		s.warn("somebody has typed a token that is not good", "address", r.RemoteAddr, "client", t.Client)
		s.show(w, http.StatusForbidden, t, "That is not a token that is good here.")
		return
	}
	host, _ := receiver(t.Redirect)
	made.ID, made.Client, made.ClientName, made.Redirect, made.Scope, made.Audience = newID("g"), t.Client, t.Name, host, t.Scope, s.resource
	given := codePrefix + s.derive(t, "code")
	if err := s.keep(given, &code{asked: t.asked, ends: s.o.Now().Add(codeTime), grant: made}); err != nil {
		s.showError(w, http.StatusForbidden, err)
		return
	}
	s.o.Logger.Info("a person has allowed a program in", "principal", made.Principal, "client", t.Client, "answer_to", host, "grant", made.ID)
	s.record(r, audit.Event{
		Kind: audit.KindSignIn, Action: "OAuth consent", Outcome: audit.Success, Principal: made.Principal, Source: made.Source,
		Detail: map[string]any{"client": t.Client, "client_name": t.Name, "answer_to": host, "grant": made.ID},
	})
	s.answer(w, r, t.asked, url.Values{"code": {given}})
}

// keep remembers a code. As it is derived from its ticket, one that is known is of a ticket that was used.
func (s *Server) keep(given string, made *code) error {
	now, own := s.o.Now(), 0
	s.mu.Lock()
	defer s.mu.Unlock()
	for sum, c := range s.codes {
		if now.After(c.ends.Add(ticketTime)) {
			delete(s.codes, sum)
		} else if c.grant.Principal == made.grant.Principal {
			own++
		}
	}
	switch sum := sumOf(given); {
	case s.codes[sum] != nil:
		return errStale
	case own >= maxCodes:
		return errNoClient(fmt.Sprintf("You have let programs in %d times in ten minutes. Wait, and begin again from the program.", own))
	default:
		s.codes[sum] = made
		return nil
	}
}

// signedIn returns a grant of the person, who is known by the Provider or by the token in the form. Tries are not counted: nobody guesses 130 bits, and by
// counting them a stranger could shut out whoever comes from the same address, as all do behind a proxy.
func (s *Server) signedIn(r *http.Request, t ticket) (Grant, error) {
	if t.Person == nil {
		token := strings.TrimSpace(r.PostForm.Get("token"))
		p, err := s.o.SignIn(token)
		return Grant{Principal: p.Name, Groups: p.Groups, Source: p.Source, Credential: sumOf(token)}, err
	}
	// A Provider's answer does not last for ever: a person may lose groups any day.
	g := Grant{Principal: t.Person.Name, Source: t.Person.Source, Credential: s.provider.Issuer, Until: s.o.Now().Add(refreshTime).UTC()}
	if len(t.Person.Groups) > 0 {
		g.learn(said{*t.Person, t.Until, reveal(string(s.key), t.Renewal)}, s.o.Now())
		if g.Renewal == "" || !t.Refresh {
			g.Until, g.Renewal = g.GroupsUntil, ""
		}
	}
	return g, nil
}

// back is the client's address with an answer.
func (s *Server) back(a asked, values url.Values) string {
	if a.State != "" {
		values.Set("state", a.State)
	}
	values.Set("iss", s.o.Issuer)
	return redirected(a.Redirect, values)
}

// answer sends the browser to the client's address.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a asked, values url.Values) {
	s.lead(w, r, s.back(a, values))
}

// lead sends the browser elsewhere, without saying where it was.
func (s *Server) lead(w http.ResponseWriter, r *http.Request, address string) {
	h := w.Header()
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Location", address) // as it is: http.Redirect would mend it
	status := http.StatusFound
	if r.Method == http.MethodPost {
		status = http.StatusSeeOther // the form, with the person's token, goes nowhere else
	}
	w.WriteHeader(status)
}

// The cookie that tells a browser from others. It says nothing of a person.
func (s *Server) cookieName() string {
	if s.secure {
		return "__Host-csm_oauth"
	}
	u, _ := url.Parse(s.o.Issuer) // it was checked
	_, port, _ := net.SplitHostPort(u.Host)
	return "csm_oauth_" + port // browsers send a machine's cookies to all of its ports
}

var isCookie = regexp.MustCompile(`^[A-Z2-7]{26}$`)

func (s *Server) cookieOf(r *http.Request) string {
	cookie, err := r.Cookie(s.cookieName())
	if err != nil || !isCookie.MatchString(cookie.Value) {
		return ""
	}
	return cookie.Value
}

// browser returns the browser's cookie, and sets one if there is none.
func (s *Server) browser(w http.ResponseWriter, r *http.Request) string {
	value := s.cookieOf(r)
	if value == "" {
		value = rand.Text()
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is where the page is
			Name: s.cookieName(), Value: value, Path: "/", HttpOnly: true, Secure: s.secure,
			SameSite: http.SameSiteLaxMode, // a Provider sends the browser back here
		})
	}
	return value
}

// derive derives a secret from a ticket, so that nothing must be stored.
func (s *Server) derive(t ticket, what string) string {
	return base64.RawURLEncoding.EncodeToString(s.mac(what + " " + t.ID))
}

func (s *Server) mac(message string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

// seal writes a ticket.
func (s *Server) seal(t ticket) string {
	content, _ := json.Marshal(t) // it is of texts
	body := base64.RawURLEncoding.EncodeToString(content)
	return body + "." + base64.RawURLEncoding.EncodeToString(s.mac("ticket "+body))
}

const errStale = errNoClient("This page is too old, was used before, or is of another browser. Go back to the program that sent you here, and begin again.")

// open reads a ticket that is this server's, of this browser, and not over.
func (s *Server) open(sealed string, r *http.Request) (ticket, error) {
	body, mac, _ := strings.Cut(sealed, ".")
	given, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || !hmac.Equal(given, s.mac("ticket "+body)) {
		return ticket{}, errStale
	}
	var t ticket
	content, err := base64.RawURLEncoding.DecodeString(body)
	if err == nil {
		err = json.Unmarshal(content, &t)
	}
	cookie := s.cookieOf(r)
	if err != nil || cookie == "" || !isSum(t.Browser, cookie) || s.o.Now().After(t.Ends) {
		return ticket{}, errStale
	}
	return t, nil
}

// style is in the page, and named in its policy by its sum. With package html/template the linker would keep every method of every type.
const style = `:root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}body{max-width:34rem;margin:3rem auto;padding:0 1rem}` +
	`h1{font-size:1.4rem}.who{overflow-wrap:anywhere;font-weight:600}.wrong{color:#b00020}@media(prefers-color-scheme:dark){.wrong{color:#ff8a95}}` +
	`label,input{display:block}input{width:100%;box-sizing:border-box;font:inherit;padding:.4rem;margin:.3rem 0 1rem}button{font:inherit;padding:.4rem 1.2rem;margin-right:.6rem}`

const pageHead = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">` +
	`<title>Code sandbox</title><style>` + style + `</style></head><body><main>`

const wrongPage = `<h1>This did not work</h1><p role="alert">%s</p>`

var styleSum = func() string {
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
}()

// page answers with a page that runs no script, loads nothing, and is in no frame. action is where its form may lead, beside here.
func page(w http.ResponseWriter, status int, action, body string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+styleSum+"'; form-action "+action+"; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, a browser would send the form with Origin: null
	if status != http.StatusOK {
		web.Refuse(w)
	}
	w.WriteHeader(status)
	// An error: the client is gone, or will see half an answer.
	_, _ = w.Write([]byte(pageHead + body + `</main></body></html>`)) //nolint:gosec // what others wrote in it is escaped
}

// escaped formats markup, with texts that are none.
func escaped(format string, args ...any) string {
	for i, arg := range args {
		args[i] = html.EscapeString(fmt.Sprint(arg))
	}
	return fmt.Sprintf(format, args...)
}

func (s *Server) showError(w http.ResponseWriter, status int, err error) {
	var said errNoClient
	if !errors.As(err, &said) {
		s.o.Logger.Error("the authorization server fails", "error", err)
		status, said = http.StatusInternalServerError, "The server cannot do this now; its log says why."
	}
	page(w, status, "'none'", escaped(wrongPage, said))
}

// offer shows the error, and a link that tells the client of it. The browser is not redirected: anybody can register a client, and could
// make this server's address lead to any other.
func (s *Server) offer(w http.ResponseWriter, status int, a asked, said string, told protocolError) {
	_, words := receiver(a.Redirect)
	address := s.back(a, url.Values{"error": {told.code}, "error_description": {told.description}})
	page(w, status, "'none'", escaped(wrongPage+`<p>It calls itself <span class="who">%s</span>, and has its answers go to <span class="who">%s</span>. Nobody has checked that. `+
		`If you have come from there, <a href="%s">go back</a>.</p>`, said, named(a.Name), words, address))
}

// show asks a person.
func (s *Server) show(w http.ResponseWriter, status int, t ticket, wrong string) {
	host, words := receiver(t.Redirect)
	body := `<h1>Let a program use this code sandbox?</h1>`
	say := func(format string, args ...any) { body += escaped(format, args...) }
	if wrong != "" {
		say(`<p role="alert" class="wrong">%s</p>`, wrong)
	}
	switch {
	case isDocument(t.Client):
		u, _ := url.Parse(t.Client) // it was checked
		say(`<p>It is a program of <span class="who">%s</span>, which calls it <span class="who">%s</span>.</p>`, u.Host, named(t.Name))
	default:
		say(`<p>It calls itself <span class="who">%s</span>. Nobody has checked that.</p>`, named(t.Name))
	}
	say(`<p>The answer goes to <span class="who">%s</span>. Go on only if you have come from there, and want it to run code here as you, and to see your sessions and files, `+
		`until it is taken back.</p>`, words)
	say(`<form method="post" action="`+authorizePath+`"><input type="hidden" name="ticket" value="%s">`, s.seal(t))
	if t.Person != nil {
		say(`<p>You are signed in as <span class="who">%s</span>.</p>`, t.Person.Name)
	} else {
		say(`<label for="token">Your own token for this server</label>` +
			`<input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required autofocus>`)
	}
	say(`<button name="decision" value="allow">Allow %s</button><button name="decision" value="refuse" formnovalidate>Refuse</button></form>`, host)
	if t.Person == nil {
		say(`<p>The program does not get to see the token.</p>`)
	}
	page(w, status, "'self' "+formAction(t.Redirect), body)
}

func named(name string) string {
	if name == "" {
		return "nothing"
	}
	return "“" + name + "”"
}
