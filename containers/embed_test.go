package containers

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	if _, ok := Slim("ruby"); ok || ImageRef("ruby") != "" {
		t.Error("an unknown language has an image")
	}
	seen := make(map[string]bool)
	for _, recipe := range Recipes() {
		for argument, other := range recipe.Below {
			if !seen[other.Hash] {
				t.Errorf("%s stands before its %s, %s", recipe, argument, other)
			}
		}
		if seen[recipe.Hash] = true; !want.MatchString(recipe.Ref()) || recipe.IsFull() != strings.HasSuffix(recipe.String(), "-full") {
			t.Errorf("%s is called %s", recipe, recipe.Ref())
		}
		if got, ok := RecipeOf(recipe.Ref()); !ok || got.Hash != recipe.Hash {
			t.Errorf("%s is of %s", recipe.Ref(), got)
		}
	}
	if _, ok := RecipeOf("localhost/code-sandbox-mcp-python:latest"); ok {
		t.Error("an image of another name has a recipe")
	}
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
		sum, err := hashFiles(files, nil)
		must.OK(t, err)
		return sum
	}
	base := hash(files("a", "1", "b/c", "2"))
	should.Equal(t, hash(files("b/c", "2", "a", "1")), base, "the order or the mode of files changes the hash")
	below := func(hash string) string {
		sum, err := hashFiles(files("a", "1", "b/c", "2"), map[string]Recipe{"BASE": {Hash: hash}})
		must.OK(t, err)
		return sum
	}
	if below("1") == base || below("1") == below("2") {
		t.Error("an image below leaves the hash as it was")
	}
	for name, changed := range map[string]fs.FS{
		"content":           files("a", "1", "b/c", "3"),
		"name":              files("a", "1", "b/d", "2"),
		"a file more":       files("a", "1", "b/c", "2", "d", ""),
		"bytes moved over":  files("a", "12", "b/c", ""),
		"name into content": files("a1", "", "b/c", "2"),
	} {
		if hash(changed) == base {
			t.Errorf("a change of %s leaves the hash as it was", name)
		}
	}
}

func TestRecipesAreWholeAndKnowNothingOfTheSupervisors(t *testing.T) {
	for _, recipe := range Recipes() {
		for _, part := range recipe.Parts {
			containerfile, err := fs.ReadFile(recipe.Files, part)
			must.OK(t, err)
			for _, name := range copied(string(containerfile)) {
				should.OK(t, should.ErrOf(fs.Stat(recipe.Files, name)), "%s: COPY %s: not embedded", recipe.Name, name)
			}
		}
		should.OK(t, should.ErrOf(fs.Stat(recipe.Files, HostEnvFile)), "%s", recipe.Name)
		names, err := fs.Glob(recipe.Files, "supervisor*")
		if err != nil || len(names) > 0 {
			t.Errorf("%s: %v %v: the supervisor travels with the binary", recipe.Name, names, err)
		}
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
		env, err := fs.ReadFile(recipe.Files, HostEnvFile)
		must.OK(t, err)
		for line := range strings.Lines(string(env)) {
			if !strings.HasPrefix(line, "#") {
				t.Errorf("%s/%s sets something: %s", recipe.Name, HostEnvFile, line)
			}
		}
	}
}

func TestTheLockFileNamesNoRegistry(t *testing.T) {
	lock, err := fs.ReadFile(recipeFiles, "image/node/package-lock.json")
	must.OK(t, err)
	var parsed struct {
		Packages map[string]struct{ Resolved, Integrity string }
	}
	must.OK(t, json.Unmarshal(lock, &parsed))
	if len(parsed.Packages) < 30 {
		t.Fatalf("only %d packages", len(parsed.Packages))
	}
	for name, entry := range parsed.Packages {
		if entry.Resolved != "" {
			t.Errorf("%s is pinned to %s; run npm with --omit-lockfile-registry-resolved", name, entry.Resolved)
		}
		if name != "" && !strings.HasPrefix(entry.Integrity, "sha512-") {
			t.Errorf("%s has no checksum", name)
		}
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
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		must.OK(t, err)
		for _, path := range paths {
			content, err := os.ReadFile(path)
			must.OK(t, err)
			text.Write(content)
		}
	}
	return text.String()
}
