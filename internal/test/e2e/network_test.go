//go:build unix

package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/internet"
)

// startNetwork starts a server for which every host below .example is the handler, by HTTP and by HTTPS.
func startNetwork(t *testing.T, handler http.HandlerFunc, env []string, args ...string) *server {
	t.Helper()
	program, env := programOfNetwork(t, handler, env)
	return start(t, setup{program: program, args: args, env: env})
}

// programOfNetwork builds the program that startNetwork starts, and returns its variables after those that are given.
func programOfNetwork(t *testing.T, handler http.HandlerFunc, env []string) (string, []string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "code-sandbox-mcp-fetchtest")
	if err := buildWith(program, ",fetchtest"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := internet.Certify(dir, "api.example", "public.example"); err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "host.pem"), filepath.Join(dir, "host.key"))
	if err != nil {
		t.Fatal(err)
	}
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	return program, append(env,
		"CODE_SANDBOX_FETCHTEST="+plain.Listener.Addr().String(), "CODE_SANDBOX_FETCHTEST_TLS="+secure.Listener.Addr().String(), "SSL_CERT_FILE="+filepath.Join(dir, "ca.pem"))
}

func TestAllowedHostsAndCredentials(t *testing.T) {
	t.Parallel()
	const value = "AIza-Secret-Key-Of-The-Server-123"
	var arrived, elsewhere atomic.Int32
	s := startNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("X-Goog-Api-Key")
		switch {
		case r.Host == "api.example" && key == value:
			arrived.Add(1)
		case strings.Contains(fmt.Sprint(r.Header, r.URL, string(body)), value):
			elsewhere.Add(1)
		}
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("X-Echo", key)
		fmt.Fprintf(w, `{"host": %q, "path": %q, "key": %q, "body": %q}`, r.Host, r.URL.Path, key, body)
	}, []string{"GEMINI_API_KEY=" + value}, "--allow-domain", "public.example", "--secret", "GEMINI_API_KEY@api.example")
	check := func(tool, code string, words ...string) {
		t.Helper()
		res := s.call(tool, object{"code": code})
		res.wantText(t, words...)
		if strings.Contains(string(res.line), "AIza-") {
			t.Errorf("%s: the value is told: %s", code, res.text())
		}
	}
	check(python, "import os, urllib.request as u\nu.urlopen('http://public.example/a').read()", `"host": "public.example", "path": "/a"`)
	check(python, "os.environ['GEMINI_API_KEY']", "sandbox-secret-GEMINI_API_KEY-placeholder-")
	check(python, "key = {'x-goog-api-key': os.environ['GEMINI_API_KEY']}\nr = u.urlopen(u.Request('https://api.example/v1', b'{}', headers=key))\nprint(r.read(), r.headers['X-Echo'])", "[masked: GEMINI_API_KEY]", "/v1")
	check(python, "import requests; r = requests.post('https://api.example/v1', json={}, headers=key); (r.status_code, r.json()['key'])", "(200, '[masked: GEMINI_API_KEY]')")
	check(python, "requests.get('https://api.example/?to=http://public.example/x', headers=key).text", "placeholder_denied: the placeholder of GEMINI_API_KEY is in a header of a request to public.example:80, which was not sent: the value goes to api.example alone")
	check(python, "requests.get('https://other.example/')", "host_denied: other.example is not an allowed host; the server's user can allow it with --allow-domain other.example")
	check(python, "requests.get('https://public.example/?to=http://169.254.169.254/', verify=False).text[:14], requests.get('http://public.example/?to=http://169.254.169.254/').text", "address_denied: 169.254.169.254 has an address")
	check(javascript, "const r = await fetch('https://api.example/js', {headers: {'x-goog-api-key': process.env.GEMINI_API_KEY}}); await r.text()", "/js", "[masked: GEMINI_API_KEY]")
	check(javascript, "await (await fetch('http://other.example/')).text()", "host_denied: other.example")
	check(javascript, "await (await fetch('http://public.example/js')).text()", `"path": "/js"`)
	if arrived.Load() != 4 || elsewhere.Load() != 0 {
		t.Errorf("the value has come to its host %d times, and to others %d times", arrived.Load(), elsewhere.Load())
	}
}
