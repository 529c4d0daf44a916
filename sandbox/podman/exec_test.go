//go:build unix

package podman

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/bindings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// idle is a process 1 that does nothing until its stdin ends.
const idle = "import sys; sys.stdin.read()"

func execIn(t *testing.T, container string, command ...string) engine.Process {
	t.Helper()
	p, err := testEngine.Exec(t.Context(), container, command)
	must.OK(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// facts is what the kernel of the operating system says about a process's rights.
const facts = `
import os, resource
status = {name: value.strip() for name, _, value in (line.partition(":") for line in open("/proc/self/status"))}
print(set(os.getgroups()) <= {os.getgid()})
for name in ("Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"):
    print(name, status[name])
for name in ("CORE", "FSIZE", "NOFILE", "NPROC"):
    print(name, resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
print(sorted(set(os.environ) - {"HOME", "container", "TERM", "HOSTNAME", "LC_CTYPE"}))
for name in ("user", "pid", "net", "mnt", "ipc", "uts", "cgroup"):
    print(name, os.stat("/proc/self/ns/" + name).st_ino == os.stat("/proc/1/ns/" + name).st_ino)
`

func TestAProgramHasTheRightsOfProcess1AndNoMore(t *testing.T) {
	first, spec := python(t, facts), python(t, idle)
	spec.Volume = first.Volume // so that they are the same user
	want := output(t, first)
	start(t, spec)
	p := execIn(t, spec.Name, "python3", "-c", facts)
	got, err := io.ReadAll(p)
	if err != nil || string(got) != want {
		t.Errorf("process 1 has\n%s\nand the program\n%s%v%s", want, got, err, p.Stderr())
	}
}

func TestAProgramWhoseStdioIsClosedMayClearUp(t *testing.T) {
	spec := python(t, idle)
	start(t, spec)
	closed(t, spec.Name, "sys.stdin.read(); time.sleep(.5); open('/tmp/ended', 'w')")
	waitIn(t, spec.Name, "os.path.exists('/tmp/ended')")
}

func TestAProgramThatOutlivesItsStdioIsEnded(t *testing.T) {
	err := testEngine.call(t.Context(), func(conn context.Context) error {
		if bindings.ServiceVersion(conn).LT(semver.MustParse("4.8.0")) {
			t.Skip("this Podman has no call that ends one program: it goes with the container")
		}
		return nil
	})
	must.OK(t, err)
	spec := python(t, idle)
	start(t, spec)
	closed(t, spec.Name, "open('/tmp/pid', 'w').write(str(os.getpid())); time.sleep(100_000)")
	waitIn(t, spec.Name, "os.path.getsize('/tmp/pid') and not os.path.exists('/proc/' + open('/tmp/pid').read())")
}

// closed starts a program and closes its stdio when it is up.
func closed(t *testing.T, container, code string) {
	t.Helper()
	p := execIn(t, container, "python3", "-c", "import os, sys, time; print('up', flush=True); "+code)
	must.OK(t, should.ErrOf(io.ReadFull(p, make([]byte, 3))))
	should.OK(t, errors.Join(p.Close(), p.Close()))
}

// waitIn waits until a Python expression is true in a container, and gives up after minutes.
func waitIn(t *testing.T, container, condition string) {
	t.Helper()
	p := execIn(t, container, "python3", "-c", "import os, time\nfor _ in range(20_000):\n    if "+condition+": print('true'); break\n    time.sleep(.01)")
	if got, err := io.ReadAll(p); string(got) != "true\n" {
		t.Errorf("%s: got %q, %v%s", condition, got, err, p.Stderr())
	}
}
