package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// A session's history is what ran in it. It is on the host, beside the session's lock, so that code in
// the sandbox cannot change it and a later server can tell of runs that are over. It is lines of
// JSON in one file: one when a run begins and one when it is over, in the order in which that happened,
// which is not the order of the runs where two languages are used. A line that does not decode (its
// writer was killed) is passed over.

// The bounds of a history.
const (
	historyBytes  = 128 << 20 // of the file; the oldest runs go when there is more
	historyRuns   = 10_000
	historyImages = 64 << 20 // of the file, beyond which images are not kept
	// historyKeep is what is left when the oldest runs go: so little that images are kept again, and
	// that it does not happen with every run.
	historyKeep     = 48 << 20
	historyKeepRuns = historyRuns * 3 / 4
	historyLine     = 32 << 20        // of one line
	historyLines    = 3 * historyRuns // two of a run, and torn ones
)

// HistoryEntry is a run of a session as its history tells of it.
type HistoryEntry struct {
	RunID    string
	Language Language
	Code     string
	Fresh    bool
	Timeout  time.Duration
	Started  time.Time
	// Ended is zero, and Result and Error are nil, where the run goes on or its end was never told:
	// its server was killed.
	Ended  time.Time
	Result *Result
	// Error is why the code was not run.
	Error *fault.Error
}

func (e *HistoryEntry) over() bool { return e.Result != nil || e.Error != nil }

// ReadHistory gives what ran in a session, in the order in which it was asked for, and nothing for a session
// that has no history. It takes no lock: the session may be open in any server.
func ReadHistory(stateDir, id string) ([]HistoryEntry, error) {
	return readHistory(stateDir, id, nil)
}

// FindHistory gives one run of a session's history, and nil where it is not there.
func FindHistory(stateDir, id, runID string) (*HistoryEntry, error) {
	entries, err := readHistory(stateDir, id, map[string]bool{runID: true})
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	return &entries[0], nil
}

// readHistory reads the wanted runs, or all for nil.
func readHistory(stateDir, id string, wanted map[string]bool) ([]HistoryEntry, error) {
	var entries []HistoryEntry
	place := make(map[string]int)
	err := eachHistoryLine(stateDir, id, func(text []byte) error {
		if wanted != nil && !wanted[lineRun(text)] {
			return nil
		}
		line, err := decodeLine(text)
		if err != nil {
			return nil //nolint:nilerr // half a line, of a writer that was killed
		}
		at, known := place[line.run()]
		switch {
		case line.Begin != nil && !known:
			place[line.run()] = len(entries)
			entries = append(entries, line.Begin.entry())
		case line.End != nil && known && !entries[at].over():
			line.End.settle(&entries[at], id)
		}
		return nil
	})
	return entries, err
}

// eachHistoryLine gives every line of a session's history as eachLine does, and none where it has none.
func eachHistoryLine(stateDir, id string, visit func([]byte) error) error {
	file, err := openHistory(stateDir, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return eachLine(file, visit)
}

// OpenHistory opens a session's history so far, as the lines of JSON that Manager.BeginImport takes, and tells
// how many bytes it will give. A session without one has an empty one.
func OpenHistory(stateDir, id string) (io.ReadCloser, int64, error) {
	file, err := openHistory(stateDir, id)
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(bytes.NewReader(nil)), 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, fmt.Errorf("history: %w", err)
	}
	// A server that writes on meanwhile appends to this file, or puts another in its place.
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(file, info.Size()), file}, info.Size(), nil
}

// ErrBadHistory says that what Manager.BeginImport was given is no history.
var ErrBadHistory = errors.New("not a history")

// importHistory makes a history of what OpenHistory gave of another session's, which may come from
// anybody: everything is bounded and checked again.
func importHistory(folder string, from io.Reader) error {
	if err := os.RemoveAll(folder); err != nil { // of a session that is over
		return fmt.Errorf("history: %w", err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(folder, historyFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	out := bufio.NewWriter(file)
	return errors.Join(copyHistory(out, from), out.Flush(), file.Close())
}

func copyHistory(to io.Writer, from io.Reader) error {
	in := &io.LimitedReader{R: from, N: historyBytes + historyLine}
	lines := 0
	err := eachLine(in, func(text []byte) error {
		if lines++; lines > historyLines {
			return fmt.Errorf("%w: more than %d lines", ErrBadHistory, historyLines)
		}
		return importLine(to, text)
	})
	if err == nil && in.N == 0 {
		err = fmt.Errorf("%w: more than %d bytes", ErrBadHistory, historyBytes+historyLine-1)
	}
	return err
}

// importLine writes a line anew, from what could be made of it. One that makes no sense is passed over,
// as it is by a reader.
func importLine(out io.Writer, text []byte) error {
	line, err := decodeLine(text)
	if err != nil {
		return nil //nolint:nilerr // the same half lines as on the machine that it comes from
	}
	if line.Begin != nil {
		entry := line.Begin.entry()
		line.Begin = beginOf(&entry)
	}
	if line.End != nil {
		var entry HistoryEntry
		line.End.settle(&entry, "")
		line.End = endOf(line.End.RunID, entry.Ended, entry.Result, entry.Error)
	}
	encoded, err := encodeLine(line)
	if err != nil {
		return err
	}
	_, err = out.Write(encoded)
	return err
}

const (
	historyFile = "history.jsonl"
	newSuffix   = ".new" // of a file that takes the history's place when all of it is there
)

func historyPath(stateDir, id string) string {
	return filepath.Join(sessionFolder(stateDir, id), historyFile)
}

func openHistory(stateDir, id string) (*os.File, error) {
	if err := CheckSessionID(id); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(historyPath(stateDir, id), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return file, nil
}

// eachLine gives every line without its end, and the last one also where that is missing. A line is only
// good until the next.
func eachLine(r io.Reader, visit func([]byte) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 64<<10), historyLine)
	for scanner.Scan() {
		if err := visit(scanner.Bytes()); err != nil {
			return err
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("%w: a line of more than %d bytes", ErrBadHistory, historyLine)
	} else if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	return nil
}

// lineRun is the id of the run that a line tells of, without decoding the rest.
func lineRun(text []byte) string {
	for _, before := range [][]byte{beginPrefix, endPrefix} {
		if rest, ok := bytes.CutPrefix(text, before); ok {
			id, _, _ := bytes.Cut(rest, []byte{'"'})
			return string(id)
		}
	}
	return ""
}

// What lines begin with: encodeLine writes them so.
var (
	beginPrefix = []byte(`{"begin":{"run_id":"`)
	endPrefix   = []byte(`{"end":{"run_id":"`)
)

func encodeLine(line historyRecord) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return b.Bytes(), nil
}
