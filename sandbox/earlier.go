package sandbox

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// What a history tells of runs that this server did not see, or has forgotten.

// run makes a run of a history a run of this server. One without an end is still to be settled.
func (e *HistoryEntry) run(parent context.Context, config *Config, session string) *Run {
	r := newRun(parent, config, e.RunID, session, RunOptions{
		SessionID: session, Language: e.Language, Code: e.Code, Fresh: e.Fresh, Timeout: max(0, min(e.Timeout, config.MaxRunTimeout)),
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
	}
	return r
}

// maxUnfinished is how many runs without an end are remembered; more can only be forged.
const maxUnfinished = 256

// unfinishedRuns gives the runs that began in a session and did not end, as far as its history tells.
func unfinishedRuns(stateDir, id string) ([]HistoryEntry, error) {
	var open []HistoryEntry
	err := eachHistoryLine(stateDir, id, func(text []byte) error {
		run := lineRun(text)
		if i := slices.IndexFunc(open, func(e HistoryEntry) bool { return e.RunID == run }); i >= 0 {
			if json.Valid(text) { // and not half a line, of a server that was killed
				open = slices.Delete(open, i, i+1)
			}
			return nil
		}
		if line, err := decodeLine(text); err == nil && line.Begin != nil {
			open = append(open, line.Begin.entry())
		}
		if len(open) > maxUnfinished {
			open = slices.Delete(open, 0, 1)
		}
		return nil
	})
	return open, err
}

// findEarlier looks a run up in the histories of the sessions that this server has open, and of those
// that wait for a server. A run that went on when its server ended is taken up again.
func (m *Manager) findEarlier(id string) (*Run, error) {
	sessions := make(map[string]bool)
	for _, s := range m.all() {
		sessions[s.id] = true
	}
	for kept := range keptSessions(m.config.StateDir) {
		sessions[kept] = true
	}
	for session := range sessions {
		entry, err := FindHistory(m.config.StateDir, session, id)
		if err != nil {
			m.config.Logger.Warn("history", "session", session, "error", err)
		}
		if entry == nil {
			continue
		}
		if entry.over() {
			return entry.run(context.Background(), &m.config, session), nil
		}
		return m.takeUp(session, entry)
	}
	return nil, fault.New(fault.RunNotFound, "Use the run_id of an earlier result; a run is forgotten with its session.",
		"There is no run %q.", clip(id, 80))
}

// takeUp opens the session of a run whose end is not known, so that it is.
func (m *Manager) takeUp(session string, entry *HistoryEntry) (*Run, error) {
	s, err := m.open(session)
	if err != nil {
		return nil, err
	}
	if err := s.reach(entry.Language); err != nil {
		return nil, err
	}
	if run := s.findRun(entry.RunID); run != nil {
		return run, nil
	}
	// It ended this very moment, and its end is just being recorded.
	run := entry.run(context.Background(), &m.config, session)
	run.finish(lostResult(run, true), nil, nil)
	return run, nil
}

// lostResult is for a run of an earlier server that nobody knows the end of. alive says that its kernel
// still has its variables.
func lostResult(run *Run, alive bool) *Result {
	res := &Result{
		SessionID: run.SessionID, RunID: run.ID, Language: run.Language, Status: Killed, ExitCode: 137,
		VariablesLost: true, Cause: "its server and its container ended",
	}
	if alive {
		res.Status, res.ExitCode, res.VariablesLost, res.Cause = Cancelled, 130, false, ""
		res.Notes = []string{"Its server ended before this code began, or before its end was recorded."}
	}
	return res
}
