package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
)

// Options set the place and the content of a log. Path is required.
type Options struct {
	Path string
	// FullCode writes the code itself; false: its hash.
	FullCode bool
	// Required refuses runs, by RecordNow, while the log cannot be written.
	Required bool
	// Mask removes secrets from all texts; nil: there are none.
	Mask *secrets.Masker
	// Logger gets the reasons why the log cannot be written, and the chain's head at start, each hour and at the end; may be nil.
	Logger *slog.Logger
}

const (
	// syncTime is how long written lines may wait for the disk.
	syncTime = 100 * time.Millisecond
	// headTime is how often the head of a chain that grows is logged.
	headTime = time.Hour
	// lockTime is how long another process may hold the lock.
	lockTime = 3 * time.Second
)

// Events of the log itself.
const (
	actionTorn = "Torn" // text before this line, which a killed process or a full disk left
	actionGone = "Gone" // lines before this one, since its server began
	actionLost = "Lost" // events that could not be written
)

// Log writes events to a file. Its methods are safe for several goroutines; those of a nil Log do nothing.
type Log struct {
	o Options

	mu      sync.Mutex
	file    *os.File
	end     int64 // of the file, as far as this process knows it; -1: it is to be read
	head    Head
	err     error     // reason of the last failure to write; nil: none
	lost    int64     // events since the last line
	unsaved bool      // written and not synced
	toldAt  time.Time // the head, to the logger
	closed  bool
}

// Head is the end of a chain. The zero value is the end of an empty one.
type Head struct {
	Sequence int64
	Hash     string
}

// Open begins to write at the end of the chain of a path, making the file if it is missing. The error is one of the settings: the file
// cannot be written.
func Open(o Options) (*Log, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	l := &Log{o: o}
	if err := l.append(nil); err != nil {
		l.closeFile()
		return nil, err
	}
	l.tellHead("audit log is open")
	return l, nil
}

// tellHead logs the chain's end, so that it is in another log than this one.
func (l *Log) tellHead(what string) {
	l.toldAt = time.Now()
	l.o.Logger.Info(what, "file", l.o.Path, "sequence", l.head.Sequence, "head", l.head.Hash)
}

// Err returns the reason why lost events cannot be told of; nil: they can, or there are none. It tries.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == 0 {
		return nil
	}
	return l.write()
}

// RecordNow records an event and waits for the write, not for the disk. If the log is required and the write fails, it returns a fault, and
// the event does not count as lost.
func (l *Log) RecordNow(_ context.Context, e Event) error {
	if l == nil || !l.o.Required {
		l.Record(e)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(e); err != nil {
		return fault.New(fault.AuditUnavailable, "Whoever runs the server frees space for the file of --audit-log, or makes it writable; then the next run works, without a restart.",
			"The audit log cannot be written, and this server runs no code without it.").Because(err)
	}
	return nil
}

// Record implements Recorder. An event that cannot be written is counted: the next line tells how many there were.
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.write(e) != nil {
		l.lost++
	}
}

// write writes a line for the lost events, if there are any, and events, all of them or none.
func (l *Log) write(events ...Event) error {
	if l.closed {
		return os.ErrClosed
	}
	if l.lost > 0 {
		events = append([]Event{{Kind: KindLog, Action: actionLost, Detail: map[string]any{"events": l.lost}}}, events...)
	}
	err := l.append(events)
	switch {
	case err != nil && l.err == nil:
		l.o.Logger.Error("the audit log cannot be written", "file", l.o.Path, "error", err)
	case err == nil && l.err != nil:
		l.o.Logger.Info("the audit log can be written again", "file", l.o.Path, "lost", l.lost)
	}
	if l.err = err; err != nil {
		return err
	}
	l.lost = 0
	if !l.unsaved {
		l.unsaved = true
		time.AfterFunc(syncTime, l.save)
	}
	if time.Since(l.toldAt) >= headTime {
		l.tellHead("audit log grows")
	}
	return nil
}

// save brings written lines to the disk.
func (l *Log) save() {
	l.mu.Lock()
	file := l.file
	l.unsaved = false
	l.mu.Unlock()
	if file == nil {
		return
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		l.o.Logger.Error("the audit log may not be on the disk", "file", l.o.Path, "error", err)
	}
}

// Close brings the log to the disk, while ctx lasts. Events recorded afterwards are lost.
func (l *Log) Close(ctx context.Context) error {
	if l == nil || l.isClosed() {
		return nil
	}
	err := l.Err()
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		l.save()
	}()
	select {
	case <-saved:
	case <-ctx.Done():
		err = cmp.Or(err, ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if err != nil {
		l.o.Logger.Error("the audit log is not written to its end", "file", l.o.Path, "lost", l.lost, "error", err)
		err = fmt.Errorf("the audit log is not written to its end, and %d events are lost: %w", l.lost, err)
	} else {
		l.tellHead("audit log is closed")
	}
	l.closeFile()
	return err
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// lock makes this process the only writer. Nobody waits again for a lock that somebody waited for in vain.
func (l *Log) lock() (unlock func(), err error) {
	file, err := os.OpenFile(l.o.Path+".lock", os.O_CREATE|os.O_RDWR|filelock.NoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockTime); ; time.Sleep(time.Millisecond) {
		if err = filelock.Try(file); err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, filelock.ErrHeld) || errors.Is(l.err, filelock.ErrHeld) || time.Now().After(until) {
			return nil, errors.Join(fmt.Errorf("%s.lock: %w", l.o.Path, err), file.Close())
		}
	}
}

func (l *Log) closeFile() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// open opens the file of the path, making it if it is missing, unless the open one is that.
func (l *Log) open() error {
	if l.file != nil {
		here, err := os.Lstat(l.o.Path)
		ours, ourErr := l.file.Stat()
		if err == nil && ourErr == nil && os.SameFile(here, ours) {
			return nil
		}
		l.closeFile()
	}
	file, err := os.OpenFile(l.o.Path, os.O_CREATE|os.O_APPEND|os.O_RDWR|filelock.NoFollow, 0o600)
	if err != nil {
		return err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s is not a regular file", l.o.Path), err, file.Close())
	}
	l.file, l.end = file, -1
	return nil
}

// append writes events at the end of the chain, all of them or none.
func (l *Log) append(events []Event) error {
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.open(); err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	head, size := l.head, info.Size()
	var lines []byte
	if size != l.end { // other processes write too
		last, err := tailOf(l.file, size)
		if err != nil {
			return err
		}
		var found []Event
		if last.torn != nil { // first: it follows the text directly
			found = append(found, Event{Kind: KindLog, Action: actionTorn, Detail: map[string]any{"bytes": len(last.torn), "sha256": sumOf(last.torn)}})
		}
		if last.head.Sequence < l.head.Sequence { // it was removed or cut off
			found = append(found, Event{Kind: KindLog, Action: actionGone})
		} else {
			head = last.head
		}
		if last.open {
			lines = []byte("\n")
		}
		events = append(found, events...)
	}
	for _, e := range events {
		line := Line{Sequence: head.Sequence + 1, Event: l.clean(e), Prev: head.Hash}
		lines = append(append(lines, line.seal()...), '\n')
		head = Head{line.Sequence, line.Hash}
	}
	if n, err := l.file.Write(lines); err != nil {
		if n > 0 {
			_ = l.file.Truncate(size) // if that fails, the text stays torn
		}
		l.end = -1
		return err
	}
	l.end, l.head = size+int64(len(lines)), head
	return nil
}
