// A session's files as the Manager offers them: upload, read, walk, export, import.

package sandbox

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// The files of a session are described as package files does.
type (
	// File is a regular file of a session.
	File = files.File
	// ReadOptions selects the part of a file to read.
	ReadOptions = files.ReadOptions
	// ReadEnd describes the part that was read.
	ReadEnd = files.ReadEnd
	// Version is a file as it was before a run that changed it.
	Version = files.Version
	// Entry is one thing in a session's volume.
	Entry = files.Entry
	// WalkEnd counts the entries that a walk left out.
	WalkEnd = files.WalkEnd
	// ExportEnd counts the entries that an export left out.
	ExportEnd = files.ExportEnd
)

// StateFolder is the folder in an export with what the session keeps of its kernels and files.
const StateFolder = filewire.StateFolder

// CleanPath returns the shortest form of a request's path: [files.CleanPath].
func CleanPath(p string) (string, error) { return files.CleanPath(p) }

// Upload is a file on its way into a session.
type Upload struct {
	SessionID string // empty: the default session
	Path      string // as CleanPath returns it
	Overwrite bool   // false: an existing file of that name is an error
	Content   io.Reader
	Times     Times // of the session, if nobody used it yet; lowered to the server's
	Existing  bool  // a missing session is an error: session_not_found
}

// Upload writes a file into its session and returns the session's id as well. It makes a missing session unless Existing forbids
// that. The file appears whole or not at all. A fault of Content comes back unchanged; the other errors are faults too, among them
// file_exists, invalid_path and quota_exceeded.
func (m *Manager) Upload(ctx context.Context, u Upload) (File, string, error) {
	need := toUse
	if u.Existing {
		need = toResume
	}
	s, err := m.open(ctx, u.SessionID, need)
	if err != nil {
		return File{}, "", err
	}
	if err := s.manager.quotas.checkDisk(ctx, s.id); err != nil {
		return File{}, "", err
	}
	s.limits.Ask(&RunOptions{Times: u.Times})
	var file File
	err = s.files.Use(ctx, func(ctx context.Context, c files.Client) (err error) {
		file, err = c.Put(ctx, files.Upload{Path: u.Path, Overwrite: u.Overwrite, Content: u.Content, Limits: fileLimits(s.config)})
		return err
	})
	m.pool.sweeper.once(nil)
	if err == nil {
		m.conf().FileMoved(ctx, Transfer{Direction: In, Session: s.id, Path: file.Path, Size: file.SizeBytes, Bytes: file.SizeBytes})
	}
	return file, s.id, err
}

func fileLimits(c *Config) files.Limits {
	return files.Limits{Bytes: c.VolumeBytes, Files: c.VolumeFiles}
}

// OpenFile opens a file of an existing session for reading. The caller must close the reader. NAME@RUN is the file NAME as it was before
// that run, unless a file has this name; an empty session is then the run's. Faults: not_found, invalid_path, session_not_found,
// run_not_found, invalid_argument if the state from before the run is not kept, and those of the engine.
func (m *Manager) OpenFile(ctx context.Context, sessionID, path string, o ReadOptions) (*FileReader, error) {
	var r *FileReader
	s, err := m.open(ctx, sessionID, toResume)
	if err == nil {
		r, err = s.files.Open(ctx, path, o)
	}
	if err == nil {
		return r, nil
	}
	code := fault.From(err).Code
	if name, run := splitVersion(path); run != "" && (code == fault.NotFound || sessionID == "" && code == fault.SessionNotFound) {
		o.Before = run
		return m.openBefore(ctx, sessionID, name, o)
	}
	return r, err
}

// WalkFiles visits every file of an existing session, outside hidden folders and programs' own folders such as caches; with
// everything, also those, folders and links, each folder before its entries. An error of visit ends the walk and comes back.
func (m *Manager) WalkFiles(ctx context.Context, sessionID string, everything bool, visit func(Entry) error) (WalkEnd, error) {
	var end WalkEnd
	err := m.useFiles(ctx, sessionID, func(ctx context.Context, c files.Client) (err error) {
		end, err = c.List(ctx, everything, visit)
		return err
	})
	return end, err
}

// ExportFiles visits everything in an existing session with the content of each file: folders before their entries, and links
// last. An error of visit ends it and comes back.
func (m *Manager) ExportFiles(ctx context.Context, sessionID string, visit func(Entry, io.Reader) error) (ExportEnd, error) {
	var end ExportEnd
	caller := ctx
	err := m.useFiles(ctx, sessionID, func(ctx context.Context, c files.Client) (err error) {
		end, err = c.Export(ctx, func(e Entry, content io.Reader) error {
			read := &counting{Reader: content}
			err := visit(e, read)
			m.entryMoved(caller, Out, sessionID, e, read)
			return err
		})
		return err
	})
	return end, err
}

// counting counts the bytes of a file's content.
type counting struct {
	io.Reader
	bytes int64
	begun bool
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.bytes, c.begun = c.bytes+int64(n), true
	return n, err
}

// entryMoved reports an entry, if any of it was read, to the observer.
func (m *Manager) entryMoved(caller context.Context, to Direction, sessionID string, e Entry, content *counting) {
	if content != nil && content.begun {
		m.conf().FileMoved(caller, Transfer{Direction: to, Session: sessionID, Path: e.Path, Size: e.SizeBytes, Bytes: content.bytes})
	}
}

// ImportFiles adds the entries of next, up to one without a kind, to an existing session: folders, files with their content, and
// links. An error of next or of a content comes back.
func (m *Manager) ImportFiles(ctx context.Context, sessionID string, next func() (Entry, io.Reader, error)) error {
	if err := m.quotas.checkDisk(ctx, sessionID); err != nil {
		return err
	}
	var last Entry
	var sent *counting
	moved := func() { m.entryMoved(ctx, In, sessionID, last, sent) }
	defer func() { moved() }()
	return m.useFiles(ctx, sessionID, func(ctx context.Context, c files.Client) error {
		return c.Import(ctx, fileLimits(m.conf()), func() (Entry, io.Reader, error) {
			moved()
			e, content, err := next()
			last, sent = e, nil
			if content != nil {
				sent = &counting{Reader: content}
				content = sent
			}
			return e, content, err
		})
	})
}

func (m *Manager) useFiles(ctx context.Context, sessionID string, use func(context.Context, files.Client) error) error {
	s, err := m.open(ctx, sessionID, toResume)
	if err != nil {
		return err
	}
	return s.files.Use(ctx, use)
}

// Resume opens a named session of an earlier server, or one already open here. It never makes one: session_not_found then.
func (m *Manager) Resume(ctx context.Context, id string) (SessionInfo, error) {
	s, err := m.open(ctx, id, toResume)
	if err != nil {
		return SessionInfo{}, err
	}
	return m.describe(ctx, s, nil), nil
}

// FileMoved reports a transfer that a program made to the observer.
func (m *Manager) FileMoved(caller context.Context, t Transfer) { m.conf().FileMoved(caller, t) }

// Added is Version.How of a run that made the file: before it there was none.
const Added = "added"

// splitVersion takes NAME@RUN apart; no run: it is no such path.
func splitVersion(path string) (name, run string) {
	at := strings.LastIndexByte(path, '@')
	if at <= 0 {
		return path, ""
	}
	name, run = path[:at], path[at+1:]
	if !runs.IsID(run) || !state.ValidID(run) {
		return path, ""
	}
	return name, run
}

// openBefore opens a file as it was before the run of o.
func (m *Manager) openBefore(ctx context.Context, sessionID, path string, o ReadOptions) (*FileReader, error) {
	s, entry, err := m.sessionOf(ctx, WayBack{SessionID: sessionID, RunID: o.Before})
	if err != nil {
		return nil, err
	}
	if o.As != "" {
		return nil, fault.New(fault.InvalidArgument, "Leave as out, or bring the file back with restore_session.", "A file from before a run can be had only as it is.")
	}
	r, err := s.files.Open(ctx, path, o)
	if err != nil && fault.From(err).Code == fault.NotFound {
		return nil, fault.New(fault.NotFound, "list_artifacts with before lists those that there were.", "There was no file %q before %s.", path, entry.Info())
	}
	return r, s.errBefore(entry, err)
}

// WalkBefore visits the files of an existing session as WalkFiles does, as they were before a run. An empty session is the run's. It
// returns the session. An error of visit ends it and comes back; the others are faults, among them run_not_found, and invalid_argument if
// that state is not kept.
func (m *Manager) WalkBefore(ctx context.Context, sessionID, runID string, visit func(Entry) error) (string, WalkEnd, error) {
	s, entry, err := m.sessionOf(ctx, WayBack{SessionID: sessionID, RunID: runID})
	if err != nil {
		return sessionID, WalkEnd{}, err
	}
	var end WalkEnd
	err = s.files.Use(ctx, func(ctx context.Context, c files.Client) (err error) {
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
	return fault.New(fault.InvalidArgument, hint, "The files from before %s are not kept.", entry.Info())
}
