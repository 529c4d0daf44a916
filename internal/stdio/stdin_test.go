//go:build unix

package stdio

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const pingLine = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"

// A server waits for its client on whatever it was started with, and reads it to its end.
func TestEveryKindOfStdin(t *testing.T) {
	for _, kind := range []struct {
		name   string
		open   func(*testing.T) (server, client *os.File)
		stdout func(*testing.T) (client, server *os.File)
		polled bool
		told   bool // the message is there from the beginning
	}{
		{name: "pipe", open: blockingPipe, stdout: pipe, polled: runtime.GOOS == "linux"},
		{name: "named pipe", open: namedPipe, stdout: pipe, polled: runtime.GOOS == "linux"},
		{name: "socket", open: socketPair, stdout: socketPair, polled: true},
		{name: "socket, and a pipe", open: socketPair, stdout: pipe},
		{name: "file", open: messageFile, stdout: pipe, told: true},
	} {
		t.Run(kind.name, func(t *testing.T) {
			server, client := kind.open(t)
			answers, stdout := kind.stdout(t)
			var stderr bytes.Buffer
			c := childCommand(t)
			c.Stdin, c.Stdout, c.Stderr = server, stdout, &stderr
			check(t, c.Start())
			check(t, stdout.Close())
			if !kind.told {
				_, err := io.WriteString(client, pingLine)
				check(t, err)
			}
			line, err := bufio.NewReader(answers).ReadString('\n')
			check(t, err)
			should.Equal(t, string(parseReply(t, line).ID), "1", "answer %q", line)
			check(t, client.Close())
			check(t, c.Wait())
			if want := fmt.Sprintf("polled: %v\n", kind.polled); !strings.Contains(stderr.String(), want) {
				t.Errorf("want %q in stderr: %s", want, stderr.String())
			}
			flags, err := unix.FcntlInt(server.Fd(), unix.F_GETFL, 0)
			check(t, err)
			if kind.name != "socket" && flags&unix.O_NONBLOCK != 0 {
				t.Error("who shares the server's standard input finds it non-blocking")
			}
		})
	}
}

// What is written to a socket that is standard input too must not fail because it is full.
func TestOneSocketForAll(t *testing.T) {
	server, client := socketPair(t)
	check(t, unix.SetsockoptInt(int(server.Fd()), unix.SOL_SOCKET, unix.SO_SNDBUF, 4096))
	c := childCommand(t)
	c.Env = append(c.Env, childVariable+"=loud")
	c.Stdin, c.Stdout, c.Stderr = server, server, server
	check(t, c.Start())
	check(t, server.Close())
	_, err := io.WriteString(client, pingLine)
	check(t, err)
	check(t, unix.Shutdown(int(client.Fd()), unix.SHUT_WR))
	all, err := io.ReadAll(client)
	check(t, err)
	check(t, c.Wait())
	if got := bytes.Count(all, []byte("loud\n")); got != 1<<18 {
		t.Errorf("%d lines of %d came", got, 1<<18)
	}
	if !bytes.Contains(all, []byte(`"id":1`)) {
		t.Error("the ping was not answered")
	}
}

// The write end of a pipe is no input, although it could be opened again as one.
func TestStdinThatCannotBeRead(t *testing.T) {
	_, writer := blockingPipe(t)
	var stderr bytes.Buffer
	c := childCommand(t)
	c.Stdin, c.Stderr = writer, &stderr
	if err := c.Run(); err == nil || !strings.Contains(stderr.String(), "served: read") {
		t.Errorf("ended by %v: %s", err, stderr.String())
	}
}

func blockingPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	check(t, unix.Pipe(fds[:]))
	return file(t, fds[0]), file(t, fds[1])
}

func namedPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	check(t, unix.Mkfifo(path, 0o600))
	both, err := os.OpenFile(path, os.O_RDWR, 0) // neither end waits for the other
	check(t, err)
	defer func() { check(t, both.Close()) }()
	return opened(t, path, unix.O_RDONLY), opened(t, path, unix.O_WRONLY)
}

func messageFile(t *testing.T) (r, w *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "messages")
	check(t, os.WriteFile(path, []byte(pingLine), 0o600))
	return opened(t, path, unix.O_RDONLY), opened(t, path, unix.O_WRONLY)
}

func socketPair(t *testing.T) (server, client *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	check(t, err)
	return file(t, fds[0]), file(t, fds[1])
}

// opened opens a file that blocks, which os.OpenFile does not give for a pipe.
func opened(t *testing.T, path string, how int) *os.File {
	t.Helper()
	fd, err := unix.Open(path, how|unix.O_CLOEXEC, 0)
	check(t, err)
	return file(t, fd)
}

func file(t *testing.T, fd int) *os.File {
	t.Helper()
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), t.Name())
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	must.OK(t, err)
}
