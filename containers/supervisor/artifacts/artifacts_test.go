//go:build linux

package artifacts

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

func TestLongPathsAreBoundedInMemory(t *testing.T) {
	root := t.TempDir()
	folder, path := root, ""
	for range 15 {
		folder = filepath.Join(folder, strings.Repeat("x", 250))
	}
	must.OK(t, os.MkdirAll(folder, 0o700))
	t.Chdir(folder)
	path = strings.TrimPrefix(folder, root+"/")
	dir, err := os.Open(root)
	must.OK(t, err)
	defer dir.Close()
	scanner := NewScanner(dir)
	since := scanner.Begin()
	most := maxBytes/(len(path)+1) + 1
	for i := range most + 500 {
		must.OK(t, os.WriteFile(strconv.Itoa(i), nil, 0o600))
	}
	_, total, _ := scanner.Scan(since, 10)
	if total <= most/2 || total > most {
		t.Errorf("%d files of at most %d", total, most)
	}
}
