// Which runs' changes a session's variables are without, beside the history: a file that is replaced whole.

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

// Marks are runs by their ids that are undone, true, or not any more.
type Marks map[string]bool

// Undone reports whether the variables are without what a run has changed: a copy's, unless they have gone to it.
func (m Marks) Undone(b *Begin) bool {
	if undone, marked := m[b.RunID]; marked {
		return undone
	}
	return b.Copy
}

// ReadMarks returns the marks of the session whose folder this is; none where they cannot be read.
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
