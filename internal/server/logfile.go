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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
)

// openLog returns a masked log to out, which is stderr, or to the file.
func openLog(s *setting.Log, out io.Writer, mask *secrets.Masker) (*slog.Logger, error) {
	if s.File != "" {
		file, err := openLogFile(s.File, maxLogBytes)
		if err != nil {
			return nil, setting.UsageError{Err: fmt.Errorf("--log-file: %w", err)}
		}
		out = file
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.Level)); err != nil {
		return nil, setting.UsageError{Err: fmt.Errorf("--log-level: %w", err)}
	}
	options := &slog.HandlerOptions{Level: level}
	out = mask.Writer(out)
	if s.Format == "json" {
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return slog.New(slog.NewTextHandler(out, options)), nil
}

// maxLogBytes is the size at which a log is renamed.
const maxLogBytes = 10_000_000

// logFile is a log that several servers may write to, since all servers of one client share its settings. At its size limit it is renamed
// to FILE.1.
type logFile struct {
	path string
	max  int64 // bytes

	mu   sync.Mutex
	file *os.File
}

func openLogFile(path string, most int64) (*logFile, error) {
	l := &logFile{path: path, max: most}
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
	l.rotate(int64(len(line)))
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
		_ = os.Rename(l.path, l.path+".1")
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
