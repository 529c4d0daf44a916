//go:build unix

package stdio

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const pingLine = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"

// A server waits for its client on whatever it was started with, and reads it to its end.
func TestEveryKindOfStdin(t *testing.T) {
	for kind, open := range map[string]func(*testing.T) (server, client *os.File){
		"pipe": func(t *testing.T) (server, client *os.File) {
			var fds [2]int
			check(t, unix.Pipe(fds[:]))
			return file(t, fds[0]), file(t, fds[1])
		},
		"socket": socketPair,
		"named pipe": func(t *testing.T) (server, client *os.File) {
			path := filepath.Join(t.TempDir(), "fifo")
			check(t, unix.Mkfifo(path, 0o600))
			both, err := os.OpenFile(path, os.O_RDWR, 0) // neither end waits for the other
			check(t, err)
			defer func() { check(t, both.Close()) }()
			return opened(t, path, unix.O_RDONLY), opened(t, path, unix.O_WRONLY)
		},
		"file": func(t *testing.T) (server, client *os.File) {
			path := filepath.Join(t.TempDir(), "messages")
			check(t, os.WriteFile(path, nil, 0o600))
			client = opened(t, path, unix.O_WRONLY)
			_, err := io.WriteString(client, pingLine)
			check(t, err)
			return opened(t, path, unix.O_RDONLY), client
		},
	} {
		t.Run(kind, func(t *testing.T) {
			server, client := open(t)
			answers, stdout := pipe(t)
			c := childCommand(t)
			c.Stdin, c.Stdout, c.Stderr = server, stdout, os.Stderr
			check(t, c.Start())
			check(t, stdout.Close())
			if kind != "file" {
				_, err := io.WriteString(client, pingLine)
				check(t, err)
			}
			line, err := bufio.NewReader(answers).ReadString('\n')
			check(t, err)
			if got := parseReply(t, line); string(got.ID) != "1" {
				t.Errorf("answer %q", line)
			}
			check(t, client.Close())
			check(t, c.Wait())
			flags, err := unix.FcntlInt(server.Fd(), unix.F_GETFL, 0)
			check(t, err)
			if kind != "socket" && flags&unix.O_NONBLOCK != 0 {
				t.Errorf("who shares the server's standard input finds it non-blocking")
			}
		})
	}
}

// As over ssh, where standard input and output are one socket: what is written to it must not fail when it is full.
func TestStdinAndStdoutAreOneSocket(t *testing.T) {
	server, client := socketPair(t)
	c := childCommand(t)
	c.Stdin, c.Stdout, c.Stderr = server, server, os.Stderr
	check(t, c.Start())
	const pings = 5000
	sent := make(chan error, 1)
	go func() {
		for range pings {
			if _, err := io.WriteString(client, pingLine); err != nil {
				sent <- err
				return
			}
		}
		sent <- unix.Shutdown(int(client.Fd()), unix.SHUT_WR)
	}()
	answers := bufio.NewReader(client)
	for range pings {
		line, err := answers.ReadString('\n')
		check(t, err)
		parseReply(t, line)
	}
	check(t, <-sent)
	check(t, c.Wait())
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
	if err != nil {
		t.Fatal(err)
	}
}
