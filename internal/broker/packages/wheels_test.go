package packages_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// wheels makes a folder of packages, and rules and options that take them from there.
func wheels(t *testing.T, all ...pypi.Package) (dir string, from func(*packages.Options)) {
	t.Helper()
	dir = t.TempDir()
	for _, p := range all {
		name, content, _ := p.Wheel()
		must.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return dir, func(o *packages.Options) { o.Wheels = dir }
}

func TestAFolderOfWheelsIsAnIndex(t *testing.T) {
	dir, from := wheels(t, pypi.Package{Name: "Demo_Pkg", Version: "1.0"}, pypi.Package{Name: "demo-pkg", Version: "1.1"}, pypi.Package{Name: "evil", Version: "1.0"})
	secret := filepath.Join(t.TempDir(), "secret-1.0-py3-none-any.whl")
	must.OK(t, os.WriteFile(secret, []byte("the host's"), 0o600))
	must.OK(t, os.Symlink(secret, filepath.Join(dir, "secret-1.0-py3-none-any.whl")))
	must.OK(t, os.Mkdir(filepath.Join(dir, "folder-1.0-py3-none-any.whl"), 0o700))
	w := start(t, packages.Rules{Deny: []string{"evil"}}, from)
	w.pypi.Add(pypi.Package{Name: "other", Version: "1.0"}) // the index has it, and is not asked
	for path, want := range map[string]string{
		"/pypi/simple/demo-pkg/": `"filename":"demo_pkg-1.1-py3-none-any.whl"`, "/pypi/simple/Demo.Pkg/": `"filename":"Demo_Pkg-1.0-py3-none-any.whl"`,
		"/pypi/simple/demo-pkg/Demo_Pkg-1.0-py3-none-any.whl": "PK", "/pypi/simple/evil/": "package_denied", "/pypi/simple/other/": "not_found",
		"/pypi/simple/evil/evil-1.0-py3-none-any.whl": "package_denied", "/pypi/simple/secret/": "not_found", "/pypi/simple/folder/": "not_found",
		"/pypi/simple/secret/secret-1.0-py3-none-any.whl": "not_found", "/pypi/simple/demo-pkg/demo-pkg-2.0-py3-none-any.whl": "not_found",
	} {
		a := get(t, w.here+path)
		should.Hold(t, strings.Contains(a.reason+a.body, want), "%s: %d %s %.200s", path, a.status, a.reason, a.body)
	}
	name, content, _ := pypi.Package{Name: "demo-pkg", Version: "2.0"}.Wheel() // it comes while the server runs
	must.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	_ = get(t, w.here+"/pypi/simple/demo-pkg/", "Accept", simpleJSON)
	should.Equal(t, get(t, w.here+"/pypi/simple/demo-pkg/"+name).body, string(content))
	count, err := packages.CountWheels(dir)
	should.Hold(t, count == 6 && err == nil, "counted %d, %v", count, err)
}

func TestInstallersTakeAFolderOfWheels(t *testing.T) {
	_, from := wheels(t, pypi.Package{Name: "demo", Version: "1.0", Requires: []string{"needed>=2"}}, pypi.Package{Name: "needed", Version: "2.0"})
	for name, install := range map[string]func(*testing.T, *world) (string, string, error){
		"pip": func(t *testing.T, w *world) (string, string, error) { return w.pip(t, "demo") },
		"uv":  func(t *testing.T, w *world) (string, string, error) { return w.uv(t, "demo") },
	} {
		t.Run(name, func(t *testing.T) {
			site, output, err := install(t, start(t, packages.Rules{}, from))
			must.OK(t, err, output)
			_, err = os.Stat(filepath.Join(site, "needed-2.0.dist-info"))
			should.Hold(t, err == nil, "%v: %s", err, output)
		})
	}
}

func TestAFolderThatIsNotThereIsRefused(t *testing.T) {
	_, err := packages.New(packages.Options{Policy: policy(t, packages.Rules{}), CacheFolder: t.TempDir(), Wheels: filepath.Join(t.TempDir(), "none")})
	should.Hold(t, err != nil && strings.Contains(err.Error(), "--wheels is no folder"), "got %v", err)
}
