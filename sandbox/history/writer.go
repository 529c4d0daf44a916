package history

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// The bounds of the write queue. Entries beyond them are dropped: an answer does not wait for a slow disk.
const (
	queueLength = 4096
	queueBytes  = 32 << 20
)

// Writer writes a session's history. Begin and End only queue: encoding and writing happen in a goroutine of the writer's own. Its
// methods may be called from any goroutine.
type Writer struct {
	most int64         // bytes of the files
	size atomic.Int64  // of all files
	done chan struct{} // closed when nothing is written any more

	mu     sync.Mutex
	queue  []item
	more   sync.Cond // there is something in the queue, or the end
	opened bool
	closed bool
	held   int   // bytes that the queue keeps alive
	failed error // the first
}

// item is a line to be written. encode returns it, with images if there is room for them.
type item struct {
	encode func(images bool) (record, error)
	bytes  int
}

var errFull = errors.New("history: runs come faster than they can be written")

// NewWriter returns a writer that queues everything until Open sets its folder. The files take at most that many bytes, and never
// more than maxBytes; 0: maxBytes.
func NewWriter(most int64) *Writer {
	w := &Writer{most: min(cmp.Or(most, maxBytes), maxBytes), done: make(chan struct{})}
	w.more.L = &w.mu
	return w
}

// Open continues the history in a session's folder, which it makes if absent. The caller holds the session's lock. It returns the
// unfinished runs of an earlier writer, even beside an error, after which nothing is written.
func (w *Writer) Open(folder string) ([]Run, error) {
	s, err := openStore(folder, w.most)
	w.size.Store(s.size)
	unfinished, readErr := Unfinished(folder)
	if err = errors.Join(err, readErr); err != nil {
		_ = w.Close()
		return unfinished, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.opened = true
		go w.write(s)
	}
	return unfinished, nil
}

// Bytes returns the size of the history on the disk.
func (w *Writer) Bytes() int64 { return w.size.Load() }

// Begin records the beginning of a run.
func (w *Writer) Begin(b Begin) {
	w.enqueue(item{func(bool) (record, error) { return record{Begin: &b}, nil }, len(b.Code)})
}

// End records the outcome of a run. end returns it, without the data of images unless they are wanted; it may be called later, and
// nothing that it uses may change any more. bytes estimates its memory.
func (w *Writer) End(bytes int, end func(images bool) (End, error)) {
	w.enqueue(item{func(images bool) (record, error) {
		e, err := end(images)
		return record{End: &e}, err
	}, bytes})
}

// Flush waits until all so far is written.
func (w *Writer) Flush() {
	w.mu.Lock()
	done, opened := make(chan struct{}), w.opened && !w.closed
	w.mu.Unlock()
	if !opened {
		return
	}
	w.enqueue(item{func(bool) (record, error) { close(done); return record{did: map[string]Did{}}, nil }, 0})
	select {
	case <-done:
	case <-w.done:
	}
}

// Did records what runs did, by the runs' ids, which may be of earlier ones.
func (w *Writer) Did(did map[string]Did) {
	if len(did) > 0 {
		w.enqueue(item{func(bool) (record, error) { return record{did: did}, nil }, didBytes * len(did)})
	}
}

func (w *Writer) enqueue(i item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if w.held+i.bytes > queueBytes || len(w.queue) == queueLength {
		w.fail(errFull)
		return
	}
	w.queue, w.held = append(w.queue, i), w.held+i.bytes
	w.more.Signal()
}

// fail keeps the first error. The caller holds w.mu.
func (w *Writer) fail(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

// Close writes the queue, and returns the first error. A writer that was not opened drops the queue.
func (w *Writer) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		w.more.Signal()
		if !w.opened {
			close(w.done)
		}
	}
	w.mu.Unlock()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// write is the writer's goroutine. It ends with Close.
func (w *Writer) write(s *store) {
	defer close(w.done)
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.closed {
			w.more.Wait()
		}
		if len(w.queue) == 0 {
			w.mu.Unlock()
			return
		}
		i := w.queue[0]
		w.queue[0], w.queue = item{}, w.queue[1:]
		w.mu.Unlock()
		r, err := i.encode(s.size <= imageBytes(s.most))
		if err == nil {
			err = s.put(r)
		}
		w.size.Store(s.size)
		w.mu.Lock()
		w.held -= i.bytes
		if err != nil {
			w.fail(err)
		}
		w.mu.Unlock()
	}
}

// store is the files of a history, as seen by their only writer.
type store struct {
	dir   string
	most  int64 // bytes of all files
	size  int64 // of all files
	runs  int
	next  int             // number of a file
	begun map[string]file // by the runs' ids
}

// openStore reads an earlier server's files, and makes the folder if absent.
func openStore(folder string, most int64) (*store, error) {
	s := &store{dir: filepath.Join(folder, runsFolder), most: most, begun: make(map[string]file)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return s, fmt.Errorf("history: %w", err)
	}
	files, err := list(s.dir)
	for _, f := range files {
		s.size += onDisk(f.size)
		s.runs++
		s.next = f.number + 1
		if !f.over {
			s.begun[f.runID] = f
		}
	}
	broken, _ := filepath.Glob(filepath.Join(s.dir, "*"+state.NewSuffix))
	for _, path := range broken { // a killed server's
		_ = os.Remove(path)
	}
	return s, err
}

func (s *store) put(r record) error {
	if r.did != nil {
		return addDid(filepath.Dir(s.dir), r.did)
	}
	line, err := r.encode()
	switch {
	case err != nil:
	case r.Begin != nil:
		err = s.begin(r.Begin.RunID, line)
	default:
		err = s.end(r.End.RunID, line)
	}
	if err == nil && (s.size > s.most || s.runs > maxRuns) {
		err = s.trim()
	}
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

func (s *store) begin(runID string, line []byte) error {
	f := file{number: s.next, runID: runID}
	if err := s.write(f, line); err != nil {
		return err
	}
	s.begun[runID] = f
	s.next++
	s.runs++
	return nil
}

// end writes the file of a finished run, and removes that of its begin. It ignores a run without a begin: that was the oldest.
func (s *store) end(runID string, line []byte) error {
	f, ok := s.begun[runID]
	begun := filepath.Join(s.dir, f.name())
	begin, err := os.ReadFile(begun)
	if !ok || err != nil {
		return ignoreAbsent(err)
	}
	f.over = true
	if err := s.write(f, append(begin, line...)); err != nil {
		return err
	}
	delete(s.begun, runID)
	s.size -= onDisk(int64(len(begin)))
	return os.Remove(begun)
}

func (s *store) write(f file, content []byte) error {
	if err := state.WriteFile(filepath.Join(s.dir, f.name()), content); err != nil {
		return err
	}
	s.size += onDisk(int64(len(content)))
	return nil
}

// trim removes the oldest runs.
func (s *store) trim() error {
	files, err := list(s.dir)
	for _, f := range files {
		if err != nil || s.size <= keepBytes(s.most) && s.runs <= keepRuns {
			break
		}
		_ = os.Remove(filepath.Join(s.dir, f.base()+begunSuffix)) // also a killed server's
		if f.over {
			err = os.Remove(filepath.Join(s.dir, f.name()))
		}
		s.size -= onDisk(f.size)
		s.runs--
	}
	return err
}

// ErrBad reports that Import read something else than a history.
var ErrBad = errors.New("not a history")

// Import adds the Export of another session to a session's history. It may come from anybody: Import bounds it, and ignores
// senseless lines and runs that exist already. The caller holds the lock.
func Import(folder string, from io.Reader) error {
	s, err := openStore(folder, maxBytes)
	if err != nil {
		return err
	}
	files, err := list(s.dir)
	known := make(map[string]bool)
	for _, f := range files {
		known[f.runID] = true
	}
	if err != nil {
		return err
	}
	lines := 0
	in := &io.LimitedReader{R: from, N: maxBytes + maxLine}
	err = eachLine(in, func(line []byte) error {
		if lines++; lines > maxLines {
			return fmt.Errorf("%w: more than %d lines", ErrBad, maxLines)
		}
		r, err := decode(line)
		if err != nil || r.Begin != nil && known[r.runID()] {
			return nil //nolint:nilerr // as a reader does
		}
		known[r.runID()] = true
		return s.put(r)
	})
	if err == nil && in.N == 0 {
		err = fmt.Errorf("%w: more than %d bytes", ErrBad, maxBytes+maxLine-1)
	}
	return err
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
