// Package webui is a page on which a person sees the sessions of the sandbox: their runs with output
// and figures, their files, and their egress. Its only effects are to cancel
// and undo runs, close sessions and answer questions of code.
//
// Start with New; the Handler serves / and the paths below Prefix. The page is a client of the REST interface: its requests below
// Prefix + "v1/" are answered as below /v1/, for those requests alone that it makes. All its data come from hostile code, so they
// come as JSON alone, and the page makes text of them, never markup.
//
// It promises:
//
//   - Nobody sees anything without a token or a link that was made for them, each good once. After that a cookie lets
//     them in, which neither scripts nor other sites get, and which reveals nothing of the token. Each sees only their own.
//   - Nothing is done for the page of another origin, whatever the browser sends along.
//   - The page runs its own script alone, and loads nothing from elsewhere.
package webui

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// Prefix begins the paths of all that the page consists of, but for / itself and its icon.
const Prefix = "/ui/"

// iconPath is where browsers look for the icon of a page that names none, such as a file.
const iconPath = "/favicon.ico"

// openPath begins the path at which a session that sleeps is opened.
const openPath = Prefix + "open/"

// API answers the page's requests. *rest.Server is one.
type API interface {
	// ServeHTTP answers the page's requests below Prefix + "v1/", as requests below /v1/.
	http.Handler
	// CheckOpen returns the fault of a session that is not open in this server.
	CheckOpen(ctx context.Context, session string) error
	// Wake opens a session that sleeps, in this server.
	Wake(ctx context.Context, session string) error
}

// Questions are the questions of code to a person. *ask.Desk implements it.
type Questions interface {
	// Waiting returns those that wait for an answer.
	Waiting() (open []ask.Open, changed <-chan struct{})
	// Answer answers one, and reports whether it waited for that.
	Answer(id string, answer ask.Answer, by string) bool
}

// Options configure a page and its authentication. API is required.
type Options struct {
	// API returns the API behind a principal's page.
	API func(principal.Principal) (API, error)
	// Questions returns those that a principal's code asks; nil, or one that returns nil: there are none.
	Questions func(principal.Principal) Questions
	// Token is the token that the owner types. Empty: the owner's page opens only by a link of Handler.Link.
	Token string
	// Authenticate identifies the principal of another typed token, and of a request that a proxy let in. Nil: there are no others.
	Authenticate principal.Authenticator
	// NoAuth lets everybody in, as the owner.
	NoAuth bool
	// Every is how often a request that lasts looks whether its login does. Default a second.
	Every time.Duration
	// Logger logs the actions on the page. Nil: they are not logged.
	Logger *slog.Logger
}

// Handler serves the page. Its methods may be called from any goroutine.
type Handler struct {
	o        Options
	mux      *http.ServeMux
	visitors visitors
}

// uses are the requests of /v1 that the page makes, and that are made in its name. Those that need a session to be open here would open it,
// and so take it from the server that should get it next.
var uses = map[string]struct{ needsOpen, inFrame, takesFile bool }{
	"GET /v1/events":                                            {},
	"GET /v1/sessions":                                          {},
	"GET /v1/sessions/{session_id}/runs":                        {},
	"GET /v1/sessions/{session_id}/archive":                     {needsOpen: true},
	"PUT /v1/sessions/{session_id}/files/{path...}":             {needsOpen: true, takesFile: true},
	"GET /v1/sessions/{session_id}/runs/{run_id}":               {},
	"GET /v1/sessions/{session_id}/runs/{run_id}/displays/{at}": {},
	"GET /v1/sessions/{session_id}/files":                       {needsOpen: true},
	"GET /v1/sessions/{session_id}/files/{path...}":             {needsOpen: true, inFrame: true},
	"GET /v1/sessions/{session_id}/versions/{path...}":          {needsOpen: true},
	"POST /v1/runs/{run_id}/cancel":                             {},
	"POST /v1/sessions/{session_id}/restore":                    {needsOpen: true},
	"DELETE /v1/sessions/{session_id}":                          {},
}

//go:embed page/*.js page/*.html page/icon.svg page/style.css
var files embed.FS

// The texts that replace <!--wrong--> and <!--way--> in login.html, and the principal's (or nothing) for <!--whose--> in index.html. With
// package html/template the linker would keep every method of every type, a quarter of the program.
const (
	wrongHere = `<p role="alert" class="wrong">%s</p>`
	//nolint:gosec // a form and no credential
	byToken = `<form method="post" action="/ui/login">
<label for="token">Token (yours, or the server's)</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Open</button>
</form>
<p>The server's log says which file has the server's. The browser does not keep it.</p>`
	byLink = `<p>Open the link that <code>code-sandbox-mcp ui</code> has printed. Each is good once, for ten minutes; another one comes with another start.</p>`
)

// policy makes a browser run and load only this server's files, and make no markup of texts.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; frame-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// New returns a page.
func New(o Options) *Handler {
	o.Every = cmp.Or(o.Every, time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	h := &Handler{o: o, mux: http.NewServeMux(), visitors: newVisitors(o)}
	h.mux.HandleFunc("GET /{$}", h.index)
	h.mux.HandleFunc("POST "+Prefix+"login", h.login)
	h.mux.HandleFunc("POST "+Prefix+"logout", h.logout)
	h.mux.HandleFunc("GET "+Prefix+"enter", h.enter)
	scripts, _ := fs.Glob(files, "page/*.js")
	for _, name := range scripts {
		h.mux.HandleFunc("GET "+Prefix+path.Base(name), serveFile(path.Base(name), "text/javascript; charset=utf-8"))
	}
	h.mux.HandleFunc("GET "+Prefix+"style.css", serveFile("style.css", "text/css; charset=utf-8"))
	h.mux.HandleFunc("GET "+iconPath, serveFile("icon.svg", "image/svg+xml"))
	for pattern, use := range uses {
		method, below, _ := strings.Cut(pattern, " /")
		h.mux.HandleFunc(method+" "+Prefix+below, h.known(use.inFrame, func(w http.ResponseWriter, r *http.Request) {
			if !use.takesFile {
				r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			}
			h.ask(w, r, use.needsOpen)
		}))
	}
	h.mux.HandleFunc("POST "+openPath+"{session_id}", h.known(false, h.open))
	h.mux.HandleFunc("GET "+Prefix+"questions", h.known(false, h.listQuestions))
	h.mux.HandleFunc("POST "+Prefix+"questions/{id}", h.known(false, h.answerQuestion))
	return h
}

// questions returns the questions to a request's principal; nil: code asks none.
func (h *Handler) questions(r *http.Request) Questions {
	if h.o.Questions == nil {
		return nil
	}
	return h.o.Questions(principal.Of(r.Context()))
}

// listQuestions answers with null where code asks none: an error would be on the console of each page.
func (h *Handler) listQuestions(w http.ResponseWriter, r *http.Request) {
	var list []ask.Open
	if q := h.questions(r); q != nil {
		open, _ := q.Waiting()
		list = append([]ask.Open{}, open...)
	}
	web.JSON(w, r, http.StatusOK, map[string]any{"questions": list})
}

func (h *Handler) answerQuestion(w http.ResponseWriter, r *http.Request) {
	q := h.questions(r)
	if q == nil {
		http.Error(w, "nothing is asked here; --ask has code ask", http.StatusNotFound)
		return
	}
	var said struct {
		Answer ask.Answer `json:"answer"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxForm)).Decode(&said); err != nil {
		http.Error(w, "the answer cannot be read", http.StatusBadRequest)
		return
	}
	if !q.Answer(r.PathValue("id"), said.Answer, "the page") {
		http.Error(w, "the question no longer waits for this answer", http.StatusConflict)
		return
	}
	h.o.Logger.Info("answered on the page", "answer", string(said.Answer))
	web.JSON(w, r, http.StatusOK, map[string]any{})
}

// api returns the one behind the page of a request's principal; nil: it has been answered.
func (h *Handler) api(w http.ResponseWriter, r *http.Request) API {
	whose := principal.Of(r.Context())
	api, err := h.o.API(whose)
	if err != nil {
		h.o.Logger.Error("a principal cannot be served", "principal", whose.Name, "error", err)
		http.Error(w, "the server cannot serve you now; its log says why", http.StatusServiceUnavailable)
		return nil
	}
	return api
}

// isRefused answers a request with an error, if there is one.
func isRefused(w http.ResponseWriter, r *http.Request, err error) bool {
	if err != nil {
		f := fault.From(err)
		web.JSON(w, r, web.StatusOf(err), map[string]any{"code": f.Code, "message": f.Message, "hint": f.Hint})
	}
	return err != nil
}

func (h *Handler) open(w http.ResponseWriter, r *http.Request) {
	if api := h.api(w, r); api != nil && !isRefused(w, r, api.Wake(r.Context(), r.PathValue("session_id"))) {
		web.JSON(w, r, http.StatusOK, map[string]any{})
	}
}

// ask lets the API answer a request, for as long as its login lasts.
func (h *Handler) ask(w http.ResponseWriter, r *http.Request, needsOpen bool) {
	whose, api := principal.Of(r.Context()), h.api(w, r)
	if api == nil || needsOpen && isRefused(w, r, api.CheckOpen(r.Context(), r.PathValue("session_id"))) {
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.o.Logger.Info("asked for on the page", "principal", whose.Name, "request", r.Pattern, "session", text.Shorten(r.PathValue("session_id"), 80), "run", text.Shorten(r.PathValue("run_id"), 80))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	tick := time.NewTicker(h.o.Every)
	defer tick.Stop()
	login := h.visitors.login(r)
	isGood := func() bool {
		now, known := login()
		return known && now.Name == whose.Name
	}
	go func() {
		for isGood() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	http.StripPrefix(strings.TrimSuffix(Prefix, "/"), api).ServeHTTP(w, r.WithContext(ctx))
}

// Routes are the handler by the patterns of its requests, which need no other credential.
func (h *Handler) Routes() map[string]http.Handler {
	return map[string]http.Handler{"/{$}": h, Prefix: h, "GET " + iconPath: h}
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
	// A cookie goes to every port of a machine and comes from pages of each, so that alone it does not identify the requesting page.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		http.Error(w, "this came from a page of another origin", http.StatusForbidden)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// index is the page, or the form that leads to it.
func (h *Handler) index(w http.ResponseWriter, r *http.Request) {
	whose, known := h.visitors.whose(r)
	if !known {
		h.askForToken(w, http.StatusOK, "")
		return
	}
	name := ""
	if !whose.IsUser() {
		name = " of " + html.EscapeString(whose.Name)
	}
	servePage(w, http.StatusOK, "index.html", "<!--whose-->", name)
}

// servePage serves a page of HTML with something in the places of its comments.
func servePage(w http.ResponseWriter, status int, name string, places ...string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	page, _ := files.ReadFile("page/" + name) // it is embedded
	_, _ = strings.NewReplacer(places...).WriteString(w, string(page))
}

// serveFile serves a file of the page. Its type is given, because machines differ in their tables of types.
func serveFile(name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		http.ServeFileFS(w, r, files, "page/"+name)
	}
}

// askForToken shows the form, and the error in the typed token.
func (h *Handler) askForToken(w http.ResponseWriter, status int, wrong string) {
	if wrong != "" {
		wrong = fmt.Sprintf(wrongHere, html.EscapeString(wrong))
	}
	way := byLink
	if h.o.Token != "" || h.o.Authenticate != nil {
		way = byToken
	}
	servePage(w, status, "login.html", "<!--wrong-->", wrong, "<!--way-->", way)
}
