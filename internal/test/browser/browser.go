// Package browser drives a real Chromium in tests. Start with Open.
package browser

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// Tab is a page in a real browser, which takes commands over pipes (--remote-debugging-pipe): messages in JSON that
// end with a zero byte. Its methods are for the test's own goroutine, and fail the test where the browser does not answer.
type Tab struct {
	t       testing.TB
	to      io.Writer
	session string

	mu      sync.Mutex
	last    int
	answers map[int]chan json.RawMessage
	loaded  []string // addresses that were asked for
	said    []string // on the console: errors, and what the policy has refused
}

// patience is how long a browser may take for anything; it is for a busy machine.
const patience = time.Minute

func findChromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium; scripts/install-deps test installs it")
	return ""
}

// Open opens an empty page, which ends with the test. Where there is no Chromium, the test is skipped.
func Open(t testing.TB) *Tab {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a program gets no more than three files there")
	}
	command := exec.Command(findChromium(t), "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "about:blank")
	if os.Getuid() == 0 {
		command.Args = append(command.Args, "--no-sandbox") // which it has for users alone
	}
	theirIn, in, err := os.Pipe()
	out, theirOut, err2 := os.Pipe()
	err = errors.Join(err, err2)
	must.Hold(t, err == nil, "%v", err)
	command.ExtraFiles = []*os.File{theirIn, theirOut}
	must.OK(t, command.Start())
	_, _ = theirIn.Close(), theirOut.Close()
	p := &Tab{t: t, to: in, answers: make(map[int]chan json.RawMessage)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(bufio.NewReader(out))
	}()
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		stuck := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
		defer stuck.Stop()
		_ = command.Wait()
		<-read
		_ = out.Close()
	})
	var made struct{ TargetID, SessionID string }
	p.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	p.Call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	p.session = made.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.Call(domain+".enable", nil, nil)
	}
	return p
}

func (p *Tab) read(from *bufio.Reader) {
	for {
		text, err := from.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Result json.RawMessage
			Error  json.RawMessage
			Params struct {
				Request          struct{ URL string }
				Entry            struct{ Level, Text, URL string }
				ExceptionDetails json.RawMessage
			}
		}
		_ = json.Unmarshal(text[:len(text)-1], &m)
		p.mu.Lock()
		switch {
		case m.ID != 0 && p.answers[m.ID] != nil:
			if m.Error != nil {
				p.said = append(p.said, string(m.Error))
			}
			p.answers[m.ID] <- m.Result
			delete(p.answers, m.ID)
		case m.Method == "Network.requestWillBeSent":
			p.loaded = append(p.loaded, m.Params.Request.URL)
		case m.Method == "Log.entryAdded" && m.Params.Entry.Level == "error":
			p.said = append(p.said, m.Params.Entry.Text+" "+m.Params.Entry.URL)
		case m.Method == "Runtime.exceptionThrown":
			p.said = append(p.said, string(m.Params.ExceptionDetails))
		}
		p.mu.Unlock()
	}
}

// Call has the browser do something, and reads what came of it.
func (p *Tab) Call(method string, params any, result any) {
	p.t.Helper()
	answer := make(chan json.RawMessage, 1)
	p.mu.Lock()
	p.last++
	id := p.last
	p.answers[id] = answer
	p.mu.Unlock()
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if p.session != "" {
		message["sessionId"] = p.session
	}
	text := must.Get(json.Marshal(message))(p.t)
	_, err := p.to.Write(append(text, 0))
	must.Hold(p.t, err == nil, "%s: %v", method, err)
	select {
	case text := <-answer:
		if result != nil {
			_ = json.Unmarshal(text, result)
		}
	case <-time.After(patience):
		p.t.Fatalf("%s: the browser does not answer", method)
	}
}

// See returns what an expression comes to on the page.
func (p *Tab) See(expression string) any {
	p.t.Helper()
	var r struct{ Result struct{ Value any } }
	p.Call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	return r.Result.Value
}

// Await waits until an expression is true on the page.
func (p *Tab) Await(expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); p.See("!!("+expression+")") != true; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			text := p.See("[document, ...Array.from(document.querySelectorAll('iframe'), f => f.contentDocument)].map(d => d?.body.innerText).join('\\n')")
			p.mu.Lock()
			defer p.mu.Unlock()
			p.t.Fatalf("it does not come to %s:\n%v\n%s", expression, text, p.said)
		}
	}
}

// Press presses a key.
func (p *Tab) Press(key string) {
	p.t.Helper()
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": map[string]int{"Tab": 9, "Enter": 13, "Escape": 27}[key]}
	if key == "Enter" {
		event["text"] = "\r"
	}
	p.Call("Input.dispatchKeyEvent", event, nil)
	event["type"] = "keyUp"
	delete(event, "text")
	p.Call("Input.dispatchKeyEvent", event, nil)
}

// TabTo presses Tab until what has the focus is as wanted, which it does not do for ever.
func (p *Tab) TabTo(wanted string) {
	p.t.Helper()
	for range 120 {
		if p.See("(e => "+wanted+")(document.activeElement)") == true {
			return
		}
		p.Press("Tab")
	}
	p.t.Fatalf("Tab does not lead to %s:\n%v", wanted, p.See("document.body.innerHTML"))
}

// Scheme has the page drawn light or dark.
func (p *Tab) Scheme(scheme string) {
	p.t.Helper()
	p.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Loaded returns the addresses that pages have asked for.
func (p *Tab) Loaded() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.loaded)
}

// Said returns what is on the console: errors, and what a policy has refused.
func (p *Tab) Said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}
