// Earlier states of a session's files: listed and read, without going back.

package sandbox

import (
	"context"
	"errors"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Added is Version.How of a run that made the file: before it there was none.
const Added = "added"

// splitVersion takes NAME@RUN apart; no run: it is no such path.
func splitVersion(path string) (name, run string) {
	at := strings.LastIndexByte(path, '@')
	if at <= 0 {
		return path, ""
	}
	name, run = path[:at], path[at+1:]
	if !strings.HasPrefix(run, runPrefix) && !strings.HasPrefix(run, restorePrefix) || !state.ValidID(run) {
		return path, ""
	}
	return name, run
}

// openBefore opens a file as it was before the run of o.
func (m *Manager) openBefore(ctx context.Context, sessionID, path string, o ReadOptions) (*FileReader, error) {
	s, entry, err := m.sessionOf(sessionID, o.Before)
	if err != nil {
		return nil, err
	}
	if o.As != "" {
		return nil, fault.New(fault.InvalidArgument, "Leave as out, or bring the file back with restore_session.", "A file from before a run can be had only as it is.")
	}
	r, err := s.files.open(ctx, path, o)
	if err != nil && fault.From(err).Code == fault.NotFound {
		return nil, fault.New(fault.NotFound, "list_artifacts with before lists those that there were.", "There was no file %q before %s.", path, entry.info())
	}
	return r, s.errBefore(entry, err)
}

// WalkBefore visits the files of an existing session as WalkFiles does, as they were before a run. An empty session is the run's. It
// returns the session. An error of visit ends it and comes back; the others are faults, among them run_not_found, and invalid_argument if
// that state is not kept.
func (m *Manager) WalkBefore(ctx context.Context, sessionID, runID string, visit func(Entry) error) (string, WalkEnd, error) {
	s, entry, err := m.sessionOf(sessionID, runID)
	if err != nil {
		return sessionID, WalkEnd{}, err
	}
	var end WalkEnd
	err = s.files.use(ctx, func(ctx context.Context, c files.Client) (err error) {
		end, err = c.ListBefore(ctx, entry.RunID, visit)
		return err
	})
	return s.id, end, s.errBefore(entry, err)
}

// Versions returns the versions of a file of an existing session, the newest first: as it was before each of the last runs that changed
// it.
func (m *Manager) Versions(ctx context.Context, sessionID, path string) (list []Version, err error) {
	err = m.useFiles(ctx, sessionID, func(ctx context.Context, c files.Client) (err error) {
		list, err = c.Versions(ctx, path)
		return err
	})
	return list, err
}

// errBefore says which states are kept if that from before a run is not.
func (s *session) errBefore(entry *HistoryEntry, err error) error {
	if !errors.Is(err, files.ErrUnknownRun) {
		return err
	}
	hint := s.waysBack("Those can be seen that were")
	if s.config.UndoBytes <= 0 {
		hint = "This server keeps no versions of files: --undo-limit is 0."
	}
	return fault.New(fault.InvalidArgument, hint, "The files from before %s are not kept.", entry.info())
}

// hasVersions reports whether the container keeps versions of files.
func hasVersions(c *kernel.Container) bool {
	v := c.Versions()
	return v != nil && len(v.Runs) > 0
}
