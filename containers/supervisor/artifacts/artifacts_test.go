//go:build linux

package artifacts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// What was there when a run began and is not any more is named, whoever had made or removed other files between runs.
func TestRemovedFilesAreFound(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	write := func(names ...string) {
		for _, name := range names {
			must.OK(t, os.MkdirAll(filepath.Dir(name), 0o700))
			must.OK(t, os.WriteFile(name, nil, 0o600))
		}
	}
	write("a", "input/b", "d/e/c", "stays", ".hidden", "node_modules/x", "bad\xff")
	dir := must.Get(os.Open(root))(t)
	defer dir.Close()
	scanner := NewScanner(dir)
	start := scanner.Begin()
	write("new", "short")
	for _, name := range []string{"a", "input", "d", ".hidden", "node_modules", "short", "bad\xff"} {
		must.OK(t, os.RemoveAll(name))
	}
	found := scanner.Scan(start, 10)
	slices.Sort(found.Removed)
	should.EqualSlice(t, found.Removed, []string{"a", "d/e/c", "input/b"})
	should.Equal(t, found.RemovedTotal, 4)
	should.Equal(t, found.Total, 1)
	must.OK(t, os.Remove("stays")) // by somebody else
	start = scanner.Begin()
	must.OK(t, os.Rename("new", "newer"))
	for i := range 300 {
		write(strconv.Itoa(i))
	}
	found = scanner.Scan(start, 10)
	should.EqualSlice(t, found.Removed, []string{"new"})
	start = scanner.Begin()
	for i := range 300 {
		must.OK(t, os.Remove(strconv.Itoa(i)))
	}
	found = scanner.Scan(start, 10)
	should.Equal(t, fmt.Sprint(len(found.Removed), found.RemovedTotal), "20 300")
}

func TestLongPathsAreBoundedInMemory(t *testing.T) {
	root := t.TempDir()
	folder, path := root, ""
	for range 15 {
		folder = filepath.Join(folder, strings.Repeat("x", 250))
	}
	must.OK(t, os.MkdirAll(folder, 0o700))
	t.Chdir(folder)
	path = strings.TrimPrefix(folder, root+"/")
	dir := must.Get(os.Open(root))(t)
	defer dir.Close()
	scanner := NewScanner(dir)
	since := scanner.Begin()
	most := maxBytes/(len(path)+1) + 1
	for i := range most + 500 {
		must.OK(t, os.WriteFile(strconv.Itoa(i), nil, 0o600))
	}
	total := scanner.Scan(since, 10).Total
	should.Hold(t, total > most/2 && total <= most, "%d files of at most %d", total, most)
}
