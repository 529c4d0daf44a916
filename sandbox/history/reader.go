package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

const (
	runsFolder = "history" // in the session's folder

	// The ends of run files' names: of a begun run, and of a finished one.
	begunSuffix = ".begun"
	overSuffix  = ".over"
)

// file is a run's file. Its name starts with a number before the run's id, which sorts files in the order of the calls.
type file struct {
	number int
	runID  string
	over   bool
	size   int64
}

func (f file) name() string {
	if f.over {
		return f.base() + overSuffix
	}
	return f.base() + begunSuffix
}

func (f file) base() string { return fmt.Sprintf("%08d-%s", f.number, f.runID) }

// list returns the files of a history in the order of the calls. If a run left two, its writer was killed before it removed the
// first, which does not count.
func list(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := make([]file, 0, len(entries))
	for _, entry := range entries {
		f := file{over: strings.HasSuffix(entry.Name(), overSuffix)}
		_, _ = fmt.Sscanf(entry.Name(), "%d-", &f.number)
		_, id, _ := strings.Cut(entry.Name(), "-")
		f.runID = strings.TrimSuffix(strings.TrimSuffix(id, overSuffix), begunSuffix)
		info, err := entry.Info()
		if err != nil || f.name() != entry.Name() || !state.ValidID(f.runID) {
			continue
		}
		f.size = info.Size()
		if last := len(files) - 1; last >= 0 && files[last].base() == f.base() {
			files = files[:last] // begun, which sorts before over
		}
		files = append(files, f)
	}
	return files, nil
}

// Find returns one run; nil if it is not in the history.
func Find(folder, runID string) (*Run, error) {
	runs, err := Select(folder, func(id string, _ bool, _ int64) bool { return id == runID })
	if len(runs) == 0 {
		return nil, err
	}
	return &runs[0], err
}

// maxUnfinished bounds the returned runs without an end; more can only be forged.
const maxUnfinished = 256

// Unfinished returns the newest runs without an end.
func Unfinished(folder string) ([]Run, error) {
	runs, err := Select(folder, func(_ string, over bool, _ int64) bool { return !over })
	return runs[max(0, len(runs)-maxUnfinished):], err
}

// Select returns the wanted runs of the session with this folder, in the order of the calls: by their ids, whether they are over,
// and their files' bytes. It skips the files of others, so a wanted that notes its arguments, and returns false, lists a history.
func Select(folder string, wanted func(runID string, over bool, bytes int64) bool) (runs []Run, err error) {
	err = Each(folder, wanted, func(run *Run) { runs = append(runs, *run) })
	return runs, err
}

// Each is Select that visits each run as it is read, and keeps none.
func Each(folder string, wanted func(runID string, over bool, bytes int64) bool, visit func(*Run)) error {
	dir := filepath.Join(folder, runsFolder)
	files, err := list(dir)
	for _, f := range files {
		if !wanted(f.runID, f.over, f.size) {
			continue
		}
		if run := f.read(dir); run != nil {
			visit(run)
		}
	}
	return ignoreAbsent(err)
}

// read returns the file's run; nil if it is broken.
func (f file) read(dir string) *Run {
	content, err := f.open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = content.Close() }()
	var run *Run
	err = eachLine(content, func(line []byte) error {
		r, err := decode(line)
		switch {
		case err != nil || r.runID() != f.runID:
			return ErrBad
		case r.Begin != nil && run == nil:
			run = &Run{Begin: *r.Begin}
		case r.End != nil && run != nil:
			run.End = r.End
		}
		return nil
	})
	if err != nil || run == nil || f.over && run.End == nil {
		return nil
	}
	return run
}

// open opens a run's file, even if the run ended since the files were listed.
func (f file) open(dir string) (*os.File, error) {
	content, err := openFile(filepath.Join(dir, f.name()))
	if errors.Is(err, fs.ErrNotExist) && !f.over {
		f.over = true
		return f.open(dir)
	}
	return content, err
}

func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|filelock.NoFollow, 0)
}

// eachLine calls visit with every line, without its line end, including an unterminated last one. A line is only valid until the
// next.
func eachLine(r io.Reader, visit func([]byte) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		if err := visit(scanner.Bytes()); err != nil {
			return err
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("%w: a line of more than %d bytes", ErrBad, maxLine)
	} else if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	return nil
}

// Export opens the history so far of a session open in this process, as lines for Import, and returns their size in bytes.
func Export(folder string) (io.ReadCloser, int64, error) {
	dir := filepath.Join(folder, runsFolder)
	files, err := list(dir)
	if err = ignoreAbsent(err); err != nil {
		return nil, 0, fmt.Errorf("history: %w", err)
	}
	var size int64
	for _, f := range files {
		size += f.size
	}
	r, w := io.Pipe()
	go func() {
		for _, f := range files {
			if err := f.copyTo(w, dir); err != nil {
				w.CloseWithError(fmt.Errorf("history: %w", err))
				return
			}
		}
		_ = w.Close()
	}()
	return r, size, nil
}

// copyTo copies a file as it was when listed: one with an end since then begins in the same way.
func (f file) copyTo(w io.Writer, dir string) error {
	content, err := f.open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	_, err = io.CopyN(w, content, f.size)
	return err
}
