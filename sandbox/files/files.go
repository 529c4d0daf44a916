// Package files brings files into a session's work directory and out of it, at the server's end: docs/kernel-protocol.md, "Files:
// streams". A Client sends a supervisor each request by a stream of its own; the answers are hostile, and bounded here.
package files

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
)

// File is a regular file of a session.
type File struct {
	Path      string // relative to WorkDir
	SizeBytes int64
	Modified  time.Time
	// Before is the run that it was like this before; empty: it is like this now.
	Before string
}

// Name is the path, with @ and the run of an earlier version.
func (f File) Name() string {
	if f.Before == "" {
		return f.Path
	}
	return f.Path + "@" + f.Before
}

// Version is a file as it was before a run that changed it.
type Version struct {
	Before string
	How    string // what the run did to the file: added, changed or removed; if added, there was none
	File   File
	Why    string // its content cannot be had; hostile text; empty: it can
}

// Limits are those of a work directory; zero: none.
type Limits struct{ Bytes, Files int64 }

// Upload is a file to write.
type Upload struct {
	Path      string // as CleanPath returns it
	Overwrite bool   // false: an existing file of that name is an error
	Content   io.Reader
	Limits    Limits
}

// ReadOptions selects the part of a file to read.
type ReadOptions struct {
	Offset   int64 // bytes or lines to skip
	Limit    int64 // bytes or lines to return; 0: only the facts, -1: to the end
	Lines    bool
	MaxBytes int64 // for lines, and of a page as something else: their bytes at most; 0: no limit
	// As is filewire.Picture or filewire.Document for a page as PNG or PDF; empty: the file itself.
	As string
	// Before is a run: the file is read as it was before that.
	Before string
}

// ReadEnd describes the part that was read.
type ReadEnd struct {
	Bytes    int64
	Lines    int64 // of lines: their number
	Start    int64 // of lines: the first byte
	Complete bool  // the end of the file was reached
	Changed  bool  // the file changed meanwhile
}

// Entry is one thing in a session's volume.
type Entry struct {
	File
	Kind   byte        // 'f' a regular file, 'd' a folder, 'l' a link
	Mode   fs.FileMode // permission bits
	Target string      // of a link; hostile text
}

// WalkEnd counts the entries that a walk left out.
type WalkEnd struct {
	Complete bool  // false: there are more entries than a walk visits
	Skipped  int64 // names that are not text
	NotKept  int64 // of an earlier state: files whose content cannot be had
}

// ExportEnd counts the entries that an export left out.
type ExportEnd struct {
	WalkEnd
	Gone    int64 // files removed meanwhile
	Changed int64 // files changed while they were read
}

// answerLimits bound a supervisor's answer. An honest one contains at most 500 files of seven values.
var answerLimits = jsonbound.Limits{Depth: 32, Values: 20_000}

const maxPath = 4 << 10

// SafePath accepts a path below the work directory from a supervisor, in its shortest form, and returns "" for any other:
// absolute, with .., a control character or too many bytes.
func SafePath(p string) string {
	if p == "" || len(p) > maxPath || !filewire.IsName(p) || path.IsAbs(p) {
		return ""
	}
	if p = path.Clean(p); p == "." || p == ".." || strings.HasPrefix(p, "../") {
		return ""
	}
	return p
}

// The times that JSON and tar can express, with room for any zone.
var (
	minMomentMS = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC).UnixMilli()
	maxMomentMS = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// BoundMoment keeps a file's time within the expressible range.
func BoundMoment(ms int64) int64 { return min(max(ms, minMomentMS), maxMomentMS) }

// Moment returns the time of a file.
func Moment(ms int64) time.Time { return time.UnixMilli(BoundMoment(ms)) }
