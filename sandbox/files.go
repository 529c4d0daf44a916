package sandbox

import (
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/files"
)

// What the files of a session are described by.
type (
	File        = files.File
	ReadOptions = files.ReadOptions
	ReadEnd     = files.ReadEnd
	Entry       = files.Entry
	WalkEnd     = files.WalkEnd
)

// CleanPath is [files.CleanPath].
func CleanPath(p string) (string, error) { return files.CleanPath(p) }

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
	need := toUse
	if u.Existing {
		need = toResume
	}
	s, err := m.open(u.SessionID, need)
	if err != nil {
		return File{}, "", err
	}
	s.limits.ask(&RunOptions{Times: u.Times})
	var file File
	err = s.files.use(ctx, func(ctx context.Context, c files.Client) (err error) {
		file, err = c.Put(ctx, files.Upload{
			Path: u.Path, Overwrite: u.Overwrite, Content: u.Content, Modified: u.Modified, Mode: u.Mode, Exact: u.Exact,
			LimitBytes: s.config.VolumeBytes, LimitFiles: s.config.VolumeFiles,
		})
		return err
	})
	m.sweepOnce(nil)
	m.config.countBytes(In, file.SizeBytes)
	return file, s.id, err
}

// OpenFile opens a file of an existing session for reading. The reader must be closed. Faults:
// not_found, invalid_path, session_not_found and those of the engine.
func (m *Manager) OpenFile(ctx context.Context, sessionID, path string, o ReadOptions) (*FileReader, error) {
	s, err := m.open(sessionID, toResume)
	if err != nil {
		return nil, err
	}
	return s.files.open(ctx, path, o)
}

// WalkFiles visits every file of an existing session, outside hidden folders and what programs make
// for themselves; with everything all that is in the volume, folders and links too, folders before
// what is in them. An error of visit ends the walk and comes back.
func (m *Manager) WalkFiles(ctx context.Context, sessionID string, everything bool, visit func(Entry) error) (WalkEnd, error) {
	var end WalkEnd
	err := m.useFiles(ctx, sessionID, func(ctx context.Context, c files.Client) (err error) {
		end, err = c.List(ctx, everything, visit)
		return err
	})
	return end, err
}

// MakeDir makes a folder in an existing session, and the folders above it. One that exists is no error.
func (m *Manager) MakeDir(ctx context.Context, sessionID, path string) error {
	return m.useFiles(ctx, sessionID, func(ctx context.Context, c files.Client) error { return c.MakeDir(ctx, path) })
}

// MakeLink makes a symbolic link in an existing session.
func (m *Manager) MakeLink(ctx context.Context, sessionID, path, target string) error {
	return m.useFiles(ctx, sessionID, func(ctx context.Context, c files.Client) error { return c.MakeLink(ctx, path, target) })
}

func (m *Manager) useFiles(ctx context.Context, sessionID string, use func(context.Context, files.Client) error) error {
	s, err := m.open(sessionID, toResume)
	if err != nil {
		return err
	}
	return s.files.use(ctx, use)
}

// Resume opens a named session that an earlier server left, or one that is open here already, and
// never makes one: session_not_found then.
func (m *Manager) Resume(ctx context.Context, id string) (SessionInfo, error) {
	s, err := m.open(id, toResume)
	if err != nil {
		return SessionInfo{}, err
	}
	return m.describe(ctx, s, nil), nil
}
