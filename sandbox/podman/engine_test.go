//go:build unix

package podman

import (
	"os/exec"
	"strings"
	"testing"
	"time"

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
	if out, err := volume.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	should.Equal(t, output(t, spec), "1234 1234\n", "the container of a volume that belongs to 1234 says")
}

func TestSessionsAreDifferentUsers(t *testing.T) {
	first, second := python(t, who), python(t, who)
	again := python(t, who)
	again.Volume = first.Volume
	a, b, c := output(t, first), output(t, second), output(t, again)
	if a == b || a != c || strings.HasPrefix(a, "1000 ") || !strings.HasSuffix(a, " sandbox\n") {
		t.Errorf("sessions are %q and %q; the first one's second container is %q", a, b, c)
	}
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
		if key == e.Shape(spec) {
			t.Errorf("%s do not count", name)
		}
	}
}
