//go:build linux

package runs

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	mostDrawn   = 8 // pages of a run
	mostWritten = 4 // of those that code wrote without showing them: as many as an answer has pictures
	mtimeSlack  = 20 * time.Millisecond
	drawTime    = 35 * time.Second // that an answer waits for pictures
)

// drawing are the pages of a run that the browser draws. Their displays are held back until it has.
type drawing struct {
	loop    loop.Loop
	browser *browser.Browser
	over    func() // called when none is left; nil: the run is over
	begun   int    // so far
	notes   []string
}

// page is a display held back.
type page struct {
	protocol.Display
	written bool          // by code that did not show it
	dropped chan struct{} // closed when its picture is of no use
}

// draw begins the picture of a page, and reports whether its display waits for that.
func (r *record) draw(p *page) bool {
	if r.drawing.begun == mostDrawn {
		return false
	}
	if !browser.Exists() {
		if !p.written && len(r.drawing.notes) == 0 {
			r.drawing.note("no picture of "+p.Path, browser.ErrNone.Error())
		}
		return false
	}
	r.drawing.begun++
	p.dropped = make(chan struct{})
	asked := browser.Page{File: r.settings.WorkDir + "/" + p.Path, MostBytes: r.settings.ImageBytes, Dropped: p.dropped}
	draw, post := r.drawing.browser.Draw, r.drawing.loop.Post
	go func() {
		drawn, err := draw(asked)
		post(func() { r.drawn(p, drawn, err) })
	}()
	return true
}

// drawn takes a page's picture. Its display may be gone, and the run over.
func (r *record) drawn(p *page, got browser.Drawn, err error) {
	if at := slices.IndexFunc(r.displays, func(d shown) bool { return d.page == p }); at >= 0 {
		if err == nil {
			p.Data["image/png"] = displayText("image/png", got.Data)
		} else {
			r.drawing.note("no picture of "+p.Path, err.Error())
		}
		if len(got.Missing) > 0 {
			r.drawing.note("in the picture of "+p.Path+" what comes from "+strings.Join(got.Missing, " and ")+" is missing", "it cannot be reached from here; a browser with internet access shows it")
		}
		if got.CutAt > 0 {
			r.drawing.note("the picture of "+p.Path+" has its first "+strconv.Itoa(got.CutAt)+" pixels from the top, and the page goes on", "read_artifact with as: pdf has all of it")
		}
		if got.Moves && err == nil {
			r.drawing.note("the picture of "+p.Path+" shows one moment", "the page was still changing")
		}
		r.release(&r.displays[at])
	}
	if r.drawing.over != nil && !r.awaitsPage() {
		r.drawing.over()
	}
}

// awaitsPage reports whether a display waits for its picture.
func (r *record) awaitsPage() bool {
	return slices.ContainsFunc(r.displays, func(d shown) bool { return d.page != nil })
}

// drawingNow says of which page the picture is awaited.
func (r *record) drawingNow() string {
	for _, d := range r.displays {
		if d.page != nil {
			return "drawing " + path.Base(d.page.Path)
		}
	}
	return ""
}

// note tells what a picture lacks, of the first few.
func (d *drawing) note(what, why string) {
	if len(d.notes) < mostWritten {
		d.notes = append(d.notes, bounds.Clean("note: "+what+": "+why, 500)+"\n")
	}
}

// release makes the frame of a display that was held back.
func (r *record) release(d *shown) {
	d.frame = encodeDisplay(d.page.Display)
	r.bytes += len(d.frame)
	d.page = nil
}

// endDrawing releases the displays that are still held back, and returns the notes.
func (r *record) endDrawing() []string {
	for i := range r.displays {
		if shown := &r.displays[i]; shown.page != nil {
			close(shown.page.dropped)
			r.drawing.note("no picture of "+shown.path, "it was not done in time")
			r.release(shown)
		}
	}
	return r.drawing.notes
}

// drawWritten draws the pages that the run wrote to output/ since it began, and did not show. A file may look older than it is; last are the
// pages that the last run may have written. It returns those of this run.
func (r *record) drawWritten(began time.Time, last map[string]time.Time) map[string]time.Time {
	if !browser.Exists() {
		return nil
	}
	folder := r.settings.WorkDir + "/output/"
	names, err := tree.Names(folder)
	if err != nil {
		return nil
	}
	left, now := mostWritten, map[string]time.Time{}
	for _, name := range names {
		if !isPage(name) {
			continue
		}
		info, err := os.Lstat(folder + name)
		if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(began.Add(-mtimeSlack)) {
			continue
		}
		now[name] = info.ModTime()
		if info.ModTime().Before(began) && last[name].Equal(info.ModTime()) {
			continue
		}
		path := bounds.Path("output/" + name)
		if path == "" || slices.ContainsFunc(r.displays, func(d shown) bool { return d.path == path }) {
			continue
		}
		p := &page{written: true, Display: protocol.Display{
			Type: "display", ID: r.run, Data: protocol.Data{}, Path: path, SizeBytes: info.Size(),
		}}
		if left > 0 && len(r.displays) < r.settings.MaxDisplays && r.draw(p) {
			left--
			r.total++
			r.displays = append(r.displays, shown{page: p, path: p.Path})
		}
	}
	return now
}

func isPage(name string) bool {
	name = strings.ToLower(name)
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".html") || strings.HasSuffix(name, ".htm"))
}
