//go:build unix

package podman

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// intruder tries what may give code a way to the keeper, itself and as an orphan, and stays.
const intruder = `
import ctypes, os, signal, socket, subprocess, sys, time
program = "` + containers.ProgramsDir + `/supervisor"
def tries():
    for question in b"e", b"r", b"w":
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("\0code-sandbox-mcp-keeper")
            try:
                s.send(question)
                yield s.recv(1)
            except OSError:
                yield b""
    for command in (["enter"], ["reset"], ["within", "true"]):
        yield subprocess.run([program, *command], stdin=subprocess.DEVNULL, capture_output=True).stdout
    for path in "/proc/1/mem", "/proc/1/fd/3", "/proc/1/environ":
        try:
            yield open(path, "rb").read(1)
        except OSError:
            yield b""
    yield ctypes.CDLL(None).ptrace(16, 1, None, None)
for number in set(signal.valid_signals()) - {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
    os.kill(1, number)
reads, writes = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while os.getppid() != 1:
            time.sleep(.01)
        os.write(writes, repr(list(tries())).encode())
        time.sleep(100_000)
    os._exit(0)
os.wait()
open("/tmp/left", "w")
print([*tries()], os.read(reads, 1000).decode(), sep="\n", flush=True)
sys.stdin.read()
`

func TestCodeHasNoWayToAKeeper(t *testing.T) {
	const supervisor = containers.ProgramsDir + "/supervisor"
	spec := testSpec(t, supervisor, "pod", "--core", "0", "--", "python3", "-c", intruder)
	start(t, spec)
	in := func(want string, command ...string) io.ReadWriteCloser {
		t.Helper()
		p := execIn(t, spec.Name, append([]string{supervisor}, command...)...)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(p, got); err != nil || string(got) != want {
			t.Fatalf("%s: got %q, want %q: %v%s", command, got, want, err, p.Stderr())
		}
		return p
	}
	none := "[" + strings.Repeat("b'', ", 9) + "-1]"
	for range 2 {
		in("K"+none+"\n"+none+"\n", "enter")
		in("B", "enter")
		in("K1\n", "within", "sh", "-c", "ls /tmp | grep -c left")
		in("K", "reset")
		in("G", "within", "true")
		p := execIn(t, spec.Name, "sh", "-c", "ls -A /tmp; for p in /proc/[0-9]*; do cat $p/comm; done")
		left, err := io.ReadAll(p)
		if fields := fmt.Sprint(strings.Fields(string(left))); fields != "[supervisor sh]" || err != nil {
			t.Errorf("what is left: %s %v", fields, err)
		}
	}
	p := in("K"+none+"\n"+none+"\n", "enter")
	_ = p.Close() // the end of stdin is the command's
	for {         // what looks may be ended with the command
		p := execIn(t, spec.Name, "sh", "-c", "[ -e /tmp/left ] || echo gone")
		if got, _ := io.ReadAll(p); string(got) == "gone\n" {
			return
		}
		must.OK(t, t.Context().Err(), "the command's file stays")
	}
}

func reads(r io.Reader, into []byte) bool {
	_, err := io.ReadFull(r, into)
	return err == nil
}

// What forks as fast as it can leaves the keeper able to end it.
func TestAKeeperEndsWhatForks(t *testing.T) {
	const supervisor = containers.ProgramsDir + "/supervisor"
	for name, code := range map[string]string{
		"forks": "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
		"kills": "os.kill(-1, signal.SIGKILL)",
		"stops": "os.kill(-1, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)",
	} {
		t.Run(name, func(t *testing.T) {
			spec := testSpec(t, supervisor, "pod", "--nproc", "30", "--", "python3", "-c", "import os, signal\nprint(1, flush=True)\ninput()\n"+code)
			start(t, spec)
			for range 2 {
				enter := execIn(t, spec.Name, supervisor, "enter")
				if got := make([]byte, 3); !reads(enter, got) || string(got) != "K1\n" {
					t.Fatalf("enter: got %q%s", got, enter.Stderr())
				}
				_, _ = io.WriteString(enter, "\n")                            // now that all of it has come
				for isReset := false; !isReset && t.Context().Err() == nil; { // the code may kill or stop this program once
					reset, err := testEngine.Exec(t.Context(), spec.Name, []string{supervisor, "reset"})
					if err != nil {
						continue
					}
					late := time.AfterFunc(10*time.Second, func() { _ = reset.Close() })
					got := make([]byte, 1)
					isReset = reads(reset, got) && got[0] == 'K'
					late.Stop()
					_ = reset.Close()
				}
			}
		})
	}
}
