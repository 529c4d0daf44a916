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

// Options set where a log is, and what is in it. Path has to be there.
type Options struct {
	Path string
	// FullCode has the code itself in the log; false: its hash.
	FullCode bool
	// Required refuses runs, by RecordNow, while the log cannot be written.
	Required bool
	// Mask takes secrets out of all texts. Nil: there are none.
	Mask *secrets.Masker
	// Logger is told when the log cannot be written, and where the chain is at its start and end; nil: nobody is.
	Logger *slog.Logger
}

const (
	// syncTime is how long what is written may wait until it is on the disk.
	syncTime = 100 * time.Millisecond
	// retryTime is the pause before what could not be written is tried again.
	retryTime = 200 * time.Millisecond
	// maxWaiting and maxWaitingBytes bound the events that are not written yet. More are counted, and lost.
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
	told  chan error // has room for one; nil: nobody waits for it
}

// tell tells who waits for it, the first time.
func (w *waiting) tell(err error) {
	select {
	case w.told <- err:
	default: // or nobody does
	}
}

// Log writes events to files. Its methods may be called by any number of goroutines; those of a nil Log do nothing.
type Log struct {
	o     Options
	chain chain // of the writer

	mu      sync.Mutex
	work    *sync.Cond // for the writer
	queue   []*waiting
	bytes   int64
	busy    int   // how many of the queue's first are being written
	lost    int64 // events that had no room since the last that was written
	err     error // why nothing could be written last; nil: it could
	head    Head
	unsaved *os.File // what is written and not synced
	closing bool
	hurry   bool // somebody waits: try at once
	ended   chan struct{}
	synced  chan struct{}
}

// Open begins to write at the end of the chain of a path, which is made where there is none. The error is of the settings: the file
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

// tellHead leaves the chain's end where it may be kept apart from the log.
func (l *Log) tellHead(what string) {
	head := l.Head()
	l.o.Logger.Info(what, "file", l.o.Path, "sequence", head.Sequence, "head", head.Hash)
}

// Head is the chain's end as far as this Log has written or seen it.
func (l *Log) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Err reports why what waits cannot be written; nil: it can, or nothing waits that would show it.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 && l.lost == 0 {
		return nil // what failed was withdrawn, and only another event tells whether it would again
	}
	return l.err
}

// clean is what takes the secrets out of an event.
func (l *Log) clean(e *Event) cleaner { return cleaner{l.o.Mask, e.Mask} }

// RecordNow records an event, and reports whether it is in the file where the log is required: by a fault if not, and then the event
// is not recorded. It waits for a write, and not for the disk.
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

// HashOf is the Event.CodeHash of code.
func HashOf(code string) string { return sumOf([]byte(code)) }

// Record implements Recorder. What has no room is counted.
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

// withdraw takes an event back that is not being written.
func (l *Log) withdraw(w *waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.queue, w); at >= l.busy {
		l.queue, l.bytes = slices.Delete(l.queue, at, at+1), l.bytes-w.bytes
	}
}

// write writes what comes until the Log is closed and all is written, or cannot be.
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

// wrote settles what came of a batch, and reports whether to go on. After a failure it pauses.
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

// sync brings to the disk what is written, each syncTime.
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

// Close writes what waits, and brings it to the disk, while ctx lasts. What is recorded afterwards is lost.
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
