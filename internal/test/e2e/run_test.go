//go:build linux

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pty"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// runner is a folder of files in which a person uses `run`.
type runner struct {
	dir, state string
}

func newRunner(t *testing.T, files map[string]string) runner {
	t.Helper()
	r := runner{t.TempDir(), t.TempDir()}
	for name, content := range files {
		must.OK(t, os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o600))
	}
	t.Cleanup(func() {
		eventually(t, "what clears up is over", func() (bool, string) { k := keepers(r.state); return len(k) == 0, fmt.Sprint(k) })
		list := shell(t, r.state, "sessions", "list")
		should.Hold(t, list.stdout == "no sessions\n", "left: %s%s", list.stdout, list.stderr)
	})
	return r
}

// command is a command line in the folder, with this environment and no more.
func (r runner) command(args []string, env ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"run", "--state-dir", r.state}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append([]string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}

func (r runner) run(stdin string, args []string, env ...string) shellResult {
	cmd := r.command(args, env...)
	var stdout, stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	_ = cmd.Run()
	return shellResult{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// sumPython uses an input file, prints to both streams, draws, makes a file, and ends with a code of its own.
const sumPython = `import csv, os, sys
import matplotlib.pyplot as plt
total = sum(int(row["n"]) for row in csv.DictReader(open("data.csv")))
print("total", total)
print("a warning", file=sys.stderr)
plt.plot([1, 2]); plt.show()
os.makedirs("tables", exist_ok=True)
open("tables/sum.txt", "w").write(str(total))
total
sys.exit(3)
`

func TestAFileOfCodeIsRunFromAShell(t *testing.T) {
	t.Parallel()
	r := newRunner(t, map[string]string{
		"sum.py": sumPython, "data.csv": "n\n1\n41\n",
		"echo.py": "import sys; print(sys.argv, input(), sys.stdin.read().strip())", "echo.sh": `echo "$@"; cat`,
		"echo.js":  "console.log(process.argv.slice(2), require('fs').readFileSync(0, 'utf8'))",
		"raise.py": "def f():\n    return 1 / 0\nf()\n", "endless.py": "while True:\n    pass\n",
	})
	took := regexp.MustCompile(`\d+(\.\d+)?m?s\b`)
	for _, test := range []struct {
		name, stdin string
		args        []string
		want        shellResult
	}{
		{"files are listed", "", []string{"sum.py", "data.csv"},
			shellResult{"total 42\n", "a warning\ncode-sandbox-mcp: 2 files made; --out FOLDER keeps what is made: tables/sum.txt (2B), output/figure-1.png (SIZE)\n", 3}},
		{"files are saved", "", []string{"sum.py", "data.csv", "--out", "results"},
			shellResult{"total 42\n", "a warning\ncode-sandbox-mcp: 2 files saved to results: output/figure-1.png, tables/sum.txt\n", 3}},
		{"stdin", "console.log(6 * 7); process.exit(4)", []string{"-", "--language", "js"}, shellResult{"42\n", "", 4}},
		{"code of the command line", "", []string{"-c", "import sys; print(open('data.csv').read()[:1])", "data.csv"}, shellResult{"n\n", "", 0}},
		{"arguments and data", "1\n2\n", []string{"echo.py", "--", "-x", "it's"}, shellResult{"['echo.py', '-x', \"it's\"] 1 2\n", "", 0}},
		{"of JavaScript", "1\n2\n", []string{"echo.js", "--", "-x", "it's"}, shellResult{"[ '-x', \"it's\" ] 1\n2\n\n", "", 0}},
		{"of bash", "1\n2\n", []string{"echo.sh", "--", "-x", "it's"}, shellResult{"-x it's\n1\n2\n", "", 0}},
		{"an exception", "", []string{"raise.py"}, shellResult{"",
			"Traceback (most recent call last):\n  File \"raise.py\", line 3, in <module>\n    f()\n  File \"raise.py\", line 2, in f\n    return 1 / 0\nZeroDivisionError: division by zero\n", 1}},
		{"a timeout", "", []string{"endless.py", "--run-timeout", "1"}, shellResult{"",
			"KeyboardInterrupt\ncode-sandbox-mcp: timed out after TIME; --run-timeout sets how long it may take\n", 124}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := r.run(test.stdin, test.args)
			if strings.Contains(test.want.stderr, "TIME") { // the interrupt may come before the loop's first line
				got.stderr = took.ReplaceAllString(got.stderr, "TIME")
				got.stderr = regexp.MustCompile(`^Traceback .*\n  File "endless.py", line \d, in <module>\n.*\n`).ReplaceAllString(got.stderr, "")
			}
			got.stderr = regexp.MustCompile(`figure-1.png \([\d.]+kB\)`).ReplaceAllString(got.stderr, "figure-1.png (SIZE)") // as matplotlib has it
			if got != test.want {
				t.Errorf("got  %d %q %.2000q\nwant %d %q %.2000q", got.code, got.stderr, got.stdout, test.want.code, test.want.stderr, test.want.stdout)
			}
		})
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "results/tables/sum.txt"))
	should.Hold(t, string(text) == "42", "saved: %q, %v", text, err)
}

// Output comes at once. An interrupt saves what there is, and a second one ends the program at once, whatever code does.
func TestARunIsInterruptedFromAShell(t *testing.T) {
	t.Parallel()
	r := newRunner(t, map[string]string{
		"wait.py":     "import time\nopen('part.txt', 'w').write('so far')\nprint('begun', flush=True)\ntime.sleep(600)\n",
		"stubborn.py": "import time\nprint('begun', flush=True)\nwhile True:\n    try: time.sleep(600)\n    except KeyboardInterrupt: print('begun', flush=True)\n",
	})
	for file, interrupts := range map[string]int{"wait.py": 1, "stubborn.py": 2} {
		cmd := r.command([]string{file, "--run-timeout", "700", "--out", "out"})
		var stderr strings.Builder
		cmd.Stderr = &stderr
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		must.OK(t, err)
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		for lines := bufio.NewReader(stdout); interrupts > 0; interrupts-- {
			line, err := lines.ReadString('\n')
			must.Hold(t, line == "begun\n", "a line is %q, %v", line, err)
			_ = cmd.Process.Signal(syscall.SIGINT)
		}
		_ = cmd.Wait()
		code, told := cmd.ProcessState.ExitCode(), strings.Contains(stderr.String(), "interrupted after")
		should.Hold(t, code == 130 && told == (file == "wait.py"), "%s: exit status %d: %s", file, code, stderr.String())
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "out/part.txt"))
	should.Hold(t, string(text) == "so far", "saved: %q, %v", text, err)
}

func TestCodeSendsNothingToTheTerminal(t *testing.T) {
	t.Parallel()
	r := newRunner(t, nil)
	screen, other := pty.Open(t, 80)
	shown := pty.Watch(other)
	cmd := r.command([]string{"-c", "print('\\x1b[31m', 'harmless')"}, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.OK(t, cmd.Run())
	screen.Close()
	<-shown.Done
	text := shown.String()
	should.Hold(t, strings.Contains(text, "harmless") && !strings.Contains(text, "\x1b[31m"), "it shows %q", text)
}

// echoPython answers its first connection when that has sent all, and ends behind it.
const echoPython = `import socket
listener = socket.create_server(("127.0.0.1", 8000))
print("listening", flush=True)
conn, _ = listener.accept()
text = b""
while data := conn.recv(65536):
    text += data
conn.sendall(text.upper())
conn.close()
`

func TestAPortLeadsIntoTheSession(t *testing.T) {
	t.Parallel()
	r := newRunner(t, map[string]string{"echo.py": echoPython})
	cmd := r.command([]string{"echo.py", "--forward", "0:8000,0:9"})
	stdout, err := cmd.StdoutPipe()
	must.OK(t, err)
	stderr, err := cmd.StderrPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	said := bufio.NewReader(stderr)
	connect := make(map[string]func() net.Conn)
	for _, inside := range []string{"8000", "9"} {
		var address, port string
		line := must.Get(said.ReadString('\n'))(t)
		_, err := fmt.Sscanf(line, "code-sandbox-mcp: %s leads to port %s of the session", &address, &port)
		must.Hold(t, err == nil && port == inside && strings.HasPrefix(address, "127.0.0.1:"), "it says %q", line)
		connect[inside] = func() net.Conn { return must.Get(net.Dial("tcp", address))(t) }
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must.Hold(t, line == "listening\n", "it prints %q, %v", line, err)

	closed := connect["9"]()
	_, err = closed.Read(make([]byte, 1))
	should.Hold(t, errors.Is(err, io.EOF), "a port that nothing listens on: %v", err)
	line = must.Get(said.ReadString('\n'))(t)
	should.Equal(t, line, "code-sandbox-mcp: a connection to port 9 was closed: ConnectionRefusedError: [Errno 111] Connection refused\n")

	open := connect["8000"]()
	text := strings.Repeat("every byte of it ", 100_000)
	go func() {
		_, _ = io.WriteString(open, text)
		_ = open.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(open)
	should.Hold(t, err == nil && string(got) == strings.ToUpper(text), "%d bytes came back, %v", len(got), err)
	rest, _ := io.ReadAll(said)
	must.OK(t, cmd.Wait(), string(rest))
	_, err = net.Dial("tcp", open.RemoteAddr().String())
	should.Hold(t, errors.Is(err, syscall.ECONNREFUSED), "behind the end: %v", err)
}
