package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
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
	// Logger gets the reasons why the log cannot be written, and the chain's head at start and end; may be nil.
	Logger *slog.Logger
}

const (
	// syncTime is how long written lines may wait for the disk.
	syncTime = 100 * time.Millisecond
	// retryTime is the pause before a failed write is repeated.
	retryTime = 200 * time.Millisecond
	// maxWaiting and maxWaitingBytes bound the unwritten events. Further ones are counted, and lost.
	maxWaiting      = 16384
	maxWaitingBytes = 64 << 20
	// nowTime is how long RecordNow waits.
	nowTime = 3 * time.Second
	// batch is how many events are written at once.
	batch = 256
)

// waiting is an event on its way to the file.
type waiting struct {
	Event
	bytes int64
	told  chan error // of capacity one; nil: nobody waits
}

// tell sends the result to the waiting goroutine, the first time.
func (w *waiting) tell(err error) {
	select {
	case w.told <- err:
	default: // nobody waits, or it was told
	}
}

// Log writes events to a file. Its methods are safe for several goroutines; those of a nil Log do nothing.
type Log struct {
	o     Options
	chain chain // of the writer

	mu      sync.Mutex
	work    *sync.Cond // for the writer
	queue   []*waiting
	bytes   int64
	busy    int   // number of events at the queue's head being written
	lost    int64 // events without room since the last written one
	err     error // reason of the last failure to write; nil: none
	head    Head
	unsaved *os.File // written and not synced
	closing bool
	hurry   bool // somebody waits: retry at once
	ended   chan struct{}
	synced  chan struct{}
}

// Open begins to write at the end of the chain of a path, making the file if it is missing. The error is one of the settings: the file
// cannot be written.
func Open(o Options) (*Log, error) {
	l := &Log{o: o, chain: chain{path: o.Path}, ended: make(chan struct{}), synced: make(chan struct{})}
	if l.o.Logger == nil {
		l.o.Logger = slog.New(slog.DiscardHandler)
	}
	l.work = sync.NewCond(&l.mu)
	if err := l.chain.append(nil, l.clean); err != nil {
		l.chain.close()
		return nil, err
	}
	l.head = l.chain.head
	l.tellHead("audit log is open")
	go l.write()
	go l.sync()
	return l, nil
}

// tellHead logs the chain's end, so that it can be kept apart from the audit log.
func (l *Log) tellHead(what string) {
	head := l.Head()
	l.o.Logger.Info(what, "file", l.o.Path, "sequence", head.Sequence, "head", head.Hash)
}

// Head returns the chain's end as far as this Log wrote or saw it.
func (l *Log) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Err returns the reason why waiting events cannot be written; nil: they can, or none waits that would show it.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 && l.lost == 0 {
		return nil // the failed event was withdrawn, and only another one shows whether writing still fails
	}
	return l.err
}

// clean returns the cleaner of an event.
func (l *Log) clean(e *Event) cleaner { return cleaner{l.o.Mask, e.Mask} }

// RecordNow records an event and waits for the write, not for the disk. If the log is required and the write fails, it returns a fault, and
// the event is not recorded.
func (l *Log) RecordNow(ctx context.Context, e Event) error {
	if l == nil || !l.o.Required {
		l.Record(e)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nowTime)
	defer cancel()
	w := l.prepare(e)
	w.told = make(chan error, 1)
	l.mu.Lock()
	var err error
	switch {
	case l.closing:
		err = os.ErrClosed
	case l.isFull(w):
		err = errFull
	default:
		l.put(w)
		l.hurry = true
	}
	l.mu.Unlock()
	if err == nil {
		select {
		case err = <-w.told:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		return nil
	}
	l.withdraw(w)
	return fault.New(fault.AuditUnavailable, "Whoever runs the server frees space for the file of --audit-log, or makes it writable; then the next run works, without a restart.",
		"The audit log cannot be written, and this server runs no code without it.").Because(err)
}

var errFull = errors.New("too many events wait to be written")

func (l *Log) prepare(e Event) *waiting {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if l.o.FullCode {
		if e.Code != "" {
			e.CodeHash = ""
		}
	} else {
		if e.Code != "" && e.CodeHash == "" {
			e.CodeHash = HashOf(e.Code)
		}
		e.Code = ""
	}
	size := int64(1024 + len(e.Code))
	for _, value := range e.Detail {
		if s, is := value.(string); is {
			size += int64(len(s))
		}
	}
	return &waiting{Event: e, bytes: size}
}

// HashOf returns the Event.CodeHash of code.
func HashOf(code string) string { return sumOf([]byte(code)) }

// Record implements Recorder. It counts events without room.
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	w := l.prepare(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing || l.isFull(w) {
		l.lost++
		return
	}
	l.put(w)
}

func (l *Log) isFull(w *waiting) bool {
	return len(l.queue) >= maxWaiting || l.bytes+w.bytes > maxWaitingBytes
}

func (l *Log) put(w *waiting) {
	l.queue, l.bytes = append(l.queue, w), l.bytes+w.bytes
	l.work.Signal()
}

// withdraw removes an event that is not yet being written.
func (l *Log) withdraw(w *waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.queue, w); at >= l.busy {
		l.queue, l.bytes = slices.Delete(l.queue, at, at+1), l.bytes-w.bytes
	}
}

// write writes events until the Log is closed and all are written, or cannot be.
func (l *Log) write() {
	defer close(l.ended)
	for {
		l.mu.Lock()
		for len(l.queue) == 0 && !l.closing {
			l.work.Wait()
		}
		if len(l.queue) == 0 && l.lost == 0 {
			l.mu.Unlock()
			return
		}
		lost := l.lost
		l.busy = min(len(l.queue), batch)
		now := slices.Clone(l.queue[:l.busy])
		l.hurry = false
		l.mu.Unlock()

		var events []Event
		if lost > 0 {
			events = append(events, Event{Kind: KindLog, Action: actionLost, Detail: map[string]any{"events": lost}})
		}
		for _, w := range now {
			events = append(events, w.Event)
		}
		if again := l.wrote(len(now), lost, l.chain.append(events, l.clean)); !again {
			return
		}
	}
}

// wrote takes the result of a batch, and reports whether to go on. After a failure it pauses.
func (l *Log) wrote(n int, lost int64, err error) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (err == nil) != (l.err == nil) {
		if err != nil {
			l.o.Logger.Error("the audit log cannot be written; it is tried again", "file", l.o.Path, "error", err)
		} else {
			l.o.Logger.Info("the audit log can be written again", "file", l.o.Path)
		}
	}
	l.err, l.busy, l.head = err, 0, l.chain.head
	if err == nil {
		for _, w := range l.queue[:n] {
			l.bytes -= w.bytes
			w.tell(nil)
		}
		l.queue, l.lost, l.unsaved = slices.Delete(l.queue, 0, n), l.lost-lost, l.chain.file
		return true
	}
	for _, w := range l.queue {
		w.tell(err)
	}
	if l.closing {
		return false
	}
	timer := time.AfterFunc(retryTime, func() {
		l.mu.Lock()
		l.hurry = true
		l.mu.Unlock()
		l.work.Broadcast()
	})
	defer timer.Stop()
	for !l.hurry && !l.closing {
		l.work.Wait()
	}
	return true
}

// sync brings written lines to the disk, each syncTime.
func (l *Log) sync() {
	defer close(l.synced)
	tick := time.NewTicker(syncTime)
	defer tick.Stop()
	for {
		ended := false
		select {
		case <-tick.C:
		case <-l.ended:
			ended = true
		}
		l.mu.Lock()
		file := l.unsaved
		l.unsaved = nil
		l.mu.Unlock()
		if file != nil {
			if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
				l.o.Logger.Error("the audit log may not be on the disk", "file", l.o.Path, "error", err)
			}
		}
		if ended {
			l.chain.close()
			return
		}
	}
}

// Close writes the waiting events and brings them to the disk, while ctx lasts. Events recorded afterwards are lost.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.work.Broadcast()
	var err error
	select {
	case <-l.synced:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	missing := int64(len(l.queue)) + l.lost
	if missing > 0 && l.err != nil {
		err = l.err
	}
	l.mu.Unlock()
	if missing > 0 || err != nil {
		l.o.Logger.Error("the audit log is not written to its end", "file", l.o.Path, "lost", missing, "error", err)
		return fmt.Errorf("the audit log is not written to its end, and %d events are lost: %w", missing, cmp.Or(err, os.ErrClosed))
	}
	l.tellHead("audit log is closed")
	return nil
}
