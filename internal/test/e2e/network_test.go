//go:build unix

package e2e

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/internet"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// programOfNetwork builds a program for which every host below .example is the handler, by HTTP and by HTTPS, and returns its
// variables after those that are given.
func programOfNetwork(t *testing.T, handler http.HandlerFunc, env []string) (string, []string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "code-sandbox-mcp-fetchtest")
	must.OK(t, buildWith(program, ",fetchtest"))
	dir := t.TempDir()
	must.OK(t, internet.Certify(dir, "api.example", "public.example"))
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "host.pem"), filepath.Join(dir, "host.key"))
	must.OK(t, err)
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	return program, append(env,
		"CODE_SANDBOX_FETCHTEST="+plain.Listener.Addr().String(), "CODE_SANDBOX_FETCHTEST_TLS="+secure.Listener.Addr().String(), "SSL_CERT_FILE="+filepath.Join(dir, "ca.pem"))
}
