// What is known of a session's runs beside their files: which are undone, and what they did. Each is a file that is replaced whole.

package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

const (
	marksFile   = "marks.jsonl" // in the session's folder
	marksForm   = 1             // the version in each line
	mostMarks   = 400
	markBytes   = 1 << 20       // of all lines; more are summed up
	earlierFile = "undone.json" // the form of before
	didFile     = "files.json"  // likewise
	maxDid      = 100           // runs in it
	keepDid     = maxDid * 3 / 4
	didBytes    = 4 << 10 // of one of them in memory
	sideBytes   = 4 << 20 // of a file
)

// Mark is a line: a restore, a run whose kernel died, or a checkpoint, and what it did to runs: true is undone, false not any more.
type Mark struct {
	V         int             `json:"v"`
	By        string          `json:"by,omitempty"`    // a restore's id, or the run's own; empty: several lines were summed up
	Kept      string          `json:"kept,omitempty"`  // the checkpoint's name
	After     string          `json:"after,omitempty"` // the last run before it
	Variables map[string]bool `json:"variables,omitempty"`
	Files     map[string]bool `json:"files,omitempty"`
}

// Marks are a session's, the oldest first.
type Marks []Mark

// Undone are the runs that are undone, with false those that were. Died are those whose kernel lost its variables.
type Undone struct{ Variables, Files, Died map[string]bool }

// Run reports whether the variables lack a run's changes: a copy's, unless that was restored.
func (u Undone) Run(b *Begin) bool {
	if undone, marked := u.Variables[b.RunID]; marked {
		return undone
	}
	return b.Copy
}

// Now is the state behind all marks.
func (m Marks) Now() Undone {
	u := Undone{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, one := range m {
		maps.Copy(u.Variables, one.Variables)
		maps.Copy(u.Files, one.Files)
		for run, undone := range one.Variables {
			u.Died[run] = undone && (run == one.By || one.By == "" && u.Died[run])
		}
	}
	return u
}

// Behind is the state at a checkpoint.
func (m Marks) Behind(name string) Undone {
	for at, one := range slices.Backward(m) {
		if one.Kept == name {
			return m[:at+1].Now()
		}
	}
	return Undone{}
}

// Before is the state before a restore, and the last run before it.
func (m Marks) Before(id string) (u Undone, after string, found bool) {
	at := slices.IndexFunc(m, func(one Mark) bool { return one.By == id })
	if at < 0 {
		return u, "", false
	}
	return m[:at].Now(), m[at].After, true
}

// less sums up lines of the older half, without runs that the history has no more. A line of a checkpoint stays, the newest of its name.
func (m Marks) less(there func(run string) bool) (less Marks) {
	isOpen := false
	for at, one := range m {
		if slices.ContainsFunc(m[at+1:], func(o Mark) bool { return o.Kept == one.Kept }) {
			one.Kept = ""
		}
		if at >= (len(m)+1)/2 {
			less = append(less, one)
			continue
		}
		if !isOpen {
			less = append(less, Mark{V: marksForm, Variables: map[string]bool{}, Files: map[string]bool{}})
		}
		sum := &less[len(less)-1]
		maps.Copy(sum.Variables, one.Variables)
		maps.Copy(sum.Files, one.Files)
		for _, part := range []map[string]bool{sum.Variables, sum.Files} {
			maps.DeleteFunc(part, func(run string, _ bool) bool { return !there(run) })
		}
		sum.Kept, sum.After = one.Kept, one.After
		isOpen = one.Kept == ""
	}
	return less
}

func (m Marks) encode() (lines []byte, err error) {
	for _, one := range m {
		line, err := EncodeJSON(one)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line...)
	}
	return lines, nil
}

// ReadMarks returns the marks of the session with this folder; none if they cannot be read.
func ReadMarks(folder string) (m Marks) {
	content := readSide(folder, marksFile)
	if content == nil {
		return earlierMarks(folder)
	}
	for line := range bytes.Lines(content) {
		var one Mark
		if json.Unmarshal(line, &one) == nil && one.V == marksForm {
			m = append(m, one)
		}
	}
	return m
}

// earlierMarks reads the form of before: a map whose keys were sentences. It had no order: what was before a restore is a guess there.
func earlierMarks(folder string) (m Marks) {
	var old map[string]bool
	_ = json.Unmarshal(readSide(folder, earlierFile), &old)
	set := func(one *Mark, key string, undone bool) {
		if run, ofFiles := strings.CutPrefix(key, "files of "); ofFiles {
			one.Files[run] = undone
		} else {
			one.Variables[key] = undone
		}
	}
	by, now := map[string]*Mark{}, Mark{V: marksForm, Variables: map[string]bool{}, Files: map[string]bool{}}
	of := func(name string) *Mark {
		if by[name] == nil {
			by[name] = &Mark{V: marksForm, Variables: map[string]bool{}, Files: map[string]bool{}}
		}
		return by[name]
	}
	for key, undone := range old {
		rest, ofCheckpoint := strings.CutPrefix(key, "checkpoint ")
		quoted, _ := strconv.QuotedPrefix(rest)
		restore, run, ofRestore := strings.Cut(key, " undid ")
		before, last, isPlace := strings.Cut(key, " is behind ")
		switch {
		case ofCheckpoint && quoted != "":
			one := of(quoted)
			one.Kept, _ = strconv.Unquote(quoted)
			set(one, strings.TrimPrefix(rest, quoted+" undid "), undone)
		case ofRestore:
			of(restore).By, of(restore).Files[run] = restore, undone
		case isPlace:
			of(before).By, of(before).After = before, last
		default:
			set(&now, key, undone)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		one := by[name]
		for run := range now.Variables { // of a checkpoint all are known
			one.Variables[run] = one.Variables[run] || false
		}
		for run := range now.Files {
			one.Files[run] = one.Files[run] || false
		}
		m = append(m, *one)
	}
	if len(old) > 0 {
		m = append(m, now)
	}
	return m
}

// AddMark adds a mark. The caller holds the session's lock.
func AddMark(folder string, one Mark) error {
	one.V = marksForm
	m := append(ReadMarks(folder), one)
	lines, err := m.encode()
	if err == nil && (len(m) > mostMarks || len(lines) > markBytes) {
		runs := make(map[string]bool)
		files, _ := list(filepath.Join(folder, runsFolder))
		for _, f := range files {
			runs[f.runID] = true
		}
		for size := len(m) + 1; size > len(m) && (len(m) > mostMarks || len(lines) > markBytes); lines, err = m.encode() {
			size = len(m)
			m = m.less(func(run string) bool { return runs[run] })
		}
	}
	if err = writeSide(folder, marksFile, lines, err); err == nil {
		err = ignoreAbsent(os.Remove(filepath.Join(folder, earlierFile)))
	}
	return err
}

// Files is what a run did to files and links.
type Files struct {
	Added   int `json:"added"`
	Changed int `json:"changed"`
	Removed int `json:"removed"`
	// Paths are some of them, those that a person sees first.
	Paths []Touched `json:"paths,omitempty"`
	// With are runs that may have done it instead: nobody looked between their ends.
	With []string `json:"with,omitempty"`
}

// Touched is a path, and what happened to it: added, changed or removed.
type Touched struct {
	Path string `json:"path"`
	How  string `json:"how"`
}

// Did is what is known of a run beside its own file: what it did to files, nil if that is not known, and whether it surely changed no
// variable.
type Did struct {
	*Files
	Looked bool `json:"looked,omitempty"`
}

// ReadDid returns what is known of the last runs of the session with this folder, by their ids.
func ReadDid(folder string) (did map[string]Did) {
	_ = json.Unmarshal(readSide(folder, didFile), &did)
	return did
}

// addDid adds to what is known. The oldest runs go.
func addDid(folder string, more map[string]Did) error {
	all := ReadDid(folder)
	if all == nil {
		all = make(map[string]Did)
	}
	for run, did := range more {
		if did.Files == nil {
			did.Files = all[run].Files
		}
		did.Looked = did.Looked || all[run].Looked
		all[run] = did
	}
	if len(all) > maxDid {
		runs, _ := list(filepath.Join(folder, runsFolder))
		runs = slices.DeleteFunc(runs, func(f file) bool { return all[f.runID] == Did{} })
		runs = runs[max(0, len(runs)-keepDid):]
		maps.DeleteFunc(all, func(run string, _ Did) bool {
			return !slices.ContainsFunc(runs, func(f file) bool { return f.runID == run })
		})
	}
	content, err := json.Marshal(all)
	return writeSide(folder, didFile, content, err)
}

func readSide(folder, name string) []byte {
	file, err := openFile(filepath.Join(folder, name))
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, sideBytes))
	if err != nil {
		return nil
	}
	return content
}

func writeSide(folder, name string, content []byte, err error) error {
	if err == nil {
		err = state.WriteFile(filepath.Join(folder, name), content)
	}
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
