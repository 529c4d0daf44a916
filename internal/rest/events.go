// The stream of events about sessions and the runs of one.

package rest

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
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
	infos []sandbox.SessionInfo
}

// get lists the sessions, by a list that is no older than listTime.
func (l *sessionList) get(ctx context.Context, manager *sandbox.Manager) []sandbox.SessionInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.asked) >= listTime {
		infos := manager.Sessions(ctx)
		if ctx.Err() != nil {
			return nil
		}
		l.infos, l.asked = infos, time.Now()
	}
	return l.infos
}

type sessionFields struct {
	SessionID string         `json:"session_id"`
	Owner     string         `json:"owner"`
	State     string         `json:"state"`
	Named     bool           `json:"named"`
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
	infos := t.sessions.get(ctx, t.manager)
	if ctx.Err() != nil {
		return
	}
	list := struct {
		Sessions []sessionFields `json:"sessions"`
	}{[]sessionFields{}}
	var shown *sandbox.SessionInfo
	for i, info := range infos {
		if info.ID == t.session {
			shown = &infos[i]
		}
		f := sessionFields{
			SessionID: info.ID, Owner: info.Owner, State: info.State, KeptUntil: info.KeptUntil.Truncate(time.Second), Pinned: info.Pinned, Place: info.Place.String(), Named: info.Named, Kernels: []kernelFields{}, Before: []string{},
			Created: info.Created, LastUsed: info.LastUsed.Truncate(time.Second), SizeBytes: info.SizeBytes,
		}
		for _, k := range info.Kernels {
			of := kernelFields{k.Language, k.State, []string{}}
			for _, run := range k.Before {
				of.Before = append(of.Before, run.RunID)
			}
			f.Kernels = append(f.Kernels, of)
		}
		if info.Versions != nil {
			for _, run := range info.Versions.Before {
				f.Before = append(f.Before, run.RunID)
			}
		}
		list.Sessions = append(list.Sessions, f)
	}
	t.send("sessions", list)
	if shown != nil {
		t.tellSession(ctx, shown)
	}
}

func (t *stream) tellSession(ctx context.Context, info *sandbox.SessionInfo) {
	runs, err := t.runs.read(ctx, t.Server, t.session, "", maxListedRuns)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.log.Debug("a history cannot be read", "session", t.session, "error", err)
	}
	t.send("runs", runs)
	if info.Owner != sandbox.OwnerThis {
		return
	}
	live := make(map[string]resultFields)
	for _, run := range runs.Runs {
		if run.Status == string(sandbox.Running) {
			if found, err := t.manager.FindRun(run.RunID); err == nil && found.SessionID == t.session {
				result := found.SoFar(ctx)
				result.Duration = 0 // it is known when it began
				live[run.RunID] = resultFieldsOf(result)
			}
		}
	}
	t.send("live", live)
	if t.network == nil {
		return
	}
	requests, total := t.network.Of(t.session)
	requests = append([]netlog.Entry{}, requests[max(0, len(requests)-shownRequests):]...) // none is a list, too
	slices.Reverse(requests)
	t.send("network", struct {
		Requests []netlog.Entry `json:"requests"` // newest first
		Total    int            `json:"total"`
	}{requests, total})
}

// send sends an event, where it says something else than the last of its kind.
func (t *stream) send(kind string, value any) {
	if data := web.Encode(value); !bytes.Equal(data, t.sent[kind]) {
		t.sent[kind] = data
		t.events.Send(kind, web.Encode(t.secrets.MaskJSON(value)))
	}
}
