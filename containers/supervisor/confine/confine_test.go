//go:build linux

package confine

import (
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"golang.org/x/sys/unix"
)

// The test program is the one that starts too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "opens" {
		_, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH})
		_, _ = os.Stdout.WriteString(errorOf(err))
		return
	}
	os.Exit(m.Run())
}

func errorOf(err error) string {
	if err == nil {
		return "opened"
	}
	return err.Error()
}

func TestOnlyProgramsLackTheCall(t *testing.T) {
	before := should.ErrOf(unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH}))
	for range 3 {
		r, w, err := os.Pipe()
		must.OK(t, err)
		must.Get(ForkExec("/proc/self/exe", []string{"test", "opens"}, &syscall.ProcAttr{Files: []uintptr{0, w.Fd(), 2}}))(t)
		must.OK(t, w.Close())
		said := must.Get(io.ReadAll(r))(t)
		should.Equal(t, string(said), unix.ENOSYS.Error())
	}
	after := should.ErrOf(unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH}))
	should.Equal(t, errorOf(after), errorOf(before), "of this process")
}
