package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// index lists the sessions of a server, its default sessions, and notes on ended ones.
type index struct {
	mu       sync.Mutex
	sessions map[string]*session
	fallback map[string]string    // ids of the existing default sessions, by DefaultOf
	expired  map[string]ended     // notes on expired sessions, by id and by DefaultOf
	asleep   map[string]time.Time // sleeping sessions at the last look, with their last use then
	refused  []*Run               // the last ones, because their sessions could not be opened
	closed   bool
}

func newIndex() *index {
	return &index{sessions: make(map[string]*session), fallback: make(map[string]string), expired: make(map[string]ended)}
}

// resolve returns the id of the session, empty for a default one that does not exist. The caller holds x.mu.
func (x *index) resolve(id string) string {
	if isDefault(id) {
		return x.fallback[id]
	}
	return id
}

// find returns the session of an id if there is one here; nil: there is none.
func (x *index) find(id string) *session {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sessions[x.resolve(id)]
}

// forgetDefault makes a session nobody's default. The caller holds x.mu.
func (x *index) forgetDefault(s *session) {
	if x.fallback[s.fallback] == s.id {
		delete(x.fallback, s.fallback)
	}
}

// all returns the sessions, unordered.
func (x *index) all() []*session {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.sessions))
}

// usedEngine reports whether the engine may hold anything of the sessions.
func (x *index) usedEngine() bool {
	return slices.ContainsFunc(x.all(), func(s *session) bool { return s.place.Used() })
}

// setDefault fills in the client of a default session.
func (x *index) setDefault(info *SessionInfo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.sessions[info.ID]; s != nil && x.fallback[s.fallback] == s.id {
		info.Default, info.DefaultOf = true, s.fallback
	}
}

// findRefused returns a run of a session that could not be opened; nil: unknown.
func (x *index) findRefused(id string) *Run {
	x.mu.Lock()
	defer x.mu.Unlock()
	return runs.FindRun(x.refused, id)
}

// maxExpired bounds the remembered ids of expired sessions.
const maxExpired = 1000

// ended is the note on an ended session.
type ended struct {
	note string     // without its full stop
	of   []Language // the languages of the variables lost, if the files remain
}

// noteExpired keeps a note for the next session of that id, because its user may expect this one.
func (x *index) noteExpired(s *session, now time.Time, keepFiles bool) {
	most := s.limits.Ends()
	why := fmt.Sprintf("it was %v old, and may not become older", most.Lifetime)
	if s.uses.Age(now) < most.Lifetime {
		why = fmt.Sprintf("nobody had used it for %v", most.IdleTimeout)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.noteEnded(s, why, keepFiles)
}

// noteEnded keeps that note. The caller holds x.mu.
func (x *index) noteEnded(s *session, why string, keepFiles bool) {
	lost := "its variables and files are gone"
	if keepFiles {
		lost = "its variables are gone"
	}
	note := ended{note: fmt.Sprintf("The session before this one has ended, as %s: %s", why, lost)}
	if keepFiles {
		for language, i := range s.interpreters {
			if i.Had.Load() {
				note.of = append(note.of, language)
			}
		}
		if len(note.of) == 0 {
			return
		}
	}
	if len(x.expired) >= maxExpired {
		clear(x.expired)
	}
	x.expired[s.id] = note
	if !s.named {
		x.expired[s.fallback] = note
	}
}

// noteExpiry makes the session's next runs report that its predecessor expired. The caller holds x.mu.
func (x *index) noteExpiry(s *session) {
	id := s.id
	if !s.named {
		id = s.fallback
	}
	note, expired := x.expired[id]
	if !expired {
		return
	}
	delete(x.expired, id)
	for _, language := range note.of {
		s.interpreters[language].Lose(note.note, link.FilesKept)
	}
	if len(note.of) == 0 {
		s.noteLater(note.note + ".")
	}
}

// findEarlier looks a run up in the histories. If the run went on when its server ended, it adopts it.
func (m *Manager) findEarlier(id string) (*Run, error) {
	session, entry, err := m.findEntry(id)
	if err != nil {
		return nil, err
	}
	if entry.Over() {
		return entry.Run(context.Background(), &m.conf().Rules, session), nil
	}
	return m.takeUp(session, entry)
}

// Named returns the name of the session that an id of DefaultOf stands for, empty if there is none yet, and a name as it is.
func (m *Manager) Named(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resolve(id)
}

// SessionOfRun returns the session of a run or of a restore; empty: it is not known. It opens none.
func (m *Manager) SessionOfRun(runID string) string {
	for _, s := range m.all() {
		if s.uses.Find(runID) != nil {
			return s.id
		}
	}
	if owner, _ := m.restoreOf(runID); owner != "" {
		return owner
	}
	owner, _, _ := m.findEntry(runID)
	return owner
}

// findEntry looks a run up in the histories of the sessions that are open here or wait for a server.
func (m *Manager) findEntry(id string) (session string, entry *HistoryEntry, err error) {
	sessions := make(map[string]bool)
	for _, s := range m.all() {
		sessions[s.id] = true
	}
	for kept := range state.Kept(m.conf().StateDir) {
		sessions[kept] = true
	}
	for session := range sessions {
		found, err := history.Find(state.Folder(m.conf().StateDir, session), id)
		if err != nil {
			m.conf().Logger.Warn("history", "session", session, "error", err)
		}
		if found == nil {
			continue
		}
		entry := runs.EntryOf(found, session)
		return session, &entry, nil
	}
	return "", nil, fault.New(fault.RunNotFound, "Use the run_id of an earlier result; a run is forgotten with its session.",
		"There is no run %q.", text.Safe(id, 80))
}

// takeUp opens the session of a run without a known end, to find that end out.
func (m *Manager) takeUp(session string, entry *HistoryEntry) (*Run, error) {
	s, err := m.open(context.Background(), session, toUse)
	if err != nil {
		return nil, err
	}
	if err := s.reach(entry.Language); err != nil {
		return nil, err
	}
	if run := s.uses.Find(entry.RunID); run != nil {
		return run, nil
	}
	// It may have ended in a server that released the session then.
	if found, _ := history.Find(s.folder(), entry.RunID); found != nil {
		if now := runs.EntryOf(found, session); now.Over() {
			return now.Run(context.Background(), &m.conf().Rules, session), nil
		}
	}
	// It ended this moment, and its end is about to be recorded.
	run := entry.Run(context.Background(), &m.conf().Rules, session)
	run.Finish(runs.LostResult(run, true), nil, nil)
	return run, nil
}

// reach takes over an earlier server's kernel of a language, so that its run is known here. The error is a fault that says why the
// run's state is unknown.
func (s *session) reach(language Language) error {
	i := s.interpreters[language]
	if i == nil {
		return fault.New(fault.InvalidArgument, "Start the server with that language on.", "There is no %s here.", language)
	}
	return i.Reach()
}

// FindRun returns a run, going on or over, of a session that is open here or waits for a server. run_not_found otherwise.
func (m *Manager) FindRun(id string) (*Run, error) {
	for _, s := range m.all() {
		run := s.uses.Find(id)
		if run == nil {
			continue
		}
		if run.Earlier && !run.Over() && !run.IsFollowed() {
			if err := s.reach(run.Language); err != nil {
				return nil, err
			}
		}
		return run, nil
	}
	if run := m.findRefused(id); run != nil {
		return run, nil
	}
	return m.findEarlier(id)
}
