// Restoring: variables and files to the state before a run, or variables to a run's copy.

package sandbox

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
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
		return nil, runs.ErrNoWayBack("There is no %s here.", entry.Language)
	}
	if err := s.uses.Enter(); err != nil {
		return nil, err
	}
	defer s.uses.Leave()
	turn := i.Enqueue()
	defer turn.Leave()
	queued()
	answer, err := i.GoBack(ctx, turn, entry.RunID, parts)
	if err != nil {
		return nil, err
	}
	if answer.Files != nil && answer.Files.Error != "" {
		return nil, s.errFilesStay(i, entry, answer.Files)
	}
	parts.Variables = parts.Variables && answer.Stay == ""
	r, err := s.restored(entry, answer, parts)
	if err == nil {
		r.Parts, r.Asked, r.Files = parts, asked, i.RestoredFiles(answer)
		r.Stay, r.Lost, r.LostTotal = answer.Stay, i.NotRestored(answer.Lost), max(answer.LostTotal, len(answer.Lost))
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
		if run := s.uses.Find(runID); run != nil {
			owner, entry = s.id, run.Entry()
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
	before, copies := runs.InfosOf(answer.Runs, known), runs.InfosOf(answer.Copies, known)
	if answer.Error != "" {
		return nil, errNotRestored(target, answer.Error, before, copies, parts.Files)
	}
	if e := known[target.RunID]; e != nil {
		target = e // it carries the mark
	}
	r := &Restoration{SessionID: s.id, Run: target.Info(), Copy: target.Copy && target.Undone, Before: before, Copies: copies}
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
		r.Undone = append(r.Undone, e.Info())
		if e.Result == nil || parts.Files {
			continue
		}
		for _, a := range e.Result.Artifacts {
			if !slices.Contains(r.Changed, a.Path) {
				r.Changed = append(r.Changed, a.Path)
			}
		}
	}
	s.uses.Mark(marks)
	return r, nil
}

// runsSince returns a run and those after it in the order of the calls, and a map by id of these and other wanted runs.
func (s *session) runsSince(runID string, wanted []string) (since []*HistoryEntry, known map[string]*HistoryEntry, err error) {
	here := make(map[string]*HistoryEntry) // newer than the written ones
	var last, order []string
	passed := false
	marks := runs.UndoneMarks(s.config.StateDir, s.id)
	for _, run := range s.uses.All() {
		if run.Options.Unlisted {
			continue
		}
		here[run.ID] = run.Entry()
		if undone, marked := marks[run.ID]; marked {
			here[run.ID].Undone = undone
		}
		last = append(last, run.ID)
	}
	known = maps.Clone(here)
	err = runs.EachInHistory(s.config.StateDir, s.id, func(id string, _ bool, _ int64) bool {
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
	return fault.New(fault.InvalidArgument, hint, "The variables cannot go back before %s: %s.", target.Info(), strings.TrimRight(why, ".")).
		With("before", idsOf(before)).With("copies", idsOf(copies))
}

func idsOf(runs []*RunInfo) []string {
	ids := make([]string, len(runs))
	for i, run := range runs {
		ids[i] = run.RunID
	}
	return ids
}

// FileVersions are the kept versions of a session's files.
type FileVersions struct {
	// Before are the runs whose beginning the files can go back to, the newest last.
	Before []*RunInfo `json:"can_go_back_before"`
	// NotKept are the present files that could not be brought back, at most 20, of NotKeptTotal.
	NotKept      []NotKept `json:"not_kept"`
	NotKeptTotal int       `json:"not_kept_total"`
}

// partsOf returns what a restore can bring back, or why it can bring back nothing.
func (m *Manager) partsOf(entry *HistoryEntry, asked Parts) (Parts, error) {
	parts, isCopy := asked, entry.Copy && entry.Undone
	parts.Files = parts.Files && m.conf().UndoBytes > 0 && !isCopy
	parts.Variables = parts.Variables && !strings.HasPrefix(entry.RunID, runs.RestorePrefix) &&
		(!entry.Fresh || !parts.Files || isCopy)
	switch {
	case parts != Parts{}:
		return parts, nil
	case !asked.Variables && !asked.Files:
		return parts, fault.New(fault.InvalidArgument, "Leave one of them out, or set it to true.", "With files and variables false nothing is restored.")
	case asked.Files && isCopy:
		return parts, fault.New(fault.InvalidArgument, "Let variables be true.", "Run %s worked in a copy of the variables, and its files are the session's.", entry.RunID)
	case asked.Files:
		return parts, runs.ErrNoWayBack("Run %s is a restore of files, and this server keeps no versions of them (--undo-limit).", entry.RunID)
	}
	return parts, runs.ErrNoWayBack("Run %s is a restore of files, and left the variables alone.", entry.RunID)
}

// restoreOf finds the session with a restore that can be undone.
func (m *Manager) restoreOf(id string) (owner string, entry *HistoryEntry) {
	if !strings.HasPrefix(id, runs.RestorePrefix) {
		return "", nil
	}
	for _, s := range m.all() {
		for _, l := range s.links {
			c := l.Live()
			if c == nil {
				continue
			}
			if v := c.Versions(); v != nil && slices.Contains(v.Runs, id) {
				return s.id, &HistoryEntry{RunID: id, Language: l.Languages[0], Code: "going back", Started: time.Now()}
			}
		}
	}
	return "", nil
}

// errFilesStay says why nothing went back, because the files cannot.
func (s *session) errFilesStay(i *link.Interpreter, target *HistoryEntry, files *protocol.RestoredFiles) *fault.Error {
	why := text.Shorten(i.Config.Mask.Mask(strings.TrimRight(text.Safe(files.Error, runs.MaxName), ".")), runs.MaxName)
	alone := "files: false brings back the variables alone."
	switch files.Code {
	case "busy":
		for _, other := range s.interpreters {
			if run := other.Holder(); run != nil {
				return other.ErrBusy(run.Info(), 0)
			}
		}
		return fault.New(fault.SessionBusy, "Wait for what runs in the session, and try again; or "+alone, "The files cannot go back: %s.", why)
	case "full":
		return fault.New(fault.QuotaExceeded, "Delete files that are no longer needed, and try again; or "+alone, "Nothing has gone back, because %s.", why)
	case "unknown":
		return fault.New(fault.InvalidArgument, s.waysBack("The files can go back")+" "+alone, "Nothing has gone back before %s: %s.", target.Info(), why)
	}
	return fault.New(fault.ExecutionFailed, "Look at the files with list_artifacts; "+alone, "Nothing has gone back before %s: %s.", target.Info(), why)
}

// waysBack is a hint that lists the runs whose beginning is kept, after what can be done with it.
func (s *session) waysBack(what string) string {
	var list []string
	if v := s.versions(); v != nil {
		for _, run := range v.Before {
			list = append(list, "before "+run.String())
		}
	}
	if len(list) == 0 {
		return "Of the last five runs that is kept."
	}
	return what + " " + strings.Join(list, "; ") + "."
}

// versions describes the versions of files that a container of this server has; nil: none is running, or they are not kept.
func (s *session) versions() *FileVersions {
	for _, l := range s.links {
		c := l.Live()
		if c == nil || c.Versions() == nil {
			continue
		}
		v, known := c.Versions(), make(map[string]*HistoryEntry)
		for _, run := range l.Uses.All() {
			known[run.ID] = run.Entry()
		}
		for _, id := range v.Runs {
			if strings.HasPrefix(id, runs.RestorePrefix) {
				known[id] = &HistoryEntry{RunID: id, Language: l.Languages[0], Code: "going back", Started: time.Now()}
			}
		}
		i := s.interpreters[l.Languages[0]]
		return &FileVersions{runs.InfosOf(v.Runs, known), i.NotKept(v.NotKept), max(v.NotKeptTotal, len(v.NotKept))}
	}
	return nil
}
