//go:build linux

package browser

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Sizes of a picture in pixels.
const (
	leastWidth, mostWidth = 800, 1400 // of the window
	height, mostHeight    = 600, 3000
	leastSide, margin     = 40, 8     // of the picture, right of and below the content
	mostPixels            = 4_000_000 // as of other pictures
	smallPixels           = 250_000   // below it the picture is drawn twice as large
)

// A page with scripts is done when something can be seen and nothing of it has changed between calm looks, each taken when no thread of the
// browser has work: a busy machine stretches the time that the page gets.
const (
	tick      = 25 * time.Millisecond
	calm      = 2
	mostLooks = 36  // about 3 s on a machine that is not busy
	mostTicks = 120 // of waiting for a look
)

// watch runs before the page's own scripts. codeSandboxLook returns how the page changes and how far its content reaches.
const watch = `(()=>{let changed=false;const note=()=>{changed=true},frame=requestAnimationFrame.bind(window);
window.requestAnimationFrame=f=>{note();return frame(f)};
/* A library of maps whose plugin is missing gets one that does nothing, so that its data are drawn. */
const none=new Proxy(function(){},{get:(t,k)=>k===Symbol.toPrimitive?()=>"":none,apply:()=>none,construct:()=>none});
const soft=o=>new Proxy(o,{get:(t,k)=>k in t||typeof k==="symbol"?t[k]:none});
addEventListener("error",e=>{if(e.target.tagName==="SCRIPT"){window.d3??=none;if(window.L)window.L=Object.assign(soft(L),{control:soft(L.control),Control:soft(L.Control)})}},true);
new MutationObserver(note).observe(document,{subtree:true,childList:true,attributes:true,characterData:true});
/* A page without scripts may be whole before this runs. */
window.codeSandboxLoaded=new Promise(r=>document.readyState==="complete"?r():addEventListener("load",r));
window.codeSandboxLook=async()=>{await Promise.race([document.fonts.ready,new Promise(r=>setTimeout(r,3000))]);await new Promise(r=>frame(()=>frame(r)));
let w=0,h=0;const d=document,b=d.body||d.documentElement,was=changed;changed=false;
for(const e of [...b.querySelectorAll("*")].slice(0,20000)){const r=e.getBoundingClientRect();
if(r.width&&r.height){w=Math.max(w,r.right);h=Math.max(h,r.bottom)}}
if(b.innerText&&b.innerText.trim()){const r=d.createRange();r.selectNodeContents(b);const q=r.getBoundingClientRect();w=Math.max(w,q.right);h=Math.max(h,q.bottom)}
return {changed:was,scripts:d.scripts.length,w:Math.ceil(w),h:Math.ceil(h),fullWidth:d.documentElement.scrollWidth,fullHeight:d.documentElement.scrollHeight}}})()`

// look is what a page looks like at one moment.
type look struct {
	Changed               bool // since the last one
	Scripts               int
	W, H                  float64
	FullWidth, FullHeight float64
}

func (p *process) draw(page Page) ([]byte, error) {
	if data, rest := cut(page.File); data != nil {
		if drawn, err := p.drawFigure(page, data, rest); err == nil || p.isOver() {
			return drawn, err
		}
		p.forget()
	}
	target, _, err := p.open(page.File)
	if target != "" {
		defer func() { _ = p.send("", "Target.closeTarget", map[string]any{"targetId": target}) }()
	}
	if err != nil {
		return nil, err
	}
	if _, err := p.settle(); err != nil {
		return nil, err
	}
	return p.take(page)
}

// begin makes a page the one that is spoken with.
func (p *process) begin(session string) {
	p.session, p.loaded, p.missing, p.cutAt, p.moves = session, false, nil, 0, false
}

// open opens a file on a page of its own.
func (p *process) open(file string) (target, session string, err error) {
	var made struct{ TargetID string }
	if err := p.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &made); err != nil {
		return "", "", err
	}
	var attached struct{ SessionID string }
	if err := p.call("", "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached); err != nil {
		return made.TargetID, "", err
	}
	p.begin(attached.SessionID)
	return made.TargetID, attached.SessionID, p.load(file)
}

// take returns what is asked for of the page that is spoken with.
func (p *process) take(page Page) ([]byte, error) {
	switch {
	case page.Script != "":
		var value json.RawMessage
		err := p.evaluate(page.Script, &value)
		if err == nil && len(value) > page.MostBytes {
			err = ErrTooLong
		}
		return value, err
	case page.PDF:
		return p.result(page, "%PDF-", "Page.printToPDF", map[string]any{"printBackground": true, "preferCSSPageSize": true})
	}
	found, err := p.fit()
	if err != nil {
		return nil, err
	}
	return p.capture(page, found)
}

// load opens the file with all that it names.
func (p *process) load(file string) error {
	if err := p.call(p.session, "Page.enable", nil, nil); err != nil {
		return err
	}
	patterns := []map[string]string{{"urlPattern": "http*", "requestStage": "Response"}}
	if p.plain = plainText(file); p.plain != nil {
		patterns = append(patterns, map[string]string{"urlPattern": addressOf(file)})
	}
	if err := p.call(p.session, "Fetch.enable", map[string]any{"patterns": patterns}, nil); err != nil {
		return err
	}
	if err := p.resize(leastWidth, height); err != nil {
		return err
	}
	if err := p.call(p.session, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": watch}, nil); err != nil {
		return err
	}
	var opened struct{ ErrorText string }
	if err := p.call(p.session, "Page.navigate", map[string]any{"url": addressOf(file)}, &opened); err != nil {
		return err
	}
	if opened.ErrorText != "" {
		return ErrMissing
	}
	if err := p.awaitLoad(); err != nil {
		return err
	}
	return p.evaluate("codeSandboxLoaded", nil) // what was loaded may be the empty page before it
}

// plainText returns the content of a file in UTF-8 that does not say so, nor another encoding; else nil.
func plainText(file string) []byte {
	text := readFile(file)
	head := string(text[:min(len(text), 1024)])
	if strings.Contains(head, "charset") || strings.Contains(head, "CHARSET") || strings.HasPrefix(head, "\xef\xbb\xbf") || !utf8.Valid(text) {
		return nil
	}
	return text
}

// addressOf is a file's address, with all but plain letters escaped.
func addressOf(file string) string {
	address := []byte("file://")
	for _, c := range []byte(file) {
		if c == '/' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			address = append(address, c)
		} else {
			address = append(address, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return string(address)
}

// settle waits until the page is done, and returns its last look.
func (p *process) settle() (found look, err error) {
	for quiet, looks := 0, 1; ; looks++ {
		if found, err = p.look(); err != nil || found.Scripts == 0 {
			return found, err
		}
		if quiet++; found.Changed {
			quiet = 0
		}
		p.moves = quiet < calm
		if !p.moves && found.W > 0 || looks == mostLooks {
			return found, nil
		}
		for idle, ticks := 0, 0; idle < calm && ticks < mostTicks; ticks++ {
			time.Sleep(tick)
			if idle++; p.works() {
				idle = 0
			}
		}
	}
}

// works reports whether a thread of the browser has something to do.
func (p *process) works() bool {
	folder := "/proc/" + strconv.Itoa(p.pid) + "/task/"
	threads, _ := os.ReadDir(folder)
	return slices.ContainsFunc(threads, func(thread os.DirEntry) bool {
		stat, _ := os.ReadFile(folder + thread.Name() + "/stat")
		return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" R"))
	})
}

// evaluate runs a script in the page, waits for its promise, and decodes its value into value unless that is nil.
func (p *process) evaluate(script string, value any) error {
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	params := map[string]any{"expression": script, "awaitPromise": true, "returnByValue": value != nil}
	if err := p.call(p.session, "Runtime.evaluate", params, &answer); err != nil {
		return err
	}
	if answer.ExceptionDetails != nil || value != nil && json.Unmarshal(answer.Result.Value, value) != nil {
		return ErrAnswer
	}
	return nil
}

func (p *process) resize(width, height int) error {
	return p.call(p.session, "Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
	}, nil)
}

// fit gives the window the size of the content, within the bounds.
func (p *process) fit() (look, error) {
	found, err := p.look()
	if err != nil || found.FullWidth <= leastWidth && found.FullHeight <= height {
		return found, err
	}
	if err := p.resize(bounded(found.FullWidth, leastWidth, mostWidth), bounded(found.FullHeight, height, mostHeight)); err != nil {
		return found, err
	}
	return p.settle()
}

func (p *process) look() (found look, err error) {
	err = p.evaluate("codeSandboxLook()", &found)
	return found, err
}

func bounded(n float64, least, most int) int { return int(min(max(n, float64(least)), float64(most))) }

// capture takes the picture of the content.
func (p *process) capture(page Page, found look) ([]byte, error) {
	switch blank := found.W <= 0 || found.H <= 0; {
	case blank && found.Scripts > 0:
		return nil, ErrUndrawn
	case blank:
		return nil, ErrBlank
	}
	width, height := bounded(found.W+margin, leastSide, mostWidth), bounded(found.H+margin, leastSide, mostHeight)
	if found.H > mostHeight {
		p.cutAt = mostHeight
	}
	scale := 1.0
	if width*height < smallPixels {
		scale = 2
	}
	if height > mostPixels/width {
		height = mostPixels / width
		p.cutAt = height
	}
	picture, err := p.result(page, "\x89PNG\r\n\x1a\n", "Page.captureScreenshot", map[string]any{
		"format": "png", "clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": scale},
	})
	if err == nil && pixels(picture) > mostPixels {
		return nil, ErrAnswer
	}
	return picture, err
}

// result returns the bytes of an answer, if they begin as they have to.
func (p *process) result(page Page, begin, method string, params map[string]any) ([]byte, error) {
	var answer struct{ Data []byte }
	if err := p.call(p.session, method, params, &answer); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(answer.Data, []byte(begin)) {
		return nil, ErrAnswer
	}
	if len(answer.Data) > page.MostBytes {
		return nil, ErrTooLong
	}
	return answer.Data, nil
}

// pixels returns how many pixels a PNG claims to have.
func pixels(picture []byte) uint64 {
	const header = 24
	if len(picture) < header {
		return 1 << 62
	}
	return uint64(binary.BigEndian.Uint32(picture[16:])) * uint64(binary.BigEndian.Uint32(picture[20:]))
}
