package containers

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// maxSupervisor is how large a build may be.
const maxSupervisor = 3840 << 10

func TestEveryArchitectureHasItsPrograms(t *testing.T) {
	should.EqualSlice(t, Architectures(), []string{"amd64", "arm64"}, "there are supervisors for")
	hashes := make(map[string]bool)
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		files, err := Programs(arch)
		hash, hashErr := ProgramsHash(arch)
		must.OK(t, errors.Join(err, hashErr))
		hashes[hash] = true
		modes := make(map[string]fs.FileMode)
		for _, f := range files {
			modes[f.Path] = f.Mode
			if f.Path == "supervisor" {
				checkSupervisor(t, f.Content, machine)
			}
		}
		// Code of the session may start it and not read it, so the process cannot be looked into.
		should.Equal(t, modes["supervisor"], 0o711, "the mode of the supervisor")
		for _, command := range [][]string{Supervisor("python", "javascript"), Join(), Document()} {
			for _, argument := range command {
				_, name, ours := strings.Cut(argument, ProgramsDir+"/") // behind a language, or at the beginning
				if _, ok := modes[name]; ours && !ok {
					t.Errorf("%q needs %s, which is not there", command, name)
				}
			}
		}
		for name, want := range sources(t) {
			if mode, ok := modes[name]; ok != want || ok && mode != 0o644 {
				t.Errorf("%s is there: %v, with mode %v", name, ok, mode)
			}
		}
	}
	should.Equal(t, len(hashes), 2, "the hashes are %v", hashes)
}

// checkSupervisor wants a small program that needs nothing of an image.
func checkSupervisor(t *testing.T, content []byte, machine elf.Machine) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(content))
	must.OK(t, err)
	libraries, err := file.ImportedLibraries()
	interpreted := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if file.Machine != machine || interpreted || err != nil || len(libraries) > 0 {
		t.Errorf("it is for %v, has a loader: %v, and needs %q, %v", file.Machine, interpreted, libraries, err)
	}
	if len(content) > maxSupervisor {
		t.Errorf("it has %d bytes, and may have %d", len(content), maxSupervisor)
	}
}

// sources reports for every file of the kernels in the tree whether it belongs into a container.
func sources(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	err := fs.WalkDir(os.DirFS("kernel"), ".", func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && entry.Name() == "lint" {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); ext == ".py" || ext == ".cjs" || ext == ".mjs" {
			found[path] = !strings.HasPrefix(entry.Name(), "test_") && ext != ".mjs" // tests, and the linter's rules
		}
		return err
	})
	if err != nil || len(found) < 40 {
		t.Fatalf("%d sources, %v", len(found), err)
	}
	return found
}

func TestAnotherArchitectureHasNone(t *testing.T) {
	for _, arch := range []string{"", "386", "s390x", "../amd64"} {
		if files, err := Programs(arch); !errors.Is(err, ErrArchitecture) || files != nil {
			t.Errorf("%q: %d files, %v", arch, len(files), err)
		}
		if hash, err := ProgramsHash(arch); !errors.Is(err, ErrArchitecture) || hash != "" {
			t.Errorf("%q: %q, %v", arch, hash, err)
		}
	}
}

func TestAnArchiveHasTheFilesAndTheirFolders(t *testing.T) {
	files := []File{{"a", 0o711, []byte("one")}, {"b/c/d", 0o644, nil}, {"b/c/e", 0o600, []byte("two")}, {"b/f", 0o644, []byte("three")}}
	archive, err := Archive(files)
	must.OK(t, err)
	again, err := Archive(files)
	if err != nil || !bytes.Equal(archive.Bytes(), again.Bytes()) {
		t.Errorf("another archive of the same is another: %v", err)
	}
	var got []string
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.OK(t, err)
		content, err := io.ReadAll(r)
		if err != nil || header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s: of %d:%d, %v", header.Name, header.Uid, header.Gid, err)
		}
		got = append(got, header.FileInfo().Mode().String()+" "+header.Name+" "+string(content))
	}
	want := []string{
		"-rwx--x--x a one", "drwxr-xr-x b/ ", "drwxr-xr-x b/c/ ", "-rw-r--r-- b/c/d ", "-rw------- b/c/e two", "-rw-r--r-- b/f three",
	}
	should.EqualSlice(t, got, want)
}

// What is committed must be what `make supervisor` makes of the source.
func TestTheBuildsAreOfThisSource(t *testing.T) {
	folder := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "../scripts/build-supervisor", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, arch := range Architectures() {
		built, err := os.ReadFile(filepath.Join(folder, "linux-"+arch))
		must.OK(t, err)
		if files, err := Programs(arch); err != nil || !bytes.Equal(built, files[0].Content) {
			t.Errorf("the build for %s is not of this source, or not by this Go; run make supervisor", arch)
		}
	}
}
