//go:build unix

package httpserver

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// activatedVariable has the test be the program that sockets are passed to.
const activatedVariable = "TEST_ACTIVATED"

// beActivated takes the socket, answers one client, and prints what else there is to know.
func beActivated() {
	l, err := Activated()
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	conn, err := l.Accept()
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	_, _ = io.WriteString(conn, "served")
	_ = conn.Close()
	inherited := exec.Command("/bin/sh", "-c", `echo "pid=$LISTEN_PID fds=$LISTEN_FDS"; true <&3`)
	inherited.Stdout, inherited.Stderr = os.Stdout, os.Stdout
	if inherited.Run() == nil {
		fmt.Println("error: a child has the socket")
	}
}

// passTo starts the program as a service manager does, with these descriptors, and returns what it prints.
func passTo(t *testing.T, pid, count string, files ...*os.File) (read func() string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `LISTEN_PID=`+pid+` LISTEN_FDS=`+count+` exec "$0" -test.run='^TestSocketsThatArePassed$'`, os.Args[0])
	cmd.Env = append(os.Environ(), activatedVariable+"=1")
	cmd.ExtraFiles = files
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must.OK(t, cmd.Start())
	return func() string {
		_ = cmd.Wait()
		return out.String()
	}
}

func TestSocketsThatArePassed(t *testing.T) {
	if os.Getenv(activatedVariable) != "" {
		beActivated()
		return
	}
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		l := must.Get(net.Listen(network, address))(t)
		defer l.Close()
		file := must.Get(l.(interface{ File() (*os.File, error) }).File())(t)
		printed := passTo(t, "$$", "1", file)
		conn := must.Get(net.Dial(network, l.Addr().String()))(t)
		answer, err := io.ReadAll(conn)
		if got := printed(); err != nil || string(answer) != "served" || strings.Contains(got, "error:") || !strings.Contains(got, "pid= fds=\n") {
			t.Errorf("%s: %q, %v; it printed %s", network, answer, err, got)
		}
		for want, read := range map[string]func() string{
			"no socket was passed":   passTo(t, "1", "1", file),
			"2 sockets were passed":  passTo(t, "$$", "2", file, file),
			"the socket that was":    passTo(t, "$$", "1", os.Stderr),
			"to this process; start": passTo(t, "", ""),
		} {
			should.Contain(t, read(), want)
		}
		_ = file.Close()
	}
}
