//go:build linux

package conformance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/daemon"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// say is a shell command that sends a text to a port of loopback, and prints what comes back until the end.
func say(port int, text string) string {
	return fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d && printf %s >&3 && cat <&3'`, port, text)
}

func freePort(t *testing.T) int {
	t.Helper()
	free, err := daemon.FreePort()
	must.OK(t, err)
	return free
}

// serve answers each stream that the supervisor opens with what it has said, twice.
func (c *connection) serve(length int) {
	for {
		stream, err := c.conn.Accept()
		if err != nil {
			return
		}
		go func() {
			said := make([]byte, length)
			_, _ = io.ReadFull(stream, said)
			_, _ = stream.Write([]byte(strings.Repeat(string(said), 2)))
			_ = stream.Close()
		}()
	}
}

func TestConnectionsOfCodeAreCarriedToTheServer(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		port := freePort(t)
		c := start(t, l, options{init: protocol.Init{WayOut: port}})
		go c.serve(5)
		command := l.shell.with(say(port, "hello"))
		for range 2 {
			check(t, "what comes back", c.completed(command).Stdout.Head, "hellohello")
		}
		many := l.shell.with("for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do " + say(port, "again") + " & done; done; wait")
		check(t, "what comes back from many at a time", strings.Count(c.completed(many).Stdout.Head, "again"), 162)
	})
}

// Python runs what is beside the packages of the session before anything else, such as the lines of a .pth file, and may
// be faster than the server's first message.
func TestNoCodeOfTheSessionTakesThePlaceOfTheWayOut(t *testing.T) {
	t.Parallel()
	port, dir := freePort(t), t.TempDir()
	door := "@conformance-first-" + strconv.Itoa(port)
	version, err := exec.Command("python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").Output()
	packages := filepath.Join(dir, ".local", "lib", strings.TrimSpace(string(version)), "site-packages")
	early := fmt.Sprintf("import socket\ntaken = []\nfor family, at in (socket.AF_INET, ('127.0.0.1', %d)), (socket.AF_UNIX, '\\0%s'):\n"+
		"    s = socket.socket(family)\n    try:\n        s.bind(at), s.listen(), taken.append(s)\n    except OSError:\n        pass\nopen(%q, 'w')\n",
		port, door[1:], filepath.Join(dir, "early"))
	err = errors.Join(err, os.MkdirAll(packages, 0o755))
	for name, text := range map[string]string{"early.pth": "import early\n", "early.py": early} {
		err = errors.Join(err, os.WriteFile(filepath.Join(packages, name), []byte(text), 0o644))
	}
	must.OK(t, err)
	c := start(t, python, options{noInit: true, dir: dir, env: []string{
		"PYTHONUSERBASE=" + filepath.Join(dir, ".local"), "CODE_SANDBOX_SOCKET=" + door, protocol.WayOutVariable + "=" + strconv.Itoa(port),
	}})
	c.awaitFile("early")
	c.send(c.init(protocol.Init{WayOut: port, Token: "token"}))
	go c.serve(5)
	check(t, "what was early", c.completed("import sys; print(len(sys.modules['early'].taken))").Stdout.Head, "0\n")
	check(t, "what comes back", c.completed(python.shell.with(say(port, "hello"))).Stdout.Head, "hellohello")
}

func TestNothingListensWithoutAWayOut(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		port := freePort(t)
		c := start(t, l, options{})
		d := c.run(l.shell.with(say(port, "hello") + "; true"))
		check(t, "refused", strings.Contains(d.Stderr.Head, "refused"), true)
	})
}

func TestAConnectionOfCodeEndsWhereNoServerIs(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		port := freePort(t)
		c := waiting(t, l, protocol.Init{WayOut: port})
		id := c.begin(lines(l.awaitFile.with("go"), l.shell.with(say(port, "hello")+"; echo over"), l.write.with("over", "")))
		_ = c.stdin.Close()
		c.awaitEnd()
		c.write("go", "")
		c.awaitFile("over")
		later, _ := c.taken()
		check(t, "it ends", strings.HasSuffix(later.done(id).Stdout.Head, "over\n"), true)
		go later.serve(5)
		check(t, "what comes back from the later server", later.completed(l.shell.with(say(port, "hello"))).Stdout.Head, "hellohello")
	})
}
