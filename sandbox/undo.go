// Files that go back to before a run, with the variables or without them.

package sandbox

import (
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

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
	parts.Variables = parts.Variables && !strings.HasPrefix(entry.RunID, restorePrefix) &&
		(!entry.Fresh || !parts.Files || isCopy)
	switch {
	case parts != Parts{}:
		return parts, nil
	case !asked.Variables && !asked.Files:
		return parts, fault.New(fault.InvalidArgument, "Leave one of them out, or set it to true.", "With files and variables false nothing is restored.")
	case asked.Files && isCopy:
		return parts, fault.New(fault.InvalidArgument, "Let variables be true.", "Run %s worked in a copy of the variables, and its files are the session's.", entry.RunID)
	case asked.Files:
		return parts, errNoWayBack("Run %s is a restore of files, and this server keeps no versions of them (--undo-limit).", entry.RunID)
	}
	return parts, errNoWayBack("Run %s is a restore of files, and left the variables alone.", entry.RunID)
}

// restoreOf finds the session with a restore that can be undone.
func (m *Manager) restoreOf(id string) (owner string, entry *HistoryEntry) {
	if !strings.HasPrefix(id, restorePrefix) {
		return "", nil
	}
	for _, s := range m.all() {
		for _, l := range s.links {
			c := l.live()
			if c == nil {
				continue
			}
			if v := c.Versions(); v != nil && slices.Contains(v.Runs, id) {
				return s.id, &HistoryEntry{RunID: id, Language: l.languages[0], Code: "going back", Started: time.Now()}
			}
		}
	}
	return "", nil
}

// errFilesStay says why nothing went back, because the files cannot.
func (s *session) errFilesStay(i *interpreter, target *HistoryEntry, files *protocol.RestoredFiles) *fault.Error {
	why := text.Shorten(i.config.Mask.Mask(strings.TrimRight(text.Safe(files.Error, maxName), ".")), maxName)
	alone := "files: false brings back the variables alone."
	switch files.Code {
	case "busy":
		for _, other := range s.interpreters {
			if run := other.holder(); run != nil {
				return other.errBusy(run.info(), 0)
			}
		}
		return fault.New(fault.SessionBusy, "Wait for what runs in the session, and try again; or "+alone, "The files cannot go back: %s.", why)
	case "full":
		return fault.New(fault.QuotaExceeded, "Delete files that are no longer needed, and try again; or "+alone, "Nothing has gone back, because %s.", why)
	case "unknown":
		return fault.New(fault.InvalidArgument, s.waysBack("The files can go back")+" "+alone, "Nothing has gone back before %s: %s.", target.info(), why)
	}
	return fault.New(fault.ExecutionFailed, "Look at the files with list_artifacts; "+alone, "Nothing has gone back before %s: %s.", target.info(), why)
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
		c := l.live()
		if c == nil || c.Versions() == nil {
			continue
		}
		v, known := c.Versions(), make(map[string]*HistoryEntry)
		for _, run := range l.uses.all() {
			known[run.ID] = run.entry()
		}
		for _, id := range v.Runs {
			if strings.HasPrefix(id, restorePrefix) {
				known[id] = &HistoryEntry{RunID: id, Language: l.languages[0], Code: "going back", Started: time.Now()}
			}
		}
		i := s.interpreters[l.languages[0]]
		return &FileVersions{infosOf(v.Runs, known), i.notKept(v.NotKept), max(v.NotKeptTotal, len(v.NotKept))}
	}
	return nil
}
