// Package filewire is the format of the streams that carry files between a server and the supervisor of a container:
// docs/kernel-protocol.md, "Files: streams". Both ends use it.
//
// A stream serves one request. A message is a 4-byte big-endian length and so many bytes of JSON; content is pieces of a 4-byte
// length and so many bytes, and a piece of no bytes ends it.
package filewire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxRequest bounds a message of the server.
	MaxRequest = 64 << 10
	// MaxAnswer bounds a message to it.
	MaxAnswer = 1 << 20
	// PieceBytes bounds a piece of content.
	PieceBytes = 128 << 10
	headBytes  = 4
)

// StateFolder is the name in an export, or in a work directory if it is there, of what a session keeps of its kernels and files. No list
// names it.
const StateFolder = ".state"

// SnapshotMark is in the names of files there that are for the container that wrote them.
const SnapshotMark = ".before-"

// CheckpointMark is in the names of files there with the variables of a checkpoint, before its number.
const CheckpointMark = ".checkpoint-"

// VersionsFolder is the folder in it with the earlier versions of files. An export has those that are whole.
const VersionsFolder = "versions"

// ErrTooLarge reports that a message or a piece is longer than allowed.
var ErrTooLarge = errors.New("a message about files is too large")

// IsName reports whether a name or a path may be reported: binary or multi-line ones are only counted.
func IsName(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// Operations.
const (
	Put    = "put"
	Get    = "get"
	List   = "list"
	Export = "export"
	Import = "import"
	Usage  = "usage"
	Past   = "past" // the versions of a file
)

// Forms that a page can be had in.
const (
	Picture  = "image"
	Document = "pdf"
)

// Request begins a server's stream.
type Request struct {
	Op         string   `json:"op"`
	Path       string   `json:"path,omitempty"`
	Forms      []string `json:"forms,omitempty"` // other Unicode forms of the path
	Overwrite  bool     `json:"overwrite,omitempty"`
	LimitBytes int64    `json:"limit_bytes,omitempty"`
	LimitFiles int64    `json:"limit_files,omitempty"`
	Offset     int64    `json:"offset,omitempty"`
	Limit      int64    `json:"limit,omitempty"`
	Lines      bool     `json:"lines,omitempty"`
	MaxBytes   int64    `json:"max_bytes,omitempty"`
	Everything bool     `json:"everything,omitempty"`
	As         string   `json:"as,omitempty"`     // of get: Picture or Document
	Before     string   `json:"before,omitempty"` // of get and list: a run, as it was before that
}

// Answer is any message of a supervisor.
type Answer struct {
	Error      *Error    `json:"error,omitempty"`
	Path       string    `json:"path,omitempty"`
	SizeBytes  int64     `json:"size_bytes,omitempty"`
	ModifiedMS int64     `json:"modified_ms,omitempty"`
	Entries    []Entry   `json:"entries,omitempty"`
	End        bool      `json:"end,omitempty"` // of a list or an export
	Skipped    int64     `json:"skipped,omitempty"`
	Gone       int64     `json:"gone,omitempty"` // of a list of what was: those without content
	Bytes      int64     `json:"bytes,omitempty"`
	Files      int64     `json:"files,omitempty"`
	Lines      int64     `json:"lines,omitempty"`
	Start      int64     `json:"start,omitempty"` // of lines: the first byte
	Complete   bool      `json:"complete,omitempty"`
	Changed    bool      `json:"changed,omitempty"`
	Versions   []Version `json:"versions,omitempty"` // of a file, the newest first
}

// Version is a file as it was before a run that changed it.
type Version struct {
	Before     string `json:"before"`
	How        string `json:"how"` // what the run did: added, changed or removed; if added, there was no file
	SizeBytes  int64  `json:"size_bytes,omitempty"`
	ModifiedMS int64  `json:"modified_ms,omitempty"`
	Why        string `json:"why,omitempty"` // its content cannot be had; empty: it can
}

// Kinds of entries.
const (
	Regular = "f"
	Folder  = "d"
	Link    = "l"
)

// Entry is one thing in a list, an export or an import. An entry without a kind ends an import.
type Entry struct {
	Path       string `json:"path"`
	Kind       string `json:"kind"`
	SizeBytes  int64  `json:"size_bytes,omitempty"`
	ModifiedMS int64  `json:"modified_ms"`
	Mode       uint32 `json:"mode"`
	Target     string `json:"target,omitempty"`
}

// Codes of errors.
const (
	NotFound      = "not_found"
	FileExists    = "file_exists"
	IsDirectory   = "is_directory"
	InvalidPath   = "invalid_path"
	QuotaExceeded = "quota_exceeded"
	Changed       = "changed"
	Failed        = "failed"
	UnknownRun    = "unknown_run" // what was before it is not kept
	NotKept       = "not_kept"    // the content of an earlier file
)

// Error is a refused or failed request.
type Error struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	SizeBytes int64  `json:"size_bytes,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Write writes a message, in one write.
func Write(w io.Writer, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a message about files: %w", err)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// ReadText reads the JSON of a message of at most so many bytes. Its memory grows only with the bytes that come.
func ReadText(r io.Reader, most int) ([]byte, error) {
	n, err := readLength(r, most)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(text) < n {
		err = io.ErrUnexpectedEOF
	}
	return text, err
}

func readLength(r io.Reader, most int) (int, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	if n := binary.BigEndian.Uint32(head[:]); n <= uint32(most) {
		return int(n), nil
	}
	return 0, ErrTooLarge
}

// Piece is room for a piece of content.
type Piece struct{ bytes [headBytes + PieceBytes]byte }

// Room is the buffer for the bytes of the piece.
func (p *Piece) Room() []byte { return p.bytes[headBytes:] }

// Send writes the first n bytes of the piece, in one write; none of them end the content.
func (p *Piece) Send(w io.Writer, n int) error {
	binary.BigEndian.PutUint32(p.bytes[:], uint32(n))
	_, err := w.Write(p.bytes[:headBytes+n])
	return err
}

// Content reads the content of pieces. It reads no further than their end, which is io.EOF; an earlier end of the stream is
// io.ErrUnexpectedEOF.
type Content struct {
	From io.Reader
	left int
	err  error
}

func (c *Content) Read(b []byte) (int, error) {
	if c.left == 0 && c.err == nil {
		c.left, c.err = readLength(c.From, PieceBytes)
		switch {
		case errors.Is(c.err, io.EOF):
			c.err = io.ErrUnexpectedEOF
		case c.err == nil && c.left == 0:
			c.err = io.EOF
		}
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.From.Read(b[:min(len(b), c.left)])
	c.left -= n
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	c.err = err
	return n, err
}
