//go:build unix

package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// What the kernel's own tests of IPython and of figures need is not on every machine that runs the others,
// but in the image: so they run in a session's container, beside its kernels, on the supervisor that is there.
func TestTheKernelsTestsWithIPython(t *testing.T) {
	t.Parallel()
	tests := []string{"test_ipython.py", "test_plotly_drawing.py"}
	programs := os.DirFS("../../../containers/kernel/python")
	var source []byte
	for _, name := range tests {
		text, err := fs.ReadFile(programs, name)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tests.zip"), zipped(t, programs))
	s := start(t, setup{args: []string{"--allow-host-dir", dir}})
	s.call("upload_file", object{"filename": "tests.zip", "host_path": "tests.zip"}).wantDone(t)
	session := s.py("import zipfile; zipfile.ZipFile('input/tests.zip').extractall('tests')").Meta.Run.SessionID
	h, err := held([]string{session})
	if err != nil || len(h.Containers) != 1 {
		t.Fatalf("the session's container: %v, %v", h, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), slowed(15*time.Minute))
	defer cancel()
	command := append([]string{"exec", "--env", "E2E_SLOWNESS=" + strconv.Itoa(slowness), "--env", "SUPERVISOR=/opt/code-sandbox-mcp/supervisor", "--env", "CODE_SANDBOX_SOCKET=@tests", "--workdir", "/mnt/data/tests", h.Containers[0], "python3", "-m", "unittest", "-q"}, tests...)
	printed, err := exec.CommandContext(ctx, "podman", command...).CombinedOutput()
	want := len(regexp.MustCompile(`(?m)^    (?:async )?def test_`).FindAll(source, -1))
	if err != nil || !regexp.MustCompile(`Ran `+strconv.Itoa(want)+` tests in [\d.]+s\n\nOK\n`).Match(printed) {
		t.Errorf("%d tests were to be run: %v\n%s", want, err, printed)
	}
}

// zipped packs a folder.
func zipped(t *testing.T, folder fs.FS) []byte {
	t.Helper()
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	if err := archive.AddFS(folder); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}
