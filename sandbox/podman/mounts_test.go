//go:build unix

package podman

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// hostFolder is a folder that everybody may read, as all of what is above it.
func hostFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	folder := must.Get(os.MkdirTemp("", "csm-mount-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	for path, mode := range map[string]os.FileMode{"open.txt": 0o666, "closed.txt": 0o600, "run.sh": 0o755} {
		must.OK(t, os.WriteFile(filepath.Join(folder, path), []byte("#!/bin/sh\necho "+path), 0o600))
		must.OK(t, os.Chmod(filepath.Join(folder, path), mode))
	}
	must.OK(t, os.Chmod(folder, mode))
	return folder
}

const tryMount = `
import errno, os, subprocess
def tried(what):
    try:
        return what() or "done"
    except OSError as err:
        return errno.errorcode[err.errno]
m = "/mnt/data/mounts/m/"
print(tried(lambda: open(m + "open.txt").read().split()[-1]), tried(lambda: open(m + "closed.txt").read()),
      tried(lambda: subprocess.run([m + "run.sh"]).returncode), tried(lambda: open(m + "new.txt", "w").close()),
      tried(lambda: open(m + "open.txt", "a").close()), tried(lambda: os.mkdir("/mnt/data/mounts/other")))
`

func TestFoldersOfTheHost(t *testing.T) {
	for name, test := range map[string]struct {
		mode     os.FileMode
		writable bool
		want     string
	}{
		"read-only, though everybody may write":   {0o777, false, "open.txt EACCES EACCES EROFS EROFS EACCES\n"},
		"read-only":                               {0o755, false, "open.txt EACCES EACCES EROFS EROFS EACCES\n"},
		"writable":                                {0o777, true, "open.txt EACCES EACCES done done EACCES\n"},
		"writable, but not to everybody":          {0o755, true, "open.txt EACCES EACCES EACCES done EACCES\n"},
		"not even readable by everybody, as said": {0o700, false, "EACCES EACCES EACCES EACCES EACCES EACCES\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := python(t, tryMount)
			folder := hostFolder(t, test.mode)
			spec.Mounts = []engine.Mount{{Folder: folder, Name: "m", Writable: test.writable}}
			should.Equal(t, output(t, spec), test.want)
			_, err := os.Stat(filepath.Join(folder, "new.txt"))
			should.Equal(t, err == nil, test.writable && test.mode == 0o777, "new.txt is there")
		})
	}
}

// Code that replaces the folder that the host's are mounted in ends its own session alone.
func TestWhatIsInTheWayOfFoldersOfTheHost(t *testing.T) {
	for _, runtime := range []string{"", "runsc"} {
		if _, err := exec.LookPath(runtime); runtime != "" && err != nil {
			continue
		}
		for name, code := range map[string]string{
			"a file":              "open(m, 'w').close()",
			"a link to itself":    "os.symlink(m, m)",
			"a file in a folder":  "os.mkdir(m); open(m + '/m', 'w').close()",
			"a link to programs":  "os.symlink('/opt/code-sandbox-mcp', m)",
			"a link to no folder": "os.mkdir(m); os.symlink('/etc/passwd', m + '/m')",
		} {
			t.Run(runtime+" "+name, func(t *testing.T) {
				t.Parallel()
				spec := python(t, "import os; m = '/mnt/data/mounts'; "+code)
				output(t, spec)
				must.OK(t, testEngine.Remove(t.Context(), []string{spec.Name}, nil))
				spec.Mounts = []engine.Mount{{Folder: hostFolder(t, 0o755), Name: "m"}}
				e := own(t, service.Options{OCIRuntime: runtime}) // whose first container it is
				before := linkOf(t, e).Runtime
				for range 2 {
					should.Be(t, should.ErrOf(e.Start(t.Context(), spec)), engine.ErrNoPlaceForMounts)
				}
				should.Equal(t, linkOf(t, e).Runtime, before, "the runtime")
				other := python(t, "print(1)")
				other.Mounts = spec.Mounts
				startOn(t, e, other)
			})
		}
	}
}

// An engine elsewhere would mount what has the same path there.
func TestAnEngineElsewhereHasNoFoldersOfTheHost(t *testing.T) {
	spec := python(t, "print('started')")
	spec.Mounts = []engine.Mount{{Folder: hostFolder(t, 0o755), Name: "m"}}
	should.Be(t, should.ErrOf(testEngine.tryStart(t.Context(), &service.Link{Address: "tcp://elsewhere"}, spec)), engine.ErrNotOnHost)
}
