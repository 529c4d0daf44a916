package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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

// Masker takes secrets out of texts before they are written to the disk. MaskHead is for a text whose end
// was cut off, MaskTail for one whose beginning was, and MaskPart where both may have been: a secret may
// have been cut in two.
type Masker interface {
	Mask(text string) string
	MaskHead(text string) string
	MaskTail(text string) string
	MaskPart(text string) string
}

// journal writes a session's history. begin and end only hand over: masking, encoding and writing happen
// in a goroutine of the journal's own. Its methods may be called from any goroutine.
type journal struct {
	dir  string
	mask Masker // nil: nothing is masked
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
func openJournal(dir string, mask Masker) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	j := &journal{dir: dir, mask: mask, done: make(chan struct{})}
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
		RunID: run.ID, Language: run.Language, Code: run.options.Code, Fresh: run.options.Fresh,
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

// remove takes the history away.
func (j *journal) remove() error {
	j.mu.Lock()
	j.queue = nil
	j.mu.Unlock()
	_ = j.close() // what could not be written is of no interest any more
	return removeHistory(j.dir)
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

// record is the line for an item, masked and bounded.
func (j *journal) record(item journalItem) historyRecord {
	if item.begin != nil {
		begin := beginOf(item.begin)
		begin.Code = j.masked(begin.Code)
		return historyRecord{Begin: begin}
	}
	end := endOf(item.runID, item.ended, item.result, item.err)
	if end.Fault != nil {
		end.Fault.Message, end.Fault.Hint = j.masked(end.Fault.Message), j.masked(end.Fault.Hint)
	}
	if end.Result != nil {
		j.prepare(end.Result, item.result.Displays)
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

// prepare masks a result's record, and takes out what is too large to keep.
func (j *journal) prepare(r *resultRecord, shown []Display) {
	r.Stdout, r.Stderr = j.maskedStream(r.Stdout), j.maskedStream(r.Stderr)
	r.Cause = j.masked(r.Cause)
	if r.Result != nil {
		value := j.masked(*r.Result)
		r.Result = &value
	}
	if r.Error != nil {
		r.Error = &errorMessage{Name: j.masked(r.Error.Name), Message: j.masked(r.Error.Message), Traceback: j.masked(r.Error.Traceback)}
	}
	for i := range r.Artifacts {
		r.Artifacts[i].Path = j.masked(r.Artifacts[i].Path)
	}
	notes := make([]string, len(r.Notes))
	for i, note := range r.Notes {
		notes[i] = j.masked(note)
	}
	r.Notes = notes
	for i := range r.Displays {
		j.prepareDisplay(&r.Displays[i], shown[i])
	}
}

func (j *journal) prepareDisplay(m *displayMessage, d Display) {
	m.Path, m.Alt = j.masked(m.Path), j.maskedHead(m.Alt)
	for mime, data := range d.Data {
		switch {
		case !isImageData(mime):
			delete(m.Data, mime)
			m.Data[j.masked(mime)] = jsonText(j.masked(string(data)))
		case j.size+int64(len(data)) > historyImages:
			delete(m.Data, mime)
		}
	}
}

// cutFrom is the length from which on a text may be one that was cut at its end: the least that
// a stream or a value is cut at is a little more.
const cutFrom = 990

func (j *journal) masked(text string) string {
	switch {
	case j.mask == nil:
		return text
	case len(text) >= cutFrom || strings.HasSuffix(text, "…"):
		whole, _ := strings.CutSuffix(text, "…")
		return j.mask.MaskHead(whole) + text[len(whole):]
	}
	return j.mask.Mask(text)
}

// maskedHead is masked for a text that may be short because it was cut.
func (j *journal) maskedHead(text string) string {
	if j.mask == nil {
		return text
	}
	return j.mask.MaskHead(text)
}

func (j *journal) maskedStream(s streamMessage) streamMessage {
	if j.mask == nil {
		return s
	}
	s.Path = j.mask.Mask(s.Path)
	if s.OmittedBytes == 0 {
		s.Head = j.mask.Mask(s.Head)
		return s
	}
	s.Head, s.Tail = j.mask.MaskHead(s.Head), j.mask.MaskTail(s.Tail)
	return s
}
