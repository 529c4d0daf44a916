//go:build linux

package runs

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	maxAlt      = 1000
	maxKey      = 200
	recordBytes = 8 << 20
)

// record holds the messages of a run for a server: its displays as they are now, and its end. It keeps all of them if a
// later server may take the session over, and else the unsent ones.
type record struct {
	run      string
	settings *bounds.Settings
	server   *door.Server
	drawing  drawing
	displays []shown
	total    int    // displays, also those that are not reported
	over     []byte // the message done
	bytes    int
	full     bool
	redrawn  bool // a display was replaced or taken back: the next ones may be, too
	cleared  bool // and the server does not know
}

// shown is one display. frame is nil where it was sent and is not kept, or is to come.
type shown struct {
	key   string
	path  string
	frame []byte
	page  *page // whose picture is to come
	sent  bool
}

func (r *record) show(m *kernelproc.Report) {
	if !isMime(m.Mime) {
		r.total++
		return
	}
	key := bounds.Clean(m.Key, maxKey)
	at := slices.IndexFunc(r.displays, func(d shown) bool { return key != "" && d.key == key })
	if at < 0 && m.Again { // it takes the place of one that is not reported
		return
	}
	if at < 0 {
		r.total++
		if len(r.displays) == r.settings.MaxDisplays {
			return
		}
		at = len(r.displays)
		r.displays = append(r.displays, shown{key: key})
	} else {
		r.redrawn = true
	}
	if before := r.displays[at].page; before != nil {
		close(before.dropped)
	}
	r.bytes -= len(r.displays[at].frame)
	d := r.displayOf(m, key)
	r.displays[at] = shown{key: key, path: d.Path, page: &page{Display: d}}
	if m.Mime != "text/html" || d.Path == "" || !r.draw(r.displays[at].page) {
		r.release(&r.displays[at])
	}
	if !r.redrawn || r.bytes > recordBytes {
		r.send(false)
	}
}

func (r *record) displayOf(m *kernelproc.Report, key string) protocol.Display {
	d := protocol.Display{
		Type: "display", ID: r.run, Data: protocol.Data{}, Path: bounds.Path(m.Path),
		SizeBytes: min(max(m.Size, 0), 1<<50), Alt: bounds.Clean(m.Alt, maxAlt), Key: key,
		Saved: bounds.Path(m.Saved),
	}
	if n := len(m.Blob); n > 0 && n <= r.settings.ImageBytes {
		d.Data[m.Mime] = displayText(m.Mime, m.Blob)
	}
	if d.SizeBytes == 0 {
		d.SizeBytes = int64(len(m.Blob))
	}
	return d
}

func encodeDisplay(d protocol.Display) []byte {
	frame, err := json.Marshal(d)
	if err != nil || len(frame) > protocol.MaxToServer {
		d.Data = protocol.Data{}
		frame, _ = json.Marshal(d)
	}
	return frame
}

// clear takes back the run's displays.
func (r *record) clear() {
	for _, d := range r.displays {
		if d.page != nil {
			close(d.page.dropped)
		}
	}
	*r = record{run: r.run, settings: r.settings, server: r.server, drawing: r.drawing, redrawn: true, cleared: true}
}

// send sends the changed displays. A run may redraw many times a second: redrawn displays go out once a second
// and at its end, and no more while the server does not read.
func (r *record) send(isLast bool) {
	if r.redrawn && !isLast && r.server.IsFull() {
		return
	}
	if r.cleared {
		r.server.Send(protocol.Head{Type: "clear", ID: r.run}, false)
		r.cleared = false
	}
	for i := range r.displays {
		d := &r.displays[i]
		if d.sent || d.page != nil {
			continue
		}
		r.server.SendBody(d.frame, false)
		d.sent = true
		// Where there is no room, the newest are missing for a later server, and not some in between.
		if r.full = r.full || r.bytes > recordBytes; r.full || r.settings.Token == "" {
			r.bytes -= len(d.frame)
			d.frame = nil
		}
	}
}

// replay sends a later server the messages of a run that the one before may have missed.
func (r *record) replay() {
	r.cleared = false // it knows no displays of the run
	for i := range r.displays {
		if frame := r.displays[i].frame; frame != nil {
			r.server.SendBody(frame, false)
			r.displays[i].sent = true
		}
	}
	if r.over != nil {
		r.server.SendBody(r.over, false)
	}
}

func isMime(mime string) bool {
	kind, sub, found := strings.Cut(mime, "/")
	return found && kind != "" && sub != "" && len(mime) <= 100 && strings.Trim(mime, "abcdefghijklmnopqrstuvwxyz0123456789.+-/") == ""
}

func displayText(mime string, data []byte) string {
	if strings.HasPrefix(mime, "image/") && mime != "image/svg+xml" {
		return base64.StdEncoding.EncodeToString(data)
	}
	return strings.ToValidUTF8(string(data), "\uFFFD")
}
