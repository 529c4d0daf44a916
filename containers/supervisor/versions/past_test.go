//go:build linux

package versions

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// was is the content of a file from before a run.
func (a *area) was(run, path string) string {
	file, found, err := a.store.Read(run, []string{"no such form", path})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(file)
	should.Hold(a.t, err == nil && found == path, "%q: %v", found, err)
	return string(text)
}

// listed are the names of the files from before a run, with ! behind those without content.
func (a *area) listed(run string) (names []string) {
	list, err := a.store.List(run)
	should.OK(a.t, err)
	for _, f := range list {
		if f.Why != "" {
			f.Path += "!"
		}
		names = append(names, f.Path)
	}
	return names
}

func TestEarlierStatesAreSeen(t *testing.T) {
	a := newArea(t, limit)
	first := a.run(func() { a.write("f", "one"); a.write("stays", "as it is"); _ = os.Symlink("f", a.path("l")) })
	second := a.run(func() { a.write("f", "three"); a.write("d/new", "new"); _ = os.Remove(a.path("stays")) })
	a.open(limit) // another process goes on
	third := a.run(func() { _ = os.RemoveAll(a.path("d")); a.write("f", "five!") })
	for run, want := range map[string][]string{first: nil, second: {"f", "stays"}, third: {"d/new", "f"}} {
		got := a.listed(run)
		should.Hold(t, reflect.DeepEqual(got, want), "before %s there were %q", run, got)
	}
	for what, want := range map[[2]string]string{
		{first, "f"}: unix.ENOENT.Error(), {second, "f"}: "one", {second, "stays"}: "as it is", {second, "d/new"}: unix.ENOENT.Error(),
		{third, "f"}: "three", {third, "d/new"}: "new", {third, "d"}: unix.EISDIR.Error(), {third, "l"}: unix.ELOOP.Error(),
		{"run-0", "f"}: ErrUnknown.Error(),
	} {
		should.Equal(t, a.was(what[0], what[1]), want, "%q", what)
	}
	var versions []string
	for _, v := range a.store.Of([]string{"no such form", "f"}) {
		versions = append(versions, fmt.Sprint(v.Before, v.How, v.File.Size, v.File.Why))
	}
	want := []string{third + "changed5", second + "changed3", first + "added0"}
	should.Hold(t, reflect.DeepEqual(versions, want), "the versions are %q", versions)
	a.undo(second)
	should.Equal(t, a.was("undo-"+second, "f"), "five!", "before going back it")
}

// A run that goes on sees the state from before it too.
func TestTheStateBeforeARunThatGoesOnIsSeen(t *testing.T) {
	a := newArea(t, limit)
	a.run(func() { a.write("f", "one") })
	run := a.begin()
	a.write("f", "changed")
	should.Equal(t, a.was(run, "f"), "one")
	a.end(run)
}

func TestWhatRunsDidIsSummedUp(t *testing.T) {
	a := newArea(t, limit)
	a.run(func() { a.write("f", "one"); a.write("g", "two"); _ = os.Mkdir(a.path("d"), 0o755) })
	run := a.run(func() {
		a.write("f", "three")
		_ = os.Remove(a.path("g"))
		_ = os.Symlink("f", a.path("l"))
		_ = os.Remove(a.path("d"))
		for i := range 20 {
			a.write(fmt.Sprintf(".cache/%d", i), "")
		}
	})
	all := (<-a.info).Did
	last := all[len(all)-1]
	paths := last.Paths
	last.Paths = nil
	want := (Did{Runs: []string{run}, Added: 21, Changed: 1, Removed: 1})
	should.Hold(t, reflect.DeepEqual(last, want), "it did %+v", last)
	should.Hold(t, len(paths) == mostTouched && reflect.DeepEqual(paths[:3], []Touched{{"f", Changed}, {"g", Removed}, {"l", Added}}),
		"it touched %v", paths)
}

// A version that has no copy says why, and hides no other.
func TestAnEarlierContentThatIsNotKeptSaysWhy(t *testing.T) {
	a := newArea(t, 1<<20)
	a.run(func() { a.write("large", strings.Repeat("x", 2<<20)); a.write("small", "one") })
	run := a.run(func() { a.write("large", "gone"); a.write("small", "two") })
	got := a.listed(run)
	should.Hold(t, reflect.DeepEqual(got, []string{"large!", "small"}), "listed %q", got)
	should.Equal(t, a.was(run, "small"), "one")
	_, _, err := a.store.Read(run, []string{"large"})
	lost := new(NotKeptError)
	should.Hold(t, errors.As(err, &lost) && lost.Why == whyLarge, "got %v", err)
	if err := os.RemoveAll(a.kept(folder)); err != nil { // code removes the copies
		t.Fatal(err)
	}
	should.Equal(t, a.was(run, "small"), "its copy is gone")
}
