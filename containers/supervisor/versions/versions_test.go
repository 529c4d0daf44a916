//go:build linux

package versions

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const limit = 64 << 20

// area is a work directory with its store.
type area struct {
	t     testing.TB
	root  string
	state string
	dir   *os.File
	store *Store
	info  chan Info
	runs  int

	mounts []string
}

func newArea(t testing.TB, most int64) *area {
	a := &area{t: t, root: t.TempDir(), state: filepath.Join(t.TempDir(), "state")}
	a.open(most)
	t.Cleanup(func() { // what a test has locked
		_ = filepath.WalkDir(a.root, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
	})
	return a
}

// open begins again, as another process.
func (a *area) open(most int64) {
	if old := a.store; old != nil {
		old.do(old.copies.close)
	}
	dir := must.Get(os.Open(a.root))(a.t)
	a.t.Cleanup(func() { _ = dir.Close() })
	a.dir, a.info = dir, make(chan Info, 1)
	a.store = Open(int(dir.Fd()), a.state, most, func(i Info) {
		select {
		case <-a.info:
		default:
		}
		a.info <- i
	}, a.mounts...)
	a.rest()
}

// rest waits until all that changed is kept.
func (a *area) rest() {
	a.store.do(func() {
		for _, e := range a.store.todo {
			a.store.keepNow(e)
		}
		a.store.todo = nil
		a.store.finish()
	})
}

// run changes the files as a run does.
func (a *area) run(change func()) string {
	id := a.begin()
	change()
	a.end(id)
	return id
}

func (a *area) begin() string {
	a.runs++
	id := "run-" + strconv.Itoa(a.runs)
	a.store.Begin(id)
	return id
}

func (a *area) end(id string) {
	a.store.End(id, 1<<40)
	a.rest()
}

func (a *area) undo(run string) Outcome {
	a.t.Helper()
	plan := must.Get(a.store.Prepare("undo-"+run, run, 1<<40))(a.t)
	outcome := plan.Apply()
	a.rest()
	return outcome
}

func (a *area) kept(name string) string { return filepath.Join(a.state, name) }

func (a *area) path(name string) string { return filepath.Join(a.root, name) }

func (a *area) write(name, content string) {
	a.t.Helper()
	must.OK(a.t, os.MkdirAll(filepath.Dir(a.path(name)), 0o755))
	must.OK(a.t, os.WriteFile(a.path(name), []byte(content), 0o644))
}

func (a *area) read(name string) string {
	b, err := os.ReadFile(a.path(name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// tree is everything that a person can see: kinds, rights, times and contents.
func (a *area) tree() map[string]string {
	a.t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(a.root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(a.root, path)
		if err != nil || name == "." {
			return err
		}
		if name == uploads {
			return fs.SkipDir
		}
		if slices.Contains(a.mounts, name) { // a folder of others keeps its time
			return nil
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		content := ""
		switch info.Mode().Type() {
		case 0:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(b)
		case fs.ModeSymlink:
			content, _ = os.Readlink(path)
		}
		tree[name] = fmt.Sprintf("%s %d %q", info.Mode(), info.ModTime().UnixNano(), content)
		return nil
	})
	must.OK(a.t, err)
	return tree
}

func (a *area) compare(want map[string]string, when string) {
	a.t.Helper()
	got := a.tree()
	for path := range maps.Keys(want) {
		if got[path] != want[path] {
			a.t.Errorf("%s: %q is %.80s, and was %.80s", when, path, got[path], want[path])
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			a.t.Errorf("%s: %q was not there: %.80s", when, path, got[path])
		}
	}
}

// program does some random things to files.
func (a *area) program(r *rand.Rand) {
	names := []string{"a", "b", "c\nd", "über", "a b", "e\xff", "f", ".hidden", "node_modules"}
	name := func() string {
		parts := []string{}
		for range 1 + r.IntN(3) {
			parts = append(parts, names[r.IntN(len(names))])
		}
		return a.path(strings.Join(parts, "/"))
	}
	for range 1 + r.IntN(6) {
		one, other := name(), name()
		content := strings.Repeat(strconv.Itoa(r.IntN(10)), r.IntN(3)*r.IntN(5000))
		[]func(){
			func() { _ = os.WriteFile(one, []byte(content), 0o400|fs.FileMode(r.IntN(0o400))) },
			func() {
				if f, err := os.OpenFile(one, os.O_WRONLY|os.O_APPEND, 0); err == nil {
					_, _ = f.WriteString(content)
					_ = f.Close()
				}
			},
			func() { // without another size or time
				var s unix.Stat_t
				if f, err := os.OpenFile(one, os.O_RDWR, 0); err == nil {
					_ = unix.Fstat(int(f.Fd()), &s)
					_, _ = f.WriteAt([]byte("#"), 0)
					if s.Size > 0 {
						_ = setTime(int(f.Fd()), s.Mtim.Nano())
					}
					_ = f.Close()
				}
			},
			func() { _ = os.Truncate(one, int64(r.IntN(9000))) },
			func() { _ = os.Rename(one, other) },
			func() { _ = os.Chmod(one, 0o500|fs.FileMode(r.IntN(0o400))) },
			func() { _ = os.Chtimes(one, time.Time{}, time.Unix(r.Int64N(1<<31), r.Int64N(1e9))) },
			func() { _ = os.Symlink(content[:min(9, len(content))]+"x", one) },
			func() { _ = os.Link(one, other) },
			func() { _ = os.Remove(one) },
			func() { _ = os.RemoveAll(one) },
			func() { _ = os.MkdirAll(one, 0o700|fs.FileMode(r.IntN(0o100))) },
			func() { _ = os.RemoveAll(one); _ = os.MkdirAll(other, 0o755) },
			func() { _ = os.MkdirAll(filepath.Dir(one), 0o755); _ = os.WriteFile(one, []byte(content), 0o644) },
		}[r.IntN(14)]()
	}
}

// Every program that does something to files is undone: byte for byte, right for right, time for time.
func TestRandomProgramsAreUndone(t *testing.T) {
	programs, atOnce := 500, 4
	if testing.Short() {
		programs = 60
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	a := newArea(t, limit)
	for round := 0; round < programs/atOnce && !t.Failed(); round++ {
		var before []map[string]string
		var runs []string
		for range atOnce {
			before = append(before, a.tree())
			runs = append(runs, a.run(func() { a.program(r) }))
		}
		if round%8 == 0 {
			a.open(limit)
		}
		last, state := "", map[string]string{}
		for i, run := range slices.Backward(runs) {
			if i%2 == 0 && round%3 == 0 {
				continue // several at once
			}
			last, state = "undo-"+run, a.tree()
			o := a.undo(run)
			should.Hold(t, o.NotRestoredTotal <= 0, "round %d: not restored: %v", round, o)
			a.compare(before[i], fmt.Sprintf("round %d, before run %d", round, i))
		}
		o := a.undo(last)
		should.Hold(t, o.NotRestoredTotal <= 0, "round %d: undoing the undoing: %v", round, o)
		a.compare(state, "the undoing undone")
		a.run(func() { a.program(r); a.program(r) }) // the next begin elsewhere
	}
}

func TestARestoreIsUndone(t *testing.T) {
	a := newArea(t, limit)
	a.run(func() { a.write("kept", "one"); a.write("f/gone", "two") })
	run := a.run(func() { a.write("kept", "three"); _ = os.RemoveAll(a.path("f")); a.write("new", "four") })
	after := a.tree()
	o := a.undo(run)
	should.Hold(t, o.Restored == 2 && o.Removed == 1, "it restored %+v", o)
	if a.read("kept") != "one" || a.read("f/gone") != "two" {
		t.Errorf("it is %q", a.tree())
	}
	a.undo("undo-" + run)
	a.compare(after, "after both")
}

// What stands at a path does not matter: it goes back.
func TestHardCasesAreUndone(t *testing.T) {
	for name, test := range map[string]struct{ before, run func(a *area) }{
		"a file that became a folder": {
			func(a *area) { a.write("f", "one") },
			func(a *area) { _ = os.Remove(a.path("f")); a.write("f/g/h", "two") },
		},
		"a folder that became a file": {
			func(a *area) { a.write("f/g/h", "one") },
			func(a *area) { _ = os.RemoveAll(a.path("f")); a.write("f", "two") },
		},
		"a folder that became a link to another": {
			func(a *area) { a.write("f/g", "one"); a.write("o/g", "other") },
			func(a *area) { _ = os.RemoveAll(a.path("f")); _ = os.Symlink("o", a.path("f")); a.write("f/g", "two") },
		},
		"a folder without rights": {
			func(a *area) {
				a.write("f/g/h", "one")
				_ = os.Chmod(a.path("f/g/h"), 0)
				_ = os.Chmod(a.path("f/g"), 0)
				_ = os.Chmod(a.path("f"), 0)
			},
			func(a *area) {
				_ = os.Chmod(a.path("f"), 0o700)
				_ = os.Chmod(a.path("f/g"), 0o700)
				_ = os.RemoveAll(a.path("f/g"))
			},
		},
		"a folder that loses its rights": {
			func(a *area) { a.write("f/g", "one") },
			func(a *area) { a.write("f/g", "two"); a.write("f/new", "x"); _ = os.Chmod(a.path("f"), 0o100) },
		},
		"a name with a newline, and one that is no text": {
			func(a *area) { a.write("a\nb/\xff\xfe", "one") },
			func(a *area) { a.write("a\nb/\xff\xfe", "two"); a.write("c\n", "new") },
		},
		"hard links": {
			func(a *area) { a.write("f", "one"); _ = os.Link(a.path("f"), a.path("g")) },
			func(a *area) { a.write("f", "two"); _ = os.Remove(a.path("g")) },
		},
		"the same size and time": {
			func(a *area) { a.write("f", "one"); _ = os.Chtimes(a.path("f"), time.Time{}, time.Unix(1, 0)) },
			func(a *area) { a.write("f", "two"); _ = os.Chtimes(a.path("f"), time.Time{}, time.Unix(1, 0)) },
		},
		"an empty folder": {
			func(a *area) { _ = os.MkdirAll(a.path("f/g"), 0o711) },
			func(a *area) { _ = os.RemoveAll(a.path("f")) },
		},
		"a large file that is renamed": {
			func(a *area) { a.write("f", strings.Repeat("content", 1<<20)) },
			func(a *area) { _ = os.Rename(a.path("f"), a.path("g")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArea(t, limit)
			a.run(func() { test.before(a) })
			want := a.unlockedTree()
			run := a.run(func() { test.run(a) })
			o := a.undo(run)
			should.Hold(t, o.NotRestoredTotal <= 0, "not restored: %v", o.NotRestored)
			got := a.unlockedTree()
			should.Hold(t, maps.Equal(got, want), "it is\n%q\nand was\n%q", got, want)
		})
	}
}

// unlockedTree is a tree with folders that nobody may read, which stay as they are.
func (a *area) unlockedTree() map[string]string {
	var unlock []func()
	modes := map[string]string{}
	var walk func(path string)
	walk = func(path string) {
		info, _ := os.Lstat(path)
		if info == nil || info.Mode().Type() == fs.ModeSymlink || path == a.path(uploads) {
			return
		}
		if info.Mode()&0o500 == 0 || info.IsDir() && info.Mode()&0o500 != 0o500 {
			modes[path] = info.Mode().String()
			_ = os.Chmod(path, info.Mode().Perm()|0o700)
			unlock = append(unlock, func() { _ = os.Chmod(path, info.Mode().Perm()) })
		}
		if info.IsDir() {
			entries, _ := os.ReadDir(path)
			for _, e := range entries {
				walk(filepath.Join(path, e.Name()))
			}
		}
	}
	walk(a.root)
	tree := a.tree()
	for _, f := range slices.Backward(unlock) {
		f()
	}
	maps.Copy(tree, modes)
	return tree
}

// A restore that is cut short at any step is the old state or, in the next process, the new one.
func TestARestoreIsAllOrNothing(t *testing.T) {
	for steps, done := 0, false; !done && !t.Failed(); steps++ {
		a := newArea(t, limit)
		a.run(func() {
			a.write("f/g", "one")
			a.write("f/h", "two")
			a.write("d/e/i", "three")
			_ = os.Symlink("f", a.path("l"))
			_ = os.Mkdir(a.path("locked"), 0o500)
		})
		before := a.tree()
		run := a.run(func() {
			a.write("f/g", "changed")
			_ = os.RemoveAll(a.path("d"))
			a.write("d", "a file")
			a.write("n/e/w", "new")
			_ = os.Remove(a.path("l"))
			_ = os.Chmod(a.path("f/h"), 0o600)
			_ = os.Chmod(a.path("locked"), 0o700)
		})
		after := a.tree()
		plan := must.Get(a.store.Prepare("undo", run, limit, a.inode("f/g")))(t)
		a.compare(after, "prepared")
		done = true
		a.store.crash = func(step int) bool {
			if step == steps {
				done = false
			}
			return step == steps
		}
		plan.Apply()
		a.open(limit)
		a.compare(before, fmt.Sprintf("cut at step %d", steps))
		a.undo("undo")
		a.compare(after, fmt.Sprintf("cut at step %d, and undone", steps))
	}
}

func (a *area) inode(name string) uint64 {
	a.t.Helper()
	var s unix.Stat_t
	must.OK(a.t, unix.Stat(a.path(name), &s))
	return s.Ino
}

// What somebody has open gets its content back, and is told if another file is at its place since.
func TestFilesThatAreOpen(t *testing.T) {
	a := newArea(t, limit)
	opened := map[uint64]string{}
	a.run(func() {
		for _, name := range []string{"longer", "shorter", "locked", "replaced", "removed", "closed"} {
			a.write(name, "the "+name)
		}
		must.OK(t, os.Link(a.path("longer"), a.path("link")))
	})
	before := a.tree()
	for _, name := range []string{"longer", "shorter", "locked", "replaced", "removed"} {
		opened[a.inode(name)] = name
	}
	file := must.Get(os.Open(a.path("longer")))(t)
	defer func() { _ = file.Close() }()
	held, err := os.Open(a.path("replaced")) // or its inode is another's
	must.OK(t, err)
	defer func() { _ = held.Close() }()
	run := a.run(func() {
		a.write("longer", "a much longer content")
		a.write("shorter", "")
		a.write("locked", "rights gone")
		must.OK(t, os.Chmod(a.path("locked"), 0o400))
		a.write("new", "another")
		must.OK(t, os.Rename(a.path("new"), a.path("replaced")))
		must.OK(t, os.Remove(a.path("closed")))
	})
	after := a.tree()
	plan := must.Get(a.store.Prepare("undo", run, limit, slices.Collect(maps.Keys(opened))...))(t)
	should.Equal(t, plan.Apply().NotRestoredTotal, 0, "files are not restored")
	a.rest()
	a.compare(before, "back")
	content, err := io.ReadAll(file)
	should.OK(t, err)
	should.Equal(t, string(content), "the longer", "what is open")
	for inode, name := range opened {
		should.Hold(t, name == "replaced" || a.inode(name) == inode, "%s is another file", name)
	}
	should.Equal(t, strings.Join(plan.Parted(opened), " "), "replaced", "what was parted")
	a.undo("undo")
	a.compare(after, "undone")
}

func TestAPlanThatIsNotCarriedOutChangesNothing(t *testing.T) {
	for how, end := range map[string]func(*Plan){"dropped": (*Plan).Drop, "left by a process that ends": func(*Plan) {}} {
		a := newArea(t, limit)
		run := a.run(func() { a.write("f", "one") })
		after := a.tree()
		plan := must.Get(a.store.Prepare("undo", run, limit))(t)
		end(plan)
		a.open(limit)
		a.compare(after, how)
		rest, _ := filepath.Glob(a.kept("versions/[jp]*"))
		entries, _ := os.ReadDir(a.path(uploads))
		should.Hold(t, len(rest)+len(entries) == 0, "%s: it leaves %q, %q", how, rest, entries)
	}
}

// A run that begins beside another is not told to go back to what that had changed by then.
func TestARunBesideAnotherHasNoExactBeginning(t *testing.T) {
	a := newArea(t, limit)
	a.run(func() { a.write("before", "one") })
	before := a.tree()
	first := a.begin()
	a.write("f", "of the first")
	second := a.begin()
	a.write("g", "of the second")
	a.end(second)
	a.end(first)
	should.Be(t, should.ErrOf(a.store.Prepare("undo", second, limit)), ErrUnknown)
	a.undo(first)
	a.compare(before, "the first undone")
}

func TestWhatCannotGoBack(t *testing.T) {
	a := newArea(t, limit)
	var runs []string
	for i := range mostRuns + 1 {
		runs = append(runs, a.run(func() { a.write("f", strconv.Itoa(i)) }))
	}
	for run, want := range map[string]error{"no-run": ErrUnknown, runs[0]: ErrUnknown, runs[1]: nil} {
		plan, err := a.store.Prepare("undo", run, limit)
		should.Be(t, err, want, "%s", run)
		if plan != nil {
			plan.Drop()
		}
	}
	should.EqualSlice(t, (<-a.info).Runs, runs[1:], "it tells of")
	id := a.begin()
	should.Be(t, should.ErrOf(a.store.Prepare("undo", runs[5], limit)), ErrBusy, "during a run")
	a.end(id)
	big := a.run(func() { a.write("g", strings.Repeat("g", 1<<20)); _ = os.Truncate(a.path("f"), 0) })
	gone := a.run(func() { _ = os.Remove(a.path("g")) })
	var full *FullError
	_, err := a.store.Prepare("undo", gone, 1000)
	should.Hold(t, errors.As(err, &full) && full.Need >= 1<<20, "without room: %v", err)
	should.Hold(t, a.read("g") != "", "it has changed something")
	a.undo(big)
}

// What is too large or written meanwhile has no copy, which is told, and the rest goes back.
func TestFilesWithoutACopyAreNamed(t *testing.T) {
	a := newArea(t, 1<<20)
	a.run(func() {
		a.write("large", strings.Repeat("l", 2<<20))
		a.write("small", "one")
		must.OK(t, unix.Mkfifo(a.path("pipe"), 0o600))
	})
	info := <-a.info
	should.Hold(t, info.NotKeptTotal == 1 && info.NotKept[0] == (Named{"large", whyLarge}), "it tells of %+v", info)
	run := a.run(func() { a.write("large", "cut"); a.write("small", "two"); _ = os.Remove(a.path("pipe")) })
	o := a.undo(run)
	should.EqualSlice(t, o.NotRestored, []Named{{"large", whyLarge}, {"pipe", "a pipe, a socket or a device stays as it is"}}, "it tells of %+v", o)
	if a.read("small") != "one" || a.read("large") != "cut" {
		t.Errorf("it is %q, %q", a.read("small"), a.read("large"))
	}
}

func TestOldVersionsMakeRoomForNewOnes(t *testing.T) {
	a := newArea(t, 1<<20)
	var runs []string
	for i := range 4 {
		runs = append(runs, a.run(func() { a.write("f", strings.Repeat(strconv.Itoa(i), 400<<10)) }))
	}
	if a.store.find(runs[0]); a.store.copies.total.Load() > 1<<20 {
		t.Errorf("they take %d bytes", a.store.copies.total.Load())
	}
	should.Be(t, should.ErrOf(a.store.Prepare("undo", runs[1], limit)), ErrUnknown, "the first")
	a.undo(runs[3])
	if a.read("f")[:1] != "2" {
		t.Errorf("it is %.9s", a.read("f"))
	}
}

func TestASparseFileStaysSparse(t *testing.T) {
	a := newArea(t, limit)
	make := func(content string) {
		f := must.Get(os.Create(a.path("f")))(t)
		_, _ = f.WriteAt([]byte(content), 1<<30)
		_ = f.Truncate(1 << 40)
		_ = f.Close()
	}
	a.run(func() { make("one") })
	a.undo(a.run(func() { _ = os.Remove(a.path("f")) }))
	f := must.Get(os.Open(a.path("f")))(t)
	defer func() { _ = f.Close() }()
	b := []byte("xxx")
	_, _ = f.ReadAt(b, 1<<30)
	if info, _ := f.Stat(); info.Size() != 1<<40 || string(b) != "one" {
		t.Errorf("it has %d bytes and %q", info.Size(), b)
	}
}

// Another run that begins before the files were copied changes only what it writes.
func TestARunThatBeginsAtOnce(t *testing.T) {
	a := newArea(t, limit)
	first := a.begin()
	a.write("kept", "one")
	a.write("lost", "one")
	a.store.mu.Lock() // nothing is copied before the next run has begun
	busy := make(chan struct{})
	a.store.queue = append(a.store.queue, func() { <-busy })
	a.store.mu.Unlock()
	a.store.End(first, limit)
	second := a.begin() // the files have not been looked at
	a.write("lost", "two!")
	close(busy)
	a.end(second)
	should.Be(t, should.ErrOf(a.store.Prepare("undo", second, limit)), ErrUnknown, "the second")
	a.undo(first)
	if a.read("kept") == "one" || a.read("lost") == "two!" {
		t.Errorf("it is %q", a.tree())
	}
}

// What somebody else brings stays when the runs before it are undone, and is named where one had changed it.
func TestWhatOthersBringStays(t *testing.T) {
	for name, note := range map[string]func(a *area, paths ...string){
		"uploads":            func(a *area, paths ...string) { a.store.Note(paths...) },
		"one by one":         func(a *area, paths ...string) { a.store.Note(paths[0]); a.rest(); a.store.Note(paths[1:]...) },
		"without a path":     func(a *area, _ ...string) { a.store.Note() },
		"before another one": func(a *area, paths ...string) { a.store.Note(paths...); a.rest(); a.open(limit) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newArea(t, limit)
			a.write("input/both", "at first")
			before := a.run(func() {})
			first := a.run(func() {
				a.write("input/both", "of the run")
				a.write("made/by", "the run")
				a.write("f", "one")
				a.write("made/both", "of the run")
			})
			for _, path := range []string{"input/both", "input/sub/upload", "made/both", "made/new"} {
				a.write(path, "theirs")
			}
			note(a, "input/both", "input/sub/upload", "made/both", "made/new")
			a.rest()
			second := a.run(func() { a.write("input/sub/upload", "changed"); a.write("input/both", "changed again") })
			should.Equal(t, a.was(first, "input/both"), "at first")
			should.Equal(t, a.was(second, "input/both"), "theirs")
			o := a.undo(second)
			should.Equal(t, a.read("input/both")+a.read("input/sub/upload"), "theirstheirs")
			should.Equal(t, o.NotRestoredTotal, 0)
			for _, run := range []string{first, before} {
				o = a.undo(run)
				should.EqualSlice(t, o.NotRestored, []Named{{"input/both", whyBrought}, {"made/both", whyBrought}})
				for _, path := range []string{"input/both", "input/sub/upload", "made/both", "made/new"} {
					should.Equal(t, a.read(path), "theirs", "%s", path)
				}
				tree := a.tree()
				should.Hold(t, tree["f"]+tree["made/by"] == "", "it is %q", tree)
			}
			a.undo("undo-" + first)
			should.Equal(t, a.read("f"), "one")
		})
	}
}

// Runs that change nothing, small changes and going back push out no run, and a chain of undos works to its end.
func TestAChainOfUndos(t *testing.T) {
	a := newArea(t, limit)
	var runs []string
	var before []map[string]string
	do := func(change func()) {
		before = append(before, a.tree())
		runs = append(runs, a.run(change))
	}
	do(func() { a.write("data", "precious") })
	do(func() { _ = os.Remove(a.path("data")) })
	for i := range 30 {
		do(func() { a.write("output/figure-"+strconv.Itoa(i)+".png", "figure") })
		do(func() {})
	}
	for i, run := range slices.Backward(runs) {
		if i%20 == 0 {
			a.open(limit)
		}
		a.undo(run)
		a.compare(before[i], run)
	}
	a.undo("undo-" + runs[0])
	a.compare(before[1], "the last undoing undone")
}

// Code that replaces the folder of the versions, or puts something else into it, costs itself its versions and no more.
func TestHostileChangesToTheVersions(t *testing.T) {
	outside := t.TempDir()
	for name, change := range map[string]func(a *area){
		"removed":       func(a *area) { _ = os.RemoveAll(a.state) },
		"a link":        func(a *area) { _ = os.RemoveAll(a.state); _ = os.Symlink(outside, a.state) },
		"a file":        func(a *area) { _ = os.RemoveAll(a.state); must.OK(a.t, os.WriteFile(a.state, nil, 0o600)) },
		"copies gone":   func(a *area) { removeAll(a.kept("versions/c*")) },
		"copies others": func(a *area) { replaceAll(a.kept("versions/c*"), "forged") },
		"copies pipes": func(a *area) {
			list, _ := filepath.Glob(a.kept("versions/c*"))
			for _, path := range list {
				_ = os.Remove(path)
				_ = unix.Mkfifo(path, 0o600)
			}
		},
		"a link where files get ready": func(a *area) { _ = os.RemoveAll(a.path(uploads)); _ = os.Symlink(outside, a.path(uploads)) },
		"a forged log": func(a *area) {
			replaceAll(a.kept("versions/log"), `{"next":3,"now":[{"p":"Li4vb3V0","e":{"m":33188,"i":"c1"}}],"versions":[null]}`+"\n")
		},
		"a forged journal": func(a *area) {
			replaceAll(a.kept("versions/log"), "x")
			_ = os.Rename(a.kept("versions/log"), a.kept("versions/journal"))
			replaceAll(a.kept("versions/journal"), `{"id":"x","ops":[{"do":"remove","p":"Li4vb3V0"},{"do":"put","p":"Li4vb3V0","f":1},{"do":"set","p":"","m":16384}]}`+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArea(t, limit)
			a.run(func() { a.write("f", "one") })
			run := a.run(func() { a.write("f", "two"); change(a) })
			if plan, err := a.store.Prepare("undo", run, limit); err == nil {
				plan.Apply()
			}
			got := a.read("f")
			should.Hold(t, got == "one" || got == "two" || got == "forged", "it is %q", got)
			a.open(limit)
			run = a.run(func() { a.write("g", "new") })
			plan, err := a.store.Prepare("undo", run, limit)
			if errors.Is(err, ErrFolder) && name[:2] == "a " {
				return
			}
			must.OK(t, err)
			plan.Apply()
			if _, err := os.Lstat(a.path("g")); err == nil {
				t.Error("it is of no use any more")
			}
			entries, _ := os.ReadDir(outside)
			should.Hold(t, len(entries) == 0, "it has written outside: %q", entries)
		})
	}
}

func removeAll(pattern string) {
	list, _ := filepath.Glob(pattern)
	for _, path := range list {
		_ = os.Remove(path)
	}
}

func replaceAll(pattern, content string) {
	list, _ := filepath.Glob(pattern)
	for _, path := range list {
		_ = os.WriteFile(path, []byte(content), 0o600)
	}
}

func TestVersionsGiveWay(t *testing.T) {
	a := newArea(t, limit)
	run := a.run(func() { a.write("f", strings.Repeat("one", 10000)) })
	must.Hold(t, a.store.GiveWay(), "there is nothing to drop")
	a.rest()
	should.Hold(t, !a.store.GiveWay(), "it is still there")
	should.Be(t, should.ErrOf(a.store.Prepare("undo", run, limit)), ErrUnknown, "it goes back")
	a.rest()
	a.undo(a.run(func() { a.write("f", "two") }))
	if a.read("f")[:3] != "one" {
		t.Errorf("it is %.9q", a.read("f"))
	}
}

// BenchmarkRuns measures, in processor time, what versions cost: to keep what a run leaves, and to go back.
func BenchmarkRuns(b *testing.B) {
	const files = 1000
	for name, change := range map[string]func(a *area, i int){
		"nothing": func(*area, int) {},
		"files": func(a *area, i int) {
			for n := range files {
				a.write("f/"+strconv.Itoa(n), strconv.Itoa(i+n))
			}
		},
		"large": func(a *area, i int) { a.write("large", strings.Repeat(strconv.Itoa(i%10), 256<<20)) },
	} {
		b.Run(name, func(b *testing.B) {
			a := newArea(b, 1<<30)
			a.run(func() { change(a, 0) })
			var kept, back, wait time.Duration
			for i := 1; b.Loop(); i++ {
				id := a.begin()
				change(a, i)
				kept += spent(func() { a.end(id) })
				a.store.End(a.begin(), 1<<40)
				began := time.Now()
				next := a.begin() // at once
				wait = max(wait, time.Since(began))
				a.end(next)
				back += spent(func() { a.undo(id) })
			}
			each := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
			b.ReportMetric(each(kept), "cpu-ms-kept")
			b.ReportMetric(each(back), "cpu-ms-back")
			b.ReportMetric(float64(wait.Microseconds())/1000, "ms-next-begins")
		})
	}
}

// spent is the processor time that f takes.
func spent(f func()) time.Duration {
	now := func() int64 {
		var u unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	began := now()
	f()
	return time.Duration(now() - began)
}
