// Restoring: variables and files to the state before a run, or variables to a run's copy.

package sandbox

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
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
	// Went are the languages whose variables went back, Stays those whose did not, and Stay says why, also where none would.
	Went, Stays []Language
	Stay        string
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

// target is what a session goes back to: the beginnings of runs, a run's copy, or a checkpoint.
type target struct {
	name      string              // of the checkpoint
	run       *HistoryEntry       // nil: it is a checkpoint
	languages map[Language]string // whose variables go back, and before which run, or to which run's copy
	files     bool
	kept      bool // the checkpoint is made
}

func (t *target) isCopy() bool { return t.run != nil && t.run.Copy && t.run.Undone }

// what names it in a sentence.
func (t *target) what() string {
	switch {
	case t.run == nil:
		return "to checkpoint " + strconv.Quote(t.name)
	case t.isCopy():
		return "to the copy " + t.run.Info().String()
	}
	return "before " + t.run.Info().String()
}

// Restore restores a session's variables and files, or its variables to a run's copy, by one message to its container: all that can go
// back, or nothing. It waits for the kernels' turns, and finds what it goes back to in them; it calls queued once it is in the queues. It
// starts a container for files alone.
func (m *Manager) Restore(ctx context.Context, to WayBack, queued func()) (*Restoration, error) {
	var err error
	if to.Checkpoint != "" {
		if to.Checkpoint, err = m.checkpointName(to.Checkpoint); err != nil {
			return nil, err
		}
	}
	s, entry, err := m.sessionOf(ctx, to)
	if err != nil {
		return nil, err
	}
	if to.Parts == (Parts{}) {
		return nil, errNoParts()
	}
	if entry != nil {
		if _, err := m.targetOf(entry, to.Parts); err != nil {
			return nil, err
		}
	}
	languages, i := s.languages(), s.keeper()
	if entry != nil && s.interpreters[entry.Language] != nil && !strings.HasPrefix(entry.RunID, runs.RestorePrefix) {
		i = s.interpreters[entry.Language]
		if !to.Parts.Files {
			languages = []Language{entry.Language}
		}
	}
	leave, err := s.takeTurns(ctx, queued, languages)
	if err != nil {
		return nil, err
	}
	defer leave()
	t := &target{name: to.Checkpoint, files: to.Parts.Files, languages: map[Language]string{}}
	switch {
	case to.Checkpoint != "":
		for _, l := range s.languages() {
			if to.Parts.Variables {
				t.languages[l] = ""
			}
		}
	case entry != nil:
		t, err = m.targetOf(entry, to.Parts)
	default:
		if err = s.settle(ctx, i, to.Parts.Files && m.conf().UndoBytes > 0); err == nil {
			t, err = s.lastChanges(max(to.Steps, 1), to.Parts)
		}
	}
	if err != nil {
		return nil, err
	}
	if r := s.interpreters[t.first()]; !t.files && r != nil {
		i = r
	}
	return s.goBack(ctx, i, t, to.Parts)
}

// first is the language of the run that it goes back before, or one whose variables go back.
func (t *target) first() Language {
	if t.run != nil {
		if _, back := t.languages[t.run.Language]; back {
			return t.run.Language
		}
	}
	for l := range t.languages {
		return l
	}
	return ""
}

// takeTurns takes the next turns of kernels, of all at once, and waits for them.
func (s *session) takeTurns(ctx context.Context, queued func(), languages []Language) (leave func(), err error) {
	if err := s.uses.Enter(); err != nil {
		return nil, err
	}
	var turns []link.Turn
	s.turning.Lock()
	for _, l := range languages {
		turns = append(turns, s.interpreters[l].Enqueue())
	}
	s.turning.Unlock()
	leave = func() {
		for _, turn := range turns {
			turn.Leave()
		}
		s.uses.Leave()
	}
	queued()
	until := time.Now().Add(link.RestoreTime)
	for n, l := range languages {
		if err := s.interpreters[l].AwaitTurn(ctx, turns[n], time.Until(until)); err != nil {
			leave()
			return nil, err
		}
	}
	return leave, nil
}

// languages are those of the session's containers.
func (s *session) languages() (list []Language) {
	for _, l := range kernel.Languages {
		if s.interpreters[l.Language] != nil {
			list = append(list, l.Language)
		}
	}
	return list
}

// settle has all told and written that is known of the last runs.
func (s *session) settle(ctx context.Context, i *link.Interpreter, anyhow bool) error {
	_, err := i.GoBack(ctx, protocol.Request{Type: "settle"}, anyhow)
	for _, l := range s.links {
		if other := l.Interpreters[l.Name()]; err == nil && l != i.Link && l.Live() != nil {
			_, err = other.GoBack(ctx, protocol.Request{Type: "settle"}, false)
		}
	}
	s.uses.History.Flush()
	return err
}

// goBack asks the container with the files, and then others for their languages.
func (s *session) goBack(ctx context.Context, i *link.Interpreter, t *target, asked Parts) (*Restoration, error) {
	request := func(l *link.Link, files bool) protocol.Request {
		m := protocol.Request{Name: t.name, Files: files, Languages: map[string]string{}}
		if t.run != nil && files {
			m.Run = t.run.RunID
		}
		for _, language := range l.Languages {
			if run, back := t.languages[language]; back {
				m.Languages[string(language)] = run
			}
		}
		return m
	}
	answer, err := i.GoBack(ctx, request(i.Link, t.files), t.files || t.name != "")
	if err == nil {
		err = s.errRestored(i, t, answer)
	}
	if err != nil {
		return nil, err
	}
	for _, l := range s.links {
		other, m := l.Interpreters[l.Name()], request(l, false)
		if l == i.Link || len(m.Languages) == 0 || t.name != "" {
			continue
		}
		more, err := other.GoBack(ctx, m, false)
		if err != nil {
			more.Error = fault.From(err).Message
		}
		if more.Error != "" {
			more.Stay = []protocol.Lost{{Name: string(l.Name()), Why: more.Error}}
		}
		answer.Went, answer.Stay = append(answer.Went, more.Went...), append(answer.Stay, more.Stay...)
		answer.Lost, answer.LostTotal = append(answer.Lost, more.Lost...), answer.LostTotal+max(more.LostTotal, len(more.Lost))
	}
	r := s.restoration(i, t, answer, asked)
	return r, s.noteUndone(r, t, answer)
}

// restoration describes what went back.
func (s *session) restoration(i *link.Interpreter, t *target, answer protocol.Restored, asked Parts) *Restoration {
	r := &Restoration{
		SessionID: s.id, Copy: t.isCopy(), Asked: asked, Parts: Parts{Variables: len(answer.Went) > 0, Files: t.files}, Went: i.Went(answer), Files: i.RestoredFiles(answer),
		Lost: i.NotRestored(answer.Lost), LostTotal: max(answer.LostTotal, len(answer.Lost)), Checkpoints: i.Checkpoints(answer.Checkpoints), Dropped: i.Dropped(answer.Dropped),
	}
	if answer.Checkpoint != nil {
		r.Checkpoint = &i.Checkpoints([]protocol.Checkpoint{*answer.Checkpoint})[0]
	}
	var why []string
	for _, l := range answer.Stay {
		if language := Language(l.Name); s.interpreters[language] != nil {
			r.Stays = append(r.Stays, language)
			why = append(why, language.Info().Title+": "+text.Safe(l.Why, runs.MaxName))
		}
	}
	r.Stay = i.Config.Mask.Mask(strings.Join(why, "; "))
	if t.run != nil && len(t.languages) == 0 && asked.Variables && r.Stay == "" {
		r.Stay = "no run that was undone changed them"
		if strings.HasPrefix(t.run.RunID, runs.RestorePrefix) {
			r.Stay = "of a restore only the files can be undone"
		}
	}
	return r
}

// errRestored says why nothing has changed; nil: it has.
func (s *session) errRestored(i *link.Interpreter, t *target, answer protocol.Restored) error {
	alone := "files: false brings back the variables alone."
	switch files := answer.Files; {
	case files != nil && files.Error != "" && t.kept:
		return s.errFiles(i, files, "There is no new checkpoint "+strconv.Quote(t.name), "")
	case files != nil && files.Error != "":
		if files.Code == "unknown" {
			alone = s.waysBack("The files can go back") + " " + alone
		}
		return s.errFiles(i, files, "Nothing has gone back "+t.what(), alone)
	case t.name != "" && answer.Checkpoint == nil:
		return fault.New(fault.InvalidArgument, namesOf(i.Checkpoints(answer.Checkpoints)), "There is no checkpoint %q in session %s.", t.name, s.id)
	case answer.Error == "":
		return nil
	}
	_, known, _ := s.runsSince("", slices.Concat(answer.Runs, answer.Copies))
	before, copies := runs.InfosOf(answer.Runs, known), runs.InfosOf(answer.Copies, known)
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
	if t.files || t.name != "" {
		hint = strings.TrimSpace(hint + " variables: false brings back the files alone.")
	}
	return fault.New(fault.InvalidArgument, hint, "The variables cannot go back %s: %s.", t.what(), strings.TrimRight(answer.Error, ".")).
		With("before", idsOf(before)).With("copies", idsOf(copies))
}

// noteUndone notes which runs were undone, and which are not any more, and describes the first.
func (s *session) noteUndone(r *Restoration, t *target, answer protocol.Restored) error {
	first := ""
	if t.run != nil && !strings.HasPrefix(t.run.RunID, runs.RestorePrefix) {
		first = t.run.RunID
	}
	list, known, err := s.runsSince(first, slices.Concat(answer.Runs, answer.Copies))
	if err == nil && first == "" {
		list, err = s.lastRuns(mostUndone)
	}
	if err != nil {
		return err
	}
	r.Before, r.Copies = runs.InfosOf(answer.Runs, known), runs.InfosOf(answer.Copies, known)
	marks := runs.Marks(s.config.StateDir, s.id)
	now, then, after, isState := marks.Now(), history.Undone{}, "", t.run == nil
	if t.run == nil {
		then, after = marks.Behind(t.name), answer.Checkpoint.After
	} else {
		r.Run = t.run.Info()
		if first == "" {
			then, after, isState = marks.Before(t.run.RunID)
		}
	}
	one := history.Mark{By: answer.ID, Variables: map[string]bool{}, Files: map[string]bool{}}
	isLater := isState && !slices.ContainsFunc(list, func(e *HistoryEntry) bool { return e.RunID == after })
	later := map[Language]bool{} // whose variables lack what follows
	for _, e := range list {
		id, variables := e.RunID, e.Undone
		isLater = isLater || first != "" && id == first
		later[e.Language] = later[e.Language] || t.languages[e.Language] == id
		files := isLater || now.Files[id]
		switch isOwn := r.Copy && id == first; {
		case isState:
			variables, files = isLater || then.Run(&history.Begin{RunID: id, Copy: e.Copy}), isLater || then.Files[id]
		case isOwn:
			variables = false
		case later[e.Language]:
			variables = true
		}
		isNews := false
		if slices.Contains(r.Went, e.Language) && !e.Fresh && variables != e.Undone {
			one.Variables[id], isNews = variables, variables
		}
		if r.Parts.Files && files != now.Files[id] {
			one.Files[id], isNews = files, isNews || files
		}
		if isNews {
			r.Undone = append(r.Undone, e.Info())
			r.noteChanged(e)
		}
		isLater, one.After = isLater || isState && id == after, id
	}
	s.uses.Mark(one)
	return nil
}

// noteChanged lists the files of an undone run, if they stay.
func (r *Restoration) noteChanged(e *HistoryEntry) {
	if e.Result == nil || r.Parts.Files {
		return
	}
	for _, a := range e.Result.Artifacts {
		if !slices.Contains(r.Changed, a.Path) {
			r.Changed = append(r.Changed, a.Path)
		}
	}
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
	did := runs.DidOf(s.config.StateDir, s.id)
	for _, e := range last {
		e.Files, e.Looked = did[e.RunID].Files, did[e.RunID].Looked
	}
	return last[max(0, len(last)-most):], err
}

// lastChanges is the way back before so many of the last runs that changed something: before the first of these in each language. In doubt
// a run did.
func (s *session) lastChanges(steps int, parts Parts) (*target, error) {
	last, err := s.lastRuns(mostUndone)
	if err != nil {
		return nil, err
	}
	t, has := &target{files: parts.Files && s.config.UndoBytes > 0, languages: make(map[Language]string)}, 0
	now := runs.Marks(s.config.StateDir, s.id).Now()
	for _, e := range slices.Backward(last) {
		if e.Undone && !now.Died[e.RunID] || e.Error != nil {
			continue
		}
		variables, files := !e.Undone && !e.Fresh && !e.Looked, s.config.UndoBytes > 0 // it may have changed some
		if e.Files != nil {
			files = e.Files.Added+e.Files.Changed+e.Files.Removed > 0
		}
		if variables && parts.Variables {
			t.languages[e.Language] = e.RunID
		}
		// A run whose files alone have gone back is none: its variables do with those of a run before.
		if now.Files[e.RunID] || !variables && !files {
			continue
		}
		if has++; has == steps {
			t.run = e
			return t, nil
		}
	}
	return nil, fault.New(fault.InvalidArgument, s.lastLines(), "Session %s has %d runs to undo, not %d.", s.id, has, steps)
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
	undone := runs.Marks(s.config.StateDir, s.id).Now()
	for _, run := range s.uses.All() {
		if run.Options.Unlisted || run.Options.Program {
			continue
		}
		here[run.ID] = run.Entry()
		here[run.ID].Undone = undone.Run(&history.Begin{RunID: run.ID, Copy: run.Options.Copy})
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
		if e := known[id]; e != nil && (e.Over() || s.uses.Find(id) == nil) { // else it waits for its turn behind a restore, or goes on
			since = append(since, e)
		}
	}
	return since, known, err
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

// targetOf is the way back before a run, or to its copy, or why nothing of it can go back.
func (m *Manager) targetOf(entry *HistoryEntry, asked Parts) (*target, error) {
	if entry.Program {
		return nil, runs.ErrNoWayBack("Run %s is a command of a client, and what it changed stays.", entry.RunID)
	}
	t := &target{run: entry, languages: make(map[Language]string)}
	t.files = asked.Files && m.conf().UndoBytes > 0 && !t.isCopy()
	if asked.Variables && !strings.HasPrefix(entry.RunID, runs.RestorePrefix) && (!entry.Fresh || !t.files || t.isCopy()) {
		t.languages[entry.Language] = entry.RunID
	}
	switch {
	case t.files || len(t.languages) > 0:
		return t, nil
	case asked.Files && t.isCopy():
		return nil, fault.New(fault.InvalidArgument, "Let variables be true.", "Run %s worked in a copy of the variables, and its files are the session's.", entry.RunID)
	case asked.Files:
		return nil, runs.ErrNoWayBack("Run %s is a restore of files, and this server keeps no versions of them (--undo-limit).", entry.RunID)
	}
	return nil, runs.ErrNoWayBack("Run %s is a restore of files, and left the variables alone.", entry.RunID)
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
