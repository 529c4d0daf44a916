//go:build unix

package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

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
	if len(ids) != 2 || !ids["1"] || !ids["2"] {
		t.Errorf("stdout is %s", stdout.String())
	}
	for _, want := range []string{"noise by fmt\n", "noise by descriptor\n", "noise by child\n", "served: <nil>\n"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is not in stderr: %s", want, stderr.String())
		}
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
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("ended by %v, want exit status 3", err)
	}
}
