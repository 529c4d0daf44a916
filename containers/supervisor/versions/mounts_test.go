//go:build linux

package versions

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const mounted = "mounts/m"

// newMounted is an area with a mounted folder that has some files.
func newMounted(t testing.TB) *area {
	a := &area{t: t, root: t.TempDir(), state: filepath.Join(t.TempDir(), "state"), mounts: []string{mounted}}
	for name, content := range map[string]string{"a": "one", "f/b": "two", "f/c": "three"} {
		a.write(mounted+"/"+name, content)
	}
	a.open(limit)
	return a
}

func (a *area) in(name string) string { return a.path(mounted + "/" + name) }

// begun begins a run, as the supervisor does: what others changed before it is seen first.
func (a *area) begun() string {
	a.store.CatchUp()
	a.rest()
	return a.begin()
}

func (a *area) ran(change func()) string {
	id := a.begun()
	change()
	a.end(id)
	return id
}

// save replaces a file as an editor does. As root, whose it is shows that the session has not written it.
func (a *area) save(name, content string) {
	a.t.Helper()
	must.OK(a.t, os.MkdirAll(filepath.Dir(a.in(name)), 0o755))
	must.OK(a.t, os.WriteFile(a.in("~save"), []byte(content), 0o644))
	a.theirs("~save")
	must.OK(a.t, os.Rename(a.in("~save"), a.in(name)))
}

func (a *area) theirs(name string) {
	if os.Geteuid() == 0 {
		must.OK(a.t, os.Lchown(a.in(name), 4242, 4242))
	}
}

func names(list []Named) (paths []string) {
	for _, n := range list {
		paths = append(paths, strings.TrimPrefix(n.Path, mounted+"/"))
	}
	return paths
}

func TestWhatRunsChangeInAMountedFolderIsUndone(t *testing.T) {
	for name, change := range map[string]func(a *area){
		"a file is written":    func(a *area) { a.write(mounted+"/a", "new") },
		"a file is replaced":   func(a *area) { a.write(mounted+"/n", "new"); _ = os.Rename(a.in("n"), a.in("a")) },
		"files are removed":    func(a *area) { _ = os.RemoveAll(a.in("f")) },
		"a folder is moved":    func(a *area) { _ = os.Rename(a.in("f"), a.in("g")) },
		"a file moves out":     func(a *area) { a.write("out", "x"); _ = os.Remove(a.in("a")) },
		"rights are changed":   func(a *area) { _ = os.Chmod(a.in("a"), 0o600); _ = os.Chmod(a.in("f"), 0o700) },
		"it is cut":            func(a *area) { _ = os.Truncate(a.in("f/b"), 1) },
		"a folder is a file":   func(a *area) { _ = os.RemoveAll(a.in("f")); a.write(mounted+"/f", "x") },
		"a file is a folder":   func(a *area) { _ = os.Remove(a.in("a")); a.write(mounted+"/a/b/c", "x") },
		"a link is in between": func(a *area) { _ = os.Remove(a.in("a")); _ = os.Symlink("f/b", a.in("a")) },
		"the same time":        func(a *area) { a.write(mounted+"/a", "two"); _ = os.Chtimes(a.in("a"), time.Time{}, time.Unix(1, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newMounted(t)
			must.OK(t, os.Chtimes(a.in("a"), time.Time{}, time.Unix(1, 0)))
			a.ran(func() { a.write("work", "x") })
			before := a.tree()
			run := a.ran(func() { change(a); a.write("work", "y") })
			after := a.tree()
			o := a.undo(run)
			should.Hold(t, o.NotRestoredTotal == 0, "not restored: %v", o.NotRestored)
			a.compare(before, "undone")
			a.undo("undo-" + run)
			a.compare(after, "the undoing undone")
		})
	}
}

// An export has the copies whose names begin with c.
func TestCopiesOfAMountedFolderHaveNamesOfTheirOwn(t *testing.T) {
	a := newMounted(t)
	long := strings.Repeat("long enough to be found where it is twice ", 2000)
	a.ran(func() {
		a.write("work", long)
		a.write(mounted+"/a", long)
		_ = os.Rename(a.in("f/b"), a.path("moved"))
	})
	a.rest()
	var exported []string
	for _, entry := range must.Get(os.ReadDir(filepath.Join(a.state, folder)))(t) {
		if name := entry.Name(); name[0] == 'c' {
			exported = append(exported, string(must.Get(os.ReadFile(filepath.Join(a.state, folder, name)))(t)))
		}
	}
	slices.Sort(exported)
	should.Hold(t, slices.Equal(exported, []string{long, "two"}), "an export has %.300q", exported)
}

// Names of one file stay that, and what only the file at a place has stays at the place.
func TestLinksAndAttributesStay(t *testing.T) {
	a := newMounted(t)
	must.OK(t, os.Link(a.in("f/b"), a.in("other")))
	if err := unix.Setxattr(a.in("a"), "user.note", []byte("mine"), 0); err != nil {
		t.Skip("this file system has no attributes")
	}
	inode := func(name string) (s unix.Stat_t) { must.OK(t, unix.Stat(a.in(name), &s)); return s }
	before, was := a.tree(), inode("other")
	for _, write := range []func(){
		func() { a.write(mounted+"/other", "run"); a.write(mounted+"/a", "run") },
		func() { a.write(mounted+"/f/b", "longer than it was"); _ = os.Truncate(a.in("a"), 1) },
	} {
		o := a.undo(a.ran(write))
		should.Hold(t, o.NotRestoredTotal == 0, "not restored: %v", o.NotRestored)
		a.compare(before, "undone")
		should.Equal(t, [3]uint64{inode("f/b").Ino, inode("other").Ino, inode("other").Nlink}, [3]uint64{was.Ino, was.Ino, 2}, "the file with two names")
		value := make([]byte, 9)
		size, _ := unix.Getxattr(a.in("a"), "user.note", value)
		should.Equal(t, string(value[:max(size, 0)]), "mine", "the attribute")
	}
}

// A file that is written as soon as a run has its answer is not the run's, whoever writes it.
func TestWhatIsWrittenBehindARunIsOfOthers(t *testing.T) {
	a := newMounted(t)
	a.ran(func() { a.write("work", "x") })
	run := a.begun()
	a.write(mounted+"/a", "run")
	isHeld, seen := make(chan struct{}), make(chan struct{})
	go a.store.do(func() { close(isHeld); <-seen }) // the look behind the run comes late
	<-isHeld
	a.store.End(run, limit)
	artifacts.Settle(int(a.dir.Fd()))
	a.write(mounted+"/f/b", "edited")
	close(seen)
	a.rest()
	a.undo(run)
	should.Equal(t, a.read(mounted+"/a")+" "+a.read(mounted+"/f/b"), "one edited")
}

// What others change between runs stays, whatever runs did to it before.
func TestWhatOthersChangeInAMountedFolderStays(t *testing.T) {
	for name, test := range map[string]struct {
		run, edit func(a *area)
		want      map[string]string // contents in the end; empty: nothing is there
		named     []string
	}{
		"another file": {
			func(a *area) { a.write(mounted+"/a", "run") }, func(a *area) { a.save("f/b", "edited") },
			map[string]string{"a": "one", "f/b": "edited"}, nil,
		},
		"the same file": {
			func(a *area) { a.write(mounted+"/a", "run"); a.write(mounted+"/f/c", "run") }, func(a *area) { a.save("a", "edited") },
			map[string]string{"a": "edited", "f/c": "three"}, []string{"a"},
		},
		"a file that the run removed is made again": {
			func(a *area) { _ = os.RemoveAll(a.in("f")) }, func(a *area) { a.save("f/b", "edited") },
			map[string]string{"f/b": "edited", "f/c": "three"}, []string{"f/b"},
		},
		"a file in a folder that the run made": {
			func(a *area) { a.write(mounted+"/g/h/i", "run") }, func(a *area) { a.save("g/h/j", "edited") },
			map[string]string{"g/h/i": "", "g/h/j": "edited"}, nil,
		},
		"a file that the run made is removed": {
			func(a *area) { a.write(mounted+"/n", "run") }, func(a *area) { _ = os.Remove(a.in("n")) },
			map[string]string{"n": "", "a": "one"}, nil,
		},
		"a file that the run changed is removed": {
			func(a *area) { a.write(mounted+"/a", "run") }, func(a *area) { _ = os.Remove(a.in("a")) },
			map[string]string{"a": ""}, []string{"a"},
		},
	} {
		for _, late := range []bool{false, true} { // noticed before another run, or by the restore itself
			t.Run(fmt.Sprint(name, " ", late), func(t *testing.T) {
				a := newMounted(t)
				run := a.ran(func() { test.run(a) })
				test.edit(a)
				if !late {
					a.ran(func() {})
				}
				o := a.undo(run)
				for path, want := range test.want {
					got, err := os.ReadFile(a.in(path))
					should.Hold(t, string(got) == want && (err == nil) == (want != ""), "%s is %q, %v", path, got, err)
				}
				should.Hold(t, slices.Equal(names(o.NotRestored), test.named), "named: %v", o.NotRestored)
			})
		}
	}
}

// What others change while a run goes on stays if it shows that the session's code cannot have made it.
func TestWhatOthersChangeBesideARunStays(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can write as somebody else")
	}
	a := newMounted(t)
	for _, name := range []string{"a", "f/b", "f/c"} {
		a.theirs(name)
	}
	must.OK(t, os.Chmod(a.in("f/c"), 0o666))
	a.save("moved", "moved")
	a.save("inside", "inside")
	run := a.ran(func() {
		a.write(mounted+"/own", "run")
		a.save("new", "edited")     // a new file
		a.save("a", "edited")       // a file that is replaced
		a.save("own too", "edited") // over one of the run
		must.OK(t, os.WriteFile(a.in("inside"), []byte("edited"), 0o644))
		must.OK(t, os.Chmod(a.in("f/b"), 0o600))
		must.OK(t, os.Rename(a.in("moved"), a.in("elsewhere"))) // may be the run's
		must.OK(t, os.WriteFile(a.in("f/c"), []byte("run"), 0o644))
	})
	o := a.undo(run)
	for name, want := range map[string]string{"new": "edited", "a": "edited", "own too": "edited", "inside": "edited", "moved": "moved", "f/b": "two", "f/c": "three"} {
		should.Equal(t, a.read(mounted+"/"+name), want, "%s", name)
	}
	for _, name := range []string{"own", "elsewhere"} {
		should.Hold(t, strings.Contains(a.read(mounted+"/"+name), "no such file"), "%s is there", name)
	}
	info := must.Get(os.Stat(a.in("f/b")))(t)
	should.Equal(t, info.Mode().Perm(), fs.FileMode(0o600), "the rights that somebody else took away")
	should.Hold(t, slices.Equal(names(o.NotRestored), []string{"a", "f/b", "inside", "new", "own too"}), "named: %v", o.NotRestored)
}

// Between the plan and its steps others may write too.
func TestWhatOthersChangeDuringARestoreStays(t *testing.T) {
	a := newMounted(t)
	run := a.ran(func() {
		for _, name := range []string{"a", "f/b", "f/new", "f/newer"} {
			a.write(mounted+"/"+name, "run")
		}
		_ = os.Remove(a.in("f/c"))
	})
	plan := must.Get(a.store.Prepare("undo", run, 1<<40))(t)
	a.save("a", "edited")
	a.save("f/new", "edited")
	a.save("f/c", "edited")
	o := plan.Apply()
	a.rest()
	for name, want := range map[string]string{"a": "edited", "f/new": "edited", "f/c": "edited", "f/b": "two"} {
		should.Equal(t, a.read(mounted+"/"+name), want, "%s", name)
	}
	should.Hold(t, slices.Equal(names(o.NotRestored), []string{"a", "f/c", "f/new"}), "named: %v", o.NotRestored)
	entries := must.Get(os.ReadDir(a.in("f")))(t)
	should.Hold(t, len(entries) == 3, "left: %v", entries)
}

func TestAMountedFolderThatIsGone(t *testing.T) {
	a := newMounted(t)
	run := a.ran(func() { a.write(mounted+"/a", "run"); a.write("work", "run") })
	must.OK(t, os.Rename(a.path(mounted), a.path("away")))
	must.OK(t, os.RemoveAll(a.path("away")))
	second := a.ran(func() { a.write("work", "again") })
	info := <-a.info
	should.Hold(t, slices.Contains(info.NotKept, Named{mounted, whyUnseen}), "named: %v", info.NotKept)
	o := a.undo(run)
	should.Hold(t, slices.Equal(names(o.NotRestored), []string{"a"}) && strings.Contains(a.read("work"), "no such file"), "%v of run %s", o, second)
	must.OK(t, os.MkdirAll(a.path(mounted), 0o755)) // something else is mounted there for the next container
	a.open(limit)
	a.undo(run)
	entries := must.Get(os.ReadDir(a.path(mounted)))(t)
	should.Hold(t, len(entries) == 0, "it has %v", entries)
}

// Others may change the folder while no container is there.
func TestAMountedFolderInALaterContainer(t *testing.T) {
	a := newMounted(t)
	run := a.ran(func() { a.write(mounted+"/a", "run"); a.write(mounted+"/f/b", "run"); a.write("work", "run") })
	a.save("a", "edited")
	a.save("f/new", "edited")
	a.open(limit)
	o := a.undo(run)
	should.Equal(t, a.read(mounted+"/a")+a.read(mounted+"/f/new")+a.read(mounted+"/f/b"), "editededitedtwo")
	should.Hold(t, slices.Equal(names(o.NotRestored), []string{"a"}), "named: %v", o.NotRestored)
}

// A session whose folder is mounted no more has no versions of it.
func TestAFolderThatIsMountedNoMore(t *testing.T) {
	a := newMounted(t)
	run := a.ran(func() { _ = os.Remove(a.in("a")); a.write("work", "run") })
	must.OK(t, os.RemoveAll(a.path("mounts")))
	a.mounts = nil
	a.open(limit)
	a.undo(run)
	should.Hold(t, strings.Contains(a.read(mounted+"/a")+a.read("work"), "no such file"), "it is %q", a.tree())
}

func TestARestoreInAMountedFolderGoesOn(t *testing.T) {
	for step := range 6 {
		a := newMounted(t)
		before := a.tree()
		run := a.ran(func() { a.write(mounted+"/a", "run"); _ = os.RemoveAll(a.in("f")); a.write(mounted+"/new", "run") })
		plan := must.Get(a.store.Prepare("undo", run, 1<<40))(t)
		a.store.crash = func(i int) bool { return i == step }
		plan.Apply()
		a.open(limit)
		delete(before, "mounts")
		got := a.tree()
		for path, want := range before {
			should.Hold(t, got[path] == want || strings.HasPrefix(want, "d"), "step %d: %s is %s and was %s", step, path, got[path], want)
		}
		should.Hold(t, got[mounted+"/new"] == "", "step %d: the new file is there", step)
	}
}

// A folder in which nobody changes anything is not looked at before a run.
func TestChangesOfOthersAreNoticed(t *testing.T) {
	a := newMounted(t)
	m := a.store.mounts[0]
	if m.watch.Load() < 0 {
		t.Skip("this file system says nothing")
	}
	for name, change := range map[string]func(){
		"written":   func() { a.write(mounted+"/a", "x") },
		"deep":      func() { a.write(mounted+"/f/g/h", "x") },
		"deeper":    func() { a.write(mounted+"/f/g/i", "x") },
		"removed":   func() { _ = os.Remove(a.in("f/b")) },
		"moved":     func() { _ = os.Rename(a.in("f/c"), a.in("f/d")) },
		"cut":       func() { _ = os.Truncate(a.in("a"), 0) },
		"protected": func() { _ = os.Chmod(a.in("a"), 0o600) },
	} {
		a.ran(func() {})
		a.store.do(func() { a.store.lookOwed(nil) }) // which would see the change, whenever it is free to
		should.Hold(t, !m.mayHaveChanged(), "%s: it has changed before", name)
		change()
		should.Hold(t, m.mayHaveChanged(), "%s: it has not changed", name)
		a.store.CatchUp()
		a.rest()
		should.Hold(t, !m.mayHaveChanged(), "%s: it changes again", name)
	}
}

// A look that is given up for a run has heard what the run's end has to hear.
func TestALookThatIsGivenUpForgetsNothing(t *testing.T) {
	a := newMounted(t)
	a.ran(func() { a.write("work", "x") })
	before := a.tree()
	run := a.ran(func() {
		must.OK(t, os.Rename(a.in("f"), a.in("g")))
		a.store.do(func() {
			a.store.mounts[0].skipped = true
			a.store.mu.Lock()
			a.store.owed = true
			a.store.mu.Unlock()
			a.store.lookOwed(func() bool { return false })
		})
		a.store.mu.Lock()
		a.store.owed = false // nothing but the run's own end looks again
		a.store.mu.Unlock()
	})
	o := a.undo(run)
	should.Hold(t, o.NotRestoredTotal == 0, "not restored: %v", o.NotRestored)
	a.compare(before, "undone")
}

func TestManyFoldersAreNotFollowed(t *testing.T) {
	a := newMounted(t)
	for i := range mostWatched {
		must.OK(t, os.Mkdir(a.in(strconv.Itoa(i)), 0o755))
	}
	a.ran(func() {})
	m := a.store.mounts[0]
	should.Hold(t, m.watch.Load() < 0 && m.mayHaveChanged(), "%d folders are followed", m.watched)
	a.save("7/edited", "edited")
	run := a.ran(func() { a.write(mounted+"/a", "run"); a.write(mounted+"/9/new", "run") })
	o := a.undo(run)
	should.Equal(t, a.read(mounted+"/a")+" "+a.read(mounted+"/7/edited"), "one edited")
	should.Hold(t, o.NotRestoredTotal == 0 && strings.Contains(a.read(mounted+"/9/new"), "no such file"), "%v", o.NotRestored)
}

// What is written to a mapping tells nothing, and is the run's all the same.
func TestAMappedFileOfAMountedFolderGoesBack(t *testing.T) {
	for _, soon := range []bool{false, true} {
		a := newMounted(t)
		var mapping []byte
		a.ran(func() {
			file := must.Get(os.OpenFile(a.in("a"), os.O_RDWR, 0))(t)
			defer func() { _ = file.Close() }()
			mapping = must.Get(unix.Mmap(int(file.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(t)
		})
		run := a.ran(func() { copy(mapping, "two") })
		if !soon {
			must.Soon(t, "it is seen", func() bool {
				a.store.mu.Lock()
				defer a.store.mu.Unlock()
				return !a.store.owed
			})
		}
		o := a.undo(run)
		should.Hold(t, a.read(mounted+"/a") == "one" && o.NotRestoredTotal == 0, "%v: it is %q, %v; owed %v", soon, a.read(mounted+"/a"), o, a.store.owed)
		must.OK(t, unix.Munmap(mapping))
	}
}

// marker is in all that the editor of the following test writes.
var marker = regexp.MustCompile(`edit-\d+`)

// Random programs beside an editor: what they did is undone, byte for byte and right for right, and nothing that the editor wrote is lost.
// As root, the session is another user, as in a container, and the editor writes at any time; else between runs.
func TestRandomProgramsBesideAnEditor(t *testing.T) {
	if root := os.Getenv("VERSIONS_ROOT"); root != "" {
		serveRuns(t, root)
		return
	}
	programs := 500
	if testing.Short() {
		programs = 40
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	defer syscall.Umask(syscall.Umask(0))
	base := must.Get(os.MkdirTemp("", "versions-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	for _, folder := range []string{base, base + "/work", base + "/work/mounts", base + "/work/" + mounted} {
		_ = os.Mkdir(folder, 0o777)
		must.OK(t, os.Chmod(folder, 0o777))
	}
	must.OK(t, os.WriteFile(base+"/test", must.Get(os.ReadFile("/proc/self/exe"))(t), 0o755))
	cmd := exec.Command(base+"/test", "-test.run=^TestRandomProgramsBesideAnEditor$", "-test.v")
	cmd.Env, cmd.Stderr, cmd.Dir = append(os.Environ(), "VERSIONS_ROOT="+base, "TMPDIR="+base), os.Stderr, base
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4242, Gid: 4242}}
	}
	in, out := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	ask := func(what string, number uint64) (o Outcome) {
		fmt.Fprintln(in, what, number)
		for lines.Scan() {
			if answer, is := strings.CutPrefix(lines.Text(), "answer "); is {
				must.OK(t, json.Unmarshal([]byte(answer), &o))
				return o
			}
			if text := lines.Text(); text != "" {
				t.Log(text)
			}
		}
		t.Fatal("the session is gone")
		return o
	}
	e := &editor{area: &area{t: t, root: base + "/work/" + mounted}, r: r}
	for number := uint64(1); number < uint64(programs) && !t.Failed(); number += 2 {
		e.touched = map[string]string{}
		ask("rest", 0)
		before := e.tree()
		for i := range uint64(2) {
			e.edit(true)
			ask("begin", number+i)
			if i == 0 && len(e.touched) > 0 { // what goes back is the state before the run, with this
				before = e.tree()
				e.touched = map[string]string{}
			}
			if os.Geteuid() == 0 {
				e.edit(false)
			}
			ask("program", r.Uint64())
			if os.Geteuid() == 0 {
				e.edit(false)
			}
			ask("end", number+i)
		}
		e.edit(true)
		last := e.tree()
		o := ask("undo", number)
		e.judge(before, last, e.tree(), o)
		ask("redo", number)
		now := e.tree()
		for path, what := range last {
			should.Hold(t, isAlike(what, now[path]), "the undoing undone: %q is %.80s and was %.80s", path, now[path], what)
		}
	}
}

// serveRuns is the session.
func serveRuns(t *testing.T, base string) {
	a := &area{t: t, root: base + "/work", state: base + "/state", mounts: []string{mounted}}
	a.open(limit)
	there := &area{t: t, root: base + "/work/" + mounted}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		what, text, _ := strings.Cut(lines.Text(), " ")
		number := must.Get(strconv.ParseUint(text, 10, 64))(t)
		id, o := "run-"+text, Outcome{}
		switch what {
		case "begin":
			a.store.CatchUp()
			a.rest()
			a.store.Begin(id)
		case "program":
			there.program(rand.New(rand.NewPCG(number, 0)))
		case "end":
			a.end(id)
		case "undo":
			o = a.undo(id)
		case "redo":
			o = a.undo("undo-" + id)
		case "rest":
			a.store.CatchUp()
			a.rest()
		}
		fmt.Printf("\nanswer %s\n", must.Get(json.Marshal(o))(t))
	}
}

type editor struct {
	*area
	r       *rand.Rand
	number  int
	touched map[string]string // what it did in this round, by path
}

// edit does something to a few files; removals too if nothing else goes on.
func (e *editor) edit(alone bool) {
	names := []string{"a", "b", "c\nd", "über", "f", "own"}
	saved := map[string]bool{}
	for range e.r.IntN(4) {
		name := names[e.r.IntN(len(names))]
		if e.r.IntN(2) == 0 {
			name += "/" + names[e.r.IntN(len(names))]
		}
		e.number++
		content := fmt.Sprintf("edit-%d %s", e.number, strings.Repeat("x", e.r.IntN(3000)))
		switch {
		case e.r.IntN(3) == 0 && alone:
			if os.Remove(e.path(name)) == nil {
				e.touched[name] = ""
				if saved[name] { // nobody may have seen that it was there
					e.touched[name] = "nothing"
				}
			}
			continue
		case os.MkdirAll(filepath.Dir(e.path(name)), 0o777) != nil:
			continue
		}
		var s unix.Stat_t
		if unix.Lstat(e.path(name), &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFREG && s.Uid == uint32(os.Geteuid()) && s.Nlink == 1 && e.r.IntN(2) == 0 {
			_ = os.WriteFile(e.path(name), []byte(content), 0o644)
		} else {
			must.OK(e.t, os.WriteFile(e.path("~save"), []byte(content), 0o644))
			if os.Rename(e.path("~save"), e.path(name)) != nil { // a folder is there
				_ = os.Remove(e.path("~save"))
				continue
			}
		}
		saved[name] = true
	}
	now := e.tree()
	for name := range saved {
		if now[name] != "" {
			e.touched[name] = now[name]
		}
	}
}

// judge compares the state before two runs, and before and behind the undoing.
func (e *editor) judge(before, last, now map[string]string, o Outcome) {
	e.t.Helper()
	theirs := map[string]bool{}
	for path, what := range last {
		if marker.MatchString(what) && before[path] != what {
			theirs[path] = true
		}
	}
	for path, did := range e.touched {
		theirs[path] = true
		if is := last[path]; is == did && now[path] != is {
			e.t.Errorf("%q is %.80s, and the editor's was %.80s", path, now[path], last[path])
		}
	}
	near := func(path string) bool {
		for other := range theirs {
			if path == other || strings.HasPrefix(path, other+"/") || strings.HasPrefix(other, path+"/") {
				return true
			}
		}
		return false
	}
	for _, tree := range []map[string]string{before, now} {
		for path := range tree {
			if was, is := before[path], now[path]; !isAlike(was, is) && !near(path) {
				e.t.Errorf("%q is %.80s and was %.80s; %v", path, is, was, o.NotRestored)
			}
		}
	}
	for path := range now {
		if filepath.Base(path) == aside {
			e.t.Errorf("%q is left", path)
		}
	}
}

// isAlike compares all but the times of folders: others' keep theirs.
func isAlike(was, is string) bool {
	if strings.HasPrefix(was, "d") && strings.HasPrefix(is, "d") {
		was, _, _ = strings.Cut(was, " ")
		is, _, _ = strings.Cut(is, " ")
	}
	return was == is
}

// BenchmarkMounts shows what a large mounted folder costs a run that changes nothing.
func BenchmarkMounts(b *testing.B) {
	a := &area{t: b, root: b.TempDir(), state: filepath.Join(b.TempDir(), "state"), mounts: []string{mounted}}
	for i := range 49_000 {
		a.write(fmt.Sprintf("%s/%d/%d", mounted, i%900, i), "content")
	}
	opened := spent(func() { a.open(limit) })
	var begin, end time.Duration
	for b.Loop() {
		var id string
		begin += spent(func() { a.store.CatchUp(); <-a.store.Settled(); id = a.begin() })
		end += spent(func() { a.end(id) })
	}
	b.ReportMetric(opened.Seconds(), "s/open")
	b.ReportMetric(float64(begin.Microseconds())/float64(b.N)/1000, "ms/begin")
	b.ReportMetric(float64(end.Microseconds())/float64(b.N)/1000, "ms/end")
}
