package packages_test

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmregistry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// world is the indexes of a test and the handler that stands before them.
type world struct {
	pypi  *pypi.Index
	npm   *npmregistry.Registry
	cache string
	here  string // an address at which the handler answers for both, below /pypi/ and /npm/

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
	options := packages.Options{Policy: policy(t, rules), CacheFolder: w.cache, PyPI: w.pypi.URL, NPM: w.npm.URL}
	for _, c := range change {
		c(&options)
	}
	handler := must.Get(packages.New(options))(t)
	w.handler = handler
	server := httptest.NewServer(hosts{handler})
	t.Cleanup(server.Close)
	return server.URL
}

// hosts takes the first segment of a path for the host: /pypi/ for the index that code knows as pypi.internal.
type hosts struct{ *packages.Handler }

func (h hosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, rest, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, "/"), "/")
	to, err := url.Parse("https://" + host + ".internal/" + rest)
	if err == nil {
		r.URL = to
	}
	if err != nil || !h.Answer(w, r) {
		http.Error(w, "this is for the network's policy", http.StatusTeapot)
	}
}

// session serves the handler as a session without a network has it, and returns the variables of its code.
func (w *world) session(t *testing.T) (env []string) {
	t.Helper()
	p := proxy.New(proxy.Options{Indexes: w.handler})
	b := broker.New(broker.Options{Proxy: p, Authority: p.Trust})
	t.Cleanup(func() { _ = b.Close() })
	certificate, _, err := b.Trust("s", nil)
	must.OK(t, err)
	bundle := filepath.Join(t.TempDir(), "certificates.pem")
	must.OK(t, os.WriteFile(bundle, []byte(certificate), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go b.Serve(t.Context(), "s", "", conn)
		}
	}()
	all := b.Environment(listener.Addr().(*net.TCPAddr).Port)
	maps.Copy(all, w.handler.Environment())
	for name, value := range all {
		if !strings.Contains(name, "prefix") && name != "PYTHONUSERBASE" && name != "UV_CACHE_DIR" {
			env = append(env, name+"="+strings.ReplaceAll(value, protocol.TrustFile, bundle))
		}
	}
	return env
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
	env := append(w.session(t), "PIP_CONFIG_FILE="+os.DevNull, "PIP_DISABLE_PIP_VERSION_CHECK=1", "HOME="+t.TempDir())
	output, err = run(t, target, env, append([]string{python, "-m", "pip", "install", "--target", filepath.Join(target, "site")}, arguments...)...)
	return filepath.Join(target, "site"), output, err
}

// uv runs uv pip install into a new folder, and returns that and what uv prints.
func (w *world) uv(t *testing.T, arguments ...string) (target, output string, err error) {
	t.Helper()
	uv, target := program(t, "uv"), t.TempDir()
	env := append(w.session(t), "UV_NO_CONFIG=1", "UV_NO_CACHE=1", "HOME="+t.TempDir())
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
	env := append(w.session(t),
		"HOME="+t.TempDir(), "npm_config_cache="+t.TempDir(), "npm_config_userconfig="+filepath.Join(folder, "none"),
		"npm_config_update_notifier=false", "YARN_ENABLE_TELEMETRY=0", "YARN_ENABLE_GLOBAL_CACHE=false")
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
	should.Hold(t, strings.Contains(output, words), "it does not say %q:\n%s", words, output)
}

func TestPythonsClientsInstallWhatThePolicyAllowsAndPrintWhyNot(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{Deny: []string{"evil*"}, Minimum: []string{"numpy>=1.22.2"}})
	w.pypi.Add(
		pypi.Package{Name: "Demo_Pkg", Version: "1.0", Requires: []string{"dep>=1"}, Sdist: true},
		pypi.Package{Name: "dep", Version: "1.5"},
		pypi.Package{Name: "numpy", Version: "1.20.0"}, pypi.Package{Name: "numpy", Version: "1.23.0"},
		pypi.Package{Name: "damaged", Version: "1", WrongHash: true},
		pypi.Package{Name: "needy", Version: "1", Requires: []string{"evil-twin"}},
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
			{"damaged", "damaged", "the sha256 of damaged-1-py3-none-any.whl is not what the index says"},
		} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				t.Parallel()
				_, output, err := install(t, c.requirement)
				should.Hold(t, err != nil, "it was installed")
				expect(t, output, c.says)
			})
		}
	}
}

func TestPipBuildsASourceDistributionByPermission(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{AllowSdist: true})
	w.pypi.Set(pypi.Knobs{Form: pypi.HTML})
	w.pypi.Add(pypi.Package{Name: "source", Version: "1.0", NoWheel: true})
	_, output, err := w.pip(t, "source")
	must.Hold(t, err == nil, "%v", output)
}

// uv is offered an older version; pip is told why it does not get the newest.
func TestAVersionThatIsTooYoung(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{MinAge: 7 * 24 * time.Hour})
	w.pypi.Add(
		pypi.Package{Name: "demo", Version: "1.0", Uploaded: time.Now().AddDate(-1, 0, 0)},
		pypi.Package{Name: "demo", Version: "2.0", Uploaded: time.Now().AddDate(0, 0, -1)},
	)
	site, output, err := w.uv(t, "demo")
	must.OK(t, err, "%v", output)
	should.OK(t, should.ErrOf(os.Stat(filepath.Join(site, "demo-1.0.dist-info"))))
	_, output, err = w.pip(t, "demo")
	should.Hold(t, err != nil, "it was installed")
	expect(t, output, "and has to be 7 days old (--package-min-age)")
}

func TestPipSaysThatTheIndexIsDown(t *testing.T) {
	t.Parallel()
	w := start(t, packages.Rules{})
	w.pypi.Set(pypi.Knobs{Status: http.StatusInternalServerError})
	_, output, err := w.pip(t, "demo")
	should.Hold(t, err != nil, "it was installed")
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
		manifest := must.Get(os.ReadFile(filepath.Join(folder, "node_modules", "lodash", "package.json")))(t)
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
			should.Hold(t, err != nil, "it was installed")
			expect(t, output, c.says)
		})
	}
}
