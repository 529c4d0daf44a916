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
	if err != nil || found != path {
		a.t.Errorf("%q: %v", found, err)
	}
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
		if got := a.listed(run); !reflect.DeepEqual(got, want) {
			t.Errorf("before %s there were %q", run, got)
		}
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
	if want := []string{third + "changed5", second + "changed3", first + "added0"}; !reflect.DeepEqual(versions, want) {
		t.Errorf("the versions are %q", versions)
	}
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
	if want := (Did{Runs: []string{run}, Added: 21, Changed: 1, Removed: 1}); !reflect.DeepEqual(last, want) {
		t.Errorf("it did %+v", last)
	}
	if len(paths) != mostTouched || !reflect.DeepEqual(paths[:3], []Touched{{"f", Changed}, {"g", Removed}, {"l", Added}}) {
		t.Errorf("it touched %v", paths)
	}
}

// A version that has no copy says why, and hides no other.
func TestAnEarlierContentThatIsNotKeptSaysWhy(t *testing.T) {
	a := newArea(t, 1<<20)
	a.run(func() { a.write("large", strings.Repeat("x", 2<<20)); a.write("small", "one") })
	run := a.run(func() { a.write("large", "gone"); a.write("small", "two") })
	if got := a.listed(run); !reflect.DeepEqual(got, []string{"large!", "small"}) {
		t.Errorf("listed %q", got)
	}
	should.Equal(t, a.was(run, "small"), "one")
	_, _, err := a.store.Read(run, []string{"large"})
	if lost := new(NotKeptError); !errors.As(err, &lost) || lost.Why != whyLarge {
		t.Errorf("got %v", err)
	}
	if err := os.RemoveAll(a.path(stateFolder + "/" + folder)); err != nil { // code removes the copies
		t.Fatal(err)
	}
	should.Equal(t, a.was(run, "small"), "its copy is gone")
}
