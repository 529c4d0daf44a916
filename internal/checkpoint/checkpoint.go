// Package checkpoint carries a session from machine to machine in one file: Export writes it, Import
// reads it.
//
// The file is a tar archive under zstd, with these members in this order: manifest.json, history.jsonl,
// the folders and files below files/, then the links below files/, then end.json, which counts them.
// Both ways stream: neither needs more memory for a larger session. A checkpoint may come from anybody,
// and a session is hostile anyway, so both ways check and bound everything.
package checkpoint

import (
	"crypto/sha256"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Manifest describes the session of a checkpoint. It contains names of settings and no values.
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

// Summary counts the contents of a checkpoint.
type Summary struct {
	Files   int64 `json:"files"`
	Folders int64 `json:"folders"`
	Links   int64 `json:"links"`
	Bytes   int64 `json:"bytes"` // of the files
}

func (s Summary) entries() int64 { return s.Files + s.Folders + s.Links }

// Report is a Summary with the parts that an export could not keep exactly.
type Report struct {
	Summary
	sandbox.ExportEnd
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

// add counts an entry, within the limits.
func (s *Summary) add(e sandbox.Entry, l Limits) error {
	switch e.Kind {
	case 'd':
		s.Folders++
	case 'f':
		s.Files++
		s.Bytes += e.SizeBytes
	case 'l':
		s.Links++
	}
	return l.check(*s)
}

// names remembers paths by their hash: a session may hold very many, and very long ones.
type names map[[16]byte]bool

func hashOf(path string) (h [16]byte) {
	sum := sha256.Sum256([]byte(path))
	copy(h[:], sum[:])
	return h
}

func (n names) add(path string)      { n[hashOf(path)] = true }
func (n names) has(path string) bool { return n[hashOf(path)] }
