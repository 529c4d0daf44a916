//go:build unix

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// serveHost serves a client that shows apps, and an MCP server for it whose containers are processes. It returns the address.
func serveHost(t *testing.T) string {
	t.Helper()
	modules, err := npmci.Install("testdata/host")
	must.OK(t, err)
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir, config.Host = enginetest.New(t), t.TempDir(), "host"
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{
		sandbox.Python: {Image: enginetest.Image, Interpreter: "python3", Join: containers.Join()},
	}
	manager := sandbox.NewManager(config)
	t.Cleanup(func() { manager.Close(context.Background()) })
	log := slog.New(slog.DiscardHandler)
	m := server.NewMCPServer("fixture", "1", server.WithToolCapabilities(false), server.WithResourceCapabilities(false, true))
	tools.Register(m, &tools.Deps{Manager: manager, SoftWait: time.Minute, Secrets: secrets.New(nil), ArtifactBytes: 1 << 20, Logger: log})
	web := httpserver.New(httpserver.Options{Site: httpserver.Site{MCP: m}, Logger: log, Open: map[string]http.Handler{
		"/modules/": http.StripPrefix("/modules/", http.FileServer(http.Dir(modules))),
		"/host/":    http.FileServer(http.Dir("testdata")),
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- web.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		should.OK(t, <-stopped)
	})
	return "http://" + l.Addr().String()
}

// long is a table that takes several reads, of 5,000 rows.
const long = `
import csv, os
os.makedirs('output', exist_ok=True)
with open('output/long.csv', 'w') as f:
    out = csv.writer(f)
    out.writerow(['id', 'value', 'note'])
    for i in range(5000):
        out.writerow([i, (i * 7919) % 5000 - 2500, 'a "quoted", note\nof two lines' if i % 1000 == 7 else 'plain words that make the file long'])
`

// figures shows one and saves another, which has a script and would load something.
const figures = `
import struct, zlib
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
class Figure:
    def _repr_png_(self):
        rows = b''.join(b'\0' + bytes([200, y, 0]) * 40 for y in range(30))
        return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 40, 30, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
display(Figure())
open('output/drawn.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10"><script>parent.hacked=1;top.hacked=1</script>'
    '<image href="http://127.0.0.1:1/x" width="5" height="5"/><rect width="10" height="10"/></svg>')
open('output/no.png', 'w').write('no picture')
`

// hostile writes tables with markup in all that is shown of them, and far more than can be.
const hostile = `
import json
m = '<img src=x onerror="top.hacked=1"><script>top.hacked=1</script>'
with open('output/<img src=x onerror=hacked=1>.csv', 'w') as f:
    f.write(','.join([m] * 500) + '\n\u202e,\x1b[31m,' + m + ',"' + 'y' * 3_000_000 + '"\n"never closed\n' + 'z,' * 100)
with open('output/lines.jsonl', 'w') as f:
    f.write('{"__proto__": {"polluted": 1}, "constructor": "' + 'c' * 5000 + '", "a": [1, {"b": "<b>"}]}\n' + '[' * 50000 + '\nnull\nno JSON <script>\n')
    f.writelines(json.dumps({f'k{i}': i}) + '\n' for i in range(300))
open('output/bytes.csv', 'wb').write(bytes(range(256)) * 100)
`

// shown is the answer of a run that has shown three figures, one of which is not in the answer, and saved another.
const shown = `{
	content: [
		{type: "text", text: "completed in 1s\n[shown]\noutput/figure-2.png  1 kB\noutput/large.png  99 MB (not attached: too large)\noutput/own.gif  1 kB  a title\n[files]\noutput/new.png  1 kB  image/png"},
		{type: "image", mimeType: "image/png", data: "iVBORw0KGgo="}, {type: "image", mimeType: "image/gif", data: "R0lGODlh"}, {type: "image", mimeType: "text/html", data: "PGI+"},
	],
	_meta: {"code-sandbox-mcp/result": {session_id: "s", artifacts: ["new.png", "own.gif", "large.png", "figure-2.png"].map(f => ({path: "output/" + f}))}},
}`

type request struct {
	Name      string
	Arguments map[string]any
	URL       string
	Contents  []struct {
		Resource struct{ URI, MIMEType, Blob, Text string }
	}
}

func TestThePageInChromium(t *testing.T) {
	p := browser.Open(t)
	url := serveHost(t)
	p.Call("Page.navigate", map[string]any{"url": url + "/host/"}, nil)
	p.Await("globalThis.ready")
	var session string
	call := func(tool string, arguments map[string]any, theme string) {
		t.Helper()
		given, _ := json.Marshal(arguments)
		result, _ := p.See(fmt.Sprintf("call(%q, %s, %q).then(r => JSON.stringify(r._meta['code-sandbox-mcp/result']))", tool, given, theme)).(string)
		var about struct {
			SessionID string `json:"session_id"`
		}
		if err := json.Unmarshal([]byte(result), &about); err != nil {
			t.Fatalf("%s: %v %s\n%s", tool, err, result, p.Said())
		}
		if about.SessionID != "" {
			session = about.SessionID
		}
	}
	python := func(code, theme string) { t.Helper(); call("run_python_code", map[string]any{"code": code}, theme) }
	all := func() (list []request) {
		text, _ := p.See("JSON.stringify(asked)").(string)
		must.OK(t, json.Unmarshal([]byte(text), &list))
		return list
	}
	press := func(what string) { t.Helper(); p.Await(what); p.See(what + ".click()") }
	tab := func(name string) string {
		return fmt.Sprintf("[...view().querySelectorAll('nav button')].find(b => b.textContent.includes(%q))", name)
	}
	bar := func(label string) string {
		return fmt.Sprintf("[...view().querySelectorAll('.bar button')].find(b => b.textContent === %q)", label)
	}
	head := func(name string) string {
		return fmt.Sprintf("[...view().querySelectorAll('thead button')].find(b => b.textContent.startsWith(%q))", name)
	}
	const place, note, cells = "view().querySelector('.bar span')?.textContent", "view().querySelector('#note').textContent", "[...view().querySelectorAll('tbody tr:first-child > *')].map(c => c.textContent).join('|')"

	// A table: a page of it takes a part of the file, and its end takes all.
	python(long, "light")
	p.Await(place + ".endsWith(' or more rows') && view().querySelectorAll('tbody tr').length === 50")
	should.Len(t, all(), 1, "the first page took")
	press(bar("›"))
	p.Await(cells + ".startsWith('51|50|')")
	press(bar("»"))
	p.Await(place + " === '4,951–5,000 of 5,000 rows' && " + bar("»") + ".disabled")
	press(head("value"))
	p.Await(cells + ".includes('|-2500|') && view().querySelector('[aria-sort=ascending]') && " + place + ".startsWith('1–50 ')")
	p.See(head("value") + ".focus()")
	press(head("value"))
	p.Await("view().activeElement?.textContent === 'value ▼' && " + cells + ".includes('|2499|') && view().querySelector('[aria-sort=descending]')")
	p.See("(e => { e.value = 'QUOTED'; e.dispatchEvent(new Event('input')) })(view().querySelector('input'))")
	p.Await(place + " === '1–5 of 5 rows' && " + cells + `.endsWith('|a "quoted", note of two lines')`)
	reads := all()
	if len(reads) < 3 {
		t.Errorf("all of the file took %v", reads)
	}
	for _, r := range reads {
		if r.Name != "read_artifact" || r.Arguments["path"] != "output/long.csv" || r.Arguments["session_id"] != session || session == "" || r.Arguments["save_to"] != nil {
			t.Errorf("the page of session %q calls %+v", session, r)
		}
	}
	light := p.See("getComputedStyle(view().body).backgroundColor")

	// A file that changes while it is looked at is begun anew.
	python(long, "light")
	p.Await(place + ".endsWith(' or more rows')")
	p.See(`run("open('output/long.csv', 'a').write('5000,1,added')")`)
	press(bar("»"))
	p.Await(note + ".startsWith('The file has changed.')")
	press("view().querySelector('#note button')")
	p.Await(place + ".endsWith(' or more rows')")
	press(bar("»"))
	p.Await(place + ".endsWith(' of 5,001 rows')")

	// Figures: that of the answer is asked for nowhere, and an SVG file is drawn and does nothing.
	python(figures, "dark")
	p.Await("view().querySelector('img')?.naturalWidth === 40 && view().querySelectorAll('nav button').length === 3")
	if n := len(all()); n != 0 {
		t.Errorf("a figure of the answer took %d calls", n)
	}
	if dark := p.See("getComputedStyle(view().body).backgroundColor"); dark == light {
		t.Errorf("light and dark are both %v", dark)
	}
	press(bar("1:1"))
	press(bar("+"))
	p.Await("view().querySelector('.zoomed img')?.clientWidth === 60 && view().querySelector('.bar').textContent.endsWith('150 %')")
	press(bar("Save"))
	p.Await("asked.length === 1")
	if saved := all()[0].Contents; len(saved) != 1 || saved[0].Resource.URI != "file:///image-1.png" || saved[0].Resource.MIMEType != "image/png" || saved[0].Resource.Blob == "" {
		t.Errorf("saved %+v", saved)
	}
	press(tab("drawn.svg"))
	p.Await("view().querySelector('img')?.naturalWidth === 20 && view().querySelector('img').src.startsWith('data:image/svg+xml,')")
	press(tab("no.png"))
	p.Await(note + ".startsWith('It is too large, or no picture.')")

	// Hostile tables.
	python(hostile, "light")
	press(tab("onerror"))
	p.Await("view().querySelectorAll('tbody tr').length === 2 && view().querySelectorAll('thead th').length === 101 && " + note + ".includes('100 columns')")
	press(tab("lines.jsonl"))
	p.Await(place + " === '1–50 of 304 rows' && " + cells + ".includes('{\"polluted\":1}')")
	should.Equal(t, p.See("[...view().querySelectorAll('td')].some(c => c.textContent.length > 201 || c.children.length)"), false, "a cell is too long, or has elements")
	press(tab("bytes.csv"))
	p.Await(note + ".startsWith('It is no text.')")
	should.Equal(t, p.See(`/[\x1b\u202e]/.test(view().body.textContent)`), false, "characters that hide what they are came to the page")

	// Rows of a database, and an answer that has nothing to show. Only the client may give one.
	rows := `{"content": [{"type": "text", "text": "{\"columns\":[{\"name\":\"n\"},{\"name\":\"<b>\"}],\"rows\":[[10,null],[9,\"<i>\"],[\"x\",true]]}"}], "_meta": {"code-sandbox-mcp/result": {"connection": "main"}}}`
	p.See("give({}, " + rows + ")")
	p.Await(place + " === '1–3 of 3 rows' && " + cells + " === '1|10|'")
	press(head("n"))
	p.Await(cells + " === '1|9|<i>'")
	p.See(`intrude({content: [{type: "text", text: "intruded"}]})`)
	p.Await("globalThis.intruded")
	should.Equal(t, p.See(cells), "1|9|<i>", "another frame has changed what is shown")
	// Of several figures, those that are shown have the names of their files.
	p.See("give({}, " + shown + ")")
	p.Await("[...view().querySelectorAll('nav button')].map(b => b.textContent).join() === 'output/figure-2.png,output/own.gif,output/new.png,output/large.png'")
	p.See(`asked = []; give({}, {content: [], _meta: {"code-sandbox-mcp/result": {artifacts: [{path: "output/page.html", download_url: "https://example.com/page"}]}}})`)
	p.Await("view().querySelector('#shown button')?.textContent === 'Open'")
	if n := len(all()); n != 0 {
		t.Errorf("a link was opened by itself: %v", all())
	}
	press("view().querySelector('#shown button')")
	p.Await("asked.length === 1")
	should.Equal(t, all()[0].URL, "https://example.com/page", "opened")
	p.See(`give({}, {content: [{type: "text", text: "completed in 3ms\nand more"}]})`)
	p.Await(note + " === 'completed in 3ms' && view().querySelector('nav').children.length === 0")

	should.Equal(t, p.See("end().then(() => 'ended')"), "ended", "it does not end")
	should.Equal(t, p.See("(() => { try { view().body.innerHTML = '<i>'; return 'made' } catch { return 'refused' } })()"), "refused", "the policy lets a script make markup")
	should.Equal(t, p.See("[globalThis.hacked, frames[0].hacked, {}.polluted].some(Boolean)"), false, "the sandbox has run a script")
	for _, address := range p.Loaded() {
		if !strings.HasPrefix(address, url+"/") && !strings.HasPrefix(address, "data:") && address != "about:srcdoc" {
			t.Errorf("it has loaded %s", address)
		}
	}
}
