package sandbox

import (
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// File is a regular file of a session.
type File struct {
	Path      string // relative to WorkDir
	SizeBytes int64
	Modified  time.Time
}

// Upload is a file on its way into a session.
type Upload struct {
	SessionID string // empty: the default session
	Path      string // as CleanPath returns it
	Overwrite bool   // false: a file of that name is left as it is, and is an error
	Content   io.Reader
	Modified  time.Time   // zero: now
	Mode      fs.FileMode // zero: 0644
	Exact     bool        // a name in another Unicode form is another name
	Times     Times       // of the session, where nobody has used it yet; lowered to the server's
	Existing  bool        // a session that does not exist is not made: session_not_found
}

// Upload writes a file into its session, which is made when it does not exist unless Existing says otherwise, and
// returns the session's id as well. The file is there whole or not at all. An error of Content that is a fault
// comes back as it is; the others are faults too, among them file_exists, invalid_path and
// quota_exceeded.
func (m *Manager) Upload(ctx context.Context, u Upload) (File, string, error) {
	find := m.open
	if u.Existing {
		find = m.existing
	}
	s, err := find(u.SessionID)
	if err != nil {
		return File{}, "", err
	}
	s.limits.ask(&RunOptions{Times: u.Times})
	var file File
	err = s.withFiles(ctx, func(ctx context.Context, c fileClient) (err error) {
		file, err = c.put(ctx, u, s.config.VolumeBytes, s.config.VolumeFiles)
		return err
	})
	m.sweepOnce(nil)
	m.config.countBytes(In, file.SizeBytes)
	return file, s.id, err
}

// ReadOptions says what part of a file to read.
type ReadOptions struct {
	Offset   int64 // bytes or lines to pass over
	Limit    int64 // bytes or lines to return; 0: only the facts, -1: to the end
	Lines    bool
	MaxBytes int64 // for lines: how many bytes they may take; 0: no limit
}

// ReadEnd describes what was read.
type ReadEnd struct {
	Bytes    int64
	Lines    int64 // of lines: how many
	Start    int64 // of lines: the byte that the first begins at
	Complete bool  // the end of the file was reached
	Changed  bool  // the file was changed meanwhile
}

// OpenFile opens a file of an existing session for reading. The reader must be closed. Faults:
// not_found, invalid_path, session_not_found and those of the engine.
func (m *Manager) OpenFile(ctx context.Context, sessionID, path string, o ReadOptions) (*FileReader, error) {
	s, err := m.existing(sessionID)
	if err != nil {
		return nil, err
	}
	return s.openFile(ctx, path, o)
}

// Entry is one thing in a session's volume.
type Entry struct {
	File
	Kind   byte        // 'f' a regular file, 'd' a folder, 'l' a link
	Mode   fs.FileMode // permission bits
	Target string      // of a link; hostile text
}

// WalkEnd describes what a walk left out.
type WalkEnd struct {
	Complete bool  // false: there are more entries than a walk visits
	Skipped  int64 // names that are not text
}

// WalkFiles visits every file of an existing session, outside hidden folders and what programs make
// for themselves; with everything all that is in the volume, folders and links too, folders before
// what is in them. An error of visit ends the walk and comes back.
func (m *Manager) WalkFiles(ctx context.Context, sessionID string, everything bool, visit func(Entry) error) (WalkEnd, error) {
	var end WalkEnd
	err := m.withFiles(ctx, sessionID, func(ctx context.Context, c fileClient) (err error) {
		end, err = c.list(ctx, everything, visit)
		return err
	})
	return end, err
}

// MakeDir makes a folder in an existing session, and the folders above it. One that exists is no error.
func (m *Manager) MakeDir(ctx context.Context, sessionID, path string) error {
	return m.withFiles(ctx, sessionID, func(ctx context.Context, c fileClient) error { return c.mkdir(ctx, path) })
}

// MakeLink makes a symbolic link in an existing session.
func (m *Manager) MakeLink(ctx context.Context, sessionID, path, target string) error {
	return m.withFiles(ctx, sessionID, func(ctx context.Context, c fileClient) error { return c.symlink(ctx, path, target) })
}

func (m *Manager) withFiles(ctx context.Context, sessionID string, use func(context.Context, fileClient) error) error {
	s, err := m.existing(sessionID)
	if err != nil {
		return err
	}
	return s.withFiles(ctx, use)
}

// existing returns a session that this server has open, or a named one that an earlier server left.
func (m *Manager) existing(id string) (*session, error) {
	s, err := m.find(id)
	if err == nil {
		return s, s.awaitOpen(context.Background())
	}
	if isDefault(id) || fault.From(err).Code != fault.SessionNotFound || !state.IsKept(m.config.StateDir, id) {
		return s, err
	}
	return m.open(id)
}

// Resume opens a named session that an earlier server left, or one that is open here already, and
// never makes one: session_not_found then.
func (m *Manager) Resume(ctx context.Context, id string) (SessionInfo, error) {
	s, err := m.existing(id)
	if err != nil {
		return SessionInfo{}, err
	}
	return m.describe(ctx, s, nil), nil
}
