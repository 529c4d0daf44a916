package filelock

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f := must.Get(os.OpenFile(path, os.O_RDWR|os.O_CREATE|NoFollow, 0o600))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestOneOpeningOfAFileHasItsLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	must.OK(t, Try(first))
	should.Be(t, Try(second), ErrHeld, "the second")
	// What is locked can be read and written by others.
	should.OK(t, should.ErrOf(first.WriteString("text")))
	text, err := os.ReadFile(path)
	should.Hold(t, string(text) == "text" && err == nil, "read %q, %v", text, err)
	first.Close()
	should.OK(t, Try(second), "after the first was closed")
	should.OK(t, Remove(second))
	should.Be(t, should.ErrOf(os.Stat(path)), os.ErrNotExist, "it is there")
}
