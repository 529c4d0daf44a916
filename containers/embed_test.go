package containers

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestEveryLanguageHasAnImageName(t *testing.T) {
	want := regexp.MustCompile(`^localhost/code-sandbox-mcp-(standard|python|node):[0-9a-f]{12}(-full)?$`)
	for _, language := range []string{"python", "javascript", "bash"} {
		slim, ok := Slim(language)
		if ref := ImageRef(language); ref != Standard().Ref() || !ok || slim.Ref() == ref || !want.MatchString(slim.Ref()) {
			t.Errorf("the images of %s are %q and %q", language, ref, slim.Ref())
		}
	}
	_, ok := Slim("ruby")
	should.Hold(t, !ok && ImageRef("ruby") == "", "an unknown language has an image")
	seen := make(map[string]bool)
	for _, recipe := range Recipes() {
		for argument, other := range recipe.Below {
			should.Hold(t, seen[other.Hash], "%s stands before its %s, %s", recipe, argument, other)
		}
		if seen[recipe.Hash] = true; !want.MatchString(recipe.Ref()) || recipe.IsFull() != strings.HasSuffix(recipe.String(), "-full") {
			t.Errorf("%s is called %s", recipe, recipe.Ref())
		}
		got, ok := RecipeOf(recipe.Ref())
		should.Hold(t, ok && got.Hash == recipe.Hash, "%s is of %s", recipe.Ref(), got)
	}
	_, ok = RecipeOf("localhost/code-sandbox-mcp-python:latest")
	should.Hold(t, !ok, "an image of another name has a recipe")
}

func TestAnImageSaysWhatItIsWithout(t *testing.T) {
	for label, want := range map[string]string{
		`{"version":"3"}`: "",
		`{"missing":[]}`:  "",
		`[{"version":"24"},{"missing":["polars"],"why":"refused"}]`:      "without polars, because PyPI's packages could not be installed: refused",
		`{"missing":["polars","duckdb"],"why":"refused\u001b[2J\n"}`:     "without polars, duckdb, because PyPI's packages could not be installed: refused[2J",
		`{"missing":` + strings.Repeat(" ", MaxVersions) + `["polars"]}`: "",
		`no JSON`: "",
	} {
		should.Equal(t, Without(label), want, "%.60s", label)
	}
}

func TestTheHashIsOfNamesAndContentsAlone(t *testing.T) {
	files := func(pairs ...string) fs.FS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1]), Mode: fs.FileMode(0o600 + i)}
		}
		return m
	}
	hash := func(files fs.FS) string {
		return must.Get(hashFiles(files, []string{"."}))(t)
	}
	base := hash(files("a", "1", "b/c", "2"))
	should.Equal(t, hash(files("b/c", "2", "a", "1")), base, "the order or the mode of files changes the hash")
	for name, changed := range map[string]fs.FS{
		"content":           files("a", "1", "b/c", "3"),
		"name":              files("a", "1", "b/d", "2"),
		"a file more":       files("a", "1", "b/c", "2", "d", ""),
		"bytes moved over":  files("a", "12", "b/c", ""),
		"name into content": files("a1", "", "b/c", "2"),
	} {
		should.Hold(t, hash(changed) != base, "a change of %s leaves the hash as it was", name)
	}
}

func TestRecipesAreWholeAndKnowNothingOfTheSupervisors(t *testing.T) {
	for _, recipe := range Recipes() {
		for _, part := range recipe.Parts {
			for _, name := range copied(part) {
				should.OK(t, should.ErrOf(fs.Stat(recipe.Files, name)), "%s: COPY %s: not embedded", recipe.Name, name)
			}
		}
		should.OK(t, should.ErrOf(fs.Stat(recipe.Files, HostEnvFile)), "%s", recipe.Name)
		names, err := fs.Glob(recipe.Files, "supervisor*")
		should.Hold(t, err == nil && len(names) == 0, "%s: %v %v: the supervisor travels with the binary", recipe.Name, names, err)
	}
}

// copied lists what a Containerfile takes out of its context.
func copied(containerfile string) []string {
	var names []string
	for line := range strings.Lines(containerfile) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != "COPY" || strings.HasPrefix(fields[1], "--from") {
			continue
		}
		names = append(names, fields[1:len(fields)-1]...)
	}
	return names
}

func TestTheHostSettingsInTheTreeAreEmpty(t *testing.T) {
	for _, recipe := range Recipes() {
		env := must.Get(fs.ReadFile(recipe.Files, HostEnvFile))(t)
		for line := range strings.Lines(string(env)) {
			should.Hold(t, strings.HasPrefix(line, "#"), "%s/%s sets something: %s", recipe.Name, HostEnvFile, line)
		}
	}
}

func TestTheLockFileNamesNoRegistry(t *testing.T) {
	lock := must.Get(fs.ReadFile(recipeFiles, "image/node/package-lock.json"))(t)
	var parsed struct {
		Packages map[string]struct{ Resolved, Integrity string }
	}
	must.OK(t, json.Unmarshal(lock, &parsed))
	must.Hold(t, len(parsed.Packages) >= 30, "only %d packages", len(parsed.Packages))
	for name, entry := range parsed.Packages {
		should.Hold(t, entry.Resolved == "", "%s is pinned to %s; run npm with --omit-lockfile-registry-resolved", name, entry.Resolved)
		should.Hold(t, name == "" || strings.HasPrefix(entry.Integrity, "sha512-"), "%s has no checksum", name)
	}
}

func TestEverySourceOfARecipeHasATestBesideIt(t *testing.T) {
	var sources []string // those of the kernels are tested as the programs that they are
	err := fs.WalkDir(recipeFiles, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(entry.Name(), "smoke."): // a test itself, run by the build
		case filepath.Ext(path) == ".py", filepath.Ext(path) == ".cjs":
			sources = append(sources, path)
		}
		return nil
	})
	must.OK(t, err)
	for _, source := range sources {
		should.Contain(t, testsBeside(t, filepath.Dir(source)), filepath.Base(source), "no test beside %s names it", source)
	}
}

// testsBeside is the text of the tests in folder.
func testsBeside(t *testing.T, folder string) string {
	t.Helper()
	var text strings.Builder
	for _, pattern := range []string{"test_*.py", "*.test.cjs"} {
		paths := must.Get(filepath.Glob(filepath.Join(folder, pattern)))(t)
		for _, path := range paths {
			content := must.Get(os.ReadFile(path))(t)
			text.Write(content)
		}
	}
	return text.String()
}

func TestPublishedImagesAreNamedByTheirDigests(t *testing.T) {
	recipe := Standard()
	digest := "sha256:" + strings.Repeat("c", 64)
	p := Published{Registry: "registry.example.com/team", Digests: map[string]string{recipe.Hash: digest}}
	ref, want := p.Ref(recipe), "registry.example.com/team/code-sandbox-mcp-standard@"+digest
	should.Hold(t, ref == want, "got %q, want %q", ref, want)
	should.Equal(t, p.Ref(Full()), "", "the full image that was not published")
	other, _ := Slim("python")
	should.Hold(t, p.Ref(other) == "", "an image that was not published is %q", p.Ref(other))
}

// What a release has filled in, or nothing.
func TestTheTableIsRead(t *testing.T) {
	table := PublishedImages()
	should.Hold(t, table.Registry != "", "it names no registry")
	for hash, digest := range table.Digests {
		if !regexp.MustCompile(`^[0-9a-f]{64}(-full)?$`).MatchString(hash) || !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest) {
			t.Errorf("%s: %s", hash, digest)
		}
	}
}

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
	should.Hold(t, bytes.Equal(archive.Bytes(), again.Bytes()), "another archive of the same is another")
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
	list := must.Get(exec.CommandContext(t.Context(), "tar", "--numeric-owner", "-tvf", exported).Output())(t)
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", exported, "-C", folder, "--exclude=export.tar").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files := must.Get(Programs(runtime.GOARCH))(t)
	var want []string
	for _, f := range files {
		owner, mode := "0/0", f.Mode
		if f.Path == "supervisor" { // so that a container can copy it that does not run as root
			owner, mode = fmt.Sprintf("0/%d", ProgramsGroup), 0o751
		}
		want = append(want, fmt.Sprintf("%v %s %d %s", mode, owner, len(f.Content), f.Path))
		got, err := os.ReadFile(filepath.Join(folder, f.Path))
		should.Hold(t, err == nil && bytes.Equal(got, f.Content), "%s is another: %v", f.Path, err)
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
	should.Hold(t, slices.Equal(got, want), "got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
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

// maxSupervisor is how large a build may be: it is sent to every engine, and each container has it in memory.
const maxSupervisor = 3968 << 10

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
		for _, command := range [][]string{Supervisor("python", "javascript"), Join(), Document(), Picture()} {
			for _, argument := range command {
				_, name, ours := strings.Cut(argument, ProgramsDir+"/") // behind a language, or at the beginning
				_, ok := modes[name]
				should.Hold(t, !ours || ok, "%q needs %s, which is not there", command, name)
			}
		}
		for name, want := range sources(t) {
			mode, ok := modes[name]
			should.Hold(t, ok == want && (!ok || mode == 0o644), "%s is there: %v, with mode %v", name, ok, mode)
		}
	}
	should.Equal(t, len(hashes), 2, "the hashes are %v", hashes)
}

// checkSupervisor wants a small program that needs nothing of an image.
func checkSupervisor(t *testing.T, content []byte, machine elf.Machine) {
	t.Helper()
	file := must.Get(elf.NewFile(bytes.NewReader(content)))(t)
	libraries, err := file.ImportedLibraries()
	interpreted := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	should.Hold(t, file.Machine == machine && !interpreted && err == nil && len(libraries) == 0,
		"it is for %v, has a loader: %v, and needs %q, %v", file.Machine, interpreted, libraries, err)
	should.Hold(t, len(content) <= maxSupervisor, "it has %d bytes, and may have %d", len(content), maxSupervisor)
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
	must.Hold(t, err == nil && len(found) >= 40, "%d sources, %v", len(found), err)
	return found
}

func TestAnotherArchitectureHasNone(t *testing.T) {
	for _, arch := range []string{"", "386", "s390x", "../amd64"} {
		files, err := Programs(arch)
		should.Hold(t, errors.Is(err, ErrArchitecture) && files == nil, "%q: %d files, %v", arch, len(files), err)
		hash, err := ProgramsHash(arch)
		should.Hold(t, errors.Is(err, ErrArchitecture) && hash == "", "%q: %q, %v", arch, hash, err)
	}
}

func TestAnArchiveHasTheFilesAndTheirFolders(t *testing.T) {
	files := []File{{"a", 0o711, []byte("one")}, {"b/c/d", 0o644, nil}, {"b/c/e", 0o600, []byte("two")}, {"b/f", 0o644, []byte("three")}}
	archive := must.Get(Archive(files))(t)
	again, err := Archive(files)
	should.Hold(t, err == nil && bytes.Equal(archive.Bytes(), again.Bytes()), "another archive of the same is another: %v", err)
	var got []string
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.OK(t, err)
		content, err := io.ReadAll(r)
		should.Hold(t, err == nil && header.Uid == 0 && header.Gid == 0, "%s: of %d:%d, %v", header.Name, header.Uid, header.Gid, err)
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
	out, err := exec.CommandContext(t.Context(), "../scripts/build-supervisor", folder).CombinedOutput()
	must.Hold(t, err == nil, "%v: %s", err, out)
	for _, arch := range Architectures() {
		built := must.Get(os.ReadFile(filepath.Join(folder, "linux-"+arch)))(t)
		if files, err := Programs(arch); err != nil || !bytes.Equal(built, files[0].Content) {
			t.Errorf("the build for %s is not of this source, or not by this Go; run make supervisor", arch)
		}
	}
}
