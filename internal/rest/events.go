// The stream of events about sessions and the runs of one.

package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	// shownRequests is how many of the newest are listed.
	shownRequests = 100
	// listTime is how old a list of sessions may be: kernels are asked for it.
	listTime = 2 * time.Second
)

// sessionList is shared by all streams, so that several ask no more often than one.
type sessionList struct {
	mu    sync.Mutex
	asked time.Time
	known []door.Known
}

// get lists the sessions, by a list that is no older than listTime.
func (l *sessionList) get(ctx context.Context, s *Server) []door.Known {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.asked) >= listTime {
		list := s.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		l.known, l.asked = list, time.Now()
	}
	return l.known
}

type sessionFields struct {
	SessionID string         `json:"session_id"`
	Owner     string         `json:"owner"`
	State     string         `json:"state"`
	Here      bool           `json:"here"` // requests about it are answered here
	Named     bool           `json:"named"`
	Scripts   bool           `json:"page_scripts"` // of HTML files run
	Kernels   []kernelFields `json:"kernels"`
	Created   time.Time      `json:"created"`
	LastUsed  time.Time      `json:"last_used"`
	SizeBytes *int64         `json:"size_bytes"` // null where only its server could tell
	KeptUntil time.Time      `json:"kept_until,omitzero"`
	Pinned    bool           `json:"pinned,omitempty"`
	Place     string         `json:"place,omitempty"`
	Before    []string       `json:"files_can_go_back_before"` // ids of runs
}

type kernelFields struct {
	Language sandbox.Language `json:"language"`
	State    string           `json:"state"`
	Before   []string         `json:"can_go_back_before"` // ids of runs
	Copies   []string         `json:"copies"`
}

// stream is the state of one client's stream: of all sessions, and of the one that it shows.
type stream struct {
	*Server
	events  *web.Events
	session string
	sent    map[string][]byte // by the kind of event, before it was masked
	runs    runList
}

// tellEvents serves a stream.
func (s *Server) tellEvents(w http.ResponseWriter, r *http.Request) {
	leave := s.watchers.enter(s, w, r)
	if leave == nil {
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	t := &stream{Server: s, events: web.NewEvents(w), sent: make(map[string][]byte)}
	if _, exists := s.tools["wait_for_run"]; exists { // whoever may not read runs does not by events either
		t.session = r.URL.Query().Get("session_id")
	}
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for t.tell(ctx); t.events.Err() == nil; t.tell(ctx) {
		select {
		case <-tick.C:
			t.events.KeepAlive(web.KeepAliveTime)
		case <-ctx.Done():
			return
		}
	}
}

// tell sends the changes.
func (t *stream) tell(ctx context.Context) {
	infos := t.sessions.get(ctx, t.Server)
	if ctx.Err() != nil {
		return
	}
	list := struct {
		Sessions []sessionFields `json:"sessions"`
	}{[]sessionFields{}}
	var shown *door.Known
	for i, info := range infos {
		if info.ID == t.session {
			shown = &infos[i]
		}
		f := sessionFields{
			SessionID: info.ID, Owner: info.Owner, State: info.State, Here: t.isHere(&info), KeptUntil: info.KeptUntil.Truncate(time.Second), Pinned: info.Pinned, Place: info.Place.String(), Named: info.Named, Scripts: t.scripts, Kernels: []kernelFields{}, Before: []string{},
			Created: info.Created, LastUsed: info.LastUsed.Truncate(time.Second), SizeBytes: info.SizeBytes,
		}
		for _, k := range info.Kernels {
			f.Kernels = append(f.Kernels, kernelFields{k.Language, k.State, idsOf(k.Before), idsOf(k.Copies)})
		}
		if info.Versions != nil {
			f.Before = idsOf(info.Versions.Before)
		}
		list.Sessions = append(list.Sessions, f)
	}
	t.send("sessions", list)
	if shown != nil {
		t.tellSession(ctx, shown)
	}
}

func idsOf(runs []*sandbox.RunInfo) []string {
	ids := make([]string, len(runs))
	for i, run := range runs {
		ids[i] = run.RunID
	}
	return ids
}

func (t *stream) tellSession(ctx context.Context, info *door.Known) {
	runs, err := t.runs.read(ctx, t.Server, t.session, "", maxListedRuns)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.log.Debug("a history cannot be read", "session", t.session, "error", err)
	}
	t.send("runs", runs)
	var going []string
	for _, run := range runs.Runs {
		if run.Status == string(sandbox.Running) {
			going = append(going, run.RunID)
		}
	}
	var now any
	switch {
	case info.At != nil:
		now, err = info.At.Live(ctx, going)
	case info.Owner == sandbox.OwnerThis:
		now = t.live(ctx, t.session, going)
	}
	if now == nil || err != nil {
		return
	}
	var parts map[string]any
	_ = json.Unmarshal(web.Encode(now), &parts)
	for _, kind := range []string{"live", "network"} {
		if parts[kind] != nil {
			t.send(kind, parts[kind])
		}
	}
}

// liveFields are what a server alone knows of a session that it has open.
type liveFields struct {
	Live    map[string]resultFields `json:"live"` // of the runs that go on, so far
	Network *networkFields          `json:"network,omitempty"`
}

type networkFields struct {
	Requests []netlog.Entry `json:"requests"` // newest first
	Total    int            `json:"total"`
}

func (s *Server) live(ctx context.Context, session string, going []string) liveFields {
	f := liveFields{Live: make(map[string]resultFields)}
	for _, id := range going {
		if found, err := s.manager.FindRun(id); err == nil && found.SessionID == session {
			result := found.SoFar(ctx)
			result.Duration = 0 // it is known when it began
			f.Live[id] = resultFieldsOf(result)
		}
	}
	if s.network != nil {
		requests, total := s.network.Of(session)
		requests = append([]netlog.Entry{}, requests[max(0, len(requests)-shownRequests):]...) // none is a list, too
		slices.Reverse(requests)
		f.Network = &networkFields{requests, total}
	}
	return f
}

// tellLive answers another process of the user that shows the session.
func (s *Server) tellLive(w http.ResponseWriter, r *http.Request) {
	web.JSON(w, r, http.StatusOK, s.secrets.MaskJSON(s.live(r.Context(), r.PathValue("session_id"), r.URL.Query()["run"])))
}

// send sends an event, where it says something else than the last of its kind.
func (t *stream) send(kind string, value any) {
	if data := web.Encode(value); !bytes.Equal(data, t.sent[kind]) {
		t.sent[kind] = data
		t.events.Send(kind, web.Encode(t.secrets.MaskJSON(value)))
	}
}
