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

// The bounds of what waits to be written. What comes beyond them is not kept: an answer does not wait
// for a slow disk.
const (
	queueLength = 4096
	queueBytes  = 32 << 20
)

// Writer writes a session's history. Begin and End only queue: encoding and writing happen in a goroutine of the
// writer's own. Its methods may be called from any goroutine.
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

// item is a line to be written. encode returns it, with images where there is room for them.
type item struct {
	encode func(images bool) (record, error)
	bytes  int
}

var errFull = errors.New("history: runs come faster than they can be written")

// NewWriter returns a writer that keeps what it is given until Open says where it belongs. The files take that many bytes at
// the most, and never more than maxBytes; 0: those.
func NewWriter(most int64) *Writer {
	w := &Writer{most: min(cmp.Or(most, maxBytes), maxBytes), done: make(chan struct{})}
	w.more.L = &w.mu
	return w
}

// Open has the writer go on with the history in a session's folder, which it makes where it is absent. The caller holds
// the session's lock. It returns the runs that an earlier writer has left without an end, also beside an error, after
// which nothing is written.
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

// Bytes returns what the history takes on the disk.
func (w *Writer) Bytes() int64 { return w.size.Load() }

// Begin records that a run was asked for.
func (w *Writer) Begin(b Begin) {
	w.enqueue(item{func(bool) (record, error) { return record{Begin: &b}, nil }, len(b.Code)})
}

// End records what a run came to. end returns it, without the data of images unless they are wanted; it is called later,
// perhaps, and nothing that it uses may be changed any more. bytes is about how much memory that takes.
func (w *Writer) End(bytes int, end func(images bool) (End, error)) {
	w.enqueue(item{func(images bool) (record, error) {
		e, err := end(images)
		return record{End: &e}, err
	}, bytes})
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

// Close writes what is queued, and returns the first error that there was. A writer that was not opened drops it.
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

// store is the files of a history, as their only writer has them.
type store struct {
	dir   string
	most  int64 // bytes of all files
	size  int64 // of all files
	runs  int
	next  int             // number of a file
	begun map[string]file // by the runs' ids
}

// openStore looks at what an earlier server left, and makes the folder where it is absent.
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
	for _, path := range broken { // of a server that was killed
		_ = os.Remove(path)
	}
	return s, err
}

func (s *store) put(r record) error {
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

// end writes the file of a run that is over, and removes that of its begin. A run whose begin is not there is passed
// over: it was the oldest.
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
		_ = os.Remove(filepath.Join(s.dir, f.base()+begunSuffix)) // also one that a killed server left
		if f.over {
			err = os.Remove(filepath.Join(s.dir, f.name()))
		}
		s.size -= onDisk(f.size)
		s.runs--
	}
	return err
}

// ErrBad reports that what Import was given is no history.
var ErrBad = errors.New("not a history")

// Import adds to a session's history what Export returned of another one. That may come from anybody: it is
// bounded, and lines that make no sense are passed over, as are runs that are there already. The caller holds the lock.
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
