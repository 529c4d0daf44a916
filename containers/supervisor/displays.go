//go:build linux

package main

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

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

func (r *run) show(m *kernelproc.Report) {
	if !isMime(m.Mime) {
		r.record.total++
		return
	}
	key := clean(m.Key, maxKey)
	at := slices.IndexFunc(r.record.displays, func(d shown) bool { return key != "" && d.key == key })
	if at < 0 && m.Again { // it takes the place of one that is not reported
		return
	}
	if at < 0 {
		r.record.total++
		if len(r.record.displays) == r.s.settings.MaxDisplays {
			return
		}
		at = len(r.record.displays)
		r.record.displays = append(r.record.displays, shown{key: key})
	} else {
		r.record.redrawn = true
	}
	if before := r.record.displays[at].page; before != nil {
		close(before.dropped)
	}
	r.record.bytes -= len(r.record.displays[at].frame)
	d := r.displayOf(m, key)
	r.record.displays[at] = shown{key: key, path: d.Path, page: &page{Display: d}}
	if m.Mime != "text/html" || d.Path == "" || !r.draw(r.record.displays[at].page) {
		r.release(&r.record.displays[at])
	}
	if !r.record.redrawn || r.record.bytes > recordBytes {
		r.sendDisplays()
	}
}

func (r *run) displayOf(m *kernelproc.Report, key string) protocol.Display {
	d := protocol.Display{
		Type: "display", ID: r.ID, Data: protocol.Data{}, Path: relativePath(m.Path),
		SizeBytes: min(max(m.Size, 0), 1<<50), Alt: clean(m.Alt, maxAlt), Key: key,
		Saved: relativePath(m.Saved),
	}
	if n := len(m.Blob); n > 0 && n <= r.s.settings.ImageBytes {
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
func (r *run) clear() { r.record = record{redrawn: true, cleared: true} }

// sendDisplays sends the changed displays. A run may redraw many times a second: redrawn displays go out once a second
// and at its end.
func (r *run) sendDisplays() {
	s := r.s
	if r.record.cleared {
		s.server.send(protocol.Head{Type: "clear", ID: r.ID}, false)
		r.record.cleared = false
	}
	for i := range r.record.displays {
		d := &r.record.displays[i]
		if d.sent || d.page != nil {
			continue
		}
		s.server.sendBody(d.frame, false)
		d.sent = true
		// Where there is no room, the newest are missing for a later server, and not some in between.
		if r.record.full = r.record.full || r.record.bytes > recordBytes; r.record.full || s.settings.Token == "" {
			r.record.bytes -= len(d.frame)
			d.frame = nil
		}
	}
}

// replay sends a later server the messages of a run that the one before may have missed.
func (r *run) replay() {
	r.record.cleared = false // it knows no displays of the run
	for i := range r.record.displays {
		if frame := r.record.displays[i].frame; frame != nil {
			r.s.server.sendBody(frame, false)
			r.record.displays[i].sent = true
		}
	}
	if r.record.over != nil {
		r.s.server.sendBody(r.record.over, false)
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
