package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
)

func TestFilesFromBeforeARunComeByTheStream(t *testing.T) {
	f := newWorkFiles(t)
	f.write("output/übung.txt", "one\ntwo\n")
	f.write(".hidden/f", "")
	dir, err := os.Open(f.work)
	f.check(err)
	t.Cleanup(func() { _ = dir.Close() })
	if _, err := f.ListBefore(t.Context(), "run-1", nil); !errors.Is(err, ErrUnknownRun) { // nothing keeps versions
		t.Errorf("got %v", err)
	}
	store := versions.Open(int(dir.Fd()), f.state, 1<<20, func(versions.Info) {})
	t.Cleanup(store.GiveUp)
	f.versions = store
	if _, err := f.versions.List("run-0"); !errors.Is(err, versions.ErrUnknown) { // and it has looked at the files
		t.Errorf("got %v", err)
	}
	f.versions.Begin("run-1")
	f.write("new", "")
	f.versions.End("run-1", 1<<20)
	var listed []File
	end, err := f.ListBefore(t.Context(), "run-1", func(e Entry) error { listed = append(listed, e.File); return nil })
	if err != nil || end != (WalkEnd{Complete: true}) || len(listed) != 1 || listed[0].Name() != "output/übung.txt@run-1" || listed[0].SizeBytes != 8 {
		t.Errorf("listed %+v, %+v, %v", listed, end, err)
	}
	text, read, err := f.read("output/u\u0308bung.txt", ReadOptions{Before: "run-1", Offset: 1, Limit: 1, Lines: true})
	should.Hold(t, err == nil && text == "two\n" && read.Complete, "read %q, %+v, %v", text, read, err)
	for name, code := range map[string]fault.Code{"new": fault.NotFound, "output": "is_directory", "../new": fault.InvalidPath} {
		_, err := f.Client.Open(t.Context(), name, ReadOptions{Before: "run-1"})
		f.wants(err, string(code), name)
	}
	list, err := f.Versions(t.Context(), "new")
	should.Hold(t, err == nil && len(list) == 1 && list[0].Before == "run-1" && list[0].How == versions.Added,
		"versions: %+v, %v", list, err)
	list, err = f.Versions(t.Context(), "output/übung.txt")
	should.Hold(t, err == nil && len(list) == 0, "versions: %+v, %v", list, err)
}

// An upload that comes while files go back stays: it is placed afterwards.
func TestAnUploadWaitsForItsPlace(t *testing.T) {
	f := newWorkFiles(t)
	f.placing = new(sync.RWMutex)
	f.placing.Lock()
	placed := make(chan error)
	go func() {
		placed <- f.upload("f", "uploaded", overwrite)
	}()
	for parts := 0; parts == 0; { // until it has come
		entries, _ := os.ReadDir(f.path(".uploads"))
		parts = len(entries)
	}
	f.write("f", "restored")
	f.placing.Unlock()
	f.check(<-placed)
	should.Equal(t, f.content("f"), "uploaded")
}

func TestAVersionWithoutContentSaysWhy(t *testing.T) {
	err := inWords(&filewire.Error{Code: filewire.NotKept, Message: "too\x1b large"}, "f")
	if err.Code != fault.NotFound || !strings.HasPrefix(err.Message, `The content of "f" from before this run is not kept: too`) || strings.Contains(err.Message, "\x1b") {
		t.Errorf("got %v", err)
	}
}

// Versions come with an export, and are there for the next process that has the files.
func TestVersionsAreExportedAndImported(t *testing.T) {
	f, g := newWorkFiles(t), newWorkFiles(t)
	kept := func(of *workFiles) {
		dir, err := os.Open(of.work)
		of.check(err)
		t.Cleanup(func() { _ = dir.Close() })
		store := versions.Open(int(dir.Fd()), of.state, 1<<20, func(versions.Info) {})
		t.Cleanup(store.GiveUp) // it writes no more while its folder is removed
		of.versions = store
	}
	f.write("f", "one")
	kept(f)
	run := ""
	for n, text := 0, ""; text != "one"; n++ { // a run that begins at once leaves no time for a copy
		f.write("f", "one")
		f.versions.Note("f")
		_, _ = f.versions.List("")
		run = fmt.Sprint("run-", n)
		f.versions.Begin(run)
		f.write("f", "changed")
		f.versions.End(run, 1<<20)
		text, _, _ = f.read("f", whole(run))
	}
	for !strings.Contains(f.kept("versions/log"), run) { // it comes with the copies
		_, _ = f.versions.List("")
	}
	for name, text := range map[string]string{"versions/journal": "of a restore that goes on", "bash.before-1": "for this container", "bash.frozen": "variables"} {
		f.check(os.WriteFile(filepath.Join(f.state, name), []byte(text), 0o600))
	}
	kept(g)
	_, _ = g.versions.List("") // it has looked, and its log is there
	g.check(g.Import(t.Context(), Limits{}, f.entries()))
	should.Equal(t, g.kept("bash.before-1")+g.kept("versions/journal")+g.kept("bash.frozen"), "variables", "what came of the state")
	kept(g) // in the next process
	text, _, err := g.read("f", whole(run))
	should.Hold(t, text == "one" && err == nil, "it was %q, %v", text, err)
	should.Equal(t, g.content("f"), "changed")
}

// kept is the content of a file of the state; nothing if it is not there.
func (f *workFiles) kept(name string) string {
	text, _ := os.ReadFile(filepath.Join(f.state, name))
	return string(text)
}

func whole(before string) ReadOptions { return ReadOptions{Before: before, Limit: -1} }
