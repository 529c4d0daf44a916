// Restoring: variables and files to the state before a run, or variables to a run's copy.

package sandbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
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

// NotRestored is a variable that could not be brought back, and why.
type NotRestored struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// restoreTime bounds the wait for the kernel's turn, and then that for its answer.
const restoreTime = 10 * time.Second

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

func errNoWayBack(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidArgument, "Try things with fresh: true, which leaves the variables alone.", format, args...)
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

// entry is the run in the form of a history.
func (r *Run) entry() *HistoryEntry {
	res, _ := r.Result()
	return &HistoryEntry{
		RunID: r.ID, Language: r.Language, Code: r.code, Started: r.created, Result: res,
		Fresh: r.options.Fresh, Copy: r.options.Copy, Undone: r.options.Copy,
	}
}

func (e *HistoryEntry) info() *RunInfo { return infoOf(e.RunID, e.Language, e.Code, e.Started) }

// goBack asks the kernel to restore, at its turn.
func (i *interpreter) goBack(ctx context.Context, turn turn, runID string, parts Parts) (protocol.Restored, error) {
	var none protocol.Restored
	err := turn.wait(ctx, restoreTime)
	var k *kernel.Kernel
	if err == nil {
		if k, err = i.reachExisting(ctx, parts); err != nil {
			return none, err
		}
		err = i.waitAdopted(ctx, restoreTime)
	}
	switch {
	case errors.Is(err, errTurnTimeout):
		var before *RunInfo
		if run := i.holder(); run != nil {
			before = run.info()
		}
		return none, i.errBusy(before, restoreTime)
	case err != nil:
		return none, err
	case k == nil:
		hint := "Run code again to make the variables; frozen ones come back with the next run."
		if parts.Files {
			hint += " Versions of files stay with the session: once code has run, variables: false brings the files back."
		}
		return none, fault.New(fault.InvalidArgument, hint,
			"There is nothing to go back to: no %s kernel of session %q is running.", i.language, i.engine.id)
	}
	patience := restoreTime
	if parts.Files {
		patience = filesTime
	}
	answer, err := k.Restore(protocol.Request{ID: newRestoreID(), Run: runID, Variables: parts.Variables, Files: parts.Files}, patience)
	if err != nil {
		return none, fault.New(fault.ExecutionFailed, "Look at the variables and files with code, and try again.",
			"The kernel of session %q did not answer: whether anything has gone back is not known.", i.engine.id).Because(err)
	}
	answer.Error, answer.Stay = i.config.Mask.Mask(answer.Error), i.config.Mask.Mask(clip(answer.Stay, maxName))
	return answer, nil
}

// notRestored bounds and masks a kernel's list.
func (i *interpreter) notRestored(lost []protocol.Lost) (list []NotRestored) {
	for _, l := range boundLost(lost) {
		list = append(list, NotRestored{i.config.Mask.Mask(l.Name), i.config.Mask.Mask(l.Why)})
	}
	return list
}

// reachExisting returns the kernel with the variables, or one in the container of the files, taking over an earlier server's if
// needed; nil: there is none.
func (i *interpreter) reachExisting(ctx context.Context, parts Parts) (*kernel.Kernel, error) {
	i.starting.Lock()
	defer i.starting.Unlock()
	if _, err := i.existing(ctx); err != nil && !isFinal(err) {
		return nil, err
	}
	if c := i.live(); c != nil && (!parts.Variables || parts.Files && i.language != Python) {
		return c.Kernel(i.language), nil
	}
	return i.current(), nil
}

// tellTwins describes the restorable runs, as far as the last runs are known here.
func (i *interpreter) tellTwins(k *kernel.Kernel, info *KernelInfo) {
	twins := k.Twins()
	if twins == nil {
		return
	}
	known := make(map[string]*HistoryEntry)
	for _, run := range i.uses.all() {
		known[run.ID] = run.entry()
	}
	info.Before, info.Copies, info.NoTwin = infosOf(twins.Runs, known), infosOf(twins.Copies, known), i.config.Mask.Mask(twins.Why)
}

func infosOf(ids []string, known map[string]*HistoryEntry) (list []*RunInfo) {
	for _, id := range ids {
		if e := known[id]; e != nil {
			list = append(list, e.info())
		}
	}
	return list
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
