package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

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
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
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
