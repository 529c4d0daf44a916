//go:build linux

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Checkpoints: variables and files by names.

// pinning is how a supervisor is started that keeps all of a checkpoint.
func pinning() protocol.Init {
	return protocol.Init{
		Twins: 3, TwinBytes: 1 << 40, UndoBytes: 64 << 20, VolumeBytes: 1 << 30, SnapshotBytes: 16 << 20, FreezeBytes: 64 << 20, FreezeSeconds: 60,
	}
}

func (c *connection) checkpoint(name string) protocol.Restored {
	c.t.Helper()
	from := c.now()
	c.send(request{Type: "checkpoint", Language: c.language, ID: "restore-0", Name: name})
	r := c.await("restored", from).restored
	must.Hold(c.t, r.Files != nil, "the checkpoint: %+v", r)
	return r
}

// pin keeps a checkpoint that has to lack nothing.
func (c *connection) pin(name string) {
	c.t.Helper()
	r := c.checkpoint(name)
	must.Hold(c.t, r.Checkpoint != nil && r.Checkpoint.Name == name && r.LostTotal == 0 && r.Files.Error == "", "the checkpoint: %+v %+v", r, r.Files)
}

// goTo goes back to a checkpoint, in all these languages.
func (c *connection) goTo(name string, also ...*language) {
	c.t.Helper()
	r := c.undo(request{ID: "restore-" + strconv.Itoa(c.now()), Name: name, Files: true}, true, also...)
	must.Hold(c.t, r.Error+stays(r) == "" && r.Files != nil && r.Files.Error == "" && r.LostTotal == 0 && r.Checkpoint.Name == name, "to %q: %+v %+v", name, r, r.Files)
}

// awaitWritten waits until a checkpoint's variables are in a file.
func (c *client) awaitWritten(l *language) (name string) {
	c.t.Helper()
	must.Soon(c.t, "the variables are written", func() bool {
		all, _ := filepath.Glob(c.path(".state", l.name+".checkpoint-*"))
		for _, one := range all {
			if !strings.HasSuffix(one, ".new") {
				name = one
			}
		}
		return name != ""
	})
	return name
}

func TestACheckpointHasAllLanguagesAndFiles(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{also: []*language{javascript, bash}, init: pinning()})
	js, sh := c.in(javascript), c.in(bash)
	all := func(what string, x int, kept string) {
		t.Helper()
		check(t, what+": Python", c.value("x"), strconv.Itoa(x))
		check(t, what+": JavaScript", js.value(string(javascript.get)), strconv.Itoa(x))
		check(t, what+": bash", sh.completed("printf $x").Stdout.Head, strconv.Itoa(x))
		check(t, what+": file", c.read("kept"), kept)
	}
	set := func(x int, kept string) {
		t.Helper()
		c.completed(python.set.with(x) + "\n" + python.write.with("kept", kept))
		js.completed(javascript.set.with(x))
		sh.completed(fmt.Sprintf("x=%d; echo %d > of-bash-%d", x, x, x))
	}
	set(1, "one")
	c.pin("clean")
	set(2, "two")
	all("meanwhile", 2, "two")
	c.goTo("clean", javascript, bash)
	all("clean", 1, "one")
	check(t, "what bash made", c.exists("of-bash-1") && !c.exists("of-bash-2"), true)

	// Two branches side by side, back and forth.
	set(3, "three")
	c.pin("A")
	c.goTo("clean", javascript, bash)
	set(4, "four")
	c.pin("B")
	for range 2 {
		c.goTo("A", javascript, bash)
		all("A", 3, "three")
		c.goTo("B", javascript, bash)
		all("B", 4, "four")
	}
	check(t, "the twin of the right branch goes on", c.run(python.die.with(9)).Kernel, "restored")
	check(t, "x", c.value("x"), "4")

	// One of the same name is replaced, and one that there is not is answered with those that there are.
	set(5, "five")
	c.pin("A")
	set(6, "six")
	c.goTo("A", javascript, bash)
	all("the new A", 5, "five")
	r := c.undo(request{ID: "restore-none", Name: "nobody's", Files: true}, true)
	must.Hold(t, strings.Contains(r.Error, "no checkpoint") && len(r.Checkpoints) == 3, "an unknown name: %+v", r)
	id := c.begin(python.awaitFile.with("go on"))
	check(t, "during a run", c.checkpoint("late").Files.Code, "busy")
	c.write("go on", "")
	c.done(id)
}

// A language that had no variables has none again, also if they were written meanwhile.
func TestWhatWasNotThereAtACheckpointGoes(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{also: []*language{bash}, init: pinning()})
	sh := c.in(bash)
	c.completed("x = 1")
	c.pin("clean")
	sh.completed("x=2")
	check(t, "they are written", sh.freeze("freeze-1").Error, "")
	c.goTo("clean", bash)
	check(t, "x", sh.completed("echo \"[$x]\"").Stdout.Head, "[]\n")
	check(t, "Python's", c.value("x"), "1")
}

// Behind a twin there is a file, which an end of the container waits for, and a later one reads.
func TestACheckpointOutlivesItsTwinAndTheContainer(t *testing.T) {
	for _, l := range []*language{python, javascript, bash} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			show := func(c *client, what, want string) {
				t.Helper()
				d := c.completed(map[*language]string{python: "print(x, end='')", javascript: "process.stdout.write(String(x))", bash: "printf $x"}[l])
				check(t, what, d.Stdout.Head, want)
			}
			set := func(c *client, x int) {
				t.Helper()
				c.completed(map[*language]phrase{python: "x = %d; open('f', 'w').write(str(x))", javascript: "x = %d; fs.writeFileSync('f', String(x))", bash: "x=%d; printf $x > f"}[l].with(x))
			}
			c := start(t, l, options{init: pinning()})
			set(c, 1)
			c.pin("early")
			for x := range 8 { // more than there are twins
				set(c, x+2)
				c.pin("step " + strconv.Itoa(x+2))
			}
			set(c, 0)
			c.awaitWritten(l)
			c.goTo("early")
			show(c, "by its file", "1")
			set(c, 20)
			c.pin("last")
			c.stop() // at once

			c = start(t, l, options{dir: c.dir, init: pinning()})
			for _, to := range []string{"last", "step 5", "early", "last"} {
				c.goTo(to)
				want := strings.NewReplacer("last", "20", "step ", "", "early", "1").Replace(to)
				show(c, "after sleep, "+to, want)
				check(t, "the file", c.read("f"), want)
			}
			set(c, 30)
			must.OK(t, c.cmd.Process.Signal(syscall.SIGKILL))
			<-c.exited
			c = start(t, l, options{dir: c.dir, init: pinning()})
			c.goTo("step 3")
			show(c, "after a kill", "3")
			check(t, "the file", c.read("f"), "3")
		})
	}
}

// Where there is no twin the kernel itself writes, and what cannot be written is named.
func TestACheckpointWithoutATwin(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: pinning()})
	c.completed("import threading; x = 1; never = threading.Event(); thread = threading.Thread(target=never.wait, daemon=True); thread.start()")
	r := c.checkpoint("clean")
	should.Hold(t, r.Checkpoint != nil && r.LostTotal > 0 && strings.Contains(fmt.Sprint(r.Lost), "thread"), "what it lacks: %+v", r)
	file := c.awaitWritten(python)
	c.completed("x = 2")
	r = c.undo(request{ID: "restore-1", Name: "clean"}, true)
	should.Hold(t, r.Error == "" && r.LostTotal > 0, "going back: %+v", r)
	check(t, "x", c.value("x"), "1")
	c.stop()
	must.OK(t, os.Remove(file))
	c = start(t, python, options{dir: c.dir, init: pinning()})
	c.completed("x = 3")
	r = c.undo(request{ID: "restore-2", Name: "clean"}, true)
	should.Hold(t, strings.Contains(r.Error, "no longer kept"), "a file that is gone: %+v", r)
	check(t, "x stays", c.value("x"), "3")
}

// Too many checkpoints, and a name that is too long, cost the oldest and the end.
func TestManyCheckpoints(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{init: pinning()})
	c.completed("x=1")
	var dropped []string
	for n := range 50 {
		dropped = append(dropped, c.checkpoint(fmt.Sprint("pin ", n)).Dropped...)
	}
	check(t, "dropped", len(dropped), 30)
	must.Soon(t, "their files are gone", func() bool {
		all, _ := filepath.Glob(c.path(".state", "*.checkpoint-*"))
		return len(all) == 20
	})
	r := c.checkpoint(strings.Repeat("n", 1000))
	check(t, "a long name", len(r.Checkpoint.Name) <= 256, true)
	c.goTo("pin 40")
}

// Undo between languages: Python's run, what it had bash do, and files that both made.
func TestARunThatCalledAnotherLanguageIsUndone(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{also: []*language{bash}, init: pinning()})
	c.twinned("x = 1; open('a', 'w').write('1')")
	run := c.twinned("import subprocess; x = 2; open('a', 'w').write('2'); subprocess.run(['bash', '-c', 'mv a b; mkdir d; ln -s ../b d/l; echo 2 > d/f; chmod 600 b'], check=True)")
	c.awaitVersion(run)
	r := c.undo(request{ID: "restore-1", Run: run, Files: true}, true)
	check(t, "errors", r.Error+stays(r)+r.Files.Error, "")
	check(t, "what is not as it was", len(r.Files.NotKept), 0)
	check(t, "a", c.read("a"), "1")
	check(t, "made", c.exists("b") || c.exists("d"), false)
	check(t, "x", c.value("x"), "1")
}

// A program that goes on to write is named, and one that a run of the other language has left does not end with Python's variables.
func TestAProgramThatWritesWhileFilesGoBackIsNamed(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{also: []*language{bash}, init: pinning()})
	c.completed("x = 1")
	c.pin("clean")
	c.in(bash).completed("(while :; do echo new > busy; : > begun; done) > /dev/null 2>&1 & disown")
	c.awaitFile("begun")
	c.completed("x = 2; open('made', 'w').write('2')")
	named := false
	must.Soon(t, "the program's file is named", func() bool {
		r := c.undo(request{ID: "restore-" + strconv.Itoa(c.now()), Name: "clean", Files: true}, true)
		must.Hold(t, r.Error+r.Files.Error == "", "going back: %+v", r)
		for _, n := range r.Files.NotKept {
			named = named || n.Path == "busy" || n.Path == "begun"
		}
		return named
	})
	check(t, "what runs made", c.exists("made"), false)
	check(t, "x", c.value("x"), "1")
}

// What needs a package that is gone is named, and the rest comes back.
func TestACheckpointWhosePackageIsGone(t *testing.T) {
	t.Parallel()
	packages := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(packages, "gone.py"), []byte("class Thing: pass\n"), 0o644))
	o := options{init: pinning(), env: []string{"PYTHONPATH=" + packages}}
	c := start(t, python, o)
	c.completed("import gone; x = 1; thing = gone.Thing()")
	c.pin("clean")
	c.stop()
	must.OK(t, os.RemoveAll(packages))
	o.dir = c.dir
	c = start(t, python, o)
	r := c.undo(request{ID: "restore-1", Name: "clean", Files: true}, true)
	should.Hold(t, r.Error+stays(r) == "" && strings.Contains(fmt.Sprint(r.Lost), "thing"), "what is named: %+v", r)
	check(t, "x", c.value("x"), "1")
}

// In a work directory with hardly any room a checkpoint says what it lacks, and its variables come back from memory.
func TestACheckpointInAFullWorkDirectory(t *testing.T) {
	t.Parallel()
	init := pinning()
	init.VolumeBytes = 8 << 20
	c := start(t, python, options{init: init})
	c.completed(python.fill.with("large", 7) + "\nx = 1")
	r := c.checkpoint("clean")
	should.Hold(t, r.Checkpoint != nil && r.Files.NotKeptTotal == 1 && r.Files.NotKept[0].Path == "large", "what it lacks: %+v %+v", r, r.Files)
	c.completed("x = 2")
	r = c.undo(request{ID: "restore-1", Name: "clean"}, true)
	check(t, "going back", r.Error, "")
	check(t, "x", c.value("x"), "1")
}

// The variables of all checkpoints take no more than they may: the oldest checkpoint goes, and the next answer names it.
func TestVariablesOfCheckpointsAreBounded(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: pinning()})
	for _, name := range []string{"a", "b", "c"} {
		c.completed("import os; x = os.urandom(25 << 20); y = '" + name + "'")
		c.pin(name)
	}
	var dropped []string
	must.Soon(t, "one is dropped", func() bool {
		dropped = append(dropped, c.completed("1").Dropped...)
		return len(dropped) > 0
	})
	check(t, "dropped", dropped, []string{"a"})
	c.goTo("b")
	check(t, "y", c.value("y"), "'b'")
}
