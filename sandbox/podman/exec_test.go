package podman

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// idle is a process 1 that does nothing until its stdin ends.
const idle = "import sys; sys.stdin.read()"

func execIn(t *testing.T, container string, command ...string) sandbox.Process {
	t.Helper()
	p, err := testEngine.Exec(t.Context(), container, command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestAProgramsStdioCarriesEveryByte(t *testing.T) {
	spec := python(t, idle)
	start(t, spec)
	p := execIn(t, spec.Name, "python3", "-I", "-c", "import sys, shutil; n = sys.stdin.buffer.read(1 << 20); sys.stdout.buffer.write(n)")
	sent := make([]byte, 1<<20)
	if _, err := rand.Read(sent); err != nil {
		t.Fatal(err)
	}
	copy(sent, []byte{0x10, 0x11, 0x10, 0x11, 0, 4, 0xff, '\r', '\n'})
	if _, err := p.Write(sent); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(p)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back, %v; they are not what was sent", len(got), err)
	}
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

func TestClosingAProgramsStdioEndsItsStdin(t *testing.T) {
	spec := python(t, idle)
	start(t, spec)
	p := execIn(t, spec.Name, "python3", "-c", "import sys; print('up', flush=True); sys.stdin.read(); open('/tmp/ended', 'w')")
	if _, err := io.ReadFull(p, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	waiting := execIn(t, spec.Name, "python3", "-c", "import os, time\nwhile not os.path.exists('/tmp/ended'): time.sleep(.01)\nprint('ended')")
	if got, err := io.ReadAll(waiting); string(got) != "ended\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestNoProgramStartsWhereNoContainerRuns(t *testing.T) {
	over := python(t, "pass")
	output(t, over)
	waitFor(t, over.Name)
	for _, name := range []string{over.Name, "csm-test-none"} {
		if _, err := testEngine.Exec(t.Context(), name, []string{"true"}); !errors.Is(err, sandbox.ErrContainerGone) {
			t.Errorf("exec in %s: %v", name, err)
		}
	}
	running := python(t, idle)
	start(t, running)
	if _, err := testEngine.Exec(t.Context(), running.Name, nil); !errors.Is(err, errNoCommand) {
		t.Error(err)
	}
	if p, err := testEngine.Exec(t.Context(), running.Name, []string{"/no/such/program"}); err == nil {
		if out, err := io.ReadAll(p); len(out) > 0 || err != nil {
			t.Errorf("a program that is not there said %q, %v", out, err)
		}
		p.Close()
	}
}
