package web

import (
	"net/http"
	"time"
)

// TypeEvents is the media type of a stream of events.
const TypeEvents = "text/event-stream"

// KeepAliveTime is how long a stream is silent at most. Proxies give up after a minute or so, and HTTP clients of Python after 5 s.
const KeepAliveTime = 4 * time.Second

// Events is a stream of server-sent events. It is for one goroutine.
type Events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sent    time.Time
	err     error
}

// NewEvents begins a stream.
func NewEvents(w http.ResponseWriter) *Events {
	h := w.Header()
	h.Set("Content-Type", TypeEvents)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // makes nginx pass on each event at once
	h.Set("X-Content-Type-Options", "nosniff")
	e := &Events{w: w, control: http.NewResponseController(w)}
	e.write(nil)
	return e
}

// Err returns why the client reads no more; nil: it does. Nothing is sent from then on.
func (e *Events) Err() error { return e.err }

// Send sends an event. Its data are one line.
func (e *Events) Send(kind string, data []byte) {
	e.write([]byte("event: "+kind+"\ndata: "), data, []byte("\n\n"))
}

// KeepAlive sends a comment where nothing was sent for so long.
func (e *Events) KeepAlive(silent time.Duration) {
	if time.Since(e.sent) >= silent {
		e.write([]byte(": keep-alive\n\n"))
	}
}

func (e *Events) write(parts ...[]byte) {
	e.sent = time.Now()
	_ = e.control.SetWriteDeadline(e.sent.Add(WriteTime)) // it was set for the whole of a request
	for _, part := range parts {
		if e.err == nil {
			_, e.err = e.w.Write(part)
		}
	}
	if e.err == nil {
		e.err = e.control.Flush()
	}
}
