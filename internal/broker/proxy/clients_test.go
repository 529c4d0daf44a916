package proxy

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// imageNode is the Node of the images, where the linters have been installed; another Node is older, and knows no
// variables of proxies.
const imageNode = "../../../containers/kernel/node/lint/node_modules/.bin/node"

// python is a client of Python's own library, and requests where that is there.
const pythonClient = `
import base64, os, sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    headers = {"X-Api-Key": os.environ["API_KEY"]} if "key" in url else {}
    try:
        print("urllib", urllib.request.urlopen(urllib.request.Request(url, headers=headers)).read().decode())
    except Exception as e:
        print("urllib", e)
    try:
        import requests
    except ImportError:
        continue
    try:
        auth = ("me", os.environ["API_KEY"]) if "basic" in url else None
        r = requests.get(url, headers=headers, auth=auth)
        print("requests", r.status_code, r.reason, r.text)
    except Exception as e:
        print("requests", e)
`

// nodeClient asks by fetch, which on older Nodes it goes through a tunnel of its own for.
const nodeClient = `
const http = require('http'), https = require('https');
const ask = process.env.NODE_USE_ENV_PROXY ? async (url, headers) => {
  const r = await fetch(url, {headers});
  return r.status + ' ' + await r.text();
} : (url, headers) => new Promise((resolve, reject) => {
  const proxy = new URL(process.env.HTTPS_PROXY), {hostname} = new URL(url);
  http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: hostname + ':443'}).on('connect', (r, socket) => {
    if (r.statusCode != 200) return resolve(r.statusCode + ' ' + r.statusMessage);
    https.get(url, {headers, socket, agent: false}, async r => {
      let text = '';
      for await (const piece of r) text += piece;
      resolve(r.statusCode + ' ' + text);
    }).on('error', reject);
  }).on('error', reject).end();
});
(async () => {
  for (const url of process.argv.slice(1)) {
    const headers = url.includes('key') ? {'X-Api-Key': process.env.API_KEY} : {};
    try { console.log(await ask(url, headers)); } catch (e) { console.log(String(e), require('util').inspect(e.cause)); }
  }
})();
`

// realClients is a world with the programs of this machine as clients.
func realClients(t *testing.T, handler http.HandlerFunc) (w *world, run func(name string, args ...string) string) {
	w = newWorld(t, Options{Mode: Allowlist, Hosts: hosts(publicHost), Secrets: []Secret{theSecret}}, handler)
	home := t.TempDir()
	bundle := filepath.Join(home, "bundle.pem")
	must.OK(t, os.WriteFile(bundle, append(w.internet.certificatePEM(), w.session.certificatePEM()...), 0o600))
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "API_KEY=" + theSecret.placeholder(), "GIT_TERMINAL_PROMPT=0", "NODE_USE_ENV_PROXY="}
	if _, err := os.Stat(imageNode); err == nil {
		env = append(env, "NODE_USE_ENV_PROXY=1")
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		env = append(env, name+"=http://"+w.address)
	}
	for _, name := range []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"} {
		env = append(env, name+"="+bundle)
	}
	return w, func(name string, args ...string) string {
		t.Helper()
		must.OK(t, should.ErrOf(exec.LookPath(name)), "this test needs %s", name)
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env, cmd.Dir, cmd.WaitDelay = env, home, time.Second
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(&out, "(%v)", err)
		}
		return out.String()
	}
}

func wantAll(t *testing.T, got string, words ...string) {
	t.Helper()
	for _, word := range words {
		should.Hold(t, strings.Contains(got, word), "there is no %q in\n%s", word, got)
	}
	should.Hold(t, !strings.Contains(got, "Secret"), "the secret is in\n%s", got)
}

func TestRealClients(t *testing.T) {
	var s seen
	_, run := realClients(t, s.echo)
	keyArrived := func(t *testing.T) {
		t.Helper()
		should.Contain(t, s.last(), secretValue, "the host has seen")
	}
	node := "node"
	if _, err := os.Stat(imageNode); err == nil {
		node, _ = filepath.Abs(imageNode)
	}
	const refused = "host_denied: other.example is not an allowed host; the server's user can allow it with --allow-domain other.example"
	const masked = `["[masked: API_KEY]"]`
	t.Run("curl", func(t *testing.T) {
		wantAll(t, run("curl", "-sS", "https://public.example/a"), "GET /a")
		wantAll(t, run("curl", "-sS", "-H", "X-Api-Key: "+theSecret.placeholder(), "https://api.example/key"), masked)
		keyArrived(t)
		wantAll(t, run("curl", "-sS", "--http1.1", "-H", "X-Api-Key: "+theSecret.placeholder(), "https://api.example/key"), masked)
		wantAll(t, run("curl", "-sSv", "https://other.example/"), "403 "+refused)
		wantAll(t, run("curl", "-sS", "http://other.example/"), refused)
		wantAll(t, run("curl", "-sS", "-p", "http://public.example/a"), "GET /a")
	})
	t.Run("Python", func(t *testing.T) {
		got := run("python3", "-c", pythonClient, "https://public.example/a", "http://public.example/b", "https://api.example/key", "https://other.example/", "http://other.example/", "https://api.example/basic")
		wantAll(t, got, "urllib GET /a", "urllib GET /b", "urllib GET /key 0 "+masked, "urllib <urlopen error Tunnel connection failed: 403 "+refused, "urllib HTTP Error 403: "+refused)
		if strings.Contains(got, "requests ") {
			wantAll(t, got, "requests 200 OK GET /a", "requests 200 OK GET /key 0 "+masked, "Tunnel connection failed: 403 "+refused, "requests 403 "+refused, "[masked: API_KEY]")
			should.Contain(t, s.last(), base64.StdEncoding.EncodeToString([]byte("me:"+secretValue)), "the host has seen")
		}
	})
	t.Run("Node", func(t *testing.T) {
		got := run(node, "-e", nodeClient, "https://public.example/a", "https://api.example/key", "https://other.example/")
		wantAll(t, got, "200 GET /a", "200 GET /key 0 "+masked, "403")
		keyArrived(t)
	})
}

func TestGitClonesThroughTheProxy(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root, "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"}, args...)...).CombinedOutput()
		must.Hold(t, err == nil, "git %v: %v\n%s", args, err, out)
	}
	git("init", "-q", "work")
	git("-C", "work", "commit", "-q", "--allow-empty", "-m", "first")
	git("clone", "-q", "--bare", "work", "repo.git")
	git("-C", "repo.git", "update-server-info")
	files := http.FileServer(http.Dir(root))
	_, run := realClients(t, func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); r.Host == secretHost && password != secretValue {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		files.ServeHTTP(w, r)
	})
	for address, want := range map[string]string{
		"https://public.example/repo.git": "commit first", "https://me:" + theSecret.placeholder() + "@api.example/repo.git": "commit first",
		"https://me:wrong@api.example/repo.git": "Authentication failed", "https://other.example/repo.git": "403", "http://other.example/repo.git": "403",
	} {
		name := fmt.Sprintf("%x", address)
		wantAll(t, run("git", "clone", "-q", address, name)+run("git", "-C", name, "log", "--format=commit %s"), want)
	}
}

// What a session trusts is of no use for other hosts, should the key ever get out.
func TestClientsTrustTheAuthorityForItsHostsAlone(t *testing.T) {
	w, run := realClients(t, hello)
	server := httptest.NewUnstartedServer(http.HandlerFunc(hello))
	server.Config.ErrorLog = quiet
	server.TLS = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return w.session.leaf(h.ServerName) }}
	server.StartTLS()
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for host, trusted := range map[string]bool{secretHost: true, "other.example": false} {
		address, resolve := "https://"+host+":"+port+"/", host+":"+port+":127.0.0.1"
		for name, got := range map[string]string{
			"curl": run("curl", "-sS", "--noproxy", "*", "--resolve", resolve, address),
			"git":  run("git", "-c", "http.curloptResolve="+resolve, "-c", "http.proxy=", "ls-remote", address),
			"Python": run("python3", "-c", `import socket, ssl, sys
context = ssl.create_default_context()
context.verify_flags |= ssl.VERIFY_X509_STRICT
print(context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[2]))), server_hostname=sys.argv[1]).version())`, host, port),
			"Node": run("node", "-e", `const [host, port] = process.argv.slice(1);
require('tls').connect({port, host: '127.0.0.1', servername: host}, function () { console.log(this.getProtocol()); this.end(); })`, host, port),
		} {
			refused := strings.Contains(got, "certificate") || strings.Contains(got, "permitted subtree")
			should.Hold(t, refused != trusted, "%s, %s: %s", host, name, got)
		}
	}
}
