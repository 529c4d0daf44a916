// Package webui is a page on which a person sees the sessions of the sandbox: what runs and ran in them, with its output
// and figures, their files, and what they have sent out. It changes nothing but that it cancels runs and closes sessions.
//
// Start with New; the Handler serves / and what is below Prefix. All that it tells comes from hostile code, so it goes to
// the page as JSON alone, and the page makes text of it, never markup.
//
// What it promises:
//
//   - Nobody sees anything without the token or a link that was made for them, each good once. After that a cookie is what
//     lets them in, which neither scripts nor other sites get, and which says nothing of the token.
//   - Nothing is done for the page of another origin, whatever the browser sends along.
//   - The page runs its own script alone, and loads nothing from elsewhere.
package webui

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Prefix begins the paths of all that the page consists of, but for / itself.
const Prefix = "/ui/"

// Sandbox is what a page needs to know and to do. *sandbox.Manager is one.
type Sandbox interface {
	Config() sandbox.Config
	Sessions(ctx context.Context) ([]sandbox.SessionInfo, error)
	FindRun(id string) (*sandbox.Run, error)
	WalkFiles(ctx context.Context, session string, everything bool, visit func(sandbox.Entry) error) (sandbox.WalkEnd, error)
	CloseSession(ctx context.Context, id string, keepFiles bool) (string, error)
}

// Options say what a page shows, and to whom. Sandbox has to be there.
type Options struct {
	Sandbox Sandbox
	// Network has what sessions have sent out; nil: nothing is known of it.
	Network *netlog.Log
	// FileLink returns a link to a file of a session, empty where there can be none. May be nil.
	FileLink func(session, path string) string
	// Token is what a person types to see the page. Empty: only those do who come by a link of Handler.Link.
	Token string
	// NoAuth lets everybody in.
	NoAuth bool
	// Ending ends the page's streams. Nil: nothing does but their clients.
	Ending context.Context
	// Every is how often a stream looks for something new. Default a second.
	Every time.Duration
	// Logger may be nil.
	Logger *slog.Logger
}

// Handler serves the page. Its methods may be called from any goroutine.
type Handler struct {
	o        Options
	mux      *http.ServeMux
	visitors visitors
	sessions sessionList
	streams  *semaphore.Weighted
}

// maxStreams is how many streams are open at once; a page has one.
const maxStreams = 64

//go:embed page/app.js page/dom.js page/highlight.js page/runs.js page/index.html page/login.html page/style.css
var files embed.FS

// What stands in login.html in the places of <!--wrong--> and <!--way-->. Package html/template would have the linker keep
// every method of every type, a quarter of the program.
const (
	wrongHere = `<p role="alert" class="wrong">%s</p>`
	//nolint:gosec // a form and no credential
	byToken = `<form method="post" action="/ui/login">
<label for="token">The server's token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Open</button>
</form>
<p>The server's log says which file has it. It is kept for no longer than this takes.</p>`
	byLink = `<p>Open the link that <code>code-sandbox-mcp ui</code> has printed. Each is good once, for ten minutes; another one comes with another start.</p>`
)

// policy has a browser run and load nothing but what is served here, and make no markup of texts.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// policyFigure is for an image that somebody opens by itself: one in SVG is a document.
const policyFigure = "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

// New returns a page.
func New(o Options) *Handler {
	o.Every = cmp.Or(o.Every, time.Second)
	if o.Ending == nil {
		o.Ending = context.Background()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{o: o, mux: http.NewServeMux(), visitors: newVisitors(o), streams: semaphore.NewWeighted(maxStreams)}
	h.sessions.sandbox = o.Sandbox
	h.mux.HandleFunc("GET /{$}", h.index)
	h.mux.HandleFunc("POST "+Prefix+"login", h.login)
	h.mux.HandleFunc("POST "+Prefix+"logout", h.logout)
	h.mux.HandleFunc("GET "+Prefix+"enter", h.enter)
	for name, kind := range map[string]string{
		"app.js": "text/javascript", "dom.js": "text/javascript", "highlight.js": "text/javascript", "runs.js": "text/javascript", "style.css": "text/css",
	} {
		h.mux.HandleFunc("GET "+Prefix+name, serveFile(name, kind))
	}
	for pattern, serve := range map[string]http.HandlerFunc{
		"GET events": h.events, "GET run": h.run, "GET figure": h.figure, "GET files": h.files, "GET file": h.file,
		"POST cancel": h.cancel, "POST close": h.close,
	} {
		method, name, _ := strings.Cut(pattern, " ")
		h.mux.HandleFunc(method+" "+Prefix+name, h.known(serve))
	}
	return h
}

// ServeHTTP serves a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "same-origin") // with no-referrer, a browser would send the page's own forms with Origin: null
	header.Set("X-Content-Type-Options", "nosniff")
	// A cookie goes to every port of a machine and comes from pages of each, so that alone it does not tell whose request it is.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		http.Error(w, "this came from a page of another origin", http.StatusForbidden)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// index is the page, or the form that leads to it.
func (h *Handler) index(w http.ResponseWriter, r *http.Request) {
	if !h.visitors.isKnown(r) {
		h.askForToken(w, http.StatusOK, "")
		return
	}
	serveFile("index.html", "text/html")(w, r)
}

// serveFile serves a file of the page. Its type is given, as machines differ in what they know of names.
func serveFile(name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind+"; charset=utf-8")
		http.ServeFileFS(w, r, files, "page/"+name)
	}
}

// askForToken shows the form, and what was wrong with what was typed into it.
func (h *Handler) askForToken(w http.ResponseWriter, status int, wrong string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	page, _ := files.ReadFile("page/login.html") // it is embedded
	if wrong != "" {
		wrong = fmt.Sprintf(wrongHere, html.EscapeString(wrong))
	}
	way := byLink
	if h.o.Token != "" {
		way = byToken
	}
	_, _ = strings.NewReplacer("<!--wrong-->", wrong, "<!--way-->", way).WriteString(w, string(page))
}
