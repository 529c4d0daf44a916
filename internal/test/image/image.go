//go:build unix

// Package image makes the images that tests need and that no user does, with no
// container registry.
package image

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// barePythonName reports what is in the image and changes with its recipe.
const barePythonName = "localhost/csm-bare-python:dev"

//go:embed bare-python
var barePythonRecipe string

// BarePython returns the name of an image with Debian's python3 and its standard
// library, no other package and no folder for the work. The first call on a machine
// makes it, which takes half a minute; it stays for later ones. Tests of several
// packages may ask for it at once.
func BarePython(tb testing.TB) string {
	tb.Helper()
	unlock := lock(tb)
	defer unlock()
	if exec.Command("podman", "image", "exists", barePythonName).Run() == nil {
		return barePythonName
	}
	cmd := exec.Command("bash", "-s", barePythonName)
	cmd.Stdin = strings.NewReader(barePythonRecipe)
	out, err := cmd.CombinedOutput()
	must.Hold(tb, err == nil, "make the image %s: %v\n%s", barePythonName, err, out)
	return barePythonName
}

// lock keeps the test binaries of several packages, which run at once, apart.
func lock(tb testing.TB) (unlock func()) {
	tb.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("code-sandbox-mcp-testimage-%d.lock", os.Getuid()))
	f := must.Get(os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600))(tb)
	must.OK(tb, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	return func() { _ = f.Close() }
}
