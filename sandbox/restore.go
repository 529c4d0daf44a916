// Restoring: variables and files to the state before a run, or variables to a run's copy.

package sandbox

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Restoration is the outcome of a restore.
type Restoration struct {
	SessionID string
	Run       *RunInfo // it is as before this run
	Copy      bool     // they are the copy's, after Run
	// Parts are what went back, and Asked what was to.
	Parts Parts
	Asked Parts
	// Stay says why the variables stay as they are, although they were asked for.
	Stay string
	// Lost are the variables that could not be brought back, at most 50 of LostTotal.
	Lost      []NotRestored
	LostTotal int
	// Files is what became of the files; nil: they stay.
	Files *RestoredFiles
	// Undone are the runs with lost changes, the newest last, and Changed the paths of the files that those created or changed,
	// if these stay unchanged.
	Undone  []*RunInfo
	Changed []string
	// Before are the restorable runs now, and Copies the restorable copies; the newest last.
	Before []*RunInfo
	Copies []*RunInfo
}

// Restore restores a session's variables and files to the state before a run, or its variables to a run's copy. What cannot go back
// after a run of that kind stays. An empty session is the run's. It waits for the kernel's turn, and calls queued once it is in the
// queue. It starts no container: a lost one leaves nothing to restore.
func (m *Manager) Restore(ctx context.Context, sessionID, runID string, asked Parts, queued func()) (*Restoration, error) {
	s, entry, err := m.sessionOf(sessionID, runID)
	if err != nil {
		return nil, err
	}
	parts, err := m.partsOf(entry, asked)
	if err != nil {
		return nil, err
	}
	i := s.interpreters[entry.Language]
	if i == nil {
		return nil, errNoWayBack("There is no %s here.", entry.Language)
	}
	if err := s.uses.enter(); err != nil {
		return nil, err
	}
	defer s.uses.leave()
	turn := i.enqueue()
	defer turn.leave()
	queued()
	answer, err := i.goBack(ctx, turn, entry.RunID, parts)
	if err != nil {
		return nil, err
	}
	if answer.Files != nil && answer.Files.Error != "" {
		return nil, s.errFilesStay(i, entry, answer.Files)
	}
	parts.Variables = parts.Variables && answer.Stay == ""
	r, err := s.restored(entry, answer, parts)
	if err == nil {
		r.Parts, r.Asked, r.Files = parts, asked, i.restoredFiles(answer)
		r.Stay, r.Lost, r.LostTotal = answer.Stay, i.notRestored(answer.Lost), max(answer.LostTotal, len(answer.Lost))
	}
	return r, err
}

// sessionOf finds the session of a run, and the run. A given session must be that one.
func (m *Manager) sessionOf(sessionID, runID string) (*session, *HistoryEntry, error) {
	if sessionID != "" {
		if _, err := m.open(sessionID, toResume); err != nil {
			return nil, nil, err
		}
	}
	owner, entry := "", (*HistoryEntry)(nil)
	for _, s := range m.all() {
		if run := s.uses.find(runID); run != nil {
			owner, entry = s.id, run.entry()
		}
	}
	if entry == nil {
		owner, entry = m.restoreOf(runID)
	}
	if entry == nil {
		var err error
		if owner, entry, err = m.findEntry(runID); err != nil {
			return nil, nil, err
		}
	}
	if sessionID != "" && sessionID != owner {
		return nil, nil, fault.New(fault.RunNotFound, "Leave session_id out, or name that session.",
			"Run %s is not of session %q: it is of %q.", entry.RunID, sessionID, owner)
	}
	s, err := m.open(owner, toResume)
	return s, entry, err
}

// restored describes which runs were undone, or why nothing changed.
func (s *session) restored(target *HistoryEntry, answer protocol.Restored, parts Parts) (*Restoration, error) {
	since, known, err := s.runsSince(target.RunID, slices.Concat(answer.Runs, answer.Copies))
	if err != nil {
		return nil, err
	}
	before, copies := infosOf(answer.Runs, known), infosOf(answer.Copies, known)
	if answer.Error != "" {
		return nil, errNotRestored(target, answer.Error, before, copies, parts.Files)
	}
	if e := known[target.RunID]; e != nil {
		target = e // it carries the mark
	}
	r := &Restoration{SessionID: s.id, Run: target.info(), Copy: target.Copy && target.Undone, Before: before, Copies: copies}
	marks := make(map[string]bool)
	if r.Copy {
		marks[target.RunID] = false
	}
	for _, e := range since {
		hasVariables := parts.Variables && !e.Undone && !e.Fresh && e.Language == target.Language
		if r.Copy && e.RunID == target.RunID || !hasVariables && !parts.Files {
			continue
		}
		if hasVariables {
			marks[e.RunID] = true
		}
		r.Undone = append(r.Undone, e.info())
		if e.Result == nil || parts.Files {
			continue
		}
		for _, a := range e.Result.Artifacts {
			if !slices.Contains(r.Changed, a.Path) {
				r.Changed = append(r.Changed, a.Path)
			}
		}
	}
	s.uses.mark(marks)
	return r, nil
}

// runsSince returns a run and those after it in the order of the calls, and a map by id of these and other wanted runs.
func (s *session) runsSince(runID string, wanted []string) (since []*HistoryEntry, known map[string]*HistoryEntry, err error) {
	here := make(map[string]*HistoryEntry) // newer than the written ones
	var last, order []string
	passed := false
	marks := UndoneMarks(s.config.StateDir, s.id)
	for _, run := range s.uses.all() {
		if run.options.Unlisted {
			continue
		}
		here[run.ID] = run.entry()
		if undone, marked := marks[run.ID]; marked {
			here[run.ID].Undone = undone
		}
		last = append(last, run.ID)
	}
	known = maps.Clone(here)
	err = EachInHistory(s.config.StateDir, s.id, func(id string, _ bool, _ int64) bool {
		order = append(order, id)
		passed = passed || id == runID
		return passed || slices.Contains(wanted, id)
	}, func(e *HistoryEntry) {
		if here[e.RunID] == nil {
			if e.Result != nil {
				e.Result.Displays = nil // of many runs they would hold all that the history holds
			}
			known[e.RunID] = e
		}
	})
	for _, id := range last {
		if !slices.Contains(order, id) { // not written yet
			order = append(order, id)
		}
	}
	for _, id := range order[max(0, slices.Index(order, runID)):] {
		if e := known[id]; e != nil {
			since = append(since, e)
		}
	}
	return since, known, err
}

// errNotRestored lists the restorable runs instead.
func errNotRestored(target *HistoryEntry, why string, before, copies []*RunInfo, files bool) *fault.Error {
	hint := "There is nothing to go back to. A run is followed by a copy unless the reason says what stands against that; " +
		"fresh: true leaves the variables alone."
	if len(before)+len(copies) > 0 {
		var list []string
		for _, run := range before {
			list = append(list, "before "+run.String())
		}
		for _, run := range copies {
			list = append(list, "to the copy "+run.String())
		}
		hint = "They can go back " + strings.Join(list, "; ") + "."
	}
	if files {
		hint += " variables: false brings back the files alone."
	}
	return fault.New(fault.InvalidArgument, hint, "The variables cannot go back before %s: %s.", target.info(), strings.TrimRight(why, ".")).
		With("before", idsOf(before)).With("copies", idsOf(copies))
}

func idsOf(runs []*RunInfo) []string {
	ids := make([]string, len(runs))
	for i, run := range runs {
		ids[i] = run.RunID
	}
	return ids
}
