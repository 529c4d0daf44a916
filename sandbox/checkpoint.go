// Checkpoints: states of a session that have names.

package sandbox

import (
	"context"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/link"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

const mostNameRunes = 64

// checkpointName checks a name.
func (m *Manager) checkpointName(name string) (string, error) {
	name = strings.TrimSpace(name)
	isOdd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if n := utf8.RuneCountInString(name); n == 0 || n > mostNameRunes || strings.ContainsFunc(name, isOdd) || runs.IsID(name) {
		return "", fault.New(fault.InvalidArgument, "Use 1 to 64 characters that can be seen, such as clean data; not run- or restore- at the beginning.",
			"%s cannot name a checkpoint.", strconv.QuoteToASCII(text.Shorten(name, 80)))
	}
	if m.conf().UndoBytes <= 0 {
		return "", fault.New(fault.InvalidArgument, "Write what is to be kept to files.", "This server keeps no checkpoints (--undo-limit).")
	}
	return name, nil
}

// KeepCheckpoint keeps the present variables and files of a session by a name, in the place of an earlier checkpoint of that name. It
// waits for the kernels' turns, and calls queued once it is in the queues.
func (m *Manager) KeepCheckpoint(ctx context.Context, sessionID, name string, queued func()) (*Restoration, error) {
	name, err := m.checkpointName(name)
	if err != nil {
		return nil, err
	}
	s, err := m.open(ctx, sessionID, toResume)
	if err != nil {
		return nil, err
	}
	leave, err := s.takeTurns(ctx, queued, s.languages())
	if err != nil {
		return nil, err
	}
	defer leave()
	i := s.keeper()
	all := Parts{Variables: true, Files: true}
	request := protocol.Request{Type: "checkpoint", Name: name}
	if last, err := s.lastRuns(1); err == nil && len(last) > 0 {
		request.Run = last[0].RunID
	}
	answer, err := i.GoBack(ctx, request, true)
	if err == nil {
		err = s.errRestored(i, &target{name: name, kept: true, files: true}, answer)
	}
	if err != nil {
		return nil, err
	}
	r := s.restoration(i, &target{name: name, files: true}, answer, all)
	r.Kept, r.Parts = true, all
	s.uses.Mark(history.Mark{Kept: name, After: request.Run})
	return r, nil
}

// keeper is the interpreter that is asked about files and checkpoints: of several containers one keeps versions.
func (s *session) keeper() (i *link.Interpreter) {
	for _, l := range s.languages() {
		other := s.interpreters[l]
		c := other.Live()
		if c != nil && c.Versions() != nil && len(c.Versions().Runs) > 0 {
			return other
		}
		if i == nil || c != nil && i.Live() == nil {
			i = other
		}
	}
	return i
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
