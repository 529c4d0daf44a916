// The output of a run as it comes, by server-sent events.

package rest

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	// maxFollowers limits the open streams of output.
	maxFollowers = 256
	// maxWatchers limits the open streams of events. Each keeps a list of runs.
	maxWatchers = 64
	// lookEvery is the interval at which a run's output is read.
	lookEvery = 200 * time.Millisecond
)

// outputEvent is a run's output since the last event.
type outputEvent struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
	// OmittedBytes came before the text and were too many to keep; the file that the result names holds them.
	OmittedBytes int64 `json:"omitted_bytes,omitempty"`
}

// streams bounds the open streams of a kind.
type streams struct {
	*semaphore.Weighted
	most       int64
	kind, hint string
}

func newStreams(most int64, kind, hint string) streams {
	return streams{semaphore.NewWeighted(most), most, kind, hint}
}

// enter takes a place among the streams, which leave releases, or answers that there is none.
func (t *streams) enter(s *Server, w http.ResponseWriter, r *http.Request) (leave func()) {
	if t.TryAcquire(1) {
		return func() { t.Release(1) }
	}
	w.Header().Set("Retry-After", "1")
	s.refuse(w, r, web.NewRefusal(http.StatusServiceUnavailable, fault.ServerBusy, t.hint, "%d streams of %s are open, which is the most.", t.most, t.kind))
	return nil
}

// follow sends a run's output as it comes, and its result.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	run, err := s.manager.FindRun(r.PathValue("run_id"))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	leave := s.followers.enter(s, w, r)
	if leave == nil {
		return
	}
	defer leave()
	events := web.NewEvents(w)
	var stdout, stderr printed
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for over := false; events.Err() == nil; {
		var res *sandbox.Result
		if over {
			res, _ = run.Result()
		} else {
			res = run.SoFar(r.Context())
		}
		if res != nil { // it began
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
			events.KeepAlive(web.KeepAliveTime)
		case <-r.Context().Done():
			return
		}
	}
	given := make(Arguments)
	given.Set("run_id", run.ID)
	o, err := s.call(r.Context(), "wait_for_run", given)
	switch {
	case err != nil:
		events.Send("error", web.Encode(fault.From(err).JSON()))
	case o.fields == nil:
		events.Send("error", web.Encode(o.fault))
	default:
		events.Send("result", web.Encode(o.members()))
	}
}

// printed is the part of a stream that was sent.
type printed struct {
	head  string // of it, as it was
	bytes int64  // how many of it, as it is shown
}

// follow sends the new output. The first bytes of a stream are known, and the last ones once it is long.
func (p *printed) follow(e *web.Events, name string, now sandbox.Stream) {
	if now.Bytes == 0 { // perhaps the supervisor did not answer in time
		return
	}
	// Not by length alone: a secret is masked once it is whole.
	if more := now.Head[common(p.head, now.Head):]; more != "" {
		e.Send("output", web.Encode(outputEvent{Stream: name, Text: more}))
		p.bytes = max(p.bytes, int64(len(now.Head)))
	}
	p.head = now.Head
	if !now.Truncated() {
		p.bytes = int64(len(now.Head))
		return
	}
	tailFrom := int64(len(now.Head)) + now.OmittedBytes
	omitted := max(0, tailFrom-p.bytes)
	if tail := now.Tail[min(len(now.Tail), max(0, int(p.bytes-tailFrom))):]; tail != "" || omitted > 0 {
		e.Send("output", web.Encode(outputEvent{Stream: name, Text: strings.ToValidUTF8(tail, "\ufffd"), OmittedBytes: omitted}))
	}
	p.bytes = max(p.bytes, tailFrom+int64(len(now.Tail)))
}

// common returns the length of the common beginning of two texts, in whole characters.
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
