package place

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

func TestAMountedFolderIsTooLargeToUndo(t *testing.T) {
	folder := t.TempDir()
	for i := range 4 {
		must.OK(t, os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), []byte("1234"), 0o600))
	}
	must.OK(t, os.Symlink("/", filepath.Join(folder, "link")))
	c := &Config{UndoBytes: 15, Mounts: []engine.Mount{{Folder: folder, Name: "m", Writable: true, Undo: true}}}
	f := must.Code(t, c.checkMounts(), fault.QuotaExceeded)
	should.Hold(t, strings.Contains(f.Message, "mounts/m there is more than the 15 B") && strings.Contains(f.Hint, "raise that"), "%+v", f)
	c.UndoBytes = 16
	must.OK(t, c.checkMounts())
	should.Equal(t, strings.Join(c.undoMounts(), " "), "mounts/m")
	for _, most := range []int{3, 5} {
		entries, _ := hostdir.Measure(folder, most, 1<<30)
		should.Equal(t, entries, min(most+1, 5), "of at most %d", most)
	}
	c.Mounts[0].Undo, c.UndoBytes = false, 15
	must.OK(t, c.checkMounts())
}
