// Restoring: variables and files to the state before a run, or variables to a run's copy.

package sandbox

import (
	"cmp"
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
	// Checkpoint is what it went back to in the place of a run, or what was Kept; nil: it is about a run. Checkpoints are all, the newest
	// last, and Dropped the quoted names of those that there is no room for any more.
	Checkpoint  *Checkpoint
	Kept        bool
	Checkpoints []Checkpoint
	Dropped     []string
	Copy        bool // they are the copy's, after Run
	// Parts were restored; Asked were requested.
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

// WayBack names the state that a restore goes to: that before a run, or its copy, or before so many of a session's last runs that
// changed something.
type WayBack struct {
	SessionID string // empty: that of RunID
	RunID     string // empty: Steps count
	// Checkpoint is the name of one, in the place of both.
	Checkpoint string
	Steps      int
	Own        string // the session of the client, whose runs an error lists
	Parts      Parts
}

// Restore restores a session's variables and files, or its variables to a run's copy. What cannot go back after a run of that kind
// stays. It waits for the kernel's turn, and calls queued once it is in the queue. It starts a container for files alone.
func (m *Manager) Restore(ctx context.Context, to WayBack, queued func()) (*Restoration, error) {
	if to.Checkpoint != "" {
		return m.restoreCheckpoint(ctx, to, queued)
	}
	s, entry, err := m.sessionOf(ctx, to)
	if err != nil {
		return nil, err
	}
	others := map[Language]*HistoryEntry{}
	if entry == nil {
		if entry, others, err = s.lastChanges(max(to.Steps, 1)); err != nil {
			return nil, err
		}
	}
	parts, err := m.partsOf(entry, to.Parts)
	if err != nil {
		return nil, err
	}
	if err := s.uses.Enter(); err != nil {
		return nil, err
	}
	defer s.uses.Leave()
	r, err := s.goBack(ctx, entry, parts, to.Parts, queued)
	if err != nil || !to.Parts.Variables {
		return r, err
	}
	for language, first := range others {
		other, err := s.goBack(ctx, first, Parts{Variables: true}, Parts{Variables: true}, func() {})
		if err != nil {
			r.Stay = strings.TrimPrefix(r.Stay+"; "+string(language)+": "+fault.From(err).Message, "; ")
			continue
		}
		r.Lost, r.LostTotal = append(r.Lost, other.Lost...), r.LostTotal+other.LostTotal
		for _, run := range other.Undone {
			if !slices.ContainsFunc(r.Undone, func(u *RunInfo) bool { return u.RunID == run.RunID }) {
				r.Undone = append(r.Undone, run)
			}
		}
	}
	return r, nil
}

// goBack restores by the kernel of a run.
func (s *session) goBack(ctx context.Context, entry *HistoryEntry, parts, asked Parts, queued func()) (*Restoration, error) {
	i := s.interpreters[entry.Language]
	if i == nil {
		return nil, runs.ErrNoWayBack("There is no %s here.", entry.Language)
	}
	turn := i.Enqueue()
	defer turn.Leave()
	queued()
	answer, err := i.GoBack(ctx, turn, protocol.Request{Run: entry.RunID}, parts)
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

// sessionOf finds the session of a run, and the run, if one is named. A given session must be that one.
func (m *Manager) sessionOf(ctx context.Context, to WayBack) (*session, *HistoryEntry, error) {
	sessionID, runID := to.SessionID, to.RunID
	if sessionID != "" || runID == "" {
		s, err := m.open(ctx, sessionID, toResume)
		if err != nil || runID == "" {
			return s, nil, err
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
			f := fault.From(err)
			if s, err := m.open(ctx, cmp.Or(sessionID, to.Own), toResume); err == nil && f.Code == fault.RunNotFound {
				f.Hint = s.lastLines()
			}
			return nil, nil, f
		}
	}
	if sessionID != "" && sessionID != owner {
		return nil, nil, fault.New(fault.RunNotFound, "Leave session_id out, or name that session.",
			"Run %s is not of session %q: it is of %q.", entry.RunID, sessionID, owner)
	}
	s, err := m.open(ctx, owner, toResume)
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
	if len(since) > 0 {
		marks[answer.ID+behind+since[len(since)-1].RunID] = true
	}
	if parts.Files && strings.HasPrefix(target.RunID, runs.RestorePrefix) {
		since = s.sinceRestore(target.RunID, since, answer.ID, marks)
	}
	if r.Copy {
		marks[target.RunID] = false
	}
	for _, e := range since {
		hasVariables := parts.Variables && !e.Undone && !e.Fresh && e.Language == target.Language
		if r.Copy && e.RunID == target.RunID || !hasVariables && !parts.Files || e.Undone && e.RunID != target.RunID && !e.Copy {
			continue
		}
		if hasVariables {
			marks[e.RunID] = true
		}
		if parts.Files {
			marks[runs.FilesOf+e.RunID] = true
			marks[answer.ID+undid+e.RunID] = true
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

// A restore of files has marks of its own: of the last run before it, and of the runs whose files it took back or, where it undid such a
// restore, brought back.
const (
	behind = " is behind "
	undid  = " undid "
)

// sinceRestore returns those of a session's runs that are behind an earlier restore of files, and adds the marks of the one that undoes it.
func (s *session) sinceRestore(id string, all []*HistoryEntry, by string, marks map[string]bool) []*HistoryEntry {
	var since []*HistoryEntry
	for mark, value := range runs.UndoneMarks(s.config.StateDir, s.id) {
		if run, is := strings.CutPrefix(mark, id+undid); is {
			marks[runs.FilesOf+run], marks[by+undid+run] = !value, !value
		}
		if run, is := strings.CutPrefix(mark, id+behind); is {
			since = all[1+slices.IndexFunc(all, func(e *HistoryEntry) bool { return e.RunID == run }):]
		}
	}
	return since
}

// mostUndone bounds the runs among which those that changed something are looked for.
const mostUndone = 400

// lastRuns returns the last runs, the oldest first, with what is known of their files.
func (s *session) lastRuns(most int) ([]*HistoryEntry, error) {
	var order []string
	err := runs.EachInHistory(s.config.StateDir, s.id, func(id string, _ bool, _ int64) bool {
		order = append(order, id)
		return false
	}, func(*HistoryEntry) {})
	if err != nil {
		return nil, err
	}
	last, _, err := s.runsSince("", order[max(0, len(order)-most):])
	did := runs.FilesOfRuns(s.config.StateDir, s.id)
	for _, e := range last {
		if files, known := did[e.RunID]; known {
			e.Files = &files
		}
	}
	return last[max(0, len(last)-most):], err
}

// lastChanges returns the run that began so many changes ago, and the first one since of each language whose variables go back besides.
func (s *session) lastChanges(steps int) (entry *HistoryEntry, others map[Language]*HistoryEntry, err error) {
	last, err := s.lastRuns(mostUndone)
	if err != nil {
		return nil, nil, err
	}
	others, has := make(map[Language]*HistoryEntry), 0
	marks := runs.UndoneMarks(s.config.StateDir, s.id)
	for _, e := range slices.Backward(last) {
		keeps := !e.Fresh && !e.Copy
		changed := keeps && !runs.OnlyLooks(e.Language, e.Code)
		switch {
		case e.Copy:
		case e.Files != nil:
			changed = changed || e.Files.Added+e.Files.Changed+e.Files.Removed > 0
		default: // it is not known yet
			changed = changed || s.config.UndoBytes > 0
		}
		if e.Undone || !changed || e.Error != nil || !e.Over() && s.uses.Find(e.RunID) != nil {
			continue
		}
		if keeps {
			others[e.Language] = e
		}
		if marks[runs.FilesOf+e.RunID] { // these alone have gone back, and the variables do with those of a run before
			continue
		}
		if has++; has == steps {
			if keeps {
				delete(others, e.Language)
			}
			return e, others, nil
		}
	}
	return nil, nil, fault.New(fault.InvalidArgument, s.lastLines(), "Session %s has %d runs to undo, not %d.", s.id, has, steps)
}

// lastLines is a hint that lists the last five runs.
func (s *session) lastLines() string {
	last, err := s.lastRuns(5)
	if err != nil || len(last) == 0 {
		return "No code has run in session " + s.id + "."
	}
	var list []string
	for _, e := range last {
		list = append(list, e.Info().String())
	}
	return "The last runs of session " + s.id + " are " + strings.Join(list, "; ") + "."
}

// runsSince returns a run and those after it in the order of the calls, and a map by id of these and other wanted runs.
func (s *session) runsSince(runID string, wanted []string) (since []*HistoryEntry, known map[string]*HistoryEntry, err error) {
	here := make(map[string]*HistoryEntry) // newer than the written ones
	var last, order []string
	passed := false
	marks := runs.UndoneMarks(s.config.StateDir, s.id)
	for _, run := range s.uses.All() {
		if run.Options.Unlisted || run.Options.Program {
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
		if here[e.RunID] == nil && !e.Program {
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
	NotKept      []link.NotKept `json:"not_kept"`
	NotKeptTotal int            `json:"not_kept_total"`
	// Checkpoints are the newest last.
	Checkpoints []Checkpoint `json:"checkpoints,omitempty"`
}

// partsOf returns what a restore can bring back, or why it can bring back nothing.
func (m *Manager) partsOf(entry *HistoryEntry, asked Parts) (Parts, error) {
	if entry.Program {
		return asked, runs.ErrNoWayBack("Run %s is a command of a client, and what it changed stays.", entry.RunID)
	}
	parts, isCopy := asked, entry.Copy && entry.Undone
	parts.Files = parts.Files && m.conf().UndoBytes > 0 && !isCopy
	parts.Variables = parts.Variables && !strings.HasPrefix(entry.RunID, runs.RestorePrefix) &&
		(!entry.Fresh || !parts.Files || isCopy)
	switch {
	case parts != Parts{}:
		return parts, nil
	case !asked.Variables && !asked.Files:
		return parts, errNoParts()
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

func errNoParts() *fault.Error {
	return fault.New(fault.InvalidArgument, "Leave one of them out, or set it to true.", "With files and variables false nothing is restored.")
}

// errFilesStay says why nothing went back, because the files cannot.
func (s *session) errFilesStay(i *link.Interpreter, target *HistoryEntry, files *protocol.RestoredFiles) *fault.Error {
	alone := "files: false brings back the variables alone."
	if files.Code == "unknown" {
		alone = s.waysBack("The files can go back") + " " + alone
	}
	return s.errFiles(i, files, "Nothing has gone back before "+target.Info().String(), alone)
}

// errFiles says why nothing has come of something, as of its files nothing can, and what can be had alone.
func (s *session) errFiles(i *link.Interpreter, files *protocol.RestoredFiles, what, alone string) *fault.Error {
	why := text.Shorten(i.Config.Mask.Mask(strings.TrimRight(text.Safe(files.Error, runs.MaxName), ".")), runs.MaxName)
	code, hint := fault.ExecutionFailed, "Look at the files with list_artifacts."
	switch files.Code {
	case "busy":
		for _, run := range s.uses.All() { // programs are among them
			if !run.Over() && !run.Options.Unlisted {
				return i.ErrBusy(run.Info(), 0)
			}
		}
		code, hint = fault.SessionBusy, "Wait for what runs in the session, and try again."
	case "full":
		code, hint = fault.QuotaExceeded, "Delete files that are no longer needed, and try again."
	case "unknown":
		code, hint = fault.InvalidArgument, ""
	}
	return fault.New(code, strings.TrimSpace(hint+" "+alone), "%s: %s.", what, why)
}

// waysBack returns a hint that lists the last five restorable runs after an introduction.
func (s *session) waysBack(what string) string {
	var list []string
	if v := s.versions(); v != nil {
		for _, run := range v.Before[max(0, len(v.Before)-5):] {
			list = append(list, "before "+run.String())
		}
	}
	if len(list) == 0 {
		return "That is kept of as many runs as --undo-limit holds."
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
		return &FileVersions{runs.InfosOf(v.Runs, known), i.NotKept(v.NotKept), max(v.NotKeptTotal, len(v.NotKept)), i.Checkpoints(v.Checkpoints)}
	}
	return nil
}
