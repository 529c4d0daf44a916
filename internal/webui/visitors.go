package webui

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

const (
	// linkTime is how long a link is good for, where nobody uses it.
	linkTime = 10 * time.Minute
	// loginTime is how long a browser is let in by its cookie, which it may forget before.
	loginTime = 12 * time.Hour
	// maxKeys bounds the links, and the cookies of one principal, that are good at once.
	maxKeys = 100
	maxForm = 8 << 10
)

// keys are secrets that are good for a time, by their sums, so that looking one up tells nothing of the others.
type keys struct {
	mu   sync.Mutex
	good map[[sha256.Size]byte]pass
}

// pass is the permission behind a key.
type pass struct {
	ends time.Time
	as   principal.Principal
	// token is the token that it was given for, to check that it is still good; empty: for none.
	token string
}

func (p pass) isGood() bool { return time.Now().Before(p.ends) }

// add makes a key.
func (k *keys) add(p pass) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.good == nil {
		k.good = make(map[[sha256.Size]byte]pass)
	}
	// The principal's own key that expires first is dropped; other principals' keys stay.
	var own [][sha256.Size]byte
	for sum, other := range k.good {
		switch {
		case !other.isGood():
			delete(k.good, sum)
		case other.as.Name == p.as.Name:
			own = append(own, sum)
		}
	}
	if len(own) >= maxKeys {
		delete(k.good, slices.MinFunc(own, func(a, b [sha256.Size]byte) int { return k.good[a].ends.Compare(k.good[b].ends) }))
	}
	key := rand.Text() + rand.Text()
	k.good[sha256.Sum256([]byte(key))] = p
	return key
}

func (k *keys) get(key string) (p pass, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p = k.good[sha256.Sum256([]byte(key))]
	return p, p.isGood()
}

// take is get of a key that is good for nothing any more then.
func (k *keys) take(key string) (p pass, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := sha256.Sum256([]byte(key))
	p = k.good[sum]
	delete(k.good, sum)
	return p, p.isGood()
}

// visitors are those who may see the page.
type visitors struct {
	everybody     bool
	token         *web.Token              // the owner's; nil: there is none
	others        principal.Authenticator // nil: there are none
	links, logins *keys
}

func newVisitors(o Options) visitors {
	return visitors{everybody: o.NoAuth, token: web.NewToken(o.Token), others: o.Authenticate, links: &keys{}, logins: &keys{}}
}

// cookieName is another for each port: browsers send a machine's cookies to all of its ports, where others would
// overwrite this one.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "code_sandbox_" + port
}

func cookieOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// whose returns the principal of a request to the page; ok is false if it is unknown.
func (v *visitors) whose(r *http.Request) (p principal.Principal, ok bool) { return v.login(r)() }

// login returns a function that returns the principal of a request's login, while it is good. It does not read the request again: its header
// belongs to its handler.
func (v *visitors) login(r *http.Request) func() (principal.Principal, bool) {
	key, shown := cookieOf(r), r.Clone(context.WithoutCancel(r.Context()))
	return func() (principal.Principal, bool) {
		if v.everybody {
			return principal.Principal{}, true
		}
		// A principal named by a proxy counts, whatever cookie the browser kept from before.
		if p, err := v.authenticate(shown); !errors.Is(err, principal.ErrNone) {
			return p, err == nil
		}
		p, ok := v.logins.get(key)
		if !ok || p.token == "" {
			return p.as, ok
		}
		now, err := v.signIn(p.token) // its groups may be different now
		return now, err == nil && now.Name == p.as.Name
	}
}

// authenticate returns the principal of a request's own credential, which is never the owner.
func (v *visitors) authenticate(r *http.Request) (principal.Principal, error) {
	if v.others == nil {
		return principal.Principal{}, principal.ErrNone
	}
	p, err := v.others.Authenticate(r)
	if err == nil && p.IsUser() {
		err = errNameless
	}
	return p, err
}

var errNameless = errors.New("the principal has no name")

// signIn returns the principal of a token.
func (v *visitors) signIn(token string) (principal.Principal, error) {
	return v.authenticate(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: http.Header{"Authorization": {"Bearer " + token}}})
}

// letIn makes the browser one that is known. Its next page is one that it asks for from here: to a request that another
// site led to, browsers do not add the cookie, however it is redirected.
func (v *visitors) letIn(w http.ResponseWriter, r *http.Request, p pass) {
	p.ends = time.Now().Add(loginTime)
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is where the page is
		Name: cookieName(r), Value: v.logins.add(p), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		// Behind a proxy that speaks TLS, the origin alone tells of it.
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><meta http-equiv="refresh" content="0;url=/"><title>Code sandbox</title><a href="/">Go on</a>`))
}

// Link returns the path of a link that lets the first one in who opens it within ten minutes.
func (h *Handler) Link() string {
	return Prefix + "enter?key=" + h.visitors.links.add(pass{ends: time.Now().Add(linkTime)})
}

func (h *Handler) enter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // HEAD: somebody looks whether the link is there
		return
	}
	p, ok := h.visitors.links.take(r.URL.Query().Get("key"))
	if !ok {
		h.askForToken(w, http.StatusForbidden, "This link has been used before, or has expired.")
		return
	}
	h.visitors.letIn(w, r, p)
}

func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	token := strings.TrimSpace(r.PostFormValue("token"))
	if h.visitors.token.Is(token) {
		h.visitors.letIn(w, r, pass{})
		return
	}
	whose, err := h.visitors.signIn(token)
	if err != nil {
		h.askForToken(w, http.StatusForbidden, "That is not the token.")
		return
	}
	h.visitors.letIn(w, r, pass{as: whose, token: token})
}

func (h *Handler) logout(w http.ResponseWriter, r *http.Request) {
	h.visitors.logins.take(cookieOf(r))
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // it is empty
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// ownHeader is sent by the page's script, and by no form or link of another page.
const ownHeader = "X-Sandbox-Page"

// dests are the purposes for which a browser may request an answer of the page, by Sec-Fetch-Dest; older ones do not send it. Files of a
// session are hostile: none is a script or a style, and one in a frame is of no origin.
var dests = []string{"", "empty", "image", "document", "audio", "video"}

// known serves those who may see the page, when it is the page that asks. With inFrame a frame of it may.
func (h *Handler) known(inFrame bool, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		dest := r.Header.Get("Sec-Fetch-Dest")
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case site != "" && site != "same-origin" && site != "none", r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get(ownHeader) == "":
			http.Error(w, "this did not come from the page", http.StatusForbidden)
		case !slices.Contains(dests, dest) && (!inFrame || dest != "iframe"):
			http.Error(w, "this is no part of the page", http.StatusForbidden)
		default:
			whose, known := h.visitors.whose(r)
			if !known {
				http.Error(w, "open / first", http.StatusUnauthorized)
				return
			}
			web.Keep(r.Context(), whose.Key())
			r = r.WithContext(principal.With(r.Context(), whose))
			if _, err := room.Take(r.Context(), room.Head); err != nil {
				http.Error(w, "too many requests at once; try again", http.StatusServiceUnavailable)
				return
			}
			serve(w, r)
		}
	}
}
