package webui

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

const (
	// linkTime is how long a link is good for, where nobody uses it.
	linkTime = 10 * time.Minute
	// loginTime is how long a browser is let in by its cookie, which it may forget before.
	loginTime = 12 * time.Hour
	// maxKeys bounds the links, and the cookies, that are good at once; the one that ends first makes room.
	maxKeys = 100
	maxForm = 8 << 10
)

// keys are secrets that are good for a time, by their sums, so that looking one up tells nothing of the others.
type keys struct {
	mu   sync.Mutex
	ends map[[sha256.Size]byte]time.Time
}

// add makes a key.
func (k *keys) add(lasts time.Duration) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ends == nil {
		k.ends = make(map[[sha256.Size]byte]time.Time)
	}
	if len(k.ends) >= maxKeys {
		var first [sha256.Size]byte
		for sum, end := range k.ends {
			if k.ends[first].IsZero() || end.Before(k.ends[first]) {
				first = sum
			}
		}
		delete(k.ends, first)
	}
	key := rand.Text() + rand.Text()
	k.ends[sha256.Sum256([]byte(key))] = time.Now().Add(lasts)
	return key
}

func (k *keys) has(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.ends[sha256.Sum256([]byte(key))])
}

// take reports whether the key is good, which it is not any more then.
func (k *keys) take(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := sha256.Sum256([]byte(key))
	end := k.ends[sum]
	delete(k.ends, sum)
	return time.Now().Before(end)
}

// visitors are those who may see the page.
type visitors struct {
	everybody     bool
	token         *web.Token // nil: there is none
	links, logins *keys
}

func newVisitors(o Options) visitors {
	return visitors{everybody: o.NoAuth, token: web.NewToken(o.Token), links: &keys{}, logins: &keys{}}
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

func (v *visitors) isKnown(r *http.Request) bool { return v.login(r)() }

// login returns what reports whether the login that a request came with is still good. It does not read the request again, whose
// header belongs to its handler.
func (v *visitors) login(r *http.Request) func() bool {
	key := cookieOf(r)
	return func() bool { return v.everybody || v.logins.has(key) }
}

// letIn makes the browser one that is known. Its next page is one that it asks for from here: to a request that another
// site led to, browsers do not add the cookie, however it is redirected.
func (v *visitors) letIn(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is where the page is
		Name: cookieName(r), Value: v.logins.add(loginTime), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		// Behind a proxy that speaks TLS, the origin alone tells of it.
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><meta http-equiv="refresh" content="0;url=/"><title>Code sandbox</title><a href="/">Go on</a>`))
}

// Link returns the path of a link that lets the first one in who opens it within ten minutes.
func (h *Handler) Link() string { return Prefix + "enter?key=" + h.visitors.links.add(linkTime) }

func (h *Handler) enter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // HEAD: somebody looks whether the link is there
		return
	}
	if !h.visitors.links.take(r.URL.Query().Get("key")) {
		h.askForToken(w, http.StatusForbidden, "This link has been used before, or has expired.")
		return
	}
	h.visitors.letIn(w, r)
}

func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if !h.visitors.token.Is(r.PostFormValue("token")) {
		h.askForToken(w, http.StatusForbidden, "That is not the token.")
		return
	}
	h.visitors.letIn(w, r)
}

func (h *Handler) logout(w http.ResponseWriter, r *http.Request) {
	h.visitors.logins.take(cookieOf(r))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// ownHeader is sent by the page's script, and by no form or link of another page.
const ownHeader = "X-Sandbox-Page"

// dests are what a browser may want an answer of the page for, as Sec-Fetch-Dest says; older ones do not say it. Files of a session are
// hostile: none is a script or a style, and one in a frame is of no origin.
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
		case !h.visitors.isKnown(r):
			http.Error(w, "open / first", http.StatusUnauthorized)
		default:
			web.Keep(r.Context())
			serve(w, r)
		}
	}
}
