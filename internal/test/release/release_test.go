//go:build linux

// Package release has the test of what a release is made of.
package release

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var update = flag.Bool("update", false, "write the golden file anew, of a dist folder that has everything")

const (
	root   = "../../.."
	golden = "testdata/contents.txt"

	// maxProgram is what a stripped program may take, in bytes, and maxServer one with Kubernetes in it.
	maxProgram = 34_000_000
	maxServer  = 46_000_000
)

// distFolder is a folder that a release was made in, and whether it has all kinds of machines. RELEASE_DIST names one, as
// make release-snapshot does; without it one is made for this kind of machine alone, which is a sixth of the work.
func distFolder(t *testing.T) (dist string, whole bool) {
	t.Helper()
	if dist = os.Getenv("RELEASE_DIST"); dist != "" {
		return dist, true
	}
	folder := t.TempDir()
	dist = filepath.Join(folder, "dist")
	config := filepath.Join(folder, "goreleaser.yaml")
	must.OK(t, os.WriteFile(config, forThisMachine(t, dist), 0o600))
	command(t, "scripts/release", "--snapshot", "--config", config)
	return dist, false
}

// forThisMachine is the configuration without the other systems, and without what is made of theirs.
func forThisMachine(t *testing.T, dist string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	must.OK(t, err)
	var config map[string]any
	must.OK(t, yaml.Unmarshal(text, &config))
	config["dist"] = dist
	for _, b := range config["builds"].([]any) {
		build := b.(map[string]any)
		build["goos"], build["goarch"] = []string{runtime.GOOS}, []string{runtime.GOARCH}
	}
	for _, of := range []string{"universal_binaries", "homebrew_casks", "winget"} {
		delete(config, of)
	}
	text, err = yaml.Marshal(config)
	must.OK(t, err)
	return text
}

// command runs a program in the repository's root and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.Hold(t, err == nil, "%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	return string(out)
}

type artifact struct {
	Name, Path, Type, Goos, Goarch string
	Extra                          struct{ ID string }
}

// program is the name of a program, or of the one in a file.
func (a artifact) program() string {
	if a.Extra.ID == "code-sandbox-server" {
		return a.Extra.ID
	}
	return "code-sandbox-mcp"
}

// made lists what was made, by kind, with paths from anywhere.
func made(t *testing.T, dist string) (binaries, packed []artifact) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "artifacts.json"))
	must.OK(t, err)
	var all []artifact
	must.OK(t, json.Unmarshal(text, &all))
	for _, a := range all {
		if !filepath.IsAbs(a.Path) {
			a.Path = filepath.Join(root, a.Path)
		}
		a.Path, err = filepath.Abs(a.Path)
		must.Hold(t, err == nil, "%v", err)
		switch a.Type {
		case "Binary":
			binaries = append(binaries, a)
		case "Archive", "Linux Package":
			packed = append(packed, a)
		}
	}
	slices.SortFunc(packed, func(a, b artifact) int { return strings.Compare(a.Name, b.Name) })
	return binaries, packed
}

// contents is what an archive or a package has: modes and names. bsdtar reads them all, but for the archive in a deb.
func contents(t *testing.T, a artifact) string {
	t.Helper()
	list := `bsdtar -tvf "$1"`
	if strings.HasSuffix(a.Name, ".deb") {
		list = `bsdtar -xOf "$1" 'data.tar*' | bsdtar -tvf -`
	}
	out := command(t, "sh", "-c", list, "sh", a.Path)
	var lines []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		lines = append(lines, "  "+fields[0]+" "+fields[len(fields)-1]+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// version is what all names of a snapshot have in the middle.
func version(t *testing.T, dist string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(dist, "metadata.json")))(t)
	var metadata struct{ Version string }
	must.OK(t, json.Unmarshal(text, &metadata))
	return metadata.Version
}

func TestARelease(t *testing.T) {
	command(t, "sh", "-c", `"$(scripts/go-tool github.com/goreleaser/goreleaser/v2 v2.16.0)" check`)
	dist, whole := distFolder(t)
	binaries, packed := made(t, dist)
	version := version(t, dist)

	t.Run("has what it should have", func(t *testing.T) {
		var got strings.Builder
		for _, a := range packed {
			fmt.Fprintf(&got, "%s\n%s\n", strings.ReplaceAll(a.Name, version, "VERSION"), contents(t, a))
		}
		if *update && whole {
			must.OK(t, os.WriteFile(golden, []byte(got.String()), 0o600))
		}
		text := must.Get(os.ReadFile(golden))(t)
		var want strings.Builder
		for section := range strings.SplitAfterSeq(string(text), "\n\n") {
			if whole || strings.Contains(section, "_"+runtime.GOOS+"_"+runtime.GOARCH+".") {
				want.WriteString(section)
			}
		}
		should.Equal(t, got.String(), want.String())
	})
	t.Run("is no larger than it may be", func(t *testing.T) {
		for _, a := range binaries {
			info := must.Get(os.Stat(a.Path))(t)
			most := int64(maxProgram)
			if a.program() != "code-sandbox-mcp" {
				most = maxServer
			}
			if a.Goarch != "all" && info.Size() > most { // that is two programs
				t.Errorf("the one for %s/%s takes %d bytes", a.Goos, a.Goarch, info.Size())
			}
		}
	})
	for _, a := range packed {
		if a.Goos != runtime.GOOS || a.Goarch != runtime.GOARCH || strings.HasSuffix(a.Name, ".deb") {
			continue
		}
		t.Run("runs from "+strings.TrimPrefix(a.Name, "code-sandbox-"), func(t *testing.T) {
			folder := t.TempDir()
			command(t, "bsdtar", "-xf", a.Path, "-C", folder)
			program := filepath.Join(folder, a.program())
			if a.Type != "Archive" {
				program = filepath.Join(folder, "usr/bin/code-sandbox-mcp")
			}
			runs(t, program, version)
		})
	}
	for _, a := range packed {
		if a.Goos == runtime.GOOS && a.Goarch == runtime.GOARCH && strings.HasSuffix(a.Name, ".deb") {
			t.Run("is installed and removed by dpkg", func(t *testing.T) { installed(t, a.Path, version) })
		}
	}
}

func runs(t *testing.T, program, version string) {
	t.Helper()
	said := command(t, program, "version")
	should.Hold(t, strings.HasPrefix(said, "code-sandbox-mcp "+version+" ("), "it says %q", said)
}

// installed has dpkg install a package into a system of its own, an empty folder, and take it away again.
func installed(t *testing.T, deb, version string) {
	recommends := command(t, "dpkg-deb", "-f", deb, "Recommends")
	should.Hold(t, strings.TrimSpace(recommends) == "podman", "it recommends %q", recommends)
	system := t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers"} {
		must.OK(t, os.MkdirAll(filepath.Join(system, "var/lib/dpkg", dir), 0o700))
	}
	must.OK(t, os.WriteFile(filepath.Join(system, "var/lib/dpkg/status"), nil, 0o600))
	dpkg := func(args ...string) {
		t.Helper()
		command(t, "dpkg", append([]string{"--root=" + system, "--log=/dev/null", "--force-not-root", "--force-bad-path"}, args...)...)
	}
	dpkg("-i", deb)
	runs(t, filepath.Join(system, "usr/bin/code-sandbox-mcp"), version)
	dpkg("-P", "code-sandbox-mcp")
	left, err := filepath.Glob(filepath.Join(system, "usr/*"))
	should.Hold(t, err == nil && len(left) == 0, "it left %q, %v", left, err)
}
