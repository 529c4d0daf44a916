package sandbox

import (
	"context"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Runs of a history that this server did not see, or forgot.

// run makes a run of a history a run of this server. A run without an end remains to be settled.
func (e *HistoryEntry) run(parent context.Context, config *Config, session string) *Run {
	r := newRun(parent, config, e.RunID, session, RunOptions{
		SessionID: session, Language: e.Language, Code: e.Code, Fresh: e.Fresh, Copy: e.Copy, Timeout: max(0, min(e.Timeout, config.MaxRunTimeout)),
	})
	r.earlier = true
	if e.Started.Before(r.created) { // a history may come from anybody
		r.created = e.Started
	}
	if e.over() {
		var err error
		if e.Error != nil {
			err = e.Error
		}
		if e.Result != nil {
			r.displays = e.Result.Displays
		}
		r.finish(e.Result, err, nil)
		r.ended = r.created
		if e.Result != nil {
			r.ended = r.created.Add(e.Result.Duration)
		}
	}
	return r
}

// findEarlier looks a run up in the histories. If the run went on when its server ended, it adopts it.
func (m *Manager) findEarlier(id string) (*Run, error) {
	session, entry, err := m.findEntry(id)
	if err != nil {
		return nil, err
	}
	if entry.over() {
		return entry.run(context.Background(), m.conf(), session), nil
	}
	return m.takeUp(session, entry)
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
		entry := entryOf(found, session)
		return session, &entry, nil
	}
	return "", nil, fault.New(fault.RunNotFound, "Use the run_id of an earlier result; a run is forgotten with its session.",
		"There is no run %q.", clip(id, 80))
}

// takeUp opens the session of a run without a known end, to find that end out.
func (m *Manager) takeUp(session string, entry *HistoryEntry) (*Run, error) {
	s, err := m.open(session, toUse)
	if err != nil {
		return nil, err
	}
	if err := s.reach(entry.Language); err != nil {
		return nil, err
	}
	if run := s.uses.find(entry.RunID); run != nil {
		return run, nil
	}
	// It may have ended in a server that released the session then.
	if found, _ := history.Find(s.folder(), entry.RunID); found != nil {
		if now := entryOf(found, session); now.over() {
			return now.run(context.Background(), m.conf(), session), nil
		}
	}
	// It ended this moment, and its end is about to be recorded.
	run := entry.run(context.Background(), m.conf(), session)
	run.finish(lostResult(run, true), nil, nil)
	return run, nil
}

// reach takes over an earlier server's kernel of a language, so that its run is known here. The error is a fault that says why the
// run's state is unknown.
func (s *session) reach(language Language) error {
	i := s.interpreters[language]
	if i == nil {
		return fault.New(fault.InvalidArgument, "Start the server with that language on.", "There is no %s here.", language)
	}
	return i.reach()
}

// lostResult is for an earlier server's run without a known end. alive reports that its kernel still holds its variables.
func lostResult(run *Run, alive bool) *Result {
	if alive {
		res := run.unanswered(Cancelled, 130)
		res.Notes = []string{"Its server ended before this code began, or before its end was recorded."}
		return res
	}
	res := run.unanswered(Killed, 137)
	res.VariablesLost, res.Cause = true, "its server and its container ended"
	return res
}
