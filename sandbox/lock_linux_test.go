package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

func TestAFullStateDisk(t *testing.T) {
	disk, fill, free := smallDisk(t)
	fill()
	e := newEngine(t)
	config := testConfig(t, e)
	config.StateDir = filepath.Join(disk, "state", "sessions")
	m := newTestManager(t, config)
	refused := func(err error) {
		t.Helper()
		if f := must.Code(t, err, fault.QuotaExceeded); !strings.Contains(f.Message, "state directory is full") || strings.Contains(f.Message+f.Hint, disk) {
			t.Errorf("got %q, %q", f.Message, f.Hint)
		}
	}
	_, err := finish(m, RunOptions{Code: "1", SessionID: "mine"})
	refused(err)
	refused(m.BeginImport("mine", strings.NewReader("")))
	id := mustRun(t, m, RunOptions{Code: "open('file', 'w').close()"}).SessionID
	_, err = m.CloseSession(t.Context(), "", true)
	refused(err)
	mustRun(t, m, RunOptions{Code: "open('file').close()"}) // it goes on
	should.EqualSlice(t, state.IDs(config.StateDir), []string{id}, "the directory")
	free()
	mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
	should.OK(t, should.ErrOf(m.CloseSession(t.Context(), "", true)))
	kept := state.Kept(config.StateDir)
	should.Hold(t, len(kept) == 2, "kept %v", kept)
	must.OK(t, should.ErrOf(m.Lease("late", true)))
	fill()
	wantNote(t, mustRun(t, m, RunOptions{Code: "1", SessionID: "late"}), "cannot write its state directory")
}

// smallDisk mounts a disk, on which no byte can be written after fill until free is called.
func smallDisk(t *testing.T) (dir string, fill, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Skip("a disk cannot be mounted: ", err)
	}
	t.Cleanup(func() {
		should.OK(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	filler := filepath.Join(dir, "filler")
	fill = func() {
		err := os.WriteFile(filler, make([]byte, 2<<20), 0o600)
		must.Hold(t, errors.Is(err, unix.ENOSPC), "the disk is not full:  %v", err)
	}
	return dir, fill, func() {
		must.OK(t, os.Remove(filler))
	}
}

func TestAStateDirectoryWhoseModeIsRootsIsUsed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can pass for another user")
	}
	config := testConfig(t, newEngine(t))
	config.StateDir = stateDir(t)
	for folder, mode := range map[string]os.FileMode{
		config.StateDir: os.ModeSticky | 0o777, filepath.Dir(config.StateDir): 0o755,
		filepath.Dir(filepath.Dir(filepath.Dir(config.StateDir))): 0o755, // the test's own, around t.TempDir
	} {
		must.OK(t, os.Chmod(folder, mode))
	}
	m := newTestManager(t, config)
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Setfsuid(65534); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Setfsuid(0) }()
	if err := os.Chmod(config.StateDir, 0o700); !os.IsPermission(err) {
		t.Skip("the mode can be changed: ", err)
	}
	mustRun(t, m, RunOptions{Code: "1"})
}
