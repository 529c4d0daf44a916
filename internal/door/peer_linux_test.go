package door

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// Another user who can reach the socket all the same is not let in.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user for a moment")
	}
	dir := must.Get(os.MkdirTemp("", "door"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l := guarded{must.Get(net.Listen("unix", path))(t)}
	t.Cleanup(func() { _ = l.Close() })
	must.OK(t, os.Chmod(dir, 0o755))
	must.OK(t, os.Chmod(path, 0o666))
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_, _ = io.WriteString(conn, "in")
			_ = conn.Close()
		}
	}()
	for uid, want := range map[uintptr]string{0: "in", 65534: ""} {
		said := make(chan string)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err == nil {
				_, _, _ = syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0))
				err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
			}
			buffer := make([]byte, 2)
			n, _ := syscall.Read(fd, buffer)
			if err != nil {
				n = copy(buffer, "no")
			}
			said <- string(buffer[:max(0, n)])
		}()
		should.Equal(t, <-said, want, "as user %d", uid)
	}
}
