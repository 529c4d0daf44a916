//go:build unix

package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const childVariable = "STDIO_TEST_CHILD"

// TestMain lets the test binary play a server process.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(childServer())
	}
	os.Exit(m.Run())
}

// childServer is a main that does everything wrong that ClaimStdout is there for.
func childServer() int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	in := OpenStdin()
	fmt.Fprintln(os.Stderr, "polled:", in != os.Stdin)
	if os.Getenv(childVariable) == "loud" {
		if _, err := os.Stderr.Write(bytes.Repeat([]byte("loud\n"), 1<<18)); err != nil {
			return 7
		}
	}
	out, err := ClaimStdout()
	if err != nil {
		fmt.Fprintln(os.Stderr, "claim:", err)
		return 4
	}
	fmt.Println("noise by fmt")
	if _, err := syscall.Write(1, []byte("noise by descriptor\n")); err != nil {
		return 5
	}
	child := exec.Command("sh", "-c", "echo noise by child; for fd in /proc/self/fd/* /dev/fd/*; do echo noise >$fd; done 2>/dev/null")
	child.Stdout = os.Stdout
	_ = child.Run() // some of the descriptors cannot be written to

	err = Serve(context.Background(), newFixture().server, in, out, Options{})
	fmt.Fprintln(os.Stderr, "served:", err)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrClientGone):
		return 3
	}
	return 6
}

func childCommand(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), childVariable+"=1")
	return c
}

func TestOnlyTheProtocolReachesStdout(t *testing.T) {
	c := childCommand(t)
	c.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + toolCall("2", "echo", `{"text":"hello"}`, "{}"))
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	must.OK(t, c.Run(), "%s", stderr.String())
	ids := map[string]bool{}
	for line := range strings.Lines(stdout.String()) {
		ids[string(parseReply(t, line).ID)] = true
	}
	should.Hold(t, len(ids) == 2 && ids["1"] && ids["2"], "stdout is %s", stdout.String())
	for _, want := range []string{"noise by fmt\n", "noise by descriptor\n", "noise by child\n", "served: <nil>\n"} {
		should.Hold(t, strings.Contains(stderr.String(), want), "%q is not in stderr: %s", want, stderr.String())
	}
}

// A client that closes both of its ends does not kill the server by SIGPIPE.
func TestClosedPipesEndTheProcessInOrder(t *testing.T) {
	c := childCommand(t)
	stdin, err := c.StdinPipe()
	must.OK(t, err)
	stdout, stdoutWriter := pipe(t)
	stderr, stderrWriter := pipe(t)
	c.Stdout, c.Stderr = stdoutWriter, stderrWriter
	must.OK(t, c.Start())
	_, _ = stdoutWriter.Close(), stderrWriter.Close()
	must.OK(t, should.ErrOf(fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)))
	must.OK(t, should.ErrOf(bufio.NewReader(stdout).ReadString('\n')))
	_, _ = stdout.Close(), stderr.Close()
	must.OK(t, should.ErrOf(fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)))
	err = c.Wait()
	var exit *exec.ExitError
	should.Hold(t, errors.As(err, &exit) && exit.ExitCode() == 3, "ended by %v, want exit status 3", err)
}

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
			want := fmt.Sprintf("polled: %v\n", kind.polled)
			should.Hold(t, strings.Contains(stderr.String(), want), "want %q in stderr: %s", want, stderr.String())
			flags, err := unix.FcntlInt(server.Fd(), unix.F_GETFL, 0)
			check(t, err)
			should.Hold(t, kind.name == "socket" || flags&unix.O_NONBLOCK == 0,
				"who shares the server's standard input finds it non-blocking")
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
	should.Equal(t, bytes.Count(all, []byte("loud\n")), 1<<18)
	should.Hold(t, bytes.Contains(all, []byte(`"id":1`)), "the ping was not answered")
}

// The write end of a pipe is no input, although it could be opened again as one.
func TestStdinThatCannotBeRead(t *testing.T) {
	_, writer := blockingPipe(t)
	var stderr bytes.Buffer
	c := childCommand(t)
	c.Stdin, c.Stderr = writer, &stderr
	err := c.Run()
	should.Hold(t, err != nil && strings.Contains(stderr.String(), "served: read"), "ended by %v: %s", err, stderr.String())
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
