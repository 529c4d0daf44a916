package setup

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestOfAptsSettingsOnlyThoseThatReachAMirrorAreTaken(t *testing.T) {
	got := aptSettings(`APT::Architecture "amd64";
Acquire "";
Acquire::Check-Valid-Until "false";
Acquire::Check-Date "false";
Acquire::Retries "3";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::http::Proxy::mirror.example "DIRECT";
Acquire::https::Proxy "http://user:secret@proxy.example:3128";
Acquire::http::Proxy-Auto-Detect "/usr/bin/detect";
Acquire::http::Proxy "";
DPkg::Post-Invoke:: "rm -rf /";
`)
	want := []string{
		`Acquire::Check-Valid-Until "false";`,
		`Acquire::Check-Date "false";`,
		`Acquire::Retries "3";`,
		`Acquire::http::Proxy "http://proxy.example:3128";`,
		`Acquire::http::Proxy::mirror.example "DIRECT";`,
	}
	should.Hold(t, reflect.DeepEqual(got, want), "got %q", got)
}

func TestAddressesReachTheBuildAndSecretsDoNot(t *testing.T) {
	for name, test := range map[string]struct {
		env           map[string]string
		npmrc, pipINI string
		want          map[string]string
	}{
		"nothing is set": {want: map[string]string{}},
		"the environment wins over files": {
			env:   map[string]string{"NPM_CONFIG_REGISTRY": "https://a.example/npm", "PIP_INDEX_URL": "https://a.example/pip"},
			npmrc: "registry=https://b.example", pipINI: "[global]\nindex-url = https://b.example",
			want: map[string]string{"NPM_CONFIG_REGISTRY": "https://a.example/npm", "PIP_INDEX_URL": "https://a.example/pip"},
		},
		"files are read": {
			npmrc:  "//b.example/:_authToken=secret\n@scope:registry=https://c.example\nregistry = \"https://b.example/\"\n",
			pipINI: "[global]\nindex-url = https://b.example/simple\n",
			want:   map[string]string{"NPM_CONFIG_REGISTRY": "https://b.example/", "PIP_INDEX_URL": "https://b.example/simple"},
		},
		"addresses with a password, a token or a variable are left out": {
			env: map[string]string{
				"PIP_INDEX_URL": "https://user:secret@a.example/simple", "HTTPS_PROXY": "http://u@proxy.example",
				"NPM_CONFIG_REGISTRY": "https://a.example/?token=secret",
			},
			want: map[string]string{},
		},
		"what is no web address is left out": {
			env:   map[string]string{"http_proxy": "$(reboot)", "https_proxy": "socks5://proxy.example"},
			npmrc: "registry=${REGISTRY}",
			want:  map[string]string{},
		},
		"proxies, with their exceptions": {
			env: map[string]string{"HTTP_PROXY": "http://proxy.example:1", "https_proxy": "http://proxy.example:2", "NO_PROXY": "localhost,.example"},
			want: map[string]string{
				"http_proxy": "http://proxy.example:1", "https_proxy": "http://proxy.example:2", "no_proxy": "localhost,.example",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := buildEnv(func(key string) string { return test.env[key] }, test.npmrc, test.pipINI)
			should.Hold(t, maps.Equal(got, test.want), "got %v, want %v", got, test.want)
		})
	}
}

func TestAShellReadsTheSettingsAsTheyAre(t *testing.T) {
	hostile := `it's $HOME "and" $(echo more)`
	h := host{apt: []string{`Acquire::Retries "3";`}, env: map[string]string{"no_proxy": hostile, "PIP_INDEX_URL": "https://a.example/simple"}, ca: []byte("PEM")}
	files := h.files()
	folder := t.TempDir()
	for name, content := range files {
		path := filepath.Join(folder, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, content, 0o644))
	}
	script := `set -eu; . "$1"; printf '%s\n' "$no_proxy" "$APT_CONFIG" "$CURL_CA_BUNDLE" "$NPM_CONFIG_CAFILE" "$PIP_CERT" "$SSL_CERT_FILE" "$UV_DEFAULT_INDEX"`
	out := must.Get(exec.Command("sh", "-c", script, "sh", filepath.Join(folder, containers.HostEnvFile)).Output())(t)
	want := strings.Join([]string{hostile, "/run/host/apt.conf", "/run/host/ca.crt", "/run/host/ca.crt", "/run/host/ca.crt", "/run/host/ca.crt", "https://a.example/simple", ""}, "\n")
	should.Equal(t, string(out), want)
	should.Equal(t, string(files["host/apt.conf"]), "Acquire::Retries \"3\";\nAcquire::https::CAInfo \"/run/host/ca.crt\";\n", "apt.conf")
	names := slices.Sorted(maps.Keys(files))
	should.Hold(t, reflect.DeepEqual(names, []string{"host/apt.conf", "host/ca.crt", "host/env"}), "files: %v", names)
}

func TestAMachineWithNothingToSaySetsNothing(t *testing.T) {
	files := host{}.files()
	should.Hold(t, len(files) == 1 && len(bytes.TrimSpace(files[containers.HostEnvFile])) == 0, "got %q", files)
}

func TestAProxyOnThisMachineNeedsTheHostsNetwork(t *testing.T) {
	for address, want := range map[string]bool{
		"http://localhost:3128":     true,
		"http://127.0.0.2:3128":     true,
		"http://[::1]:3128":         true,
		"http://proxy.example:3128": false,
		"http://10.0.0.1":           false,
	} {
		inEnv := host{env: map[string]string{"http_proxy": address}}
		inApt := host{apt: []string{`Acquire::http::Proxy "` + address + `";`}}
		should.Hold(t, inEnv.usesLoopback() == want && inApt.usesLoopback() == want, "%s: not %t", address, want)
	}
}

func TestTheFirstReadableFileCounts(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"b", "c"} {
		must.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(name), 0o644))
	}
	got := readFirst("", filepath.Join(folder, "a"), folder, filepath.Join(folder, "b"), filepath.Join(folder, "c"))
	should.Equal(t, string(got), "b")
}
