// Package checkpoint carries a session from machine to machine in one file: Export writes it, Import
// reads it.
//
// The file is a tar archive under zstd, with these members in this order: manifest.json, history.jsonl,
// the folders and files below files/, then the links below files/, then end.json, which counts them.
// Both ways stream: neither needs more memory for a larger session. A checkpoint may come from anybody,
// and a session is hostile anyway, so both ways check and bound everything.
package checkpoint

import (
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Manifest says what a checkpoint is of. It has names of settings and no values.
type Manifest struct {
	Format    string             `json:"format"`
	Version   int                `json:"version"`
	SessionID string             `json:"session_id"`
	Created   time.Time          `json:"created"`
	Exported  time.Time          `json:"exported"`
	Program   string             `json:"program"`
	Languages []sandbox.Language `json:"languages"`
	// PassThroughEnv names the variables that the code had. A machine that imports the session needs its own.
	PassThroughEnv []string `json:"pass_through_env,omitempty"`
}

const (
	format  = "code-sandbox-mcp checkpoint"
	version = 1
)

// The members' names.
const (
	manifestName = "manifest.json"
	historyName  = "history.jsonl"
	filesPrefix  = "files/"
	endName      = "end.json"
)

// Summary counts what a checkpoint holds.
type Summary struct {
	Files   int64 `json:"files"`
	Folders int64 `json:"folders"`
	Links   int64 `json:"links"`
	Bytes   int64 `json:"bytes"` // of the files
}

func (s Summary) entries() int64 { return s.Files + s.Folders + s.Links }

// Report is a Summary with what an export could not keep exactly.
type Report struct {
	Summary
	Skipped int64 `json:"skipped"` // names that are no text, or too long
	Gone    int64 `json:"gone"`    // files that were removed meanwhile
	Changed int64 `json:"changed"` // files that were changed while they were read
}

// Limits bounds a checkpoint, on its way out and in.
type Limits struct {
	Bytes   int64 // of all files together
	Entries int64 // files, folders and links
}

func (l Limits) check(s Summary) error {
	switch {
	case s.Bytes > l.Bytes:
		return fault.New(fault.UploadTooLarge, "Allow more with --max-bytes and --volume-limit, or delete files from the session first.",
			"The session's files take more than %d bytes.", l.Bytes).With("limit_bytes", l.Bytes)
	case s.entries() > l.Entries:
		return fault.New(fault.UploadTooLarge, "Allow more with --volume-files, or delete files from the session first.",
			"The session has more than %d files, folders and links.", l.Entries).With("limit_files", l.Entries)
	}
	return nil
}

// Volume is the files of a session.
type Volume interface {
	// Walk reports everything in it, folders before what is in them.
	Walk(ctx context.Context, visit func(sandbox.Entry) error) (sandbox.WalkEnd, error)
	// Open reads a file whole. It may be called from visit.
	Open(ctx context.Context, path string) (Reader, error)
	Put(ctx context.Context, path string, content io.Reader, mode fs.FileMode, modified time.Time) error
	MakeDir(ctx context.Context, path string) error
	MakeLink(ctx context.Context, path, target string) error
}

// Reader reads a file. File tells its facts, and End, after io.EOF, what was read.
type Reader interface {
	io.ReadCloser
	File() sandbox.File
	End() sandbox.ReadEnd
}

// SessionVolume is the files of a manager's session.
type SessionVolume struct {
	Manager *sandbox.Manager
	ID      string
}

// Walk is Volume's.
func (v SessionVolume) Walk(ctx context.Context, visit func(sandbox.Entry) error) (sandbox.WalkEnd, error) {
	return v.Manager.WalkFiles(ctx, v.ID, true, visit)
}

// Open is Volume's.
func (v SessionVolume) Open(ctx context.Context, path string) (Reader, error) {
	r, err := v.Manager.OpenFile(ctx, v.ID, path, sandbox.ReadOptions{Limit: -1})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Put is Volume's.
func (v SessionVolume) Put(ctx context.Context, path string, content io.Reader, mode fs.FileMode, modified time.Time) error {
	_, _, err := v.Manager.Upload(ctx, sandbox.Upload{SessionID: v.ID, Path: path, Content: content, Mode: mode, Modified: modified, Exact: true})
	return err
}

// MakeDir is Volume's.
func (v SessionVolume) MakeDir(ctx context.Context, path string) error {
	return v.Manager.MakeDir(ctx, v.ID, path)
}

// MakeLink is Volume's.
func (v SessionVolume) MakeLink(ctx context.Context, path, target string) error {
	return v.Manager.MakeLink(ctx, v.ID, path, target)
}

// names remembers paths by their hash: a session may have very many, and very long ones.
type names map[[16]byte]bool

func hashOf(path string) (h [16]byte) {
	sum := sha256.Sum256([]byte(path))
	copy(h[:], sum[:])
	return h
}

func (n names) add(path string)      { n[hashOf(path)] = true }
func (n names) has(path string) bool { return n[hashOf(path)] }
