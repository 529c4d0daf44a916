//go:build linux

package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
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

// awaitKept waits until the files from behind a run are copied as well, which the log tells.
func (c *client) awaitKept(run string) {
	c.t.Helper()
	must.Soon(c.t, "the files are copied", func() bool {
		text, _ := os.ReadFile(c.path(".state", "versions", "log"))
		return strings.Contains(string(text), `"`+run+`"`)
	})
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

// Where a kernel cannot be forked, its variables are written behind each run, and go back with the files or without them.
func TestWrittenVariablesGoBack(t *testing.T) {
	set := map[*language]phrase{javascript: "x = %d;", bash: "x=%d"}
	write := map[*language]phrase{javascript: javascript.write, bash: "printf %[2]s > %[1]s"}
	show := map[*language]string{javascript: `process.stdout.write(String(x))`, bash: "printf $x"}
	for _, l := range []*language{javascript, bash} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, l, options{init: protocol.Init{
				Twins: 3, UndoBytes: 64 << 20, VolumeBytes: 1 << 30, FreezeBytes: 64 << 20, FreezeSeconds: 60,
			}})
			x := func(name, want string) {
				t.Helper()
				d := c.completed(show[l])
				check(t, name, d.Stdout.Head, want)
				c.awaitTwin(c.after(d))
			}
			first := c.twinned(set[l].with(1))
			second := c.twinned(set[l].with(2) + "\n" + write[l].with("kept", "two"))
			x("before", "2")
			pid := c.pid()

			r := c.restore(second)
			check(t, "variables alone", r.Error+r.Stay, "")
			x("the variables", "1")
			check(t, "the file", c.read("kept"), "two")

			third := c.twinned(set[l].with(3) + "\n" + write[l].with("kept", "three"))
			c.awaitVersion(third)
			r = c.undo(request{ID: "restore-1", Run: third, Files: true, Variables: true})
			check(t, "both", r.Error+r.Stay+r.Files.Error, "")
			x("the variables, with files", "1")
			check(t, "the file, with variables", c.read("kept"), "two")

			if r = c.restore(first); r.Error != "" { // its beginning is that of any kernel, unless it is too long ago
				check(t, "too long ago", strings.HasPrefix(r.Error, noCopy), true)
			}
			check(t, "one process 1", c.pid(), pid)
		})
	}
}

// A snapshot stays as it is, however often its variables are restored.
func TestASnapshotIsRestoredAgainAndAgain(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{init: protocol.Init{Twins: 3, UndoBytes: 64 << 20, FreezeBytes: 64 << 20, FreezeSeconds: 60}})
	c.twinned("x=kept")
	run := c.twinned("x=0")
	for n := range 14 { // more often than there are names of files
		check(t, "error", c.restore(run).Error, "")
		d := c.completed("printf $x; x=" + strconv.Itoa(n))
		check(t, "x", d.Stdout.Head, "kept")
		run = d.Done.ID
		c.awaitTwin(c.after(d))
	}
}

// Variables too large for a snapshot delay no run, and files go back alone.
func TestVariablesThatAreTooLargeStay(t *testing.T) {
	t.Parallel()
	c := start(t, javascript, options{init: protocol.Init{
		Twins: 3, UndoBytes: 64 << 20, VolumeBytes: 1 << 30, FreezeBytes: 1 << 30, FreezeSeconds: 60,
	}})
	from := c.now()
	c.completed("var large = Buffer.alloc(64 << 20)")
	c.find(from, func(m *message) bool { return m.Type == "twins" && strings.Contains(m.twins.Why, "too large") })
	run := c.completed(javascript.write.with("made", "x")).Done.ID
	c.awaitVersion(run)
	r := c.undo(request{ID: "restore-1", Run: run, Files: true, Variables: true})
	check(t, "files alone", r.Error+r.Files.Error, "")
	check(t, "why the variables stay", strings.Contains(r.Stay, "too large"), true)
	check(t, "made", c.exists("made"), false)
	check(t, "large", c.value("large.length"), "67108864")
	r = c.restore(run)
	check(t, "variables alone", strings.HasPrefix(r.Error, noCopy), true)
}

// A run whose container ends under it is no run that can be undone, and is undone with the run before it.
func TestFilesOfARunThatItsContainerDidNotOutlive(t *testing.T) {
	t.Parallel()
	dir, init := t.TempDir(), protocol.Init{UndoBytes: 64 << 20, VolumeBytes: 1 << 30}
	c := start(t, bash, options{dir: dir, init: init})
	c.awaitKept(c.completed("echo original > b; echo 0 > a").Done.ID)
	first := c.completed("echo 1 > a").Done.ID
	c.awaitKept(first)
	c.begin("echo spoiled > b; echo new > c; touch begun; sleep 600")
	c.awaitFile("begun")
	check(t, "the kill", c.cmd.Process.Kill(), nil)
	<-c.exited
	c = start(t, bash, options{dir: dir, init: init})
	c.completed("true")
	c.awaitVersion(first)
	r := c.undo(request{ID: "restore", Run: first, Files: true})
	check(t, "the files", c.read("a")+c.read("b"), "0\noriginal\n")
	check(t, "what was left over", len(r.Files.NotKept), 0)
	check(t, "a new file is there", c.exists("c") || c.exists("begun"), false)
}

// A store to a page that was written before changes no time of the file.
func TestFilesThatAreMappedGoBack(t *testing.T) {
	t.Parallel()
	var system unix.Statfs_t
	if unix.Statfs(t.TempDir(), &system) != nil || system.Type == unix.TMPFS_MAGIC {
		t.Skip("memory has no pages to be written back")
	}
	c := start(t, python, options{init: protocol.Init{UndoBytes: 64 << 20, VolumeBytes: 1 << 30}})
	made := c.completed("import mmap\nopen('mapped', 'wb').write(b'0' * 4096)\nf = open('mapped', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'1'").Done.ID
	c.awaitVersion(made)
	must.Soon(t, "the file is being copied", func() bool { // or what the next run stores is of this one
		copies, _ := filepath.Glob(c.path(".state", "versions", "*"))
		return slices.ContainsFunc(copies, func(name string) bool {
			content, _ := os.ReadFile(name)
			return strings.HasPrefix(string(content), "10")
		})
	})
	id := c.completed("m[0:1] = b'2'; open('other', 'w').close()").Done.ID
	c.awaitVersion(id)
	r := c.undo(request{ID: "restore", Run: id, Files: true})
	isTold := slices.ContainsFunc(r.Files.NotKept, func(n protocol.NotKept) bool { return n.Path == "mapped" }) // it came before the copy was whole
	check(t, "the file is as it was, or told", isTold || c.read("mapped")[:2] == "10", true)
}
