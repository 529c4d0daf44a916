// The undone runs of a session, beside the history: a file that is replaced whole.

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
	markBytes = 1 << 20 // of the file
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

// ReadMarks returns the marks of the session with this folder; none if they cannot be read.
func ReadMarks(folder string) Marks {
	file, err := openFile(filepath.Join(folder, marksFile))
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var m Marks
	if json.NewDecoder(io.LimitReader(file, markBytes)).Decode(&m) != nil {
		return nil
	}
	return m
}

// Mark adds marks. The caller holds the session's lock.
func Mark(folder string, more Marks) error {
	m := ReadMarks(folder)
	if m == nil || len(m)+len(more) > maxMarks {
		m = make(Marks)
	}
	maps.Copy(m, more)
	content, err := json.Marshal(m)
	if err == nil {
		err = state.WriteFile(filepath.Join(folder, marksFile), content)
	}
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
