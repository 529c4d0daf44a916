// What is known of a session's runs beside their files: which are undone, and what they did to files. Each is a file that is replaced
// whole.

package history

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

const (
	marksFile = "undone.json" // in the session's folder
	maxMarks  = maxRuns
	didFile   = "files.json" // likewise
	maxDid    = 100          // runs in it
	didBytes  = 4 << 10      // of one of them in memory
	sideBytes = 1 << 20      // of a file
)

// Marks maps a run's id to true if it is undone, and to false if it is not any more.
type Marks map[string]bool

// Undone reports whether the variables lack a run's changes: a copy's, unless that was restored.
func (m Marks) Undone(b *Begin) bool {
	if undone, marked := m[b.RunID]; marked {
		return undone
	}
	return b.Copy
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

// ReadMarks returns the marks of the session with this folder; none if they cannot be read.
func ReadMarks(folder string) Marks { return readSide[Marks](folder, marksFile) }

// ReadDid returns what is known of the files that runs of the session with this folder changed, by the runs' ids.
func ReadDid(folder string) map[string]Files { return readSide[map[string]Files](folder, didFile) }

// Mark adds marks. The caller holds the session's lock.
func Mark(folder string, more Marks) error { return addSide(folder, marksFile, more, maxMarks) }

func addDid(folder string, more map[string]Files) error {
	return addSide(folder, didFile, more, maxDid)
}

func readSide[M ~map[string]V, V any](folder, name string) M {
	file, err := openFile(filepath.Join(folder, name))
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var m M
	if json.NewDecoder(io.LimitReader(file, sideBytes)).Decode(&m) != nil {
		return nil
	}
	return m
}

// addSide adds to a file, or begins it anew if it would have too many entries.
func addSide[M ~map[string]V, V any](folder, name string, more M, most int) error {
	m := readSide[M](folder, name)
	if m == nil || len(m)+len(more) > most {
		m = make(M)
	}
	maps.Copy(m, more)
	content, err := json.Marshal(m)
	if err == nil {
		err = state.WriteFile(filepath.Join(folder, name), content)
	}
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
