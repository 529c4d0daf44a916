package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
)

// Head is the end of a chain. The zero value is the end of an empty one.
type Head struct {
	Sequence int64
	Hash     string
}

// chain is a log's file, for writing. It is for one goroutine.
type chain struct {
	path string
	file *os.File
	end  int64 // of the file, as far as this process knows it
	head Head
}

// lockTime is how long another process may hold the lock.
const lockTime = 5 * time.Second

// lock makes this process the only writer. The lock is a file of its own because the log is renamed.
func (c *chain) lock() (unlock func(), err error) {
	file, err := os.OpenFile(c.path+".lock", os.O_CREATE|os.O_RDWR|filelock.NoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockTime); ; time.Sleep(time.Millisecond) {
		if err = filelock.Try(file); err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, filelock.ErrHeld) || time.Now().After(until) {
			return nil, errors.Join(fmt.Errorf("%s.lock: %w", c.path, err), file.Close())
		}
	}
}

// open opens the file of the path, making it if it is missing.
func (c *chain) open() error {
	c.close()
	file, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_RDWR|filelock.NoFollow, 0o600)
	if err != nil {
		return err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s is not a regular file", c.path), err, file.Close())
	}
	c.file, c.end = file, -1
	return nil
}

func (c *chain) close() {
	if c.file != nil {
		_ = c.file.Close()
		c.file = nil
	}
}

// isOurs reports whether the open file is still the one of the path.
func (c *chain) isOurs() bool {
	if c.file == nil {
		return false
	}
	here, err := os.Lstat(c.path)
	ours, ourErr := c.file.Stat()
	return err == nil && ourErr == nil && os.SameFile(here, ours)
}

// follow moves to the end of the chain, which other processes may have moved. It returns text and events to write before anything else. The
// caller holds the lock.
func (c *chain) follow() (lead []byte, found []Event, err error) {
	known := c.head
	if !c.isOurs() {
		if err := c.open(); err != nil {
			return nil, nil, err
		}
	}
	info, err := c.file.Stat()
	if err != nil || info.Size() == c.end {
		return nil, nil, err
	}
	last, err := tailOf(c.file, info.Size())
	if err != nil {
		return nil, nil, err
	}
	c.end, c.head = info.Size(), last.head
	if len(last.torn) > 0 { // first: it follows the text directly
		found = append(found, tornEvent(last.torn))
	}
	if c.head.Sequence < known.Sequence { // it was removed or cut off
		c.head = known
		found = append(found, Event{Kind: KindLog, Action: actionGone})
	}
	if last.open {
		lead = []byte("\n")
	}
	return lead, found, nil
}

// tail is the end of a file.
type tail struct {
	head Head
	torn []byte // text behind the last line that is no line
	open bool   // the end of the file is no line end
}

// tailOf reads the end of a file. A changed line there counts as the chain's end: Verify finds it.
func tailOf(file io.ReaderAt, size int64) (t tail, err error) {
	for window := int64(64 << 10); ; window *= 8 {
		window = min(window, size)
		b := make([]byte, window)
		if n, err := file.ReadAt(b, size-window); err != nil && (!errors.Is(err, io.EOF) || n < len(b)) {
			return t, err
		}
		t = tail{open: window > 0 && b[len(b)-1] != '\n'}
		rest := bytes.TrimSuffix(b, []byte("\n"))
		for end := len(rest); end > 0; {
			from := bytes.LastIndexByte(rest[:end], '\n') + 1
			if from == 0 && window < size {
				break
			}
			if _, at, err := parse(rest[from:end]); err == nil || errors.Is(err, errChanged) {
				t.head, t.torn = Head{at.sequence, at.hash}, rest[min(end+1, len(rest)):]
				return t, nil
			}
			end = from - 1
		}
		if window == size || window > 2*maxLine {
			t.torn = rest
			return t, nil
		}
	}
}

// tornEvent describes the leftover of a process that was killed while it wrote, or ran out of space.
func tornEvent(text []byte) Event {
	return Event{Kind: KindLog, Action: actionTorn, Detail: map[string]any{"bytes": len(text), "sha256": sumOf(text)}}
}

// Events of the log itself.
const (
	actionTorn = "Torn"
	actionGone = "Gone" // lines before this one, since its server began
	actionLost = "Lost" // events that nobody could wait for
	actionOld  = "Old"  // lines before the first that is kept are removed next, by an older version
)

// append writes events at the end of the chain, all of them or none.
func (c *chain) append(events []Event, clean func(*Event) cleaner) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	lines, found, err := c.follow()
	if err != nil {
		return err
	}
	head := c.head
	for _, e := range append(found, events...) {
		if e.Time.IsZero() {
			e.Time = time.Now()
		}
		line, hash := chained(e.body(head.Sequence+1, clean(&e)), cmp.Or(head.Hash, genesis))
		lines = append(append(lines, line...), '\n')
		head = Head{head.Sequence + 1, hash}
	}
	if len(lines) == 0 {
		return nil
	}
	if err := c.write(lines); err != nil {
		return err
	}
	c.head = head
	return nil
}

// write writes lines, or nothing: after a failure it takes a partial write back. If that fails too, the text stays torn.
func (c *chain) write(lines []byte) error {
	n, err := c.file.Write(lines)
	if err == nil {
		c.end += int64(n)
		return nil
	}
	if n > 0 {
		_ = c.file.Truncate(c.end)
	}
	c.end = -1 // what follow found is still to be written
	return err
}
