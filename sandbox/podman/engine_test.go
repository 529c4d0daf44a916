package podman

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// echo copies its stdin to its stdout byte for byte.
const echo = "import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"

func TestStdioCarriesEveryByte(t *testing.T) {
	p := start(t, python(t, `import sys
while True:
    chunk = sys.stdin.buffer.read1()
    sys.stdout.buffer.write(chunk)
    sys.stdout.flush()`))
	sent := make([]byte, 4<<20)
	if _, err := rand.Read(sent); err != nil {
		t.Fatal(err)
	}
	// Podman's default detach keys, and every other byte.
	copy(sent, []byte{0x10, 0x11, 0x10, 0x11, 0, 4, 0xff, '\r', '\n'})
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 70_001)
			if _, err := p.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(p, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("what came back is not what was sent")
	}
}

func TestStderrIsApartAndBounded(t *testing.T) {
	p := start(t, python(t, `import sys
sys.stderr.write("x" * 100_000 + "the end")
sys.stderr.flush()
print("out")`))
	out, err := io.ReadAll(p)
	if err != nil || string(out) != "out\n" {
		t.Errorf("stdout is %q, %v", out, err)
	}
	if got := p.Stderr(); len(got) > 4<<10 || !strings.HasSuffix(got, "xthe end") {
		t.Errorf("stderr is %d bytes and ends in %q", len(got), got[max(0, len(got)-20):])
	}
}

func TestClosingLetsGoOfTheContainerAndItRunsOn(t *testing.T) {
	spec := python(t, `import sys, time
print("up", flush=True)
sys.stdin.read()
time.sleep(600)`)
	p := start(t, spec)
	if _, err := io.ReadFull(p, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if n, err := p.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("Read after Close gave %d, %v", n, err)
	}
	if _, err := p.Write([]byte("x")); err == nil {
		t.Error("Write after Close worked")
	}
	if c := find(t, spec.Name); !c.Running {
		t.Errorf("the container stopped: %+v", c)
	}
}

func TestReadEndsWhenTheContainerIsRemoved(t *testing.T) {
	spec := python(t, echo)
	p := start(t, spec)
	ended := make(chan error, 1)
	go func() {
		_, err := p.Read(make([]byte, 1))
		ended <- err
	}()
	if err := testEngine.Remove(t.Context(), []string{spec.Name}, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("Read ended with %v", err)
	}
}

func TestVolumeOutlivesItsContainersAndBelongsToTheUser(t *testing.T) {
	// Not in the volume, where code can lay modules that the interpreter would import.
	first := python(t, "open('/mnt/data/kept', 'w').write('text'); import os; print(os.getcwd())")
	if got := output(t, first); got != "/\n" {
		t.Errorf("it starts in %q", got)
	}
	second := python(t, `import os
s = os.stat('/mnt/data'); print(s.st_uid == os.getuid(), s.st_gid == os.getgid(), open('/mnt/data/kept').read())`)
	second.Volume = first.Volume
	if got := output(t, second); got != "True True text\n" {
		t.Errorf("the second container sees %q", got)
	}
}

// What an earlier version made stays its user's, whatever sessions have now.
func TestAVolumeKeepsItsUser(t *testing.T) {
	spec := python(t, "import os; open('/mnt/data/written', 'w'); print(os.getuid(), os.stat('/mnt/data').st_uid)")
	volume := exec.CommandContext(t.Context(), "podman", "volume", "create", "--opt", "o=uid=1234,gid=1234", spec.Volume)
	if out, err := volume.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := output(t, spec); got != "1234 1234\n" {
		t.Errorf("the container of a volume that belongs to 1234 says %q", got)
	}
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

func TestListTellsWhatCarriesALabel(t *testing.T) {
	running, over := python(t, echo), python(t, "pass")
	mine := rand.Text()
	for _, spec := range []sandbox.Spec{running, over} {
		spec.Labels[testLabel+".list"] = mine
	}
	start(t, running)
	output(t, over)
	waitFor(t, over.Name)
	for _, value := range []string{mine, ""} {
		got, err := testEngine.List(t.Context(), testLabel+".list", value)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Containers) != 2 || len(got.Volumes) != 2 {
			t.Fatalf("List(%q) gave %+v", value, got)
		}
		for _, c := range got.Containers {
			if c.Running != (c.Name == running.Name) || c.Labels[testLabel] != testRun || c.Created.IsZero() {
				t.Errorf("container %+v", c)
			}
		}
		for _, v := range got.Volumes {
			if v.Labels[testLabel+".list"] != mine || v.Created.IsZero() {
				t.Errorf("volume %+v", v)
			}
		}
	}
	none, err := testEngine.List(t.Context(), testLabel+".list", "another")
	if err != nil || len(none.Containers)+len(none.Volumes) != 0 {
		t.Errorf("another value gives %+v, %v", none, err)
	}
}

func TestRemoveTakesWhatIsThereAndPassesOverTheRest(t *testing.T) {
	spec := python(t, echo)
	start(t, spec)
	for range 2 {
		names := []string{spec.Name, spec.Name + "-absent"}
		if err := testEngine.Remove(t.Context(), names, names); err != nil {
			t.Fatal(err)
		}
	}
	if gone(t, spec.Name) {
		return
	}
	t.Error("it is still there")
}

func TestRemoveOfAVolumeInUseIsAnError(t *testing.T) {
	spec := python(t, echo)
	start(t, spec)
	if err := testEngine.Remove(t.Context(), nil, []string{spec.Volume}); err == nil {
		t.Error("the volume of a running container was removed")
	}
}

func TestImage(t *testing.T) {
	spec := python(t, "pass")
	info, err := testEngine.Image(t.Context(), spec.Image)
	if err != nil || info.ID == "" {
		t.Errorf("Image(%q) = %+v, %v", spec.Image, info, err)
	}
	for _, ref := range []string{"localhost/no-such-image:1", "", "not a reference!", strings.Repeat("x", 5000)} {
		if _, err := testEngine.Image(t.Context(), ref); err == nil {
			t.Errorf("Image(%.20q) found something", ref)
		} else if ref == "localhost/no-such-image:1" && !errors.Is(err, sandbox.ErrImageMissing) {
			t.Errorf("Image(%q): %v", ref, err)
		}
	}
}

// A Start that fails says why, and leaves no container.
func TestStartThatFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*sandbox.Spec)
		want   error
	}{
		{"because the image is missing", func(s *sandbox.Spec) { s.Image = "localhost/no-such-image:1" }, sandbox.ErrImageMissing},
		{"because the interpreter is missing", func(s *sandbox.Spec) { s.Command = []string{"no-such-program", "-c", "x"} }, sandbox.ErrNoInterpreter},
		{"because the path of the interpreter is missing", func(s *sandbox.Spec) { s.Command = []string{"/no/such/node"} }, sandbox.ErrNoInterpreter},
		{"because the interpreter is no program", func(s *sandbox.Spec) { s.Command = []string{"/etc/passwd"} }, sandbox.ErrNoInterpreter},
		{"because the interpreter is a folder", func(s *sandbox.Spec) { s.Command = []string{"/etc"} }, sandbox.ErrNoInterpreter},
		{"because the name is bad", func(s *sandbox.Spec) { s.Name = "../../etc" }, nil},
		{"because the image's name is bad", func(s *sandbox.Spec) { s.Image = "no image!" }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			spec := python(t, "pass")
			test.change(&spec)
			p, err := testEngine.Start(t.Context(), spec)
			if err == nil {
				p.Close()
				t.Fatal("it started")
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("the error is %v", err)
			}
			if !gone(t, spec.Name) {
				t.Error("the container is still there")
			}
		})
	}
}

func TestStartWantsNamesAndACommand(t *testing.T) {
	for _, spec := range []sandbox.Spec{{}, {Name: "x", Volume: "x"}, {Name: "x", Command: []string{"x"}}, {Volume: "x", Command: []string{"x"}}} {
		if _, err := testEngine.Start(t.Context(), spec); !errors.Is(err, errIncomplete) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

func TestNameInUseLeavesTheOtherContainerAlone(t *testing.T) {
	spec := python(t, echo)
	first := start(t, spec)
	if p, err := testEngine.Start(t.Context(), spec); err == nil {
		p.Close()
		t.Fatal("a second container of the same name started")
	}
	if _, err := first.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if c := find(t, spec.Name); !c.Running {
		t.Error("the first container was stopped")
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	spec := python(t, echo)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p, err := testEngine.Start(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("Start gave %v, %v", p, err)
	}
	if !gone(t, spec.Name) {
		t.Error("the container is still there")
	}
}

// Without limits of the caller's, and with ones that no host has, the container starts.
func TestLimitsThatCannotBeSet(t *testing.T) {
	for name, limits := range map[string]sandbox.Limits{
		"none": {}, "too large": {OpenFiles: 1 << 40, PIDs: 1 << 20, CPUs: 0.1},
	} {
		spec := python(t, "print(1)")
		spec.Limits = limits
		if got := output(t, spec); got != "1\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	specs := make([]sandbox.Spec, 12)
	for i := range specs {
		specs[i] = python(t, fmt.Sprintf("print(%d)", i))
	}
	var wait sync.WaitGroup
	for i, spec := range specs {
		wait.Go(func() {
			p, err := testEngine.Start(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			if out, err := io.ReadAll(p); err != nil || string(out) != fmt.Sprintln(i) {
				t.Errorf("container %d said %q, %v", i, out, err)
			}
		})
	}
	wait.Wait()
}

// waitFor waits until Podman has recorded a container's end, which comes a moment after
// the end of its output.
func waitFor(t *testing.T, name string) {
	t.Helper()
	conn, err := testEngine.Connection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := containers.Wait(conn, name, nil); err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, name string) sandbox.Container {
	t.Helper()
	list, err := testEngine.List(t.Context(), testLabel, testRun)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Containers {
		if c.Name == name {
			return c
		}
	}
	return sandbox.Container{}
}

// A container that ends by itself and is removed in the same moment.
func TestRemoveMeetsTheEnd(t *testing.T) {
	for range 8 {
		spec := python(t, echo)
		p := start(t, spec)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if err := testEngine.Remove(t.Context(), []string{spec.Name}, []string{spec.Volume}); err != nil {
			t.Error(err)
		}
	}
}

func gone(t *testing.T, name string) bool {
	t.Helper()
	return find(t, name).Name == ""
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		spec := python(b, "print(1)")
		p, err := testEngine.Start(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(p, make([]byte, 2)); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := testEngine.Remove(b.Context(), []string{spec.Name}, []string{spec.Volume}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	p := start(b, python(b, "import os\nwhile True: os.write(1, os.read(0, 64))"))
	answer := make([]byte, 4)
	for b.Loop() {
		if _, err := p.Write([]byte("ping")); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(p, answer); err != nil {
			b.Fatal(err)
		}
	}
}
