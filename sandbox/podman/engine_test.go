//go:build unix

package podman

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/bindings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// echo copies its stdin to its stdout byte for byte.
const echo = "import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"

func TestConformance(t *testing.T) {
	enginetest.Run(t, enginetest.Target{
		Engine: testEngine, Spec: testSpec, Label: testLabel,
		Open: func(testing.TB) engine.Engine { return own(t, service.Options{}) },
	})
}

func TestVolumeOutlivesItsContainersAndBelongsToTheUser(t *testing.T) {
	// Not in the volume, where code can lay modules that the interpreter would import.
	first := python(t, "open('/mnt/data/kept', 'w').write('text'); import os; print(os.getcwd())")
	should.Equal(t, output(t, first), "/\n", "it starts in")
	second := python(t, `import os
s = os.stat('/mnt/data'); print(s.st_uid == os.getuid(), s.st_gid == os.getgid(), open('/mnt/data/kept').read())`)
	second.Volume = first.Volume
	should.Equal(t, output(t, second), "True True text\n", "the second container sees")
}

// What an earlier version made stays its user's, whatever sessions have now.
func TestAVolumeKeepsItsUser(t *testing.T) {
	spec := python(t, "import os; open('/mnt/data/written', 'w'); print(os.getuid(), os.stat('/mnt/data').st_uid)")
	volume := exec.CommandContext(t.Context(), "podman", "volume", "create", "--opt", "o=uid=1234,gid=1234", spec.Volume)
	out, err := volume.CombinedOutput()
	must.Hold(t, err == nil, "%v: %s", err, out)
	should.Equal(t, output(t, spec), "1234 1234\n", "the container of a volume that belongs to 1234 says")
}

func TestSessionsAreDifferentUsers(t *testing.T) {
	first, second := python(t, who), python(t, who)
	again := python(t, who)
	again.Volume = first.Volume
	a, b, c := output(t, first), output(t, second), output(t, again)
	should.Hold(t, a != b && a == c && !strings.HasPrefix(a, "1000 ") && strings.HasSuffix(a, " sandbox\n"),
		"sessions are %q and %q; the first one's second container is %q", a, b, c)
}

const who = "import os, pwd; print(os.getuid(), os.getgid(), pwd.getpwuid(os.getuid()).pw_name)"

// Without limits of the caller's, and with ones that no host has, the container starts.
func TestLimitsThatCannotBeSet(t *testing.T) {
	for name, limits := range map[string]engine.Limits{
		"none": {}, "too large": {OpenFiles: 1 << 40, PIDs: 1 << 20, CPUs: 0.1},
	} {
		spec := python(t, "print(1)")
		spec.Limits = limits
		should.Equal(t, output(t, spec), "1\n", "%s", name)
	}
}

func TestTheShapeOfAContainer(t *testing.T) {
	spec := engine.Spec{Name: "a", Volume: "a", Labels: map[string]string{"session": "a"}, Image: "image"}
	other := spec
	other.Name, other.Volume, other.Labels, other.Lasts, other.Ends = "b", "b", map[string]string{"session": "b"}, true, time.Hour
	more := spec
	more.Limits.CPUs = 1
	e := Open(service.Options{})
	should.Equal(t, e.Shape(spec), e.Shape(other), "what is one session's counts")
	for name, key := range map[string]string{"limits": e.Shape(more), "the OCI runtime": Open(service.Options{OCIRuntime: "runsc"}).Shape(spec)} {
		should.Hold(t, key != e.Shape(spec), "%s do not count", name)
	}
}

// idle is a process 1 that does nothing until its stdin ends.
const idle = "import sys; sys.stdin.read()"

func execIn(t *testing.T, container string, command ...string) engine.Process {
	t.Helper()
	p := must.Get(testEngine.Exec(t.Context(), container, command))(t)
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
	should.Hold(t, err == nil && string(got) == want, "process 1 has\n%s\nand the program\n%s%v%s", want, got, err, p.Stderr())
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
	got, err := io.ReadAll(p)
	should.Hold(t, string(got) == "true\n", "%s: got %q, %v%s", condition, got, err, p.Stderr())
}

// testFacts tell attacks of the limits that testSpec sets, and of this host.
func testFacts(t *testing.T) attacks.Facts {
	t.Helper()
	limits := testLimits
	facts := attacks.Facts{Namespaces: make(map[string]string), Limits: attacks.Limits{
		MemoryBytes: limits.MemoryBytes, CPUs: limits.CPUs, PIDs: limits.PIDs,
		TmpBytes: limits.TmpBytes, FileBytes: limits.FileBytes, OpenFiles: limits.OpenFiles,
	}}
	for _, kind := range []string{"net", "pid", "mnt", "uts", "ipc", "cgroup"} {
		own := must.Get(os.Readlink("/proc/self/ns/" + kind))(t)
		facts.Namespaces[kind] = own
	}
	file := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(file, []byte("secret"), 0o644))
	facts.Files = []string{file}
	return facts
}

// A memory bomb in process 1 itself costs the container, and nothing else. Where the host cannot hold the limit, the test fails
// at once: the bomb would take the host down.
func TestMemoryBombInProcessOneEndsTheContainer(t *testing.T) {
	info, err := testEngine.Info(t.Context())
	must.Hold(t, err == nil && info.Enforces(LimitMemory),
		"this host cannot limit memory: rootless Podman needs cgroup version 2 with the controller delegated: %v", err)
	spec := python(t, "x = []\nwhile True: x.append(bytearray(1 << 24))")
	should.Equal(t, output(t, spec), "")
}

func TestEnvironmentHoldsOnlyWhatIsGiven(t *testing.T) {
	for _, name := range []string{"http_proxy", "HTTPS_PROXY", "SANDBOX_SQL_SECRET"} {
		t.Setenv(name, "http://user:secret@proxy.invalid:1")
	}
	// A service of its own, started under this environment.
	e := own(t, service.Options{})
	spec := python(t, "import os, json; print(json.dumps(dict(os.environ)))")
	var got map[string]string
	must.OK(t, json.NewDecoder(startOn(t, e, spec)).Decode(&got))
	// Podman's own, and what Python adds.
	podmans := []string{"PATH", "TERM", "HOME", "HOSTNAME", "container", "LC_CTYPE", "PWD"}
	for name, value := range got {
		should.Hold(t, (name == "GIVEN" || slices.Contains(podmans, name)) && !strings.Contains(value, "secret"),
			"%s=%s is in the container", name, value)
	}
	if got["GIVEN"] != "value" {
		t.Errorf("GIVEN=%q, want what the spec says", got["GIVEN"])
	}
}
