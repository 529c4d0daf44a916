//go:build unix

package e2e

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// A bundle and the npm packages are made of the program under test, and used as a client's user would.

const repositoryRoot = "../../.."

// releaseOf makes what is published of the program under test, and returns the folder and the version. Other platforms
// have a program that nobody starts.
func releaseOf(t *testing.T) (dist, version string) {
	t.Helper()
	var extension struct{ Version string }
	text, err := os.ReadFile(filepath.Join(repositoryRoot, "gemini-extension.json"))
	must.OK(t, err)
	decode(t, text, &extension)
	version, dist = extension.Version, t.TempDir()
	for _, system := range []string{"darwin", "linux", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			file := filepath.Join(dist, fmt.Sprintf("code-sandbox-mcp_%s_%s_%s", version, system, arch))
			if system == "windows" {
				file += ".exe"
			}
			if system == runtime.GOOS && arch == runtime.GOARCH {
				err = os.Link(binary, file)
			} else {
				err = os.WriteFile(file, nil, 0o755)
			}
			must.OK(t, err)
		}
	}
	cmd := exec.Command("go", "run", "./internal/release", "build", version, dist)
	cmd.Dir, cmd.Env = repositoryRoot, append(os.Environ(), "CGO_ENABLED=0", buildTags)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dist, version
}

func TestWhatIsReleasedServes(t *testing.T) {
	t.Parallel()
	dist, version := releaseOf(t)
	t.Run("a bundle", func(t *testing.T) { bundleServes(t, dist, version) })
	t.Run("the npm package", func(t *testing.T) { npmPackageServes(t, dist, version) })
}

func bundleServes(t *testing.T, dist, version string) {
	bundles, err := filepath.Glob(filepath.Join(dist, "bundles", "*.mcpb"))
	must.Hold(t, err == nil && len(bundles) == 6, "bundles: %v, %v", bundles, err)
	for _, bundle := range bundles {
		folder := unpack(t, bundle)
		out, stderr, err := node(t, "node_modules/@anthropic-ai/mcpb/dist/cli/cli.js", "validate", filepath.Join(folder, "manifest.json"))
		should.Hold(t, err == nil, "%s: %v\n%s%s", filepath.Base(bundle), err, out, stderr)
	}

	own := unpack(t, filepath.Join(dist, "bundles", fmt.Sprintf("code-sandbox-mcp_%s_%s_%s.mcpb", version, runtime.GOOS, runtime.GOARCH)))
	var manifest struct {
		Tools []struct{ Name, Description string }
	}
	text, err := os.ReadFile(filepath.Join(own, "manifest.json"))
	must.OK(t, err)
	decode(t, text, &manifest)
	for title, filled := range map[string]string{
		"fields were left blank": `{"memory_limit": "", "cpu_limit": "", "allow_host_dir": "", "sql_database": "", "preload": ""}`,
		"fields are filled in":   `{"memory_limit": "512m", "max_sessions": 3, "fetch_urls": false, "prewarm": ""}`,
	} {
		t.Run(title, func(t *testing.T) {
			out, stderr, err := node(t, "bundle.mjs", own, filled)
			must.OK(t, err, "%s", stderr)
			var config struct {
				Command string
				Env     map[string]string
			}
			decode(t, json.RawMessage(out), &config)
			with := setup{asShipped: true, program: config.Command}
			for name, value := range config.Env {
				with.env = append(with.env, name+"="+value)
			}
			isListed(t, start(t, with), manifest.Tools)
		})
	}
}

// isListed compares a server's list of tools with what is told of it.
func isListed(t *testing.T, s *server, want []struct{ Name, Description string }) {
	t.Helper()
	var listed []struct{ Name, Description string }
	list := listOf(s)
	decode(t, list, &listed)
	must.Hold(t, len(listed) == len(want), "%d tools are listed, %d were told of", len(listed), len(want))
	for i, tool := range listed {
		// A tool tells of limits that are set, so its description is compared by its first sentence.
		first, _, _ := strings.Cut(tool.Description, ".")
		if tool.Name != want[i].Name || !strings.HasPrefix(want[i].Description, first) {
			t.Errorf("the tool is %s, %q; told was %s, %q", tool.Name, tool.Description, want[i].Name, want[i].Description)
		}
	}
}

func unpack(t *testing.T, bundle string) string {
	t.Helper()
	archive := must.Get(zip.OpenReader(bundle))(t)
	defer archive.Close()
	folder := t.TempDir()
	must.OK(t, os.CopyFS(folder, archive))
	return folder
}

func npmPackageServes(t *testing.T, dist, version string) {
	system, cpu := runtime.GOOS, strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "package.json"), []byte("{}"), 0o644); err != nil { // else npm looks in the folders above
		t.Fatal(err)
	}
	for _, folder := range []string{"code-sandbox-mcp-" + system + "-" + cpu, "code-sandbox-mcp"} {
		npm(t, home, "pack", "--silent", "--pack-destination", home, filepath.Join(dist, "npm", folder))
	}
	scope := "code-sandbox-mcp-code-sandbox-mcp-"
	// With a cache of its own and no network: what is not here cannot be had.
	npm(t, home, "install", "--offline", "--no-audit", "--no-fund", "--cache", filepath.Join(home, "cache"),
		"file:"+scope+system+"-"+cpu+"-"+version+".tgz", "file:"+scope+version+".tgz")

	npx := filepath.Join(home, "npx.sh")
	script := fmt.Sprintf("#!/bin/sh\ncd '%s' && exec npx --offline --cache '%s/cache' -y @code-sandbox-mcp/code-sandbox-mcp \"$@\"\n", home, home)
	must.OK(t, os.WriteFile(npx, []byte(script), 0o755))
	installed := filepath.Join(home, "node_modules/.bin/code-sandbox-mcp")
	current := "PATH=" + filepath.Join(npmClients(t), ".bin") + string(os.PathListSeparator) + os.Getenv("PATH")
	want := toldTools(t)
	for title, with := range map[string]setup{
		"by npx":                            {program: npx},
		"by the machine's own Node":         {program: installed},
		"by a Node that can give way to it": {program: installed, env: []string{current}},
	} {
		t.Run(title, func(t *testing.T) {
			with.asShipped = true
			s := start(t, with)
			isListed(t, s, want)
			if with.program == npx {
				return // npm's own processes are between
			}
			s.signal(syscall.SIGTERM)
			should.Hold(t, s.endsIn(patience), "it is not told of a signal")
		})
	}

	t.Run("it names the command that there is", func(t *testing.T) {
		s := start(t, setup{program: installed, args: []string{"--python-image", "localhost/no-such-image:1"}})
		res := s.call(python, object{"code": "1"})
		res.wantCode(t, "image_missing")
		res.wantText(t, "npx -y @code-sandbox-mcp/code-sandbox-mcp setup --python-image")
	})

	must.OK(t, os.RemoveAll(filepath.Join(home, "node_modules/@code-sandbox-mcp/code-sandbox-mcp-"+system+"-"+cpu)))
	out, err := exec.Command(installed, "version").CombinedOutput()
	should.Hold(t, err != nil && strings.Contains(string(out), "--omit=optional"), "without the platform's package: %v, %s", err, out)
}

// toldTools are the tools as they are reviewed.
func toldTools(t *testing.T) (told []struct{ Name, Description string }) {
	t.Helper()
	list := listOf(start(t, setup{asShipped: true}))
	decode(t, list, &told)
	return told
}

func npm(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm %s: %v\n%s", args[0], err, out)
	}
}
