package rest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	// maxFollowers is how many streams of output may be open.
	maxFollowers = 256
	// lookEvery is how often a run is asked for what it has printed.
	lookEvery = 200 * time.Millisecond
	// keepAlive is how long a stream is silent at most.
	keepAlive = 15 * time.Second
)

// outputEvent is what a run has printed since the last one.
type outputEvent struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
	// OmittedBytes came before the text and were too many to be kept; the file that the result names has them.
	OmittedBytes int64 `json:"omitted_bytes,omitempty"`
}

// follow sends a run's output as it comes, and its result.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	run, err := s.manager.FindRun(r.PathValue("run_id"))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	select {
	case s.followers <- struct{}{}:
		defer func() { <-s.followers }()
	default:
		w.Header().Set("Retry-After", "1")
		s.write(w, r, http.StatusServiceUnavailable, fieldsOf(fault.New(fault.SessionBusy, "Ask for /v1/runs/{run_id}?wait_seconds=10 instead, or try again later.",
			"%d streams of output are open, which is the most.", maxFollowers)))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	events := &events{w: w, control: http.NewResponseController(w)}
	events.send("")
	var stdout, stderr printed
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for over := false; events.ok; {
		var res *sandbox.Result
		if over {
			res, _ = run.Result()
		} else {
			res = run.SoFar(r.Context())
		}
		if res != nil { // it has begun
			stdout.follow(events, "stdout", res.Stdout)
			stderr.follow(events, "stderr", res.Stderr)
		}
		if over {
			break
		}
		select {
		case <-run.Done():
			over = true
		case <-look.C:
			events.keepAlive()
		case <-r.Context().Done():
			return
		}
	}
	given := make(arguments)
	given.set("run_id", run.ID)
	o, err := s.call(r.Context(), "wait_for_run", given)
	switch {
	case err != nil:
		f := fault.From(err)
		events.event("error", fieldsOf(f))
	case o.fields == nil:
		events.event("error", o.fault)
	default:
		events.event("result", o.members())
	}
}

// events is a stream of events that a client reads, until it does not.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	ok      bool
	sent    time.Time
}

func (e *events) event(name string, data any) {
	e.send(fmt.Sprintf("event: %s\ndata: %s\n\n", name, encode(data)))
}

func (e *events) keepAlive() {
	if time.Since(e.sent) >= keepAlive {
		e.send(": keep-alive\n\n")
	}
}

func (e *events) send(text string) {
	e.sent = time.Now()
	_ = e.control.SetWriteDeadline(e.sent.Add(answerTime))
	_, err := e.w.Write([]byte(text))
	e.ok = err == nil && e.control.Flush() == nil
}

// printed is what was sent of a stream.
type printed struct {
	head  string // of it, as it was
	bytes int64  // how many of it
}

// follow sends what is new. The first bytes of a stream are known, and the last ones once it is long.
func (p *printed) follow(e *events, name string, now sandbox.Stream) {
	if now.Bytes <= p.bytes {
		return
	}
	tailFrom := now.Bytes - int64(len(now.Tail))
	headTo := tailFrom - now.OmittedBytes
	if p.bytes < headTo {
		// Not by length alone: a secret is masked once it is whole.
		if more := now.Head[common(p.head, now.Head):]; more != "" {
			e.event("output", outputEvent{Stream: name, Text: more})
		}
		p.bytes = headTo
	}
	p.head = now.Head
	if omitted := max(0, tailFrom-p.bytes); omitted > 0 || now.Truncated() {
		tail := now.Tail[min(len(now.Tail), max(0, int(p.bytes-tailFrom))):]
		e.event("output", outputEvent{Stream: name, Text: strings.ToValidUTF8(tail, "\ufffd"), OmittedBytes: omitted})
	}
	p.bytes = now.Bytes
}

// common is how long the beginning is that two texts have in common, in whole characters.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n < len(b) && n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}
