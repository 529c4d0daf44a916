// Checkpoints: states of a session that have names.

package sandbox

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

const mostNameRunes = 64

// checkpointName checks a name.
func checkpointName(name string) (string, error) {
	name = strings.TrimSpace(name)
	isOdd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if n := utf8.RuneCountInString(name); n == 0 || n > mostNameRunes || strings.ContainsFunc(name, isOdd) || runs.IsID(name) {
		return "", fault.New(fault.InvalidArgument, "Use 1 to 64 characters that can be seen, such as clean data; not run- or restore- at the beginning.",
			"%s cannot name a checkpoint.", strconv.QuoteToASCII(text.Shorten(name, 80)))
	}
	return name, nil
}

// checkpointMark begins the marks of what was undone at a checkpoint.
func checkpointMark(name string) string { return "checkpoint " + strconv.Quote(name) + undid }

// KeepCheckpoint keeps the present variables and files of a session by a name, in the place of an earlier checkpoint of that name. It
// waits for the kernel's turn, and calls queued once it is in the queue.
func (m *Manager) KeepCheckpoint(ctx context.Context, sessionID, name string, queued func()) (*Restoration, error) {
	s, i, name, leave, err := m.keeper(ctx, sessionID, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	request := protocol.Request{Type: "checkpoint", Name: name}
	if last, err := s.lastRuns(1); err == nil && len(last) > 0 {
		request.Run = last[0].RunID
	}
	r, _, err := s.askCheckpoint(ctx, i, request, Parts{Variables: true, Files: true}, queued)
	if err != nil {
		return nil, err
	}
	r.Kept = true
	marks, begin := map[string]bool{}, checkpointMark(name)
	for mark, undone := range runs.UndoneMarks(s.config.StateDir, s.id) {
		switch {
		case strings.HasPrefix(mark, begin):
			if !marks[mark] {
				marks[mark] = false // of an earlier one
			}
		case undone && !strings.Contains(mark, undid) && !strings.Contains(mark, behind):
			marks[begin+mark] = true
		}
	}
	s.uses.Mark(marks)
	return r, nil
}

// keeper opens a session that keeps checkpoints, and returns the interpreter that is asked about them, and the name as it is kept.
func (m *Manager) keeper(ctx context.Context, sessionID, given string) (s *session, i *link.Interpreter, name string, leave func(), err error) {
	if name, err = checkpointName(given); err == nil && m.conf().UndoBytes <= 0 {
		err = fault.New(fault.InvalidArgument, "Write what is to be kept to files.", "This server keeps no checkpoints (--undo-limit).")
	}
	if err == nil {
		s, err = m.open(ctx, sessionID, toResume)
	}
	if err != nil {
		return nil, nil, "", nil, err
	}
	for _, l := range kernel.Languages {
		other := s.interpreters[l.Language]
		if other == nil {
			continue
		}
		c := other.Live()
		if c != nil && c.Versions() != nil && len(c.Versions().Runs) > 0 { // of several containers one keeps versions
			i = other
			break
		}
		if i == nil || c != nil && i.Live() == nil {
			i = other
		}
	}
	return s, i, name, s.uses.Leave, s.uses.Enter()
}

// restoreCheckpoint restores a session to a checkpoint: files and the variables of one language, then those of the others.
func (m *Manager) restoreCheckpoint(ctx context.Context, to WayBack, queued func()) (*Restoration, error) {
	if to.Parts == (Parts{}) {
		return nil, errNoParts()
	}
	s, i, name, leave, err := m.keeper(ctx, to.SessionID, to.Checkpoint)
	if err != nil {
		return nil, err
	}
	defer leave()
	r, id, err := s.askCheckpoint(ctx, i, protocol.Request{Name: name}, to.Parts, queued)
	if err != nil {
		return nil, err
	}
	went := map[Language]bool{i.Language: r.Parts.Variables}
	for _, l := range i.Languages {
		other := s.interpreters[l]
		if l == i.Language || other == nil || !to.Parts.Variables {
			continue
		}
		o, _, err := s.askCheckpoint(ctx, other, protocol.Request{Name: name}, Parts{Variables: true}, func() {})
		if err != nil {
			r.Stay = strings.TrimPrefix(r.Stay+"; "+string(l)+": "+fault.From(err).Message, "; ")
			continue
		}
		went[l], r.Parts.Variables = true, true
		r.Lost, r.LostTotal = append(r.Lost, o.Lost...), r.LostTotal+o.LostTotal
	}
	r.Undone, err = s.markCheckpoint(r, id, went)
	return r, err
}

// askCheckpoint has a kernel keep a checkpoint or go to one, and returns the restore's id.
func (s *session) askCheckpoint(ctx context.Context, i *link.Interpreter, m protocol.Request, parts Parts, queued func()) (*Restoration, string, error) {
	turn := i.Enqueue()
	defer turn.Leave()
	queued()
	answer, err := i.GoBack(ctx, turn, m, parts)
	if err != nil {
		return nil, "", err
	}
	all, what, alone := i.Checkpoints(answer.Checkpoints), "Nothing has gone back to checkpoint ", "files: false brings back the variables alone."
	if m.Type != "" {
		what, alone = "There is no new checkpoint ", ""
	}
	switch {
	case answer.Files != nil && answer.Files.Error != "":
		return nil, "", s.errFiles(i, answer.Files, what+strconv.Quote(m.Name), alone)
	case answer.Checkpoint == nil:
		return nil, "", fault.New(fault.InvalidArgument, namesOf(all), "There is no checkpoint %q in session %s.", m.Name, s.id)
	case answer.Error != "":
		return nil, "", fault.New(fault.InvalidArgument, "variables: false brings back the files alone.",
			"The variables cannot go back to checkpoint %q: %s.", m.Name, strings.TrimRight(answer.Error, "."))
	}
	r := &Restoration{
		SessionID: s.id, Checkpoint: &i.Checkpoints([]protocol.Checkpoint{*answer.Checkpoint})[0], Checkpoints: all, Dropped: i.Dropped(answer.Dropped),
		Parts: parts, Asked: parts, Stay: answer.Stay, Files: i.RestoredFiles(answer),
		Lost: i.NotRestored(answer.Lost), LostTotal: max(answer.LostTotal, len(answer.Lost)),
	}
	r.Parts.Variables = parts.Variables && answer.Stay == ""
	return r, answer.ID, nil
}

// namesOf is a hint that lists checkpoints.
func namesOf(all []Checkpoint) string {
	if len(all) == 0 {
		return "There is none; restore_session with checkpoint: NAME keeps the present state."
	}
	var names []string
	for _, c := range all {
		names = append(names, strconv.Quote(c.Name))
	}
	return "There are " + strings.Join(names, ", ") + "."
}

// markCheckpoint marks the runs that the state of a checkpoint lacks, and those that it has again, and returns those that were undone.
func (s *session) markCheckpoint(r *Restoration, id string, went map[Language]bool) (undone []*RunInfo, err error) {
	last, err := s.lastRuns(mostUndone)
	if err != nil {
		return nil, err
	}
	now, marks, then := runs.UndoneMarks(s.config.StateDir, s.id), map[string]bool{}, checkpointMark(r.Checkpoint.Name)
	isLater := !slices.ContainsFunc(last, func(e *HistoryEntry) bool { return e.RunID == r.Checkpoint.After })
	for _, e := range last {
		isNews, ofFiles := false, runs.FilesOf+e.RunID
		mark := func(mark string, was bool) {
			is := isLater || now[then+mark]
			if is != was {
				marks[mark] = is
			}
			isNews = isNews || is && !was
		}
		if went[e.Language] && !e.Fresh && !e.Copy {
			mark(e.RunID, e.Undone)
		}
		if r.Parts.Files {
			mark(ofFiles, now[ofFiles])
			if is, changed := marks[ofFiles]; changed {
				marks[id+undid+e.RunID] = is
			}
		}
		if isNews {
			undone = append(undone, e.Info())
		}
		isLater = isLater || e.RunID == r.Checkpoint.After
	}
	if len(last) > 0 && r.Parts.Files {
		marks[id+behind+last[len(last)-1].RunID] = true
	}
	s.uses.Mark(marks)
	return undone, nil
}
