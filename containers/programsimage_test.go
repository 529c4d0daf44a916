package containers

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestTheProgramsImageHasANameOfItsContents(t *testing.T) {
	if ref := ProgramsRef(); !regexp.MustCompile(`^ghcr\.io/code-sandbox-mcp/code-sandbox-mcp-programs:[0-9a-f]{12}$`).MatchString(ref) {
		t.Errorf("it is called %s", ref)
	}
}

func TestTheProgramsImageIsLoaded(t *testing.T) {
	var archive, again bytes.Buffer
	const ref = "localhost/code-sandbox-mcp-programs:test"
	for _, w := range []*bytes.Buffer{&archive, &again} {
		must.OK(t, ProgramsImage(w, ref))
	}
	if !bytes.Equal(archive.Bytes(), again.Bytes()) {
		t.Error("another archive of the same is another")
	}
	podman(t, &archive, "load", "--quiet")
	if t.Failed() {
		return
	}
	t.Cleanup(func() { podman(t, nil, "rmi", "--force", ref) })
	should.Equal(t, podman(t, nil, "image", "inspect", "--format", "{{.Os}}/{{.Architecture}}", ref), "linux/"+runtime.GOARCH, "it is for")

	// A container that never runs has the image's files.
	id := podman(t, nil, "create", "--network", "none", ref)
	t.Cleanup(func() { podman(t, nil, "rm", "--force", id) })
	folder := t.TempDir()
	exported := filepath.Join(folder, "export.tar")
	podman(t, nil, "export", "--output", exported, id)
	list, err := exec.CommandContext(t.Context(), "tar", "--numeric-owner", "-tvf", exported).Output()
	must.OK(t, err)
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", exported, "-C", folder, "--exclude=export.tar").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := Programs(runtime.GOARCH)
	must.OK(t, err)
	var want []string
	for _, f := range files {
		owner, mode := "0/0", f.Mode
		if f.Path == "supervisor" { // so that a container can copy it that does not run as root
			owner, mode = fmt.Sprintf("0/%d", ProgramsGroup), 0o751
		}
		want = append(want, fmt.Sprintf("%v %s %d %s", mode, owner, len(f.Content), f.Path))
		if got, err := os.ReadFile(filepath.Join(folder, f.Path)); err != nil || !bytes.Equal(got, f.Content) {
			t.Errorf("%s is another: %v", f.Path, err)
		}
	}
	// What an engine makes in every container is beside it.
	ours := func(name string) bool {
		return name == "supervisor" || strings.HasPrefix(name, "python/") || strings.HasPrefix(name, "node/") || strings.HasPrefix(name, "lib/") || strings.HasPrefix(name, "bin/")
	}
	var got []string
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		name := fields[len(fields)-1]
		if mode := fields[0]; ours(name) && !strings.HasPrefix(mode, "d") {
			got = append(got, strings.Join([]string{mode, fields[1], fields[2], name}, " "))
		} else if ours(name) && mode != "d"+fs.FileMode(0o755).String()[1:] {
			t.Errorf("the folder %s is %s", name, mode)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// podman runs Podman, which every test of images has, and returns what it prints.
func podman(t *testing.T, stdin *bytes.Buffer, args ...string) string {
	t.Helper()
	cmd := exec.Command("podman", args...) //nolint:noctx // what is removed at the end is, too
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("podman %s: %v: %s", args[0], err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}
