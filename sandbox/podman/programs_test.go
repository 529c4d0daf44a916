//go:build unix

package podman

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	testimage "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// testVolume is the name of a volume that is the test's own.
func testVolume(t *testing.T, prefix string) string {
	name := prefix + strings.ToLower(rand.Text()[:12])
	t.Cleanup(func() {
		should.OK(t, testEngine.Remove(context.Background(), nil, []string{name}))
	})
	return name
}

func mountpoint(t *testing.T, volume string) string {
	t.Helper()
	out := must.Get(exec.CommandContext(t.Context(), "podman", "volume", "inspect", "--format", "{{.Mountpoint}}", volume).Output())(t)
	return strings.TrimSpace(string(out))
}

func TestCodeCanRunTheProgramsAndNotChangeThem(t *testing.T) {
	spec := python(t, `import os, subprocess
path = "/opt/code-sandbox-mcp/"
def refused(what, *arguments):
    try: what(*arguments)
    except OSError as error: return error.strerror
    return "not refused"
print(refused(open, path + "new", "w"), refused(open, path + "python/main.py", "a"), refused(os.chmod, path + "supervisor", 0o777), sep="; ")
print(refused(os.remove, path + "supervisor"), refused(open, path + "supervisor", "rb"), sep="; ")
print(subprocess.run([path + "supervisor"], capture_output=True).returncode, len(open(path + "python/main.py").read()) > 0)
print([line.split()[3] for line in open("/proc/mounts") if " /opt/code-sandbox-mcp " in line][0])`)
	lines := strings.Split(output(t, spec), "\n")
	want := []string{"Read-only file system; Permission denied; Read-only file system", "Read-only file system; Permission denied", "1 True"}
	must.Hold(t, len(lines) == 5 && slices.Equal(lines[:3], want), "it says %q", lines)
	for _, option := range []string{"ro", "nosuid", "nodev"} {
		if !slices.Contains(strings.Split(lines[3], ","), option) {
			t.Errorf("the mount has %s, and not %s", lines[3], option)
		}
	}
}

// Somebody removes or changes what is in the volume: it is mended when a server looks at it next.
func TestAVolumeOfProgramsIsMended(t *testing.T) {
	files := []containers.File{{Path: "supervisor", Mode: 0o711, Content: []byte("program")}, {Path: "python/main.py", Mode: 0o644, Content: []byte("text")}}
	name := testVolume(t, "csm-test-")
	conn := linkOf(t, testEngine).Context(t.Context())
	filled := func(onHost bool) bool {
		t.Helper()
		_, filled, err := fill(conn, onHost, testimage.BarePython(t), name, files)
		must.OK(t, err)
		return filled
	}
	should.Hold(t, filled(true), "a volume that is made has the files already")
	folder := mountpoint(t, name)
	inside := func(path string) string { return filepath.Join(folder, path) }
	for what, spoil := range map[string]func() error{
		"nothing":            func() error { return nil },
		"a file was removed": func() error { return os.Remove(inside("python/main.py")) },
		"all was removed":    func() error { return errors.Join(os.RemoveAll(inside("python")), os.Remove(inside("supervisor"))) },
		"its folder was":     func() error { return os.RemoveAll(filepath.Dir(folder)) },
		"a file was changed": func() error { return os.WriteFile(inside("supervisor"), []byte("PROGRAM"), 0o711) },
		"a file was cut":     func() error { return os.Truncate(inside("supervisor"), 3) },
		"its mode was":       func() error { return os.Chmod(inside("supervisor"), 0o644) },
		"it was replaced by a link": func() error {
			return errors.Join(os.Remove(inside("supervisor")), os.WriteFile(inside("other"), []byte("program"), 0o711), os.Symlink("other", inside("supervisor")))
		},
	} {
		for _, onHost := range []bool{true, false} {
			must.OK(t, spoil())
			got := filled(onHost)
			should.Hold(t, got == (what != "nothing"), "%s: filled again: %v, on this host: %v", what, got, onHost)
			should.Hold(t, holds(onDisk(folder), files) && !filled(onHost), "%s: it is not mended, on this host: %v", what, onHost)
		}
	}
}

// Servers that start at once, here and elsewhere, find one volume that is still empty. Once one of them says that it is
// whole, it stays so.
func TestAVolumeIsFilledByManyAtOnce(t *testing.T) {
	t.Parallel()
	files, err := containers.Programs(runtime.GOARCH)
	must.OK(t, err)
	image, conn := testimage.BarePython(t), linkOf(t, testEngine).Context(t.Context())
	for range 2 {
		name := testVolume(t, "csm-test-")
		var fillers atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				_, filled, err := fill(conn, i%2 == 0, image, name, files)
				if err != nil {
					t.Error(err)
					return
				}
				if filled {
					fillers.Add(1)
				}
				if volume, err := libpod.InspectVolume(conn, name); err != nil || !holds(onDisk(volume.Mountpoint), files) {
					t.Errorf("it is not whole: %v", err)
				}
			})
		}
		all.Wait()
		should.Equal(t, fillers.Load(), 1, "have filled it")
	}
}

// A server that was killed while it filled a volume has left its container, which is removed after a while; and one that is still at
// it is not waited for longer than a call may take.
func TestAVolumeWhoseFillerWasKilled(t *testing.T) {
	t.Parallel()
	files := []containers.File{{Path: "supervisor", Mode: 0o711, Content: []byte("program")}}
	image, name, conn := testimage.BarePython(t), testVolume(t, "csm-test-"), linkOf(t, testEngine).Context(t.Context())
	left := exec.CommandContext(t.Context(), "podman", "create", "--name", name+"-"+fillSuffix, "--volume", name+":"+volumeMount, image, "true")
	out, err := left.CombinedOutput()
	must.Hold(t, err == nil, "%v: %s", err, out)
	short, cancel := context.WithTimeout(conn, 4*fillPause)
	defer cancel()
	if _, _, err := fill(short, true, image, name, files); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting came to %v", err)
	}
	if _, filled, err := fill(conn, true, image, name, files); err != nil || !filled {
		t.Errorf("filled: %v, %v", filled, err)
	}
}

func TestAVolumeThatIsTooLargeIsNotReadToItsEnd(t *testing.T) {
	name, conn := testVolume(t, "csm-test-"), linkOf(t, testEngine).Context(t.Context())
	files := []containers.File{{Path: "large", Mode: 0o644, Content: make([]byte, maxVolume)}}
	if _, _, err := fill(conn, false, testimage.BarePython(t), name, files); err != nil {
		t.Fatal(err)
	}
	err := volumeFiles{testimage.BarePython(t), name, nil}.withHelper(conn, "reading", func(container string) error {
		_, err := download(conn, container)
		return err
	})
	should.Fail(t, err, "more than it should", "reading it came to")
}

// Volumes are pruned, or spoilt, under a server that knows that they were whole.
func TestAVolumeThatGoesUnderAServerIsMended(t *testing.T) {
	e := own(t, service.Options{})
	hash, err := programsHash(runtime.GOARCH, false, false)
	must.OK(t, err)
	e.volumes.prefix = testVolume(t, "csm-test-") + "-"
	name := e.volumes.prefix + hash
	t.Cleanup(func() { _ = testEngine.Remove(context.Background(), nil, []string{name}) })
	spec := testSpec(t, containers.Join()...) // which ends at once: no process 1 has a socket
	for _, spoil := range []func() error{
		func() error { return e.Remove(t.Context(), nil, []string{name}) },
		func() error { return os.RemoveAll(filepath.Dir(mountpoint(t, name))) },
		func() error { return os.Remove(filepath.Join(mountpoint(t, name), "supervisor")) },
		func() error { return os.Chmod(filepath.Join(mountpoint(t, name), "supervisor"), 0o600) },
		func() error { return nil },
	} {
		p := startOn(t, e, spec)
		_, err := io.ReadAll(p)
		should.Hold(t, err == nil && strings.HasPrefix(p.Stderr(), "supervisor: "), "it said %q, %v", p.Stderr(), err)
		p.Close()
		must.OK(t, errors.Join(e.Remove(t.Context(), []string{spec.Name}, nil), spoil()))
	}
}

// Another server, of another version, removes the volume while Podman mounts it.
func TestALostFolderOfTheProgramsIsKnown(t *testing.T) {
	err := testEngine.startError(errors.New("attach: preparing container 62bc for attach: lchown /volumes/" + testEngine.volumes.prefix + "ab4a/_data: no such file or directory"))
	should.Hold(t, errors.Is(err, errProgramsGone), "it is taken for %v", err)
}

func TestVolumesOfOtherVersionsAreRemoved(t *testing.T) {
	other, used, foreign := testVolume(t, programsVolume), testVolume(t, programsVolume), testVolume(t, "csm-test-")
	kind := testVolume(t, filledPrefix+"skills-")
	for _, name := range []string{other, used, foreign, kind} {
		out, err := exec.CommandContext(t.Context(), "podman", "volume", "create", "--label", programsLabel+"="+name, name).CombinedOutput()
		must.OK(t, err, "%s", out)
	}
	spec := python(t, idle)
	spec.Volume = used
	start(t, spec) // which has this version's programs as well
	before := volumesOf(t)
	must.OK(t, should.ErrOf(testEngine.RemoveOldVolumes(t.Context())))
	after := volumesOf(t)
	for _, name := range before {
		gone := !slices.Contains(after, name)
		should.Hold(t, (!gone || name != used && name != foreign) && (gone || name != other && name != kind), "%s was removed: %v", name, gone)
	}
	hash, err := programsHash(runtime.GOARCH, false, false)
	current := programsVolume + hash
	should.Hold(t, err == nil && slices.Contains(after, current), "%s, of this version, is not there: %v", current, err)
}

func volumesOf(t *testing.T) []string {
	t.Helper()
	var out []byte
	err := errors.ErrUnsupported
	for try := 0; err != nil; try++ { // it fails where another test removes a volume that it has just seen
		out, err = exec.CommandContext(t.Context(), "podman", "volume", "ls", "--quiet").Output()
		must.Hold(t, err == nil || try != 20, "%v", err)
	}
	return strings.Fields(string(out))
}
