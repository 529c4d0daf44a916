package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rotate"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
)

// LogSettings configure the log.
type LogSettings struct {
	File    string // empty: stderr
	MaxSize int64
	Keep    int
	Format  string
	Level   string
}

// check refuses unknown words.
func (s *LogSettings) check() error {
	var found Problems
	found.Wrong(s.Format != "text" && s.Format != "json", "--log-format %q is neither text nor json", s.Format)
	var level slog.Level
	found.Wrong(level.UnmarshalText([]byte(s.Level)) != nil, "--log-level %q is not debug, info, warn or error", s.Level)
	return errors.Join(found...)
}

// open returns a masked log to out, which is stderr, or to the file.
func (s *LogSettings) open(out io.Writer, mask *secrets.Masker) (*slog.Logger, error) {
	if s.File != "" {
		file, err := openLogFile(s.File, s.MaxSize, s.Keep)
		if err != nil {
			return nil, UsageError{Err: fmt.Errorf("--log-file: %w", err)}
		}
		out = file
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.Level)); err != nil {
		return nil, UsageError{Err: fmt.Errorf("--log-level: %w", err)}
	}
	options := &slog.HandlerOptions{Level: level}
	out = mask.Writer(out)
	if s.Format == "json" {
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return slog.New(slog.NewTextHandler(out, options)), nil
}

// maxLogKeep bounds the files that are renamed for a line.
const maxLogKeep = 1000

// logFile is a log that several servers may write to, since all servers of one client share its settings. At its size limit it is renamed
// to FILE.1, the previous FILE.1 to FILE.2, and so on.
type logFile struct {
	path string
	max  int64 // bytes; 0: it only grows
	keep int   // number of old files kept

	mu   sync.Mutex
	file *os.File
}

func openLogFile(path string, most int64, keep int) (*logFile, error) {
	l := &logFile{path: path, max: most, keep: keep}
	return l, l.open()
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file = file
	return nil
}

// Write writes a line, in whole to one file.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max > 0 {
		l.rotate(int64(len(line)))
	}
	return l.file.Write(line)
}

// rotate makes room for more bytes. If that fails the file grows: a line too much is better than a lost one.
func (l *logFile) rotate(more int64) {
	here, moved := l.look()
	switch {
	case moved: // by another server, or by a program that rotates logs
		_ = l.open()
		return
	case here == nil || here.Size() == 0 || here.Size()+more <= l.max:
		return
	case filelock.Try(l.file) != nil: // another server is at it
		return
	}
	if _, moved = l.look(); !moved { // the lock keeps other servers from the same until there is another file of the name
		if runtime.GOOS == "windows" { // an open file cannot be renamed there, neither ours nor another server's
			_ = l.file.Close()
		}
		_ = rotate.Shift(l.path, l.keep)
	}
	_ = l.open() // gives the lock back
}

// look reports whether the file no longer is the one of its name. here is nil if the file cannot be renamed: it is no file, such as a
// terminal, or a link to one.
func (l *logFile) look() (here os.FileInfo, moved bool) {
	here, err := os.Lstat(l.path)
	ours, ourErr := l.file.Stat()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, true
	case err != nil || ourErr != nil || !here.Mode().IsRegular():
		return nil, false
	}
	return here, !os.SameFile(here, ours)
}
