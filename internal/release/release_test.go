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
	return filepath.Join(dist, name+"_"+version+"_"+p.String()) + strings.TrimPrefix(p.executable(), name)
}

// program is this machine's.
func program() string { return publishedPath(made.dist, platform{runtime.GOOS, runtime.GOARCH}) }

func readJSON(t *testing.T, file string, value any) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	must.OK(t, err)
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
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is different (%v); -update writes it. Now:\n%s", file, err, got)
	}
}

func TestEveryPlatformHasABundleWithItsProgram(t *testing.T) {
	for _, p := range platforms {
		archive, err := zip.OpenReader(filepath.Join(made.dist, "bundles", fmt.Sprintf("%s_%s_%s.mcpb", name, version, p)))
		must.OK(t, err)
		defer archive.Close()
		var m manifest
		must.OK(t, json.Unmarshal(entry(t, archive, "manifest.json"), &m))
		system, _ := p.node()
		if m.Server.EntryPoint != "server/"+p.executable() || !slices.Equal(m.Compatibility["platforms"], []string{system}) || m.Version != version {
			t.Errorf("%s: %+v", p, m)
		}
		if got := entry(t, archive, m.Server.EntryPoint); p.String() != runtime.GOOS+"_"+runtime.GOARCH && string(got) != "for "+p.String() {
			t.Errorf("%s has another's program: %.40q", p, got)
		}
		if info, err := fs.Stat(archive, m.Server.EntryPoint); err != nil || info.Mode() != 0o755 {
			t.Errorf("%s: the program is %v, %v", p, info, err)
		}
	}
	isGolden(t, inBundle(t, platform{"linux", "amd64"}, "manifest.json"), "manifest.json")
}

func inBundle(t *testing.T, p platform, file string) []byte {
	t.Helper()
	archive, err := zip.OpenReader(filepath.Join(made.dist, "bundles", fmt.Sprintf("%s_%s_%s.mcpb", name, version, p)))
	must.OK(t, err)
	defer archive.Close()
	return entry(t, archive, file)
}

func entry(t *testing.T, archive *zip.ReadCloser, file string) []byte {
	t.Helper()
	f, err := archive.Open(file)
	must.OK(t, err)
	defer f.Close()
	content, err := io.ReadAll(f)
	must.OK(t, err)
	return content
}

func TestTheSameBinariesMakeTheSameBundles(t *testing.T) {
	p := platform{"windows", "arm64"}
	var archives [2][]byte
	for i := range archives {
		var err error
		if archives[i], err = made.pack(newManifest(version, p, nil), publishedPath(made.dist, p)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("they differ")
	}
}

func sum(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	must.OK(t, err)
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}

func TestServerJSONIsWhatTheRegistryTakes(t *testing.T) {
	var s serverJSON
	text := readJSON(t, filepath.Join(made.dist, "server.json"), &s)
	for _, p := range s.Packages {
		if p.RegistryType != "mcpb" {
			continue
		}
		file := filepath.Join(made.dist, "bundles", p.Identifier[strings.LastIndex(p.Identifier, "/")+1:])
		if want := sum(t, file); p.FileSHA256 != want {
			t.Errorf("%s has the sum %s, not %s", file, want, p.FileSHA256)
		}
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
	if jsonErr := json.Unmarshal(out, &module); err != nil || jsonErr != nil {
		t.Fatalf("the registry's module is needed for its schema: %v, %v %s", err, jsonErr, module.Error)
	}
	var schema any
	readJSON(t, filepath.Join(module.Dir, "internal/validators/schemas/2025-12-11.json"), &schema)
	c := jsonschema.NewCompiler()
	must.OK(t, c.AddResource(serverSchema, schema))
	compiled, err := c.Compile(serverSchema)
	must.OK(t, err)
	return compiled
}

func TestEveryPlatformHasAnNPMPackage(t *testing.T) {
	var main npmPackage
	isGolden(t, readJSON(t, filepath.Join(made.dist, "npm", name, "package.json"), &main), "package.json")
	should.Equal(t, len(main.OptionalDependencies), len(platforms), "it depends on %v", main.OptionalDependencies)
	for dependency, wants := range main.OptionalDependencies {
		folder := filepath.Join(made.dist, "npm", strings.TrimPrefix(dependency, "@"+owner+"/"))
		var p npmPackage
		readJSON(t, filepath.Join(folder, "package.json"), &p)
		if p.Name != dependency || p.Version != wants || len(p.OS) != 1 || len(p.CPU) != 1 || !strings.HasSuffix(p.Name, "-"+p.OS[0]+"-"+p.CPU[0]) {
			t.Errorf("%s: %+v", dependency, p)
		}
		programs, err := filepath.Glob(filepath.Join(folder, "bin", name+"*"))
		if err != nil || len(programs) != 1 || strings.HasSuffix(programs[0], ".exe") != (p.OS[0] == "win32") {
			t.Errorf("%s has %v, %v", dependency, programs, err)
		}
	}
}

func TestBinariesAreFoundByTheirNames(t *testing.T) {
	folders := func(dist string, p platform) string {
		level := map[string]string{"amd64": "_v1", "arm64": "_v8.0"}[p.arch]
		return filepath.Join(dist, name+"_"+p.String()+level, p.executable())
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
			if test.want == "" && (err != nil || len(found) != len(platforms)) {
				t.Errorf("got %v, %v", found, err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
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
		text, err := os.ReadFile(filepath.Join(root, file))
		must.OK(t, err)
		must.OK(t, writeFile(filepath.Join(copied, file), text, 0o644))
		if filepath.Ext(file) == ".json" && !json.Valid(text) {
			t.Errorf("%s is not JSON", file)
		}
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
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.env() == asked.EnvVar }) {
			t.Errorf("there is no setting %s", asked.EnvVar)
		}
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
	listed, err := listTools(t.Context(), program())
	must.OK(t, err)
	known := append(slices.Clone(tools.Names), string(fault.SessionBusy), string(fault.EngineUnavailable), string(fault.ImageMissing))
	for _, tool := range listed {
		for argument := range tool.InputSchema.Properties {
			known = append(known, argument)
		}
	}
	skill, err := os.ReadFile(filepath.Join(root, "plugins/code-sandbox/skills/code-sandbox/SKILL.md"))
	must.OK(t, err)
	var spoken []string
	for _, match := range regexp.MustCompile("`([a-z]+(?:_[a-z]+)*)(?:: [a-z\"]+)?`").FindAllStringSubmatch(string(skill), -1) {
		spoken = append(spoken, match[1])
	}
	others := []string{"print", "killed", "status", "import", "require", "await"}
	for _, word := range spoken {
		if !slices.Contains(known, word) && !slices.Contains(others, word) {
			t.Errorf("the skill speaks of %q, which is no tool, argument or error", word)
		}
	}
	for _, tool := range listed {
		if !slices.Contains(spoken, tool.Name) && tool.Name != "list_sessions" {
			t.Errorf("the skill does not speak of %s", tool.Name)
		}
	}
}
