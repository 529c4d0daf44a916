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
)

func TestEveryLanguageHasARecipeAndAnImageName(t *testing.T) {
	for language, name := range map[string]string{"python": "python", "javascript": "node"} {
		recipe, ok := RecipeFor(language)
		if !ok {
			t.Fatalf("no recipe for %s", language)
		}
		want := regexp.MustCompile(`^localhost/code-sandbox-mcp-` + name + `:[0-9a-f]{12}$`)
		if ref := ImageRef(language); !want.MatchString(ref) || ref != recipe.Ref() {
			t.Errorf("ImageRef(%q) = %q, want %s", language, ref, want)
		}
	}
	if _, ok := RecipeFor("ruby"); ok || ImageRef("ruby") != "" {
		t.Error("an unknown language has a recipe")
	}
}

func TestTheFullImageHasANameOfItsOwn(t *testing.T) {
	for _, recipe := range Recipes() {
		full := recipe.WithCompiler()
		if full.Ref() != recipe.Ref()+"-full" || full.Standard().Ref() != recipe.Ref() || full.Hash == recipe.Hash {
			t.Errorf("the images of %s are %s and %s", recipe.Name, recipe.Ref(), full.Ref())
		}
		for _, want := range recipe.Images() {
			if got, ok := RecipeOf(want.Ref()); !ok || got.Full != want.Full || got.Hash != want.Hash {
				t.Errorf("%s is of %s, %t", want.Ref(), got.Hash, got.Full)
			}
		}
		if _, err := fs.Stat(recipe.Files, FullContainerfile); err != nil {
			t.Error(err)
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
		`{"missing":["polars","duckdb"],"why":"refused\u001b[2J\n"}`:     "without polars, duckdb, because PyPI's packages could not be installed: refused[2J",
		`{"missing":` + strings.Repeat(" ", MaxVersions) + `["polars"]}`: "",
		`no JSON`: "",
	} {
		versions, _ := ParseVersions(label)
		if got := versions.Without(); got != want {
			t.Errorf("%.60s: %q, want %q", label, got, want)
		}
	}
}

func TestRecipesCannotBeChangedByACaller(t *testing.T) {
	Recipes()[0] = Recipe{}
	if Recipes()[0].Language != "python" {
		t.Error("Recipes hands out its own slice")
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
		sum, err := hashFiles(files)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	base := hash(files("a", "1", "b/c", "2"))
	if other := hash(files("b/c", "2", "a", "1")); other != base {
		t.Error("the order or the mode of files changes the hash")
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
		containerfile, err := fs.ReadFile(recipe.Files, "Containerfile")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range copied(string(containerfile)) {
			if _, err := fs.Stat(recipe.Files, name); err != nil {
				t.Errorf("%s: COPY %s: not embedded", recipe.Name, name)
			}
		}
		if _, err := fs.Stat(recipe.Files, HostEnvFile); err != nil {
			t.Errorf("%s: %v", recipe.Name, err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(env)) {
			if !strings.HasPrefix(line, "#") {
				t.Errorf("%s/%s sets something: %s", recipe.Name, HostEnvFile, line)
			}
		}
	}
}

func TestTheLockFileNamesNoRegistry(t *testing.T) {
	lock, err := fs.ReadFile(recipeFiles, "image/node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Packages map[string]struct{ Resolved, Integrity string }
	}
	if err := json.Unmarshal(lock, &parsed); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if name := filepath.Base(source); !strings.Contains(testsBeside(t, filepath.Dir(source)), name) {
			t.Errorf("no test beside %s names it", source)
		}
	}
}

// testsBeside is the text of the tests in folder.
func testsBeside(t *testing.T, folder string) string {
	t.Helper()
	var text strings.Builder
	for _, pattern := range []string{"test_*.py", "*.test.cjs"} {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(content)
		}
	}
	return text.String()
}
