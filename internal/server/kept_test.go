package server_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/allfeatures"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// others are values of settings that are texts, other than the defaults. Behind a value stand flags that it needs; FILE is a file that is
// there, FOLDER a folder.
var others = map[string]string{
	"config": "FILE", "env-file": "FILE", "engine": "kubernetes", "engine-url": "tcp://127.0.0.1:1", "oci-runtime": "crun", "state-dir": "FOLDER",
	"python-image": "my:own", "js-image": "my:own", "bash-image": "my:own", "mount": "FOLDER:own", "project": "rw", "pass-through-env": "OWN",
	"session": "own", "keep-variables": "off", "prewarm": "bash", "preload": "json", "images": "off", "tools": "run_bash", "disable-tools": "run_bash",
	"allow-host-dir": "FOLDER", "files-http": "127.0.0.1:0", "files-http-url": "http://127.0.0.1:1", "artifact-store": "s3://own",
	"network": "open", "allow-domain": "own.example", "allow-private": "10.0.0.1:443", "allow-private-ca": "FOLDER/ca.pem --ask", "secret": "OWN@own.example",
	"packages": "off", "packages-allow": "numpy --packages=listed", "packages-deny": "numpy", "packages-deny-set": "cautious", "packages-minimum": "numpy>=1",
	"pypi-index-url": "https://own.example/simple", "npm-registry": "https://own.example", "sql-allow-functions": "own", "databases": "own",
	"mcp-servers": "FOLDER/servers.json", "mcp-allow": "own.* --mcp-servers=FOLDER/servers.json",
	"http": "localhost:0", "http-token-file": "FOLDER/token", "tls-cert": "FOLDER/ca.pem --tls-key=FOLDER/key.pem", "tls-key": "FOLDER/key.pem --tls-cert=FOLDER/ca.pem",
	"allow-origin": "https://own.example", "allow-host-name": "own.example", "log-file": "FOLDER/log", "log-format": "json", "log-level": "debug",
	"policy": "FILE", "metrics-principals": "name", "audit-log": "FOLDER/audit", "audit-code": "full --audit-log=FOLDER/audit", "audit-required": "true --audit-log=FOLDER/audit",
	"oidc-issuer": "https://own.example --oidc-audience=x", "oidc-audience": "own --oidc-issuer=https://own.example",
	"oidc-claim": "email --oidc-issuer=https://own.example --oidc-audience=x", "oidc-groups-claim": "roles --oidc-issuer=https://own.example --oidc-audience=x",
	"trusted-header": "X-Own --trusted-proxy=10.0.0.7", "trusted-groups-header": "X-Own --trusted-header=X-User --trusted-proxy=10.0.0.7",
	"trusted-proxy": "10.0.0.7 --trusted-header=X-User", "http-url": "https://own.example --http=127.0.0.1:0",
	"apis":       "e2b --http=127.0.0.1:0",
	"kubeconfig": "FOLDER/kube --engine=kubernetes", "context": "own --engine=kubernetes", "namespace": "own --engine=kubernetes",
	"storage-class": "own --engine=kubernetes", "runtime-class": "own --engine=kubernetes",
	"programs-image": "own --engine=kubernetes", "pod-users": "none --engine=kubernetes", "pod-seccomp": "own.json --engine=kubernetes",
	"pod-user-namespaces": "true --engine=kubernetes",
	// A switch that excludes what the others begin with.
	"http-no-auth": "true",
}

// What is set is what a running server has, whichever way it is set, of each setting of both programs. It stays when the policy is read
// again, and principals have it too.
func TestWhatIsSetCounts(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		must.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	write("file", "")
	write("token", strings.Repeat("own", 20))
	write("servers.json", `{"mcpServers": {"own": {"command": "true"}}}`)
	certificate, key := certified(t)
	write("ca.pem", certificate)
	write("key.pem", key)
	write("policy.yaml", "groups: {a: {max-sessions: 3}}")
	for name, features := range map[string]func() []server.Feature{
		fault.Program: func() []server.Feature { return nil }, setting.ServerProgram: allfeatures.Features,
	} {
		defaults := server.New(features())
		defaults.Bind(pflag.NewFlagSet("", pflag.ContinueOnError))
		for _, r := range server.Rows(defaults) {
			t.Run(name+"/"+r.Name, func(t *testing.T) {
				t.Parallel()
				said := strings.NewReplacer("FILE", filepath.Join(folder, "file"), "FOLDER", folder).Replace(others[r.Name])
				if said == "" {
					said = server.Another(r)
				}
				value, more, _ := strings.Cut(said, " ")
				args := strings.Fields(more)
				if r.Name == "engine" && features() == nil {
					value = "podman" // there is no other
				}
				if r.Name != "session" && r.Name != "project" && r.Name != "http" {
					args = append(args, "--http=127.0.0.1:0")
				}
				if features() != nil && r.Name != "session" && r.Name != "project" && r.Name != "policy" {
					args = append(args, "--policy="+filepath.Join(folder, "policy.yaml"))
				}
				want := server.New(features())
				flags := pflag.NewFlagSet("", pflag.ContinueOnError)
				want.Bind(flags)
				must.OK(t, flags.Set(r.Name, value))
				before, set := server.Values(defaults)[r.Name], server.Values(want)[r.Name]
				must.Hold(t, before != set || value == "podman", "%s is the default", value)
				config := filepath.Join(t.TempDir(), "config.yaml")
				must.OK(t, os.WriteFile(config, []byte(r.Name+": "+value), 0o600))
				env := map[string]string{"OWN": "a-value-that-is-long"}
				withVariable := maps.Clone(env)
				withVariable[setting.VariableOf(r.Name)] = value
				ways := map[string]struct {
					args []string
					env  map[string]string
				}{"flag": {[]string{"--" + r.Name + "=" + value}, env}, "variable": {nil, withVariable}, "file": {[]string{"--config=" + config}, env}}
				if r.Name == "config" || r.Name == "env-file" {
					delete(ways, "file")
				}
				for way, by := range ways {
					all := slices.Concat(args, by.args)
					if r.Name != "state-dir" {
						all = append(all, "--state-dir="+t.TempDir())
					}
					p, err := server.Read(features(), all, func(name string) (string, bool) { v, ok := by.env[name]; return v, ok })
					must.OK(t, err, "by %s", way)
					for what, values := range begin(t, p) {
						if got, is := values[r.Name]; is {
							should.Equal(t, got, server.Values(want)[r.Name], "by %s, %s", way, what)
						}
					}
				}
			})
		}
	}
}

// begin returns the settings of a running server, those after SIGHUP, and those of a principal.
func begin(t *testing.T, p *server.Program) map[string]map[string]string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := p.Begin(ctx, nil, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	defer r.End(context.Background())
	if r.Web != nil {
		defer r.Web.Listener.Close()
	}
	all := map[string]map[string]string{"at its start": server.Values(p)}
	if p.OnHangup != nil {
		p.OnHangup()
		all["after SIGHUP"] = server.Values(p)
		all["of bob"], err = server.ValuesOf(r, principal.Principal{Name: "bob"})
		must.OK(t, err)
	}
	return all
}

// certified returns a certificate and its key, in PEM.
func certified(t *testing.T) (certificate, key string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pair := s.TLS.Certificates[0]
	private := must.Get(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)
	encode := func(kind string, content []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	}
	return encode("CERTIFICATE", pair.Certificate[0]), encode("PRIVATE KEY", private)
}
