package setup

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
)

// host is this machine's access to its package sources, as far as a build needs it. Passwords and tokens never get into it: an address that
// holds one is left out.
type host struct {
	os, arch string
	apt      []string          // lines of apt.conf
	env      map[string]string // proxies, the registries of npm and of pip and uv
	ca       []byte            // certificate authorities in PEM; nil: none found
}

// aptSetting matches the settings that decide whether a mirror can be reached.
var aptSetting = regexp.MustCompile(`^(Acquire::(?:Check-Valid-Until|Check-Date|Retries|https?::Proxy(?:::[^ ]+)?)) "([^"]+)";$`)

func thisHost() host {
	home, _ := os.UserHomeDir() // without one there are no files of the user's to read
	h := host{os: runtime.GOOS, arch: runtime.GOARCH, ca: readFirst(caBundles(os.Getenv)...)}
	if dump, err := exec.Command("apt-config", "dump", "--format", `%F "%v";%n`).Output(); err == nil {
		h.apt = aptSettings(string(dump))
	}
	h.env = buildEnv(os.Getenv,
		string(readFirst(filepath.Join(home, ".npmrc"), "/etc/npmrc", "/usr/etc/npmrc")),
		string(readFirst(filepath.Join(home, ".config/pip/pip.conf"), filepath.Join(home, ".pip/pip.conf"), "/etc/pip.conf")))
	return h
}

// caBundles lists where a machine keeps the certificate authorities it trusts.
func caBundles(getenv func(string) string) []string {
	return []string{
		getenv("SSL_CERT_FILE"),
		"/etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu, Arch, Alpine
		"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora
		"/etc/ssl/ca-bundle.pem",             // openSUSE
		"/etc/ssl/cert.pem",                  // macOS
	}
}

func readFirst(paths ...string) []byte {
	for _, path := range paths {
		if path == "" {
			continue
		}
		if content, err := os.ReadFile(path); err == nil {
			return content
		}
	}
	return nil
}

// aptSettings picks the lines of `apt-config dump` that a build needs.
func aptSettings(dump string) []string {
	var settings []string
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(line)
		match := aptSetting.FindStringSubmatch(line)
		if match == nil || (strings.Contains(match[1], "::Proxy") && match[2] != "DIRECT" && !harmless(match[2])) {
			continue
		}
		settings = append(settings, line)
	}
	return settings
}

// buildEnv picks the variables of a build from the environment and the user's settings for npm and pip.
func buildEnv(getenv func(string) string, npmrc, pipConf string) map[string]string {
	env := map[string]string{
		"NPM_CONFIG_REGISTRY": cmp.Or(getenv("NPM_CONFIG_REGISTRY"), getenv("npm_config_registry"), setting(npmrc, "registry")),
		"PIP_INDEX_URL":       cmp.Or(getenv("PIP_INDEX_URL"), getenv("UV_DEFAULT_INDEX"), getenv("UV_INDEX_URL"), setting(pipConf, "index-url")),
	}
	for _, name := range []string{"http_proxy", "https_proxy"} {
		env[name] = cmp.Or(getenv(name), getenv(strings.ToUpper(name)))
	}
	for name, value := range env {
		if !harmless(value) {
			delete(env, name)
		}
	}
	if exceptions := cmp.Or(getenv("no_proxy"), getenv("NO_PROXY")); exceptions != "" {
		env["no_proxy"] = exceptions
	}
	return env
}

// setting finds `key = value` in an npmrc or an ini file.
func setting(file, key string) string {
	for line := range strings.Lines(file) {
		name, value, found := strings.Cut(line, "=")
		if found && strings.TrimSpace(name) == key {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// harmless reports whether value is a web address without a user or a password in it.
func harmless(value string) bool {
	u, err := url.Parse(value)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		u.User == nil && u.RawQuery == "" && !strings.Contains(value, "$")
}

// files returns the files in containers.HostDir for the build, by their names in the context.
func (h host) files() map[string][]byte {
	var env strings.Builder
	export := func(name, value string) {
		fmt.Fprintf(&env, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	folder := filepath.Dir(containers.HostEnvFile)
	files := map[string][]byte{}
	for name, value := range h.env {
		export(name, value)
		if name == "PIP_INDEX_URL" {
			export("UV_DEFAULT_INDEX", value)
		}
	}
	apt := h.apt
	if h.ca != nil {
		files[folder+"/ca.crt"] = h.ca
		bundle := containers.HostDir + "/ca.crt"
		for _, name := range []string{"CURL_CA_BUNDLE", "NPM_CONFIG_CAFILE", "PIP_CERT", "SSL_CERT_FILE"} {
			export(name, bundle)
		}
		apt = append(apt[:len(apt):len(apt)], `Acquire::https::CAInfo "`+bundle+`";`)
	}
	if len(apt) > 0 {
		files[folder+"/apt.conf"] = []byte(strings.Join(apt, "\n") + "\n")
		export("APT_CONFIG", containers.HostDir+"/apt.conf")
	}
	files[containers.HostEnvFile] = []byte(env.String())
	return files
}

// usesLoopback reports whether a proxy or a registry listens on this machine alone, where
// only a build on the host's own network finds it.
func (h host) usesLoopback() bool {
	addresses := make([]string, 0, len(h.env)+len(h.apt))
	for _, value := range h.env {
		addresses = append(addresses, value)
	}
	for _, line := range h.apt {
		addresses = append(addresses, aptSetting.FindStringSubmatch(line)[2])
	}
	for _, address := range addresses {
		u, err := url.Parse(address)
		if err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()) {
			return true
		}
	}
	return false
}
