package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rotate"
)

// Head is the end of a chain. The zero value is of one that has no line.
type Head struct {
	Sequence int64
	Hash     string
}

// chain is the files of a log, to write to. It is for one goroutine.
type chain struct {
	path string
	max  int64 // bytes of a file; 0: it only grows
	keep int   // old files; 0: all

	file *os.File
	full time.Time // when the file was to become an old one last, and could not
	end  int64     // of the file, as far as this process has seen to it
	head Head
}

// lockTime is how long another process may have the lock.
const lockTime = 5 * time.Second

// lock makes this the only process that writes. The lock is a file of its own because the log is renamed.
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

// open opens the file of the path, which is made where it is missing.
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

// isOurs reports whether the file of the path is the one that is open.
func (c *chain) isOurs() bool {
	if c.file == nil {
		return false
	}
	here, err := os.Lstat(c.path)
	ours, ourErr := c.file.Stat()
	return err == nil && ourErr == nil && os.SameFile(here, ours)
}

// follow goes to where the chain ends, which other processes may have moved. What it returns is what has to be written before
// anything else. The lock is held.
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
	c.end = info.Size()
	if c.head = last.head; (c.head == Head{}) { // it goes on from the old file, where there is one
		c.head = c.oldHead()
	}
	if len(last.torn) > 0 { // first: it is right behind the text
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

// oldHead is the end of the newest old file.
func (c *chain) oldHead() Head {
	old, err := os.Open(rotate.Name(c.path, 1))
	if err != nil {
		return Head{}
	}
	defer func() { _ = old.Close() }()
	info, err := old.Stat()
	if err != nil {
		return Head{}
	}
	last, _ := tailOf(old, info.Size())
	return last.head
}

// tail is the end of a file.
type tail struct {
	head Head
	torn []byte // what follows the last line and is none
	open bool   // no line end is at the end
}

// tailOf reads the end of a file. A line there that was changed counts as the chain's end: Verify finds it.
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

// tornEvent tells of what a process has left that was killed while it wrote, or that had no space.
func tornEvent(text []byte) Event {
	return Event{Kind: KindLog, Action: actionTorn, Detail: map[string]any{"bytes": len(text), "sha256": sumOf(text)}}
}

// What befalls a log.
const (
	actionTorn = "Torn"
	actionGone = "Gone" // lines before this one, since its server began
	actionLost = "Lost" // events that nobody could wait for
	actionOld  = "Old"  // lines before the first that is kept are removed next
)

// append writes events at the end of the chain, and returns how many of them are written.
func (c *chain) append(events []Event, clean func(*Event) cleaner) (done int, err error) {
	unlock, err := c.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	lead, found, err := c.follow()
	if err != nil {
		return 0, err
	}
	var lines []byte
	head, ready := c.head, 0
	flush := func() error {
		if len(lines) == 0 {
			return nil
		}
		if err := c.write(lines); err != nil {
			return err
		}
		c.head, done, lines = head, ready, lines[:0]
		return nil
	}
	lines = append(lines, lead...)
	all := make([]Event, 0, len(found)+len(events))
	for i, e := range append(append(all, found...), events...) {
		if e.Time.IsZero() {
			e.Time = time.Now()
		}
		line, hash := chained(e.body(head.Sequence+1, clean(&e)), cmp.Or(head.Hash, genesis))
		if size := c.end + int64(len(lines)); c.isFull(size+int64(len(line))) && size > 0 && i >= len(found) { // a Torn line is in the file of its text
			if err := errors.Join(flush(), c.noteRemoval(clean)); err != nil {
				return done, err
			}
			c.rotate()
			head = c.head
			line, hash = chained(e.body(head.Sequence+1, clean(&e)), cmp.Or(head.Hash, genesis))
		}
		lines = append(append(lines, line...), '\n')
		head, ready = Head{head.Sequence + 1, hash}, max(0, i+1-len(found))
	}
	return done, errors.Join(flush())
}

// noteRemoval writes which line will be the first when rotate has removed the oldest file, so that Verify knows by whom the others went.
func (c *chain) noteRemoval(clean func(*Event) cleaner) error {
	for n := 1; n <= c.keep; n++ {
		if _, err := os.Lstat(rotate.Name(c.path, n)); err != nil {
			return nil // there is a place
		}
	}
	if c.keep == 0 {
		return nil
	}
	file, err := os.Open(rotate.Name(c.path, c.keep-1))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	raw, _, err := readLine(bufio.NewReader(file))
	if err != nil {
		return err
	}
	_, first, err := parse(raw)
	if err != nil {
		return nil // it was changed, which Verify finds
	}
	e := Event{Kind: KindLog, Action: actionOld, Time: time.Now(), Detail: map[string]any{"first": first.sequence}}
	line, hash := chained(e.body(c.head.Sequence+1, clean(&e)), cmp.Or(c.head.Hash, genesis))
	if err := c.write(append(line, '\n')); err != nil {
		return err
	}
	c.head = Head{c.head.Sequence + 1, hash}
	return nil
}

// write writes lines, or nothing: what is left of them where that fails is taken back, and where that fails too it is torn.
func (c *chain) write(lines []byte) error {
	n, err := c.file.Write(lines)
	if err == nil {
		c.end += int64(n)
		return nil
	}
	if n > 0 && c.file.Truncate(c.end) != nil {
		c.end = -1
	}
	return err
}

// rotateTime is the pause before a file that could not become an old one is to again: each try syncs it.
const rotateTime = time.Minute

// isFull reports whether a file of that size is to become an old one.
func (c *chain) isFull(size int64) bool {
	return c.max > 0 && size >= c.max && (c.full.IsZero() || time.Since(c.full) >= rotateTime)
}

// rotate makes the file an old one. Where that fails it goes on growing.
func (c *chain) rotate() {
	keep := c.keep
	if keep == 0 {
		keep = math.MaxInt
	}
	if _, err := os.Lstat(c.path); err != nil {
		return
	}
	_ = c.file.Sync()
	if runtime.GOOS == "windows" { // an open file cannot be renamed there
		c.close()
	}
	c.full = time.Time{}
	if rotate.Shift(c.path, keep) != nil {
		c.full = time.Now()
	}
	if c.isOurs() || c.open() != nil {
		return
	}
	c.end = 0
	if info, err := c.file.Stat(); err == nil {
		c.end = info.Size()
	}
}
