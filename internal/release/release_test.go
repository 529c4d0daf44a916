package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
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

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

var update = flag.Bool("update", false, "write testdata anew")

const (
	root    = "../.."
	version = "1.2.3"
)

// made is a release of this machine's real program, and of others that are only told apart, made once for all tests.
var made release

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dist, err := os.MkdirTemp("", "release-test-")
	if err == nil {
		defer os.RemoveAll(dist)
		made = release{root: root, version: version, dist: dist}
		err = makeRelease()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func makeRelease() error {
	cmd := exec.Command("go", "build", "-o", program(), root)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for _, p := range platforms {
		path := publishedPath(made.dist, p)
		if path == program() {
			continue
		}
		if err := writeFile(path, []byte("for "+p.String()), 0o755); err != nil {
			return err
		}
	}
	return made.build(context.Background())
}

// publishedPath is where a binary is by the names under which archives are published.
func publishedPath(dist string, p platform) string {
	return filepath.Join(dist, name+"_"+version+"_"+p.String()) + strings.TrimPrefix(p.Executable(), name)
}

// program is this machine's.
func program() string { return publishedPath(made.dist, platform{runtime.GOOS, runtime.GOARCH}) }

func readJSON(t *testing.T, file string, value any) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	must.OK(t, json.Unmarshal(text, value), "%s", file)
	return text
}

// isGolden compares what was made with what was reviewed.
func isGolden(t *testing.T, got []byte, file string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		must.OK(t, writeFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	should.Hold(t, err == nil && bytes.Equal(got, want), "%s is different (%v); -update writes it. Now:\n%s", file, err, got)
}

func TestEveryPlatformHasABundleWithItsProgram(t *testing.T) {
	for _, p := range platforms {
		archive := must.Get(zip.OpenReader(filepath.Join(made.dist, "bundles", fmt.Sprintf("%s_%s_%s.mcpb", name, version, p))))(t)
		defer archive.Close()
		var m struct {
			Version string
			Server  struct {
				EntryPoint string `json:"entry_point"`
			}
			Compatibility map[string][]string
		}
		must.OK(t, json.Unmarshal(entry(t, archive, "manifest.json"), &m))
		if m.Server.EntryPoint != "server/"+p.Executable() || !slices.Equal(m.Compatibility["platforms"], []string{p.System()}) || m.Version != version {
			t.Errorf("%s: %+v", p, m)
		}
		if got := entry(t, archive, m.Server.EntryPoint); p.String() != runtime.GOOS+"_"+runtime.GOARCH && string(got) != "for "+p.String() {
			t.Errorf("%s has another's program: %.40q", p, got)
		}
		info, err := fs.Stat(archive, m.Server.EntryPoint)
		should.Hold(t, err == nil && info.Mode() == 0o755, "%s: the program is %v, %v", p, info, err)
	}
	isGolden(t, inBundle(t, platform{"linux", "amd64"}, "manifest.json"), "manifest.json")
}

func inBundle(t *testing.T, p platform, file string) []byte {
	t.Helper()
	archive := must.Get(zip.OpenReader(filepath.Join(made.dist, "bundles", fmt.Sprintf("%s_%s_%s.mcpb", name, version, p))))(t)
	defer archive.Close()
	return entry(t, archive, file)
}

func entry(t *testing.T, archive *zip.ReadCloser, file string) []byte {
	t.Helper()
	f := must.Get(archive.Open(file))(t)
	defer f.Close()
	content := must.Get(io.ReadAll(f))(t)
	return content
}

func TestTheSameBinariesMakeTheSameBundles(t *testing.T) {
	p := platform{"windows", "arm64"}
	var archives [2][]byte
	for i := range archives {
		var err error
		archives[i], err = made.pack(p, publishedPath(made.dist, p), nil)
		must.Hold(t, err == nil, "%v", err)
	}
	should.Hold(t, bytes.Equal(archives[0], archives[1]), "they differ")
}

func sum(t *testing.T, file string) string {
	t.Helper()
	content := must.Get(os.ReadFile(file))(t)
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}

func TestServerJSONIsWhatTheRegistryTakes(t *testing.T) {
	var s struct {
		Packages []struct{ RegistryType, Identifier, FileSHA256 string }
	}
	text := readJSON(t, filepath.Join(made.dist, "server.json"), &s)
	for _, p := range s.Packages {
		if p.RegistryType != "mcpb" {
			continue
		}
		file := filepath.Join(made.dist, "bundles", p.Identifier[strings.LastIndex(p.Identifier, "/")+1:])
		want := sum(t, file)
		should.Hold(t, p.FileSHA256 == want, "%s has the sum %s, not %s", file, want, p.FileSHA256)
	}
	should.Equal(t, len(s.Packages), len(platforms)+1, "packages")
	isGolden(t, regexp.MustCompile(`"[0-9a-f]{64}"`).ReplaceAll(text, []byte(`"SUM"`)), "server.json")
	var value any
	readJSON(t, filepath.Join(made.dist, "server.json"), &value)
	should.OK(t, registrySchema(t).Validate(value))
}

// registrySchema is the schema of server.json, out of the module of the registry itself.
func registrySchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/modelcontextprotocol/registry@v1.8.9")
	cmd.Dir = t.TempDir() // in no module
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	jsonErr := json.Unmarshal(out, &module)
	must.Hold(t, err == nil && jsonErr == nil, "the registry's module is needed for its schema: %v, %v %s", err, jsonErr, module.Error)
	var schema any
	readJSON(t, filepath.Join(module.Dir, "internal/validators/schemas/2025-12-11.json"), &schema)
	c := jsonschema.NewCompiler()
	must.OK(t, c.AddResource("server.schema.json", schema))
	compiled := must.Get(c.Compile("server.schema.json"))(t)
	return compiled
}

func TestEveryPlatformHasAnNPMPackage(t *testing.T) {
	var main struct{ OptionalDependencies map[string]string }
	isGolden(t, readJSON(t, filepath.Join(made.dist, "npm", name, "package.json"), &main), "package.json")
	should.Equal(t, len(main.OptionalDependencies), len(platforms), "it depends on %v", main.OptionalDependencies)
	for dependency, wants := range main.OptionalDependencies {
		folder := filepath.Join(made.dist, "npm", strings.TrimPrefix(dependency, "@code-sandbox-mcp/"))
		var p struct {
			Name, Version string
			OS, CPU       []string
		}
		readJSON(t, filepath.Join(folder, "package.json"), &p)
		if p.Name != dependency || p.Version != wants || len(p.OS) != 1 || len(p.CPU) != 1 || !strings.HasSuffix(p.Name, "-"+p.OS[0]+"-"+p.CPU[0]) {
			t.Errorf("%s: %+v", dependency, p)
		}
		programs, err := filepath.Glob(filepath.Join(folder, "bin", name+"*"))
		should.Hold(t, err == nil && len(programs) == 1 && strings.HasSuffix(programs[0], ".exe") == (p.OS[0] == "win32"),
			"%s has %v, %v", dependency, programs, err)
	}
}

func TestBinariesAreFoundByTheirNames(t *testing.T) {
	folders := func(dist string, p platform) string {
		level := map[string]string{"amd64": "_v1", "arm64": "_v8.0"}[p.arch]
		return filepath.Join(dist, name+"_"+p.String()+level, p.Executable())
	}
	flat := publishedPath
	older := func(dist string, p platform) string { return filepath.Join(dist, name+"_1.2.2_"+p.String()) }
	for title, test := range map[string]struct {
		where []func(dist string, p platform) string
		leave int // of the platforms
		want  string
	}{
		"as GoReleaser builds them": {[]func(string, platform) string{folders}, 0, ""},
		"as they are published":     {[]func(string, platform) string{flat}, 0, ""},
		"some are missing":          {[]func(string, platform) string{flat}, 2, "windows_amd64, windows_arm64"},
		"of another version":        {[]func(string, platform) string{older}, 0, "no binary of version 1.2.3"},
		"twice":                     {[]func(string, platform) string{flat, folders}, 0, "two binaries for"},
	} {
		t.Run(title, func(t *testing.T) {
			dist := t.TempDir()
			for _, p := range platforms[:len(platforms)-test.leave] {
				for _, path := range test.where {
					put(t, path(dist, p))
				}
				put(t, flat(dist, p)+".tar.gz")
			}
			found, err := findBinaries(dist, version)
			should.Hold(t, test.want != "" || err == nil && len(found) == len(platforms), "got %v, %v", found, err)
			should.Hold(t, test.want == "" || err != nil && strings.Contains(err.Error(), test.want), "got %v, want %q", err, test.want)
		})
	}
}

func put(t *testing.T, path string) {
	t.Helper()
	must.OK(t, writeFile(path, nil, 0o755))
}

func TestVersionsAreStampedEverywhere(t *testing.T) {
	copied := t.TempDir()
	for _, file := range stamped {
		text := must.Get(os.ReadFile(filepath.Join(root, file)))(t)
		must.OK(t, writeFile(filepath.Join(copied, file), text, 0o644))
		should.Hold(t, filepath.Ext(file) != ".json" || json.Valid(text), "%s is not JSON", file)
	}
	should.Fail(t, checkStamps(copied, "2.0.0-rc.1"), "stamp 2.0.0-rc.1", "before")
	must.OK(t, stamp(copied, "2.0.0-rc.1"))
	should.OK(t, checkStamps(copied, "2.0.0-rc.1"), "after")
	should.Fail(t, stamp(copied, "v2"), `"v2"`, "no version")
	var gemini struct{ Version string }
	readJSON(t, filepath.Join(root, stamped[0]), &gemini)
	should.OK(t, checkStamps(root, gemini.Version), "the files of the repository do not agree")
}

func TestWrongUseSaysWhatIsRight(t *testing.T) {
	for _, args := range [][]string{nil, {"build"}, {"stamp"}, {"images"}, {"publish", "1.2.3"}} {
		should.Fail(t, run(t.Context(), args), "build VERSION DIST", "%q", args)
	}
}

// What clients read in the repository names the settings and the package that there are.
func TestTheExtensionHasSettingsThatThereAre(t *testing.T) {
	var gemini struct {
		Settings []struct{ EnvVar string }
	}
	readJSON(t, filepath.Join(root, "gemini-extension.json"), &gemini)
	for _, asked := range gemini.Settings {
		should.Hold(t, slices.ContainsFunc(settings, func(s setting) bool { return s.Env() == asked.EnvVar }),
			"there is no setting %s", asked.EnvVar)
	}
	for _, file := range []string{"gemini-extension.json", "plugins/code-sandbox/.mcp.json"} {
		if text, err := os.ReadFile(filepath.Join(root, file)); err != nil || !strings.Contains(string(text), `"-y", "`+npmName+`@`) {
			t.Errorf("%s does not start %s: %v", file, npmName, err)
		}
	}
}

// The skill speaks of tools, arguments and errors that there are.
func TestTheSkillIsTrueToTheTools(t *testing.T) {
	t.Setenv("SANDBOX_ALLOW_HOST_DIR", t.TempDir())
	t.Setenv("SANDBOX_SQL_EXAMPLE", "postgres://localhost/example")
	listed := must.Get(listTools(t.Context(), program()))(t)
	known := append(slices.Clone(tools.Names), string(fault.SessionBusy), string(fault.EngineUnavailable), string(fault.ImageMissing))
	for _, tool := range listed {
		for argument := range tool.InputSchema.Properties {
			known = append(known, argument)
		}
	}
	skill := must.Get(os.ReadFile(filepath.Join(root, "plugins/code-sandbox/skills/code-sandbox/SKILL.md")))(t)
	var spoken []string
	for _, match := range regexp.MustCompile("`([a-z]+(?:_[a-z]+)*)(?:: [a-z\"]+)?`").FindAllStringSubmatch(string(skill), -1) {
		spoken = append(spoken, match[1])
	}
	others := []string{"print", "killed", "status", "import", "require", "await"}
	for _, word := range spoken {
		should.Hold(t, slices.Contains(known, word) || slices.Contains(others, word),
			"the skill speaks of %q, which is no tool, argument or error", word)
	}
	for _, tool := range listed {
		should.Hold(t, slices.Contains(spoken, tool.Name) || tool.Name == "list_sessions", "the skill does not speak of %s", tool.Name)
	}
}

func TestTheTableOfImagesIsFilled(t *testing.T) {
	root := t.TempDir()
	digests := make(map[string]string)
	var pairs []string
	for i, recipe := range containers.Recipes() {
		digests[recipe.String()] = "sha256:" + strings.Repeat(string("abcd"[i]), 64)
		pairs = append(pairs, recipe.String()+"="+digests[recipe.String()])
	}
	must.OK(t, fillTable(root, pairs))
	var table containers.Published
	readJSON(t, filepath.Join(root, "containers/published.json"), &table)
	for _, recipe := range containers.Recipes() {
		if ref := table.Ref(recipe); !strings.HasSuffix(ref, "/code-sandbox-mcp-"+recipe.Name+"@"+digests[recipe.String()]) || !strings.Contains(ref, ".") {
			t.Errorf("the image %s is %q", recipe, ref)
		}
	}
}

func TestATableWithMistakesIsNotWritten(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for want, pairs := range map[string][]string{
		"not an image's name and digest":         {"python=latest"},
		"no digest is given of the image node":   {"python=" + digest},
		`there is no image "ruby"`:               {"python=" + digest, "node=" + digest, "standard=" + digest, "standard-full=" + digest, "ruby=" + digest},
		"is given of the image standard-full":    {"python=" + digest, "node=" + digest, "standard=" + digest},
		"no digest is given of the image python": {"=" + digest},
	} {
		root := t.TempDir()
		should.Fail(t, fillTable(root, pairs), want, "%q", pairs)
		written, _ := filepath.Glob(filepath.Join(root, "*"))
		should.Hold(t, len(written) == 0, "%q: %q was written", pairs, written)
	}
}
