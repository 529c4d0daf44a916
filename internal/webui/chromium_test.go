package webui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// A person with a keyboard alone, and a session that attacks the page.
func TestThePageInChromium(t *testing.T) {
	p := openTab(t)
	s := serve(t, Options{})
	s.finish(s.manager, "mine", hostile)
	s.finish(s.manager, "other", "1")
	if _, _, err := s.manager.Upload(t.Context(), sandbox.Upload{SessionID: "mine", Path: "input/given.csv", Content: strings.NewReader("")}); err != nil {
		t.Fatal(err)
	}
	s.network.Add(netlog.Entry{Time: time.Now(), Session: "mine", Kind: "proxy", Host: markup, Rule: markup})
	run := s.begin(s.manager, "mine", "import time\nprint('<b>so</b> ' + 'far', flush=True)\ntime.sleep(600)")

	p.call("Page.navigate", map[string]any{"url": s.url + s.Link()}, nil)
	p.await("document.querySelectorAll('nav li').length === 2")
	p.tabTo("e.dataset.session === 'mine'")
	p.press("Enter")
	item := "document.querySelector('#run-" + run.ID + "')"
	p.await(item + "?.innerText.includes('<b>so</b> far')")
	p.await("document.querySelectorAll('#runs > li').length === 2")

	// The older run: its figure is drawn, and nothing of it is markup, nor hides what it is.
	p.tabTo("e.matches('#runs > li:last-child summary')")
	p.press("Enter")
	p.await("document.querySelector('#runs figure img')?.naturalWidth === 9")
	p.await("document.querySelector('#runs > li:last-child').innerText.includes('onerror')")
	p.tabTo("e.matches('#files summary')")
	p.press("Enter")
	p.await("document.querySelectorAll('#file-rows tr').length >= 4 && [...document.querySelectorAll('#file-rows a')].some(a => a.textContent === 'input/given.csv')")
	p.await(`[...document.querySelectorAll('#file-rows a')].some(a => a.textContent === 'a\ufffdtxt.exe')`)
	p.see("document.querySelector('#files').open = false") // or it asks for the list again when the run ends, while the session is closed
	p.tabTo("e.matches('#network summary')")
	p.press("Enter")
	p.await("document.querySelector('#network-rows td')")
	if p.see(`/[\x1b\u202e]/.test(document.body.textContent)`) != false {
		t.Error("characters that hide what they are came to the page")
	}
	if n := p.see("document.querySelectorAll('main script, main b, main [onerror], main img:not(figure img)').length"); n != 0.0 {
		t.Errorf("%v elements are of the sandbox", n)
	}
	if hacked := p.see("window.hacked"); hacked != nil {
		t.Error("the sandbox has run a script on the page")
	}
	if cookie := p.see("document.cookie"); cookie != "" {
		t.Errorf("scripts see the cookie %v", cookie)
	}
	grounds := make(map[any]bool)
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		grounds[p.see("getComputedStyle(document.body).backgroundColor")] = true
	}
	if len(grounds) != 2 {
		t.Errorf("light and dark are the same: %v", grounds)
	}

	// Back to the run that goes on, to cancel it, and then to close the session: not at the first question.
	p.see("document.activeElement.blur()")
	p.tabTo("e.textContent === 'Cancel the run'")
	p.press("Enter")
	p.await(item + ".innerText.includes('cancelled')")
	p.tabTo("e.id === 'close'")
	p.press("Enter")
	p.await("document.querySelector('#closing').open")
	p.press("Escape")
	p.await("!document.querySelector('#closing').open")
	if !s.isOpen("mine") {
		t.Fatal("the session was closed")
	}
	p.press("Enter")
	p.await("document.querySelector('#closing').open && document.activeElement.value === ''")
	p.tabTo("e.value === 'remove'")
	p.press("Enter")
	p.await("document.querySelectorAll('nav li').length === 1 && document.querySelector('#session').hidden")
	if s.isOpen("mine") {
		t.Error("the session is not closed")
	}

	if p.see("fetch('http://127.0.0.1:1/').then(() => 'loaded', () => 'refused')") != "refused" ||
		p.see("(() => { try { document.body.innerHTML = '<i>'; return 'made' } catch { return 'refused' } })()") != "refused" {
		t.Error("the policy lets a script load from elsewhere, or make markup")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, address := range p.loaded {
		if !strings.HasPrefix(address, s.url+"/") && address != "http://127.0.0.1:1/" {
			t.Errorf("it has loaded %s", address)
		}
	}
	for _, text := range p.said {
		if !strings.Contains(text, "favicon.ico") && !strings.Contains(text, "404") && !strings.Contains(text, "127.0.0.1:1/") && !strings.Contains(text, "TrustedHTML") {
			t.Errorf("the console has %s", text)
		}
	}
}

// A person who looks on while code runs, finds a run again and takes its code along, on a screen and on a phone.
func TestThePageFollowsWhatRuns(t *testing.T) {
	p := openTab(t)
	s := serve(t, Options{NoAuth: true})
	s.finish(s.manager, "older", "1")
	const fails = "import os\n# Divide\nx = 1 / len('')"
	s.finish(s.manager, "mine", fails)
	p.call("Page.navigate", map[string]any{"url": s.url}, nil)
	p.await("location.hash === '#/mine' && document.querySelector('#runs pre.code')?.textContent === " + fmt.Sprintf("%q", fails))
	for _, part := range []string{"keyword:import", "comment:# Divide", "number:1", "string:''"} {
		kind, text, _ := strings.Cut(part, ":")
		p.await(fmt.Sprintf("[...document.querySelectorAll('.code .%s')].some(e => e.textContent === %q)", kind, text))
	}
	p.await("document.querySelector('#runs summary').innerText.includes('Divide')")

	// What begins is open, and its end is in sight until somebody scrolls back, which they can.
	run := s.begin(s.manager, "mine", "import os, time\nfor i in range(10_000):\n    while i >= 200 and not os.path.exists('go'): time.sleep(.01)\n    print('step', i, flush=True)\n    time.sleep(.001)")
	output := "document.querySelector('#run-" + run.ID + " section pre')"
	p.await(output + "?.textContent.includes('step 199') && " + output + ".scrollTop > 0 && " + output + ".scrollHeight - " + output + ".scrollTop - " + output + ".clientHeight < 10")
	p.see(output + ".scrollTop = 30")
	p.see("window.before = " + output)
	if _, _, err := s.manager.Upload(t.Context(), sandbox.Upload{SessionID: "mine", Path: "go", Content: strings.NewReader("")}); err != nil {
		t.Fatal(err)
	}
	p.await(output + ".textContent.includes('step 300')")
	if p.see(output+" === window.before && "+output+".scrollTop === 30") != true {
		t.Error("what was read has moved")
	}
	run.Interrupt()
	p.await("document.querySelector('#run-" + run.ID + " summary strong.dim')?.textContent === 'cancelled' && document.querySelectorAll('#runs .bad').length > 0")

	for _, filter := range []string{"document.querySelector('#failed').click()", "(e => { e.value = 'DIVIDE'; e.dispatchEvent(new Event('input')) })(document.querySelector('#search'))"} {
		p.await("[...document.querySelectorAll('#runs > li')].every(e => !e.hidden)")
		p.see(filter)
		p.await("[...document.querySelectorAll('#runs > li')].filter(e => !e.hidden).map(e => e.innerText).join().includes('Divide') && document.querySelector('#runs-note').textContent === '1 of 2 are shown.'")
		p.see("document.querySelector('#failed').checked && document.querySelector('#failed').click()")
	}
	p.call("Browser.grantPermissions", map[string]any{"origin": s.url, "permissions": []string{"clipboardReadWrite", "clipboardSanitizedWrite"}}, nil)
	p.see("document.querySelector('#runs > li:last-child details').open = true")
	p.await("document.querySelector('#runs > li:last-child .copy')")
	p.see("document.querySelector('#runs > li:last-child .copy').click()")
	p.await("document.querySelector('#runs > li:last-child .copy').textContent === 'Copied'")
	if got := p.see("navigator.clipboard.readText()"); got != fails {
		t.Errorf("copied %v", got)
	}

	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	visible := func(what string) bool {
		return p.see("document.querySelector('"+what+"').offsetParent !== null") == true
	}
	if visible("nav") || !visible("#session") || p.see("document.documentElement.scrollWidth") != 390.0 {
		t.Error("on a phone a session shares the screen, or does not fit")
	}
	p.see("document.querySelector('.back a').click()")
	p.await("document.querySelector('nav').offsetParent !== null")
	if visible("main") {
		t.Error("on a phone the list shares the screen")
	}
	p.see("location.hash = '#/%zz'")
	p.await("document.querySelector('#none').innerText === 'There is no session %zz now.'")
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.said {
		if !strings.Contains(text, "favicon.ico") && !strings.Contains(text, "404") {
			t.Errorf("the console has %s", text)
		}
	}
}

// The token in the form, in a browser.
func TestTheFormInChromium(t *testing.T) {
	p := openTab(t)
	s := serve(t, Options{Token: token})
	p.call("Page.navigate", map[string]any{"url": s.url}, nil)
	for _, given := range []string{"not-the-token-at-all", token} {
		p.await("document.activeElement?.id === 'token' && document.activeElement.value === ''")
		p.call("Input.insertText", map[string]any{"text": given}, nil)
		p.press("Enter")
		if given != token {
			p.await("document.querySelector('[role=alert]')")
		}
	}
	p.await("document.querySelector('#state')?.textContent === 'live'")
	p.tabTo("e.textContent === 'Sign out'")
	p.press("Enter")
	p.await("document.querySelector('#token')")
}

func TestThePageUndoesARun(t *testing.T) {
	p := openTab(t)
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
	p.call("Page.navigate", map[string]any{"url": s.url + "/#/mine"}, nil)
	item := "document.querySelector('#run-" + run + "')"
	p.await(item)
	p.see(item + ".querySelector('details').open = true")
	undo := "[..." + item + ".querySelectorAll('button')].find(e => e.textContent === 'Undo to here')"
	p.await(undo)
	p.see(undo + ".click()")
	p.await(item + ".matches('.undone') && " + item + ".querySelector('summary').innerText.includes('undone')")
	if !sandbox.UndoneMarks(s.config.StateDir, "mine")[run] {
		t.Error("the run is not undone")
	}
	if wrong := p.see("document.querySelector('#wrong').textContent"); wrong != "" {
		t.Errorf("the page says %v", wrong)
	}
}
