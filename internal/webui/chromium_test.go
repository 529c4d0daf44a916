package webui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/browser"
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
	if _, _, err := s.manager.Upload(t.Context(), sandbox.Upload{SessionID: "mine", Path: "input/given.csv", Content: strings.NewReader("")}); err != nil {
		t.Fatal(err)
	}
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
	should.Equal(t, p.See("document.querySelectorAll('main script, main b, main [onerror], main img:not(figure img)').length"), 0.0, "elements are of the sandbox")
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
	if !s.isOpen("mine") {
		t.Fatal("the session was closed")
	}
	p.Press("Enter")
	p.Await("document.querySelector('#closing').open && document.activeElement.value === ''")
	p.TabTo("e.value === 'remove'")
	p.Press("Enter")
	p.Await("document.querySelectorAll('nav li').length === 1 && document.querySelector('#session').hidden")
	if s.isOpen("mine") {
		t.Error("the session is not closed")
	}

	if p.See("fetch('http://127.0.0.1:1/').then(() => 'loaded', () => 'refused')") != "refused" ||
		p.See("(() => { try { document.body.innerHTML = '<i>'; return 'made' } catch { return 'refused' } })()") != "refused" {
		t.Error("the policy lets a script load from elsewhere, or make markup")
	}
	for _, address := range p.Loaded() {
		if !strings.HasPrefix(address, s.url+"/") && address != "http://127.0.0.1:1/" {
			t.Errorf("it has loaded %s", address)
		}
	}
	for _, text := range p.Said() {
		if !strings.Contains(text, "favicon.ico") && !strings.Contains(text, "404") && !strings.Contains(text, "127.0.0.1:1/") && !strings.Contains(text, "TrustedHTML") {
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
	if _, _, err := s.manager.Upload(t.Context(), sandbox.Upload{SessionID: "mine", Path: "go", Content: strings.NewReader("")}); err != nil {
		t.Fatal(err)
	}
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
	if visible("nav") || !visible("#session") || p.See("document.documentElement.scrollWidth") != 390.0 {
		t.Error("on a phone a session shares the screen, or does not fit")
	}
	if small := p.See("[...document.querySelectorAll('#session button, #runs .copy')].filter(e => e.offsetParent && (e.offsetHeight < 44 || e.offsetWidth < 44)).map(e => e.innerText).join()"); small != "" {
		t.Errorf("on a phone these are small: %v", small)
	}
	p.See("document.querySelector('.back a').click()")
	p.Await("document.querySelector('nav').offsetParent !== null")
	if visible("main") {
		t.Error("on a phone the list shares the screen")
	}
	p.See("location.hash = '#/%zz'")
	p.Await("document.querySelector('#none').innerText === 'There is no session %zz now.'")
	for _, text := range p.Said() {
		if !strings.Contains(text, "favicon.ico") && !strings.Contains(text, "404") {
			t.Errorf("the console has %s", text)
		}
	}
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
		s.finish(s.manager, "mine", "x = 1")
		if time.Since(began) > time.Minute {
			t.Fatal("no run can be undone")
		}
	}
	run := canGoBack()
	p.Call("Page.navigate", map[string]any{"url": s.url + "/#/mine"}, nil)
	item := "document.querySelector('#run-" + run + "')"
	p.Await(item)
	p.See(item + ".querySelector('details').open = true")
	undo := "[..." + item + ".querySelectorAll('button')].find(e => e.textContent === 'Undo to here')"
	p.Await(undo)
	p.See(undo + ".click()")
	p.Await(item + ".matches('.undone') && " + item + ".querySelector('summary').innerText.includes('undone')")
	if !runs.UndoneMarks(s.config.StateDir, "mine")[run] {
		t.Error("the run is not undone")
	}
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
		if time.Since(began) > time.Minute {
			t.Fatalf("there is no version: %+v, %v", versions, err)
		}
	}
	p.Call("Page.navigate", map[string]any{"url": s.url + "/#/mine"}, nil)
	item := "document.querySelector('#run-" + run.ID + "')"
	p.Await(item)
	p.See(item + ".querySelector('details').open = true")
	named := "[..." + item + ".querySelectorAll('li button')].find(e => e.textContent === 'f.txt')"
	p.Await(item + ".innerText.includes('0 added, 1 changed, 0 removed') && " + named)
	p.See(named + ".click()")
	p.Await("document.querySelector('#version-rows a[href$=\"/f.txt%40" + run.ID + "\"]')")
	p.See("document.querySelector('#version-rows button').click()")
	p.Await("document.querySelector('#difference').textContent === '  same\\n- one\\n+ <b>two</b>\\n  end\\n  \\n'")
	should.Equal(t, p.See("document.querySelector('#versions-wrong').textContent"), "", "the page says")
}
