package webui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	// shownRuns and shownRequests are how many of the newest are listed.
	shownRuns     = 100
	shownRequests = 100
	// listTime is how old a list of sessions may be: the engine is asked for it.
	listTime = 2 * time.Second
	// keepAlive is how long a stream is silent at most.
	keepAlive = 15 * time.Second
	writeTime = 30 * time.Second
)

// sessionList is what all pages have in common, so that several ask the engine no more often than one.
type sessionList struct {
	sandbox Sandbox

	mu    sync.Mutex
	asked time.Time
	infos []sandbox.SessionInfo
	err   error
}

// get lists the sessions, by a list that is no older than age.
func (l *sessionList) get(ctx context.Context, age time.Duration) ([]sandbox.SessionInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.asked) >= age {
		infos, err := l.sandbox.Sessions(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l.infos, l.err, l.asked = infos, err, time.Now()
	}
	return l.infos, l.err
}

// find returns a session that this server or another one has, or has left.
func (l *sessionList) find(ctx context.Context, id string) (sandbox.SessionInfo, error) {
	for _, age := range []time.Duration{listTime, 0} {
		infos, err := l.get(ctx, age)
		if at := slices.IndexFunc(infos, func(i sandbox.SessionInfo) bool { return i.ID == id }); at >= 0 {
			return infos[at], nil
		}
		if age == 0 && err != nil {
			return sandbox.SessionInfo{}, err
		}
	}
	return sandbox.SessionInfo{}, fault.New(fault.SessionNotFound, "The list has those that there are.", "There is no session %q.", id)
}

// checkOwn refuses a session that this server does not have open: its server alone knows what goes on in it.
func (l *sessionList) checkOwn(ctx context.Context, id string) error {
	info, err := l.find(ctx, id)
	if err == nil && info.Owner != sandbox.OwnerThis {
		err = fault.New(fault.SessionBusy, "Look at the page of the server that has it open.", "Session %q is not open in this server.", id)
	}
	return err
}

type sessionFields struct {
	SessionID string         `json:"session_id"`
	Owner     string         `json:"owner"`
	Named     bool           `json:"named"`
	Kernels   []kernelFields `json:"kernels"`
	Created   time.Time      `json:"created"`
	LastUsed  time.Time      `json:"last_used"`
	SizeBytes *int64         `json:"size_bytes"` // null where only its server could tell
}

type kernelFields struct {
	Language sandbox.Language `json:"language"`
	State    string           `json:"state"`
}

type runFields struct {
	RunID      string           `json:"run_id"`
	Language   sandbox.Language `json:"language"`
	Status     string           `json:"status"`
	Started    time.Time        `json:"started"`
	DurationMS float64          `json:"duration_ms"`
	Title      string           `json:"title"`
	Code       string           `json:"code"` // its beginning, in a list
}

// maxListedCode is how many characters of the code a list has: they are searched.
const maxListedCode = 1000

func listed(e *sandbox.HistoryEntry) runFields {
	f := runFields{RunID: e.RunID, Language: e.Language, Status: e.Status(), Started: e.Started, Title: title(e.Code), Code: e.Code}
	if code := []rune(e.Code); len(code) > maxListedCode {
		f.Code = string(code[:maxListedCode]) + "…"
	}
	if e.Result != nil {
		f.DurationMS = e.Result.Milliseconds()
	}
	return f
}

// stream is what one page is told as it comes: about all sessions, and about the one that it shows.
type stream struct {
	h       *Handler
	w       http.ResponseWriter
	session string
	sent    map[string][]byte    // by the kind of event
	runs    map[string]runFields // that are listed
	spoke   time.Time
}

// events serves a stream.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	if !h.streams.TryAcquire(1) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer h.streams.Release(1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.o.Ending, cancel)()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // has nginx pass on what comes
	s := &stream{h: h, w: w, session: r.URL.Query().Get("session"), sent: make(map[string][]byte)}
	tick := time.NewTicker(h.o.Every)
	defer tick.Stop()
	for h.visitors.isKnown(r) && s.tell(ctx) == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tell sends what is new.
func (s *stream) tell(ctx context.Context) error {
	infos, err := s.h.sessions.get(ctx, listTime)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	list := struct {
		Sessions []sessionFields `json:"sessions"`
		Note     string          `json:"note"`
	}{Sessions: []sessionFields{}}
	if err != nil {
		list.Note = "Sessions that this server does not have open may be missing. " + fault.From(err).Message
	}
	var shown *sandbox.SessionInfo
	for i, info := range infos {
		if info.ID == s.session {
			shown = &infos[i]
		}
		f := sessionFields{
			SessionID: info.ID, Owner: info.Owner, Named: info.Named, Kernels: []kernelFields{},
			Created: info.Created, LastUsed: info.LastUsed.Truncate(time.Second), SizeBytes: info.SizeBytes,
		}
		for _, k := range info.Kernels {
			f.Kernels = append(f.Kernels, kernelFields{k.Language, k.State})
		}
		list.Sessions = append(list.Sessions, f)
	}
	err = s.send("sessions", list)
	if shown != nil {
		err = errors.Join(err, s.tellSession(ctx, shown))
	}
	if err == nil && time.Since(s.spoke) > keepAlive {
		err = s.write([]byte(": keep-alive\n\n"))
	}
	return err
}

func (s *stream) tellSession(ctx context.Context, info *sandbox.SessionInfo) error {
	runs, total, err := s.listRuns()
	if err != nil {
		s.h.o.Logger.Debug("page", "session", s.session, "error", err)
	}
	err = s.send("runs", struct {
		Runs  []runFields `json:"runs"` // newest first
		Total int         `json:"total"`
	}{runs, total})
	if info.Owner != sandbox.OwnerThis {
		return err
	}
	live := make(map[string]resultFields)
	for _, run := range runs {
		if run.Status == string(sandbox.Running) {
			if found, err := s.h.o.Sandbox.FindRun(run.RunID); err == nil && found.SessionID == s.session {
				result := found.SoFar(ctx)
				result.Duration = 0 // it is known when it began
				live[run.RunID] = fieldsOf(result)
			}
		}
	}
	err = errors.Join(err, s.send("live", live))
	if s.h.o.Network != nil {
		requests, total := s.h.o.Network.Of(s.session)
		requests = append([]netlog.Entry{}, requests[max(0, len(requests)-shownRequests):]...) // none is a list, too
		slices.Reverse(requests)
		err = errors.Join(err, s.send("network", struct {
			Requests []netlog.Entry `json:"requests"` // newest first
			Total    int            `json:"total"`
		}{requests, total}))
	}
	return err
}

// listRuns returns the newest runs, the newest first, and how many there are. What was read before is not read again.
func (s *stream) listRuns() (runs []runFields, total int, err error) {
	dir := s.h.o.Sandbox.Config().StateDir
	var names []string // in the order of the calls
	over := make(map[string]bool)
	if _, err := sandbox.SelectHistory(dir, s.session, func(id string, isOver bool) bool {
		names = append(names, id)
		over[id] = isOver
		return false
	}); err != nil {
		return []runFields{}, 0, err
	}
	total = len(names)
	names = names[max(0, total-shownRuns):]
	known := make(map[string]runFields)
	for _, id := range names {
		if run, has := s.runs[id]; has && (run.Status != string(sandbox.Running) || !over[id]) {
			known[id] = run
		}
	}
	entries, err := sandbox.SelectHistory(dir, s.session, func(id string, _ bool) bool {
		_, has := known[id]
		return !has && slices.Contains(names, id)
	})
	for i := range entries {
		known[entries[i].RunID] = listed(&entries[i])
	}
	s.runs = known
	runs = []runFields{}
	for _, id := range slices.Backward(names) {
		if run, has := known[id]; has {
			runs = append(runs, run)
		}
	}
	return runs, total, err
}

// send sends an event, where it says something else than the last of its kind.
func (s *stream) send(kind string, value any) error {
	data, err := json.Marshal(value)
	if err != nil || bytes.Equal(data, s.sent[kind]) {
		return err
	}
	s.sent[kind] = data
	return s.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, data))
}

func (s *stream) write(event []byte) error {
	s.spoke = time.Now()
	control := http.NewResponseController(s.w)
	_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // it was set for the whole of a request
	_, err := s.w.Write(event)
	return cmp.Or(err, control.Flush())
}
