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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// undo goes back to before a run.
func (c *connection) undo(m request, variables bool, also ...*language) protocol.Restored {
	c.t.Helper()
	from := c.now()
	m.Type, m.Language = "restore", c.language
	if variables {
		m.Languages = map[string]string{c.language: m.Run}
		for _, l := range also {
			m.Languages[l.name] = m.Run
		}
	}
	c.send(m)
	return c.await("restored", from).restored
}

// settle waits until all of the last runs is copied and told.
func (c *connection) settle() {
	c.t.Helper()
	from := c.now()
	c.send(request{Type: "settle", Language: c.language, ID: "restore-settled"})
	c.await("restored", from)
}

// stays says why variables stay.
func stays(r protocol.Restored) string {
	var why []string
	for _, s := range r.Stay {
		why = append(why, s.Why)
	}
	return strings.Join(why, "; ")
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

	r := sh.undo(request{ID: "restore-1", Run: fourth, Files: true}, false)
	check(t, "bash", *r.Files, protocol.RestoredFiles{Restored: 1, NotKept: []protocol.NotKept{}})
	check(t, "kept", c.read("kept"), "three")
	check(t, "new", c.exists("new"), false)
	r = js.undo(request{ID: "restore-2", Run: third, Files: true}, false)
	check(t, "JavaScript", r.Error+r.Files.Error+c.read("kept"), "two")
	r = c.undo(request{ID: "restore-3", Run: second, Files: true}, true)
	check(t, "Python", r.Error+r.Files.Error+c.read("kept"), "one")
	check(t, "x", c.value("x"), "1")
	r = c.undo(request{ID: "restore-4", Run: "restore-1", Files: true}, false)
	check(t, "the first undoing undone", r.Files.Error, "")
	check(t, "new", c.exists("new/folder") && !c.exists("kept"), true)

	check(t, "an unknown run", c.undo(request{ID: "restore-5", Run: "nobody's", Files: true}, false).Files.Code, "unknown")
	id := c.begin(python.awaitFile.with("go on"))
	held := sh.undo(request{ID: "restore-6", Run: fourth, Files: true}, false)
	check(t, "during a run", held.Files.Code, "busy")
	c.write("go on", "")
	c.done(id)
	r = c.undo(request{ID: "restore-7", Run: "nobody's", Files: true}, true)
	check(t, "a run that neither can go back before", r.Error+r.Files.Code, "unknown")
	lost := c.completed(python.write.with("kept", "again") + "\nimport threading; threading.Thread(target=threading.Event().wait, daemon=True).start()").Done.ID
	c.completed("x = 3")
	c.awaitVersion(lost)
	id = c.completed(python.write.with("kept", "more")).Done.ID
	c.awaitVersion(id)
	r = c.undo(request{ID: "restore-8", Run: id, Files: true}, true)
	check(t, "without the variables", r.Error+r.Files.Error+c.read("kept"), "again")
	check(t, "why those stay", strings.HasPrefix(stays(r), noCopy), true)
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
				Twins: 3, UndoBytes: 64 << 20, VolumeBytes: 1 << 30, SnapshotBytes: 16 << 20, FreezeSeconds: 60,
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
			check(t, "variables alone", r.Error+stays(r), "")
			x("the variables", "1")
			check(t, "the file", c.read("kept"), "two")

			third := c.twinned(set[l].with(3) + "\n" + write[l].with("kept", "three"))
			c.awaitVersion(third)
			r = c.undo(request{ID: "restore-1", Run: third, Files: true}, true)
			check(t, "both", r.Error+stays(r)+r.Files.Error, "")
			x("the variables, with files", "1")
			check(t, "the file, with variables", c.read("kept"), "two")

			if r = c.restore(first); r.Error != "" { // its beginning is that of any kernel, unless it is too long ago
				check(t, "too long ago", strings.HasPrefix(r.Error, noCopy), true)
			}
			check(t, "one process 1", c.pid(), pid)
		})
	}
}

// A run that begins as soon as the one before has ended can be undone, and what it loses with its kernel comes back.
func TestARunThatFollowsAtOnceCanBeUndone(t *testing.T) {
	for _, l := range []struct {
		*language
		set, change, show string
	}{
		{python, "x = [%[1]d]; large = bytearray(b'1') * (%[2]d << 20); open('kept', 'w').write('%[1]d')", "x.append('changed'); open('kept', 'w').write('changed')", "print(x[-1], end='')"},
		{javascript, "x = [%[1]d]; y = Buffer.alloc(%[2]d << 15); fs.writeFileSync('kept', '%[1]d')", "x.push('changed'); fs.writeFileSync('kept', 'changed')", "process.stdout.write(String(x.at(-1)))"},
		{bash, "x=%[1]d; printf -v large %%$((%[2]d << 10))s; printf %[1]d > kept", "x=changed; printf changed > kept", "printf $x"},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, l.language, options{init: protocol.Init{
				Twins: 5, TwinBytes: 1 << 40, UndoBytes: 64 << 20, VolumeBytes: 1 << 30, SnapshotBytes: 16 << 20, FreezeSeconds: 60,
			}})
			for n := range 12 {
				want, die := strconv.Itoa(n), ""
				if n%4 == 3 {
					die = map[*language]string{python: python.die.with(9), javascript: javascript.die.with(9), bash: "kill -9 $$"}[l.language]
				}
				c.completed(phrase(l.set).with(n, n%3*20))
				d := c.run(lines(l.change, die))
				restored := d.Kernel == "restored"
				check(t, "a killed kernel is replaced", restored, die != "" && l.language == python)
				r := c.undo(request{ID: "restore-" + want, Run: d.Done.ID, Files: true}, !restored)
				check(t, "the undoing", r.Error+r.Files.Error, "")
				check(t, "kept", c.read("kept"), want)
				if stays(r) == "" || !strings.Contains(stays(r), "too long") {
					check(t, "x", c.run(l.show).Stdout.Head+stays(r), want)
				}
			}
		})
	}
}

// A file without a copy is named once, in the answer of the first run that could spoil it.
func TestAFileWithoutACopyIsNamed(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: protocol.Init{UndoBytes: 1 << 20, VolumeBytes: 1 << 30}})
	check(t, "the one that makes it", len(c.completed(python.fill.with("large", 2)).NotKept), 0)
	c.find(0, func(m *message) bool { return m.Type == "versions" && m.versions.NotKeptTotal == 1 })
	named := c.completed("1").NotKept
	should.Hold(t, len(named) == 1 && named[0].Path == "large" && named[0].Why != "", "named: %v", named)
	check(t, "once more", len(c.completed("1").NotKept), 0)
}

// A snapshot stays as it is, however often its variables are restored.
func TestASnapshotIsRestoredAgainAndAgain(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{init: protocol.Init{Twins: 3, UndoBytes: 64 << 20, SnapshotBytes: 16 << 20, FreezeSeconds: 60}})
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
		Twins: 3, UndoBytes: 64 << 20, VolumeBytes: 1 << 30, SnapshotBytes: 16 << 20, FreezeSeconds: 60,
	}})
	from := c.now()
	c.completed("var large = Buffer.alloc(64 << 20)")
	c.find(from, func(m *message) bool { return m.Type == "twins" && strings.Contains(m.twins.Why, "too large") })
	run := c.completed(javascript.write.with("made", "x")).Done.ID
	c.awaitVersion(run)
	r := c.undo(request{ID: "restore-1", Run: run, Files: true}, true)
	check(t, "files alone", r.Error+r.Files.Error, "")
	check(t, "why the variables stay", strings.Contains(stays(r), "too large"), true)
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
	r := c.undo(request{ID: "restore", Run: first, Files: true}, false)
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
	r := c.undo(request{ID: "restore", Run: id, Files: true}, false)
	isTold := slices.ContainsFunc(r.Files.NotKept, func(n protocol.NotKept) bool { return n.Path == "mapped" }) // it came before the copy was whole
	check(t, "the file is as it was, or told", isTold || c.read("mapped")[:2] == "10", true)
}

// With a folder for it nothing that is kept is in the work directory.
func TestWhatIsKeptIsOutOfTheWorkDirectory(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	c := start(t, bash, options{dir: dir, init: protocol.Init{
		StateDir: state, Twins: 3, SnapshotBytes: 16 << 20, UndoBytes: 64 << 20, VolumeBytes: 1 << 30, FreezeBytes: 64 << 20, FreezeSeconds: 60,
	}})
	c.twinned("x=1; echo one > f; ln -s f l")
	run := c.twinned("x=2; echo two > f; rm l")
	c.awaitVersion(run)
	r := c.undo(request{ID: "restore", Run: run, Files: true}, true)
	check(t, "the restore", *r.Files, protocol.RestoredFiles{Restored: 2, NotKept: []protocol.NotKept{}})
	check(t, "all", c.completed("printf $x; cat f l; find . -name '.state'; ls .uploads").Stdout.Head, "1one\none\n")
	files := must.Get(filepath.Glob(filepath.Join(state, "*before*")))(t)
	check(t, "snapshots are there", len(files) > 0, true)
}

// What Python's variables have open goes back with the files, and is named where it cannot.
func TestOpenFilesGoBack(t *testing.T) {
	t.Parallel()
	var system unix.Statfs_t
	if unix.Statfs(t.TempDir(), &system) != nil || system.Type == unix.TMPFS_MAGIC {
		t.Skip("memory has no pages to be written back")
	}
	c := start(t, python, options{init: protocol.Init{Twins: 3, TwinBytes: 1 << 40, UndoBytes: 64 << 20, VolumeBytes: 1 << 30}})
	c.twinned(`
import mmap, os, sqlite3
bases = [sqlite3.connect("a.db"), sqlite3.connect("wal.db")]
bases[1].execute("PRAGMA journal_mode=WAL")
for base in bases:
    base.execute("CREATE TABLE t (x)"); base.execute("INSERT INTO t VALUES (1)"); base.commit()
log = open("log", "a"); log.write("one\n"); log.flush()
open("mapped", "wb").write(b"one" + bytes(5000))
file = open("mapped", "r+b"); mapped = mmap.mmap(file.fileno(), 0)
open("moved", "w").write("one"); moved = open("moved")`)
	run := c.twinned(`
for base in bases:
    base.executemany("INSERT INTO t VALUES (?)", [("x" * 10000,)] * 10); base.commit()
log.write("two\n"); log.flush()
mapped[0:3] = b"two"; mapped.flush()
open("other", "w").write("two"); os.rename("other", "moved")`)
	c.awaitVersion(run)
	r := c.undo(request{ID: "restore", Run: run, Files: true}, true)
	check(t, "errors", r.Error+r.Files.Error, "")
	should.Hold(t, r.LostTotal == 1 && len(r.Lost) == 1 && r.Lost[0].Name == "what is open of moved", "what is named: %+v", r.Lost)
	check(t, "rows", c.value(`[base.execute("SELECT count(*) FROM t").fetchone()[0] for base in bases]`), "[1, 1]")
	check(t, "what is mapped", c.value(`mapped[:3]`), "b'one'")
	c.completed(`
for base in bases:
    base.execute("INSERT INTO t VALUES (2)"); base.commit()
log.write("three\n"); log.flush()
mapped[0:3] = b"six"; mapped.flush()`)
	check(t, "rows for others", c.value(`[sqlite3.connect(name).execute("SELECT count(*) FROM t").fetchone()[0] for name in ("a.db", "wal.db")]`), "[2, 2]")
	check(t, "whole", c.value(`[base.execute("PRAGMA integrity_check").fetchone()[0] for base in bases]`), "['ok', 'ok']")
	check(t, "the log", c.read("log"), "one\nthree\n")
	check(t, "the mapped file", c.read("mapped")[:3], "six")
}

// A run is told as one that changed no variable where that is known, before settle is answered: in a language that writes its variables, if
// these are the same as before it.
func TestRunsThatOnlyLookAreTold(t *testing.T) {
	codes := map[*language][]string{ // those at odd places change something
		python:     {"1 + 1", "xs = [1]", "print(len(xs))", "xs.append(2)", "sorted(xs)[0]", "def f(): xs.clear()", "[x for x in xs]", "f()"},
		javascript: {"console.log(1)", "let xs = [1]", "xs.length", "xs.push(2)", "JSON.stringify(xs)", "process.env.A = 1", "xs.map(x => x + 1)", "process.chdir('/')"},
		bash:       {"echo 1", "x=1", "echo $x; ls", "cd /", "pwd | wc -c", "f() { x=2; }", "[[ $x == 1 ]]", "f"},
	}
	for l, list := range codes {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, l, options{init: pinning()})
			var want []string
			for at, code := range list {
				if id := c.run(code).Done.ID; at%2 == 0 {
					want = append(want, id)
				}
			}
			c.settle()
			var looked []string
			c.find(0, func(m *message) bool {
				if m.Type == "twins" {
					looked = m.twins.Looked
				}
				return m.Type == "restored"
			})
			should.EqualSlice(t, looked, want, "looked")
		})
	}
}

// A way back that fails in one language leaves the variables of all, and the files, as they are.
func TestAllGoesBackOrNothing(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{also: []*language{javascript, bash}, init: pinning()})
	js, sh := c.in(javascript), c.in(bash)
	c.twinned("x = 1")
	js.completed("x = 1;")
	sh.completed("x=1")
	all := map[string]string{
		"python": c.completed(python.write.with("kept", "two") + "; x = 2").Done.ID, "javascript": js.completed("x = 2;").Done.ID, "bash": sh.completed("x=2").Done.ID,
	}
	c.settle()
	files, _ := filepath.Glob(c.path(".state", "bash.before-*"))
	content := map[string][]byte{}
	for _, file := range files {
		content[file] = must.Get(os.ReadFile(file))(t)
		must.OK(t, os.WriteFile(file, []byte("broken"), 0o600))
	}
	try := func(id string) protocol.Restored {
		from := c.now()
		c.send(request{Type: "restore", Language: "python", ID: id, Run: all["python"], Files: true, Languages: all})
		return c.await("restored", from).restored
	}
	state := func() string {
		return c.value("x") + js.run("process.stdout.write(String(x))").Stdout.Head + sh.run("printf $x").Stdout.Head + strconv.FormatBool(c.exists("kept"))
	}
	r := try("restore-1")
	should.Hold(t, r.Error != "" && r.Files == nil && len(r.Went) == 0, "with a broken file: %+v", r)
	check(t, "the state", state(), "222true")
	for file, was := range content {
		must.OK(t, os.WriteFile(file, was, 0o600))
	}
	r = try("restore-2")
	should.Hold(t, r.Error == "" && r.Files != nil && len(r.Went) == 3 && len(r.Stay) == 0, "all: %+v", r)
	check(t, "the state", state(), "111false")
}

// A run that removed the current folder is undone: each language is in it again, also one whose variables stay, and what is gone is named.
func TestKernelsEnterTheirFolders(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{also: []*language{javascript, bash}, init: pinning()})
	js, sh := c.in(javascript), c.in(bash)
	enter := c.completed("import os; os.makedirs('in/it'); os.chdir('in/it')").Done.ID
	js.completed("process.chdir('in/it');")
	sh.completed("cd in/it")
	for n, remove := range []string{"rm -r ../../in", "mv ../../in ../../other"} {
		run := sh.completed(remove).Done.ID
		sh.settle()
		r := sh.undo(request{ID: "restore-" + strconv.Itoa(n), Run: run, Files: true}, n == 0)
		should.Hold(t, r.Error == "" && r.Files.Error == "" && r.LostTotal == 0, "%s: %+v %+v", remove, r, r.Files)
		place := c.path("in", "it")
		check(t, "Python", c.value("os.getcwd()"), "'"+place+"'")
		check(t, "JavaScript", js.run("process.stdout.write(process.cwd())").Stdout.Head, place)
		check(t, "bash", sh.run("/bin/pwd").Stdout.Head, place+"\n")
	}
	r := c.undo(request{ID: "restore-9", Run: enter, Files: true}, false)
	should.Hold(t, r.LostTotal == 3 && strings.Contains(r.Lost[0].Why, "is gone"), "without the folder: %+v", r)
	check(t, "Python", c.value("os.getcwd()"), "'"+c.path()+"'")
}
