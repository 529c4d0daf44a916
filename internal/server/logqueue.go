package server

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// logQueueLines bounds the lines that wait for stderr: enough for a burst.
	logQueueLines = 1024
	// logFlushTime is the time that the last lines get. It is a part of the 1.5 s of an end, and is only used up if nobody reads.
	logFlushTime = 200 * time.Millisecond
)

// logQueue writes lines by a goroutine of its own, and drops them while too many wait: a client need not read our stderr, and a write into
// its full pipe would block the logging goroutine for good.
type logQueue struct {
	to      io.Writer
	lines   chan queuedLine
	dropped atomic.Int64
}

// queuedLine is a line, or a request to report that all earlier lines are written.
type queuedLine struct {
	missing int64 // lines dropped just before it
	text    []byte
	written chan<- struct{}
}

func newLogQueue(to io.Writer) *logQueue {
	q := &logQueue{to: to, lines: make(chan queuedLine, logQueueLines)}
	go q.run()
	return q
}

func (q *logQueue) run() {
	for line := range q.lines {
		q.tell(line.missing)
		if line.written == nil {
			_, _ = q.to.Write(line.text) // an error has nowhere to go
		}
		if len(q.lines) == 0 {
			q.tell(q.dropped.Swap(0)) // perhaps no line follows
		}
		if line.written != nil {
			close(line.written)
		}
	}
}

func (q *logQueue) tell(missing int64) {
	if missing > 0 {
		_, _ = fmt.Fprintf(q.to, "code-sandbox-mcp: %d lines of the log are missing here: stderr was not read\n", missing)
	}
}

// Write takes a line over, and never waits.
func (q *logQueue) Write(line []byte) (int, error) {
	missing := q.dropped.Swap(0)
	select {
	case q.lines <- queuedLine{missing: missing, text: bytes.Clone(line)}:
	default:
		q.dropped.Add(missing + 1)
	}
	return len(line), nil
}

// flush waits until the lines so far are written, but not for long.
func (q *logQueue) flush() {
	late := time.After(logFlushTime)
	written := make(chan struct{})
	select {
	case q.lines <- queuedLine{written: written}:
	case <-late:
		return
	}
	select {
	case <-written:
	case <-late:
	}
}
