package packages_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmregistry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// world is the indexes of a test and the handler that stands before them.
type world struct {
	pypi  *pypi.Index
	npm   *npmregistry.Registry
	cache string
	here  string // the handler's address

	handler *packages.Handler // that was served last
}

// start serves under rules, with what else is changed in the options.
func start(t *testing.T, rules packages.Rules, change ...func(*packages.Options)) *world {
	t.Helper()
	w := &world{pypi: pypi.Start(t), npm: npmregistry.Start(t), cache: filepath.Join(t.TempDir(), "packages")}
	w.here = w.serve(t, rules, change...)
	return w
}

// serve starts one more handler over the same indexes and the same cache.
func (w *world) serve(t *testing.T, rules packages.Rules, change ...func(*packages.Options)) string {
	t.Helper()
	policy, err := packages.NewPolicy(rules)
	must.OK(t, err)
	options := packages.Options{Policy: policy, CacheFolder: w.cache, PyPI: w.pypi.URL, NPM: w.npm.URL}
	for _, c := range change {
		c(&options)
	}
	handler, err := packages.New(options)
	must.OK(t, err)
	w.handler = handler
	server := httptest.NewServer(http.Handler(handler))
	t.Cleanup(server.Close)
	return server.URL
}

// program finds a client of this machine.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not on this machine", name)
	}
	return path
}

// run runs a client with nothing of this machine's configuration, and returns what it prints.
func run(t *testing.T, folder string, env []string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Dir = folder
	foreign := func(pair string) bool {
		pair = strings.ToLower(pair)
		return strings.HasPrefix(pair, "pip_") || strings.HasPrefix(pair, "npm_") || strings.HasPrefix(pair, "pnpm_") || strings.HasPrefix(pair, "yarn_") || strings.HasPrefix(pair, "uv_") || strings.Contains(strings.SplitN(pair, "=", 2)[0], "proxy")
	}
	command.Env = append(slices.DeleteFunc(os.Environ(), foreign), env...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// pip runs pip install into a new folder, and returns that and what pip prints.
func (w *world) pip(t *testing.T, arguments ...string) (target, output string, err error) {
	t.Helper()
	python := program(t, "python3")
	target = t.TempDir()
	if _, err := run(t, target, nil, python, "-m", "pip", "--version"); err != nil {
		t.Skip("pip is not on this machine")
	}
	env := []string{
		"PIP_CONFIG_FILE=" + os.DevNull, "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_CACHE_DIR=1", "PIP_INDEX_URL=" + w.here + "/pypi/simple/",
		"HOME=" + t.TempDir(),
	}
	output, err = run(t, target, env, append([]string{python, "-m", "pip", "install", "--target", filepath.Join(target, "site")}, arguments...)...)
	return filepath.Join(target, "site"), output, err
}

// uv runs uv pip install into a new folder, and returns that and what uv prints.
func (w *world) uv(t *testing.T, arguments ...string) (target, output string, err error) {
	t.Helper()
	uv, target := program(t, "uv"), t.TempDir()
	env := []string{"UV_NO_CONFIG=1", "UV_NO_CACHE=1", "UV_HTTP_RETRIES=0", "UV_DEFAULT_INDEX=" + w.here + "/pypi/simple/", "HOME=" + t.TempDir()}
	output, err = run(t, target, env, append([]string{uv, "pip", "install", "--target", filepath.Join(target, "site")}, arguments...)...)
	return filepath.Join(target, "site"), output, err
}

// install runs npm install in a new folder, and returns that and what npm prints.
func (w *world) install(t *testing.T, arguments ...string) (folder, output string, err error) {
	t.Helper()
	return w.nodes(t, append([]string{program(t, "npm"), "install", "--no-progress"}, arguments...)...)
}

// nodes runs a package manager of JavaScript in a new folder, with the variables that a session has.
func (w *world) nodes(t *testing.T, argv ...string) (folder, output string, err error) {
	t.Helper()
	folder = t.TempDir()
	env := []string{
		"HOME=" + t.TempDir(), "npm_config_cache=" + t.TempDir(), "npm_config_userconfig=" + filepath.Join(folder, "none"),
		"npm_config_update_notifier=false", "YARN_ENABLE_TELEMETRY=0", "YARN_ENABLE_GLOBAL_CACHE=false",
	}
	here, err := url.Parse(w.here)
	must.OK(t, err)
	port, err := strconv.Atoi(here.Port())
	must.OK(t, err)
	for name, value := range new(broker.Broker).Environment(port) {
		if !strings.Contains(name, "prefix") {
			env = append(env, name+"="+value)
		}
	}
	must.OK(t, os.WriteFile(filepath.Join(folder, "package.json"), []byte("{}"), 0o600))
	if err := os.WriteFile(filepath.Join(folder, "yarn.lock"), nil, 0o600); err != nil { // or Yarn looks for a project above
		t.Fatal(err)
	}
	output, err = run(t, folder, env, argv...)
	return folder, output, err
}

// expect fails the test where the output does not have the words.
func expect(t *testing.T, output, words string) {
	t.Helper()
	if !strings.Contains(output, words) {
		t.Errorf("it does not say %q:\n%s", words, output)
	}
}

func TestPythonsClientsInstallWhatThePolicyAllowsAndPrintWhyNot(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{Deny: []string{"evil*"}, Minimum: []string{"numpy>=1.22.2", "binary>=2"}})
	w.pypi.Add(
		pypi.Package{Name: "Demo_Pkg", Version: "1.0", Requires: []string{"dep>=1"}, Sdist: true},
		pypi.Package{Name: "dep", Version: "1.5"},
		pypi.Package{Name: "numpy", Version: "1.20.0"}, pypi.Package{Name: "numpy", Version: "1.23.0"},
		pypi.Package{Name: "damaged", Version: "1", WrongHash: true},
		pypi.Package{Name: "needy", Version: "1", Requires: []string{"evil-twin"}},
		pypi.Package{Name: "binary", Version: "1", Tag: "cp36-cp36m-manylinux1_x86_64"}, pypi.Package{Name: "binary", Version: "2"},
	)
	for name, install := range map[string]func(*testing.T, ...string) (string, string, error){"pip": w.pip, "uv": w.uv} {
		t.Run(name+" installs", func(t *testing.T) {
			t.Parallel()
			site, output, err := install(t, "demo.pkg", "numpy")
			must.OK(t, err, "%v", output)
			for _, file := range []string{"demo_pkg.py", "numpy-1.23.0.dist-info"} {
				should.OK(t, should.ErrOf(os.Stat(filepath.Join(site, file))))
			}
		})
		for _, c := range []struct{ name, requirement, says string }{
			{"denied to a dependency", "needy", "package_denied: evil-twin: it is on the deny list, as evil* (--packages-deny)"},
			{"too old", "numpy==1.20.0", "package_denied: numpy: versions below 1.22.2 are not installed here (--packages-minimum)"},
			{"a range that is too old", "numpy<1.21", "package_denied: numpy: versions below 1.22.2 are not installed here (--packages-minimum)"},
			{"a range of wheels for others", "binary<2", "package_denied: binary: versions below 2 are not installed here (--packages-minimum)"},
			{"damaged", "damaged", "the sha256 of damaged-1-py3-none-any.whl is not what the index says"},
		} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				t.Parallel()
				_, output, err := install(t, c.requirement)
				if err == nil {
					t.Error("it was installed")
				}
				if !packages.Printed(output, c.says) {
					t.Errorf("it does not say %q:\n%s", c.says, output)
				}
			})
		}
	}
}

func TestPipBuildsASourceDistributionByPermission(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{AllowSdist: true})
	w.pypi.Set(pypi.Knobs{Form: pypi.HTML})
	w.pypi.Add(pypi.Package{Name: "source", Version: "1.0", NoWheel: true})
	if _, output, err := w.pip(t, "source"); err != nil {
		t.Fatal(output)
	}
}

// A note is not one of the versions, whenever they were published.
func TestPipTakesNoNoteForAVersion(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{Minimum: []string{"dated>=2"}})
	w.pypi.Set(pypi.Knobs{Form: pypi.JSON})
	uploaded := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	w.pypi.Add(pypi.Package{Name: "dated", Version: "1", Uploaded: uploaded}, pypi.Package{Name: "dated", Version: "2", Uploaded: uploaded})
	if _, output, err := w.pip(t, "--uploaded-prior-to", "2021-01-01", "dated"); err != nil && !strings.Contains(output, "no such option") {
		t.Error(output)
	}
}

func TestPipSaysThatTheIndexIsDown(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{})
	w.pypi.Set(pypi.Knobs{Status: http.StatusInternalServerError})
	_, output, err := w.pip(t, "demo")
	if err == nil {
		t.Error("it was installed")
	}
	expect(t, output, "it answered 500 Internal Server Error")
}

func TestNPMInstallsWhatThePolicyAllowsAndPrintsWhyNot(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{Deny: []string{"npm:evil"}, Minimum: []string{"npm:lodash>=4.17.21"}, MinAge: 7 * 24 * time.Hour})
	old, yesterday := time.Now().AddDate(-1, 0, 0), time.Now().AddDate(0, 0, -1)
	w.npm.Add(
		npmregistry.Package{Name: "lodash", Version: "4.17.20", Published: old},
		npmregistry.Package{Name: "lodash", Version: "4.17.22", Published: old},
		npmregistry.Package{Name: "lodash", Version: "4.18.0", Published: yesterday},
		npmregistry.Package{Name: "@scope/demo", Version: "1.0.0", Published: old, Dependencies: map[string]string{"lodash": "^4"}},
		npmregistry.Package{Name: "damaged", Version: "1.0.0", Published: old, WrongHash: true},
		npmregistry.Package{Name: "needy", Version: "1.0.0", Published: old, Dependencies: map[string]string{"evil": "*"}},
	)
	t.Run("installs", func(t *testing.T) {
		t.Parallel()
		folder, output, err := w.install(t, "@scope/demo")
		must.OK(t, err, "%v", output)
		manifest, err := os.ReadFile(filepath.Join(folder, "node_modules", "lodash", "package.json"))
		must.OK(t, err)
		expect(t, string(manifest), `"version":"4.17.22"`)
		if strings.Contains(output, "error") || strings.Contains(output, "warn") {
			t.Error(output) // the audit as well
		}
	})
	for _, c := range []struct{ name, requirement, says string }{
		{"denied to a dependency", "needy", "package_denied: evil: it is on the deny list, as npm:evil (--packages-deny)"},
		{"too old", "lodash@4.17.20", "package_denied: lodash: versions below 4.17.21 are not installed here (--packages-minimum)"},
		{"damaged", "damaged", "the sha512 of damaged-1.0.0.tgz is not what the index says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, output, err := w.install(t, c.requirement)
			if err == nil {
				t.Error("it was installed")
			}
			expect(t, output, c.says)
		})
	}
}
