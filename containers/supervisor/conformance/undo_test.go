//go:build linux

package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// undo goes back to before a run.
func (c *connection) undo(m request) protocol.Restored {
	c.t.Helper()
	from := c.now()
	m.Type, m.Language = "restore", c.language
	c.send(m)
	return c.await("restored", from).restored
}

// awaitVersion waits until the files from before a run are known.
func (c *connection) awaitVersion(run string) {
	c.t.Helper()
	c.find(0, func(m *message) bool { return m.Type == "versions" && slices.Contains(m.versions.Runs, run) })
}

// Files go back to before a run of any language, with Python's variables or without them.
func TestFilesGoBack(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{
		also: []*language{javascript, bash}, init: protocol.Init{Twins: 3, TwinBytes: 1 << 40, UndoBytes: 64 << 20, VolumeBytes: 1 << 30},
	})
	js, sh := c.in(javascript), c.in(bash)
	c.twinned(python.write.with("kept", "one") + "; x = 1")
	second := c.twinned(python.write.with("kept", "two") + "; x = 2")
	third := js.completed(javascript.write.with("kept", "three")).Done.ID
	fourth := sh.completed("rm kept; mkdir -p new/folder").Done.ID
	sh.awaitVersion(fourth)

	r := sh.undo(request{ID: "restore-1", Run: fourth, Files: true})
	check(t, "bash", *r.Files, protocol.RestoredFiles{Restored: 1, NotKept: []protocol.NotKept{}})
	check(t, "kept", c.read("kept"), "three")
	check(t, "new", c.exists("new"), false)
	r = js.undo(request{ID: "restore-2", Run: third, Files: true})
	check(t, "JavaScript", r.Error+r.Files.Error+c.read("kept"), "two")
	r = c.undo(request{ID: "restore-3", Run: second, Files: true, Variables: true})
	check(t, "Python", r.Error+r.Files.Error+c.read("kept"), "one")
	check(t, "x", c.value("x"), "1")
	r = c.undo(request{ID: "restore-4", Run: "restore-1", Files: true})
	check(t, "the first undoing undone", r.Files.Error, "")
	check(t, "new", c.exists("new/folder") && !c.exists("kept"), true)

	check(t, "an unknown run", c.undo(request{ID: "restore-5", Run: "nobody's", Files: true}).Files.Code, "unknown")
	id := c.begin(python.awaitFile.with("go on"))
	held := sh.undo(request{ID: "restore-6", Run: fourth, Files: true})
	check(t, "during a run", held.Files.Code, "busy")
	c.write("go on", "")
	c.done(id)
	r = c.undo(request{ID: "restore-7", Run: "nobody's", Files: true, Variables: true})
	if !strings.HasPrefix(r.Error, noCopy) || r.Files != nil {
		t.Errorf("without the variables: %+v", r)
	}
}
