//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// sharedFolder is a folder of the host that every user may read, with a file of 3 MiB and a small one.
func sharedFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "csm-shared-")
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	for name, size := range map[string]int{"big.bin": 3 << 20, "small.csv": 20} {
		must.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(strings.Repeat("a,b\n", size/4)), 0o600))
		must.OK(t, os.Chmod(filepath.Join(folder, name), 0o666))
	}
	must.OK(t, os.Chmod(folder, 0o777))
	return folder
}

// What is in a folder of the host is read, and is no file of the session: it is not listed, counted, exported or written to.
func TestFoldersOfTheHostAreRead(t *testing.T) {
	t.Parallel()
	in, out, state := sharedFolder(t), sharedFolder(t), t.TempDir()
	const id = "e2e-mounts"
	s := start(t, setup{stateDir: state, args: []string{"--mount", in + ":in", "--mount", out + ":out,rw", "--volume-limit", "2m"}})

	s.complete(python, object{"session_id": id, "code": `
import os
assert open('mounts/in/small.csv').readline() == 'a,b\n'
try:
    open('mounts/in/small.csv', 'a'); raise SystemExit('it was opened')
except OSError as err:
    assert err.errno == 30, err
open('mounts/out/made.txt', 'w').write('by code')
os.chmod('mounts/out/made.txt', 0o644)
os.makedirs('input', exist_ok=True)
for name in ('in', 'out'):
    os.symlink('/mnt/data/mounts/' + name, 'input/' + name)
open('own.txt', 'w').write('own')`}).wantText(t, "own.txt")
	if text, err := os.ReadFile(filepath.Join(out, "made.txt")); err != nil || string(text) != "by code" {
		t.Errorf("what code wrote is %q, %v", text, err)
	}

	if text := s.call("list_artifacts", object{"session_id": id}).text(); !strings.Contains(text, "own.txt") || strings.Contains(text, "mounts") {
		t.Errorf("listed: %s", text)
	}
	s.call("read_artifact", object{"session_id": id, "path": "mounts/in/small.csv"}).wantText(t, "a,b\na,b")
	for _, name := range []string{"in/new.txt", "out/new.txt", "out/small.csv"} {
		// By a link: uploads have their own folders.
		s.call("upload_file", object{"session_id": id, "filename": name, "text": "x", "overwrite": true}).wantCode(t, "invalid_path")
	}
	s.end()

	file := filepath.Join(t.TempDir(), "work.tar.zst")
	mustShell(t, state, "sessions", "export", id, file)
	if info, err := os.Stat(file); err != nil || info.Size() > 1<<20 {
		t.Errorf("exported: %v, %v", info.Size(), err)
	}
	mustShell(t, state, "sessions", "close", id)
	for _, folder := range []string{in, out} {
		should.OK(t, should.ErrOf(os.Stat(filepath.Join(folder, "big.bin"))), "after the session")
	}
}
