package httpserver

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// maxQueuedEvents is the number of a reply's unsent events beyond which the newest replace one another.
const maxQueuedEvents = 1024

// reply answers a request: with one JSON message, or with an event stream from begin or the first event on, or when it was
// silent for web.KeepAliveTime, where the client accepts one. Its own goroutine writes a stream, so that a client that does
// not read keeps no caller waiting.
type reply struct {
	w       http.ResponseWriter
	control *http.ResponseController
	events  bool   // are accepted
	failed  func() // is called when the client does not read

	mu      sync.Mutex
	queue   [][]byte
	running bool
	done    bool
	wake    chan struct{}
	ended   chan struct{}
	timer   *time.Timer
}

// newReply prepares to answer. finish must be called in the end.
func newReply(w http.ResponseWriter, r *http.Request, failed func()) *reply {
	p := &reply{
		w: w, control: http.NewResponseController(w), events: accepts(r, web.TypeEvents), failed: failed,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	_ = p.control.SetWriteDeadline(time.Time{}) // it was set for the whole of a request, and this one may take long
	if p.events {
		p.timer = time.AfterFunc(web.KeepAliveTime, p.begin)
	}
	return p
}

// accepts reports whether the client takes a content type; one that does not say takes JSON.
func accepts(r *http.Request, kind string) bool {
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",") {
		accepted, params, err := mime.ParseMediaType(part)
		if err == nil && accepted == kind && params["q"] != "0" {
			return true
		}
	}
	return false
}

func (p *reply) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events && !p.done {
		p.start()
	}
}

// start begins to write the stream. p.mu is held.
func (p *reply) start() {
	if !p.running {
		p.running = true
		go p.run()
	}
}

// event sends a message on the stream. It never waits, and has no effect after finish and where no stream is accepted.
func (p *reply) event(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.events || p.done {
		return
	}
	if len(p.queue) >= maxQueuedEvents {
		p.queue[len(p.queue)-1] = line
	} else {
		p.queue = append(p.queue, line)
	}
	p.start()
	p.signal()
}

func (p *reply) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// finish sends the answer, if there is one, and returns when all is written. status is for an answer that is not on a stream.
func (p *reply) finish(status int, line []byte) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Lock()
	p.done = true
	running := p.running
	if running && line != nil {
		p.queue = append(p.queue, line)
	}
	p.mu.Unlock()
	if running {
		p.signal()
		<-p.ended
		return
	}
	if line != nil {
		p.w.Header().Set("Content-Type", "application/json")
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(web.WriteTime))
	p.w.WriteHeader(status)
	_, _ = p.w.Write(line)
}

// drop stops sending: the request was cancelled.
func (p *reply) drop() {
	p.mu.Lock()
	p.queue = nil
	p.mu.Unlock()
	status := http.StatusAccepted
	if p.events {
		p.begin() // a stream that ends without an answer
	}
	p.finish(status, nil)
}

func (p *reply) run() {
	defer close(p.ended)
	events := web.NewEvents(p.w)
	events.KeepAlive(0) // proxies in between take headers alone for silence
	tick := time.NewTicker(web.KeepAliveTime)
	defer tick.Stop()
	for {
		lines, done := p.take()
		for _, line := range lines {
			events.Send("message", bytes.TrimSuffix(line, []byte("\n")))
		}
		if events.Err() != nil {
			p.failed()
		}
		if done {
			return
		}
		select {
		case <-p.wake:
		case <-tick.C:
			events.KeepAlive(0)
		}
	}
}

// take returns the lines to write, and whether they are the last.
func (p *reply) take() (lines [][]byte, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines, p.queue = p.queue, nil
	return lines, p.done
}
