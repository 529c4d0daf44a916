package place

import (
	"path"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// undoEntries is how many entries the mounted folders may have together whose versions are kept; the supervisor looks at no more.
const undoEntries = 50_000

// undoMounts are the mounted folders whose files have versions, by their paths in the work directory.
func (c *Config) undoMounts() (paths []string) {
	for _, m := range c.Mounts {
		if m.Undo && c.UndoBytes > 0 {
			paths = append(paths, strings.TrimPrefix(path.Join(engine.MountsDir, m.Name), engine.WorkDir+"/"))
		}
	}
	return paths
}

// checkMounts refuses folders that are too large for versions of their files.
func (c *Config) checkMounts() error {
	entries, bytes := 0, int64(0)
	for _, m := range c.Mounts {
		if !m.Undo || c.UndoBytes <= 0 {
			continue
		}
		more, size := hostdir.Measure(m.Folder, undoEntries, c.UndoBytes)
		entries, bytes = entries+more, bytes+size
		why, advice := "", ""
		switch {
		case entries > undoEntries:
			why = "more than 50,000 files and folders"
		case bytes > c.UndoBytes:
			why, advice = "more than the "+runs.Size(c.UndoBytes)+" of --undo-limit", "raise that, "
		default:
			continue
		}
		return fault.New(fault.QuotaExceeded, "Ask the user to "+advice+"mount a smaller folder, or leave ,undo out of --mount.",
			"No session starts: with mounts/%s there is %s to keep for undoing.", m.Name, why).
			With("mount", m.Name).With("limit_bytes", c.UndoBytes).With("limit_entries", undoEntries)
	}
	return nil
}
