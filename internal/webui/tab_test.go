package webui

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// tab is a page in a real browser, which takes commands over pipes (--remote-debugging-pipe): messages in JSON that
// end with a zero byte.
type tab struct {
	t       *testing.T
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

func findChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium; scripts/install-deps test installs it")
	return ""
}

// openTab opens an empty page.
func openTab(t *testing.T) *tab {
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
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	command.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	p := &tab{t: t, to: in, answers: make(map[int]chan json.RawMessage)}
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
	p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	p.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	p.session = made.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.call(domain+".enable", nil, nil)
	}
	return p
}

func (p *tab) read(from *bufio.Reader) {
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
				Entry            struct{ Level, Text string }
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
			p.said = append(p.said, m.Params.Entry.Text)
		case m.Method == "Runtime.exceptionThrown":
			p.said = append(p.said, string(m.Params.ExceptionDetails))
		}
		p.mu.Unlock()
	}
}

// call has the browser do something, and reads what came of it.
func (p *tab) call(method string, params any, result any) {
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
	text, err := json.Marshal(message)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.to.Write(append(text, 0)); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	select {
	case text := <-answer:
		if result != nil {
			_ = json.Unmarshal(text, result)
		}
	case <-time.After(patience):
		p.t.Fatalf("%s: the browser does not answer", method)
	}
}

// see returns what an expression comes to on the page.
func (p *tab) see(expression string) any {
	p.t.Helper()
	var r struct{ Result struct{ Value any } }
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	return r.Result.Value
}

// await waits until an expression is true on the page.
func (p *tab) await(expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); p.see("!!("+expression+")") != true; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			text := p.see("document.body.innerText")
			p.mu.Lock()
			defer p.mu.Unlock()
			p.t.Fatalf("it does not come to %s:\n%v\n%s", expression, text, p.said)
		}
	}
}

// press presses a key.
func (p *tab) press(key string) {
	p.t.Helper()
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": map[string]int{"Tab": 9, "Enter": 13, "Escape": 27}[key]}
	if key == "Enter" {
		event["text"] = "\r"
	}
	p.call("Input.dispatchKeyEvent", event, nil)
	event["type"] = "keyUp"
	delete(event, "text")
	p.call("Input.dispatchKeyEvent", event, nil)
}

// tabTo presses Tab until what has the focus is as wanted, which it does not do for ever.
func (p *tab) tabTo(wanted string) {
	p.t.Helper()
	for range 60 {
		if p.see("(e => "+wanted+")(document.activeElement)") == true {
			return
		}
		p.press("Tab")
	}
	p.t.Fatalf("Tab does not lead to %s:\n%v", wanted, p.see("document.body.innerHTML"))
}

func (p *tab) scheme(scheme string) {
	p.t.Helper()
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}
