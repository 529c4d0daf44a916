package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of what waits to be written. What comes beyond them is not kept: an answer does not wait
// for a slow disk.
const (
	journalQueue      = 4096
	journalQueueBytes = 32 << 20
)

// journal writes a session's history. begin and end only hand over: encoding and writing happen
// in a goroutine of the journal's own. Its methods may be called from any goroutine.
type journal struct {
	dir  string
	done chan struct{}

	mu      sync.Mutex
	changed sync.Cond // on mu
	queue   []journalItem
	held    int // bytes that the queue keeps alive
	closed  bool
	failed  error // the first

	// The writing goroutine's own.
	file *os.File
	size int64
	runs int
	torn bool // the file ends within a line
}

// journalItem is something to be written: a run that began, or one that is over.
type journalItem struct {
	begin  *HistoryEntry
	runID  string
	ended  time.Time
	result *Result
	err    error
	bytes  int
}

// openJournal goes on with the history in dir, which it makes where it is absent. The caller has the
// session's lock.
func openJournal(dir string) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	j := &journal{dir: dir, done: make(chan struct{})}
	j.changed.L = &j.mu
	if err := j.open(); err != nil {
		return nil, err
	}
	go j.write()
	return j, nil
}

// begin records that a run was queued.
func (j *journal) begin(run *Run) {
	entry := &HistoryEntry{
		RunID: run.ID, Language: run.Language, Code: run.code, Fresh: run.options.Fresh,
		Timeout: run.options.Timeout, Started: run.created,
	}
	j.enqueue(journalItem{begin: entry, bytes: len(entry.Code)})
}

// end records what a run came to: what Run.Result gives when it is over. The result is not changed, and
// nobody may change it any more.
func (j *journal) end(run *Run, res *Result, err error) {
	j.enqueue(journalItem{runID: run.ID, ended: time.Now(), result: res, err: err, bytes: heldBy(res)})
}

// heldBy is roughly what a result takes.
func heldBy(res *Result) int {
	if res == nil {
		return 0
	}
	n := len(res.Stdout.Head) + len(res.Stdout.Tail) + len(res.Stderr.Head) + len(res.Stderr.Tail)
	for _, d := range res.Displays {
		for _, data := range d.Data {
			n += len(data)
		}
	}
	return n
}

var errJournalFull = errors.New("history: runs come faster than they can be written")

func (j *journal) enqueue(item journalItem) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	if len(j.queue) >= journalQueue || j.held+item.bytes > journalQueueBytes {
		j.fail(errJournalFull)
		return
	}
	j.queue = append(j.queue, item)
	j.held += item.bytes
	j.changed.Signal()
}

// fail keeps the first error. The caller holds j.mu.
func (j *journal) fail(err error) {
	if j.failed == nil {
		j.failed = err
	}
}

// close writes what waits and lets go of the file. It gives the first error of all that there was.
func (j *journal) close() error {
	j.mu.Lock()
	j.closed = true
	j.changed.Signal()
	j.mu.Unlock()
	<-j.done
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// write is the journal's goroutine. It ends with close.
func (j *journal) write() {
	defer close(j.done)
	defer func() { _ = j.file.Close() }()
	err := j.measure()
	for {
		j.mu.Lock()
		if err != nil {
			j.fail(err)
		}
		for len(j.queue) == 0 && !j.closed {
			j.changed.Wait()
		}
		if len(j.queue) == 0 {
			j.mu.Unlock()
			return
		}
		item := j.queue[0]
		j.queue[0] = journalItem{}
		j.queue = j.queue[1:]
		j.held -= item.bytes
		j.mu.Unlock()
		err = j.put(item)
	}
}

// put writes one line, and makes room when it was one too many.
func (j *journal) put(item journalItem) error {
	text, err := j.line(item)
	if err != nil {
		return err
	}
	if j.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := j.file.Write(text)
	j.size += int64(n)
	j.torn = err != nil && (n > 0 || j.torn)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if item.begin != nil {
		j.runs++
	}
	if j.size > historyBytes || j.runs > historyRuns {
		return j.trim()
	}
	return nil
}

var errLongLine = errors.New("history: a run's result is too large to be kept")

// line encodes an item, without what it shows where that makes the line too long for a reader.
func (j *journal) line(item journalItem) ([]byte, error) {
	record := j.record(item)
	text, err := encodeLine(record)
	if err == nil && len(text) >= historyLine && record.End != nil && record.End.Result != nil {
		for i := range record.End.Result.Displays {
			record.End.Result.Displays[i].Data = nil
		}
		text, err = encodeLine(record)
	}
	if err == nil && len(text) >= historyLine {
		err = errLongLine
	}
	return text, err
}

// record is the line for an item, without images that there is no room for.
func (j *journal) record(item journalItem) historyRecord {
	if item.begin != nil {
		return historyRecord{Begin: beginOf(item.begin)}
	}
	end := endOf(item.runID, item.ended, item.result, item.err)
	if item.result != nil {
		for i, shown := range item.result.Displays {
			for mime, data := range shown.Data {
				if isImageData(mime) && j.size+int64(len(data)) > historyImages {
					delete(end.Result.Displays[i].Data, mime)
				}
			}
		}
	}
	return historyRecord{End: end}
}

// open opens the file to append to.
func (j *journal) open() error {
	file, err := os.OpenFile(filepath.Join(j.dir, historyFile), os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	j.file = file
	return nil
}

// measure looks what an earlier server left in the file.
func (j *journal) measure() error {
	info, err := j.file.Stat()
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if j.size = info.Size(); j.size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := j.file.ReadAt(last, j.size-1); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	j.torn = last[0] != '\n'
	return eachLine(io.NewSectionReader(j.file, 0, j.size), func(text []byte) error {
		if bytes.HasPrefix(text, beginPrefix) {
			j.runs++
		}
		return nil
	})
}

// trim writes the file anew without the oldest runs.
func (j *journal) trim() error {
	drop, runs, err := j.oldest()
	if err != nil {
		return err
	}
	path := filepath.Join(j.dir, historyFile)
	fresh, err := os.OpenFile(path+newSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	size, err := copyLines(fresh, j.whole(), drop)
	if err == nil {
		err = os.Rename(path+newSuffix, path)
	}
	if err != nil {
		_ = fresh.Close()
		_ = os.Remove(path + ".new")
		return fmt.Errorf("history: %w", err)
	}
	_ = j.file.Close()
	j.file, j.size, j.runs, j.torn = fresh, size, runs, false
	return nil
}

func (j *journal) whole() io.Reader { return io.NewSectionReader(j.file, 0, j.size) }

// oldest chooses the runs that go, and counts those that stay.
func (j *journal) oldest() (drop map[string]bool, left int, err error) {
	var order []string
	sizes := make(map[string]int64)
	err = eachLine(j.whole(), func(text []byte) error {
		run := lineRun(text)
		if _, known := sizes[run]; !known && run != "" {
			order = append(order, run)
		}
		sizes[run] += int64(len(text)) + 1
		return nil
	})
	drop = make(map[string]bool)
	size := j.size
	for _, run := range order {
		if size <= historyKeep && len(order)-len(drop) <= historyKeepRuns {
			break
		}
		drop[run] = true
		size -= sizes[run]
	}
	return drop, len(order) - len(drop), err
}

// copyLines copies the lines of all other runs and gives their size.
func copyLines(to io.Writer, from io.Reader, drop map[string]bool) (int64, error) {
	var size int64
	out := bufio.NewWriter(to)
	err := eachLine(from, func(text []byte) error {
		if run := lineRun(text); drop[run] || run == "" {
			return nil
		}
		size += int64(len(text)) + 1
		_, _ = out.Write(text)
		return out.WriteByte('\n') // the writer remembers an error
	})
	return size, errors.Join(err, out.Flush())
}
