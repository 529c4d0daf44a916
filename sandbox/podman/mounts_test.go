//go:build unix

package podman

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// person is the owner of the folders: an ordinary user where the tests are root's.
var person = map[bool]int{true: 4321, false: os.Geteuid()}[os.Geteuid() == 0]

// hostFolder is a folder of a person.
func hostFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	folder := must.Get(os.MkdirTemp("", "csm-mount-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	for path, mode := range map[string]os.FileMode{"open.txt": 0o644, "closed.txt": 0o600, "run.sh": 0o755} {
		must.OK(t, os.WriteFile(filepath.Join(folder, path), []byte("#!/bin/sh\necho "+path), 0o600))
		must.OK(t, os.Chmod(filepath.Join(folder, path), mode))
	}
	must.OK(t, os.Chmod(folder, mode))
	must.OK(t, filepath.Walk(folder, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, person, person))
	}))
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
print(tried(lambda: open(m + "open.txt").read().split()[-1]), tried(lambda: open(m + "closed.txt").read().split()[-1]),
      tried(lambda: subprocess.run([m + "run.sh"]).returncode), tried(lambda: open(m + "new.txt", "w").close()),
      tried(lambda: open(m + "open.txt", "a").close()), tried(lambda: os.mkdir("/mnt/data/mounts/other")))
`

func TestFoldersOfTheHost(t *testing.T) {
	for name, test := range map[string]struct {
		mode     os.FileMode
		writable bool
		want     string
	}{
		"read-only, though everybody may write":   {0o777, false, "open.txt EACCES EACCES EROFS EACCES EACCES\n"},
		"read-only":                               {0o755, false, "open.txt EACCES EACCES EROFS EACCES EACCES\n"},
		"writable":                                {0o755, true, "open.txt closed.txt EACCES done done EACCES\n"},
		"writable, the person's alone":            {0o700, true, "open.txt closed.txt EACCES done done EACCES\n"},
		"not even readable by everybody, as said": {0o700, false, "EACCES EACCES EACCES EACCES EACCES EACCES\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := python(t, tryMount)
			folder := hostFolder(t, test.mode)
			spec.Mounts = []engine.Mount{{Folder: folder, Name: "m", Writable: test.writable}}
			should.Equal(t, output(t, spec), test.want)
			made, err := os.Stat(filepath.Join(folder, "new.txt"))
			should.Equal(t, err == nil, test.writable, "new.txt is there")
			if err == nil {
				is := made.Sys().(*syscall.Stat_t)
				should.Equal(t, [3]int{int(is.Uid), int(is.Gid), int(is.Mode & 0o7777)}, [3]int{person, person, 0o644}, "its owner, group and rights")
			}
			mounted := must.Get(os.ReadFile("/proc/self/mountinfo"))(t)
			should.Hold(t, !strings.Contains(string(mounted), filepath.Base(folder)), "a mount of it is left")
		})
	}
}

func TestVolumesChangeHandsAndBack(t *testing.T) {
	spec := python(t, "import time; time.sleep(600)")
	conn := linkOf(t, testEngine).Context(t.Context())
	for _, test := range []struct{ own, running, carry bool }{{false, false, false}, {true, false, true}, {true, false, true}, {true, true, false}, {false, false, true}, {false, false, false}} {
		if test.running {
			start(t, spec)
		}
		carry, done, err := settleOwner(conn, spec, test.own)
		must.OK(t, err)
		should.Equal(t, carry, test.carry, "%+v", test)
		done()
		must.OK(t, testEngine.Remove(t.Context(), []string{spec.Name}, nil))
	}
}

func TestFoldersThatNobodyCanWriteToAreRefused(t *testing.T) {
	readOnly := hostFolder(t, 0o555)
	for name, test := range map[string]struct {
		space  idSpace
		folder string
	}{
		"read-only for its owner too":      {idSpace{}, readOnly},
		"another's, to a rootless engine":  {idSpace{rootless: true, count: MinIDs}, "/usr/share"},
		"a rootless engine of few ids":     {idSpace{rootless: true, count: 5}, hostFolder(t, 0o755)},
		"a file system that maps no users": {idSpace{}, "/proc/self"},
	} {
		if name == "another's, to a rootless engine" && os.Geteuid() == 0 {
			test.folder = hostFolder(t, 0o755)
		}
		_, end, err := lend(test.space, []engine.Mount{{Folder: test.folder, Name: "m", Writable: true}}, 1_950_000_000)
		end()
		var refused *NotWritableError
		should.Hold(t, errors.As(err, &refused) && refused.Fix != "", "%s: %v", name, err)
		_, end, err = lend(test.space, []engine.Mount{{Folder: test.folder, Name: "m"}}, 1_950_000_000)
		end()
		should.OK(t, err, "read-only: %s", name)
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
