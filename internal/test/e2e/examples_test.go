//go:build unix

package e2e

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/internet"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmci"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const examplesDir = "../../../examples"

var installExamples = sync.OnceValues(func() (string, error) { return npmci.Install(examplesDir) })

// example is a script of examples/, as somebody runs it in a folder of their own.
type example struct {
	name   string // empty: that of the script
	script string
	args   []string
	env    func(t *testing.T) []string
	says   []string
	makes  string // a file in that folder
	begins string // how that begins
	api    *api   // of the model that it talks to, which is a scripted one here
	http   bool   // whether the server runs already
	// prepare returns the program that is on the PATH, and variables. Nil: the one under test.
	prepare func(t *testing.T) (program string, env []string)
}

const (
	png = "\x89PNG\r\n"
	// sales is what somebody's database might be asked.
	sales = "SELECT month, count * 1.5 AS income FROM (VALUES ('Jan', 10), ('Feb', 20), ('Mar', 12)) AS sales(month, count)"
)

var examples = []example{
	{script: "client.mjs", says: []string{"[result]\n285\n", "[result]\n81\n"}, makes: "squares.png", begins: png},
	{script: "client.py", says: []string{"[result]\n285\n", "[result]\n81\n"}, makes: "squares.png", begins: png},
	{script: "report/report.mjs", says: []string{"90 orders, sales 14985.60\n"}, makes: "output/report.html", begins: "<!doctype html>"},
	{script: "chart/chart.mjs", env: withDatabase, says: []string{`"row_count":365,`, "[result]\norders"}, makes: "output/chart.png", begins: png},
	{name: "chart of a query", script: "chart/chart.mjs", args: []string{sales}, env: withDatabase, says: []string{`"row_count":3,`, "[result]\nincome    63.0\n"}, makes: "output/chart.png", begins: png},
	{script: "explore/explore.mjs", says: []string{"50,000 rows, 49,252 of them good", " and 1.80 a km\n"}, makes: "output/trips.pdf", begins: "%PDF"},
	{script: "anthropic.mjs", api: &anthropic},
	{script: "openai.mjs", api: &openAI},
	{name: "openai.mjs on Azure", script: "openai.mjs", api: &azure},
	{script: "gemini.mjs", api: &gemini},
	{script: "inside.mjs", says: []string{"sent with sandbox-secret-GEMINI_API_KEY", "Portuguese\n"}, prepare: withGemini},
	{script: "issues/issues.mjs", says: []string{"300 issues, 200 of them open\n", " days old\n"}},
	{script: "langgraph.mjs", api: &openAI},
	{script: "agents.mjs", api: &responses},
	{script: "ai-sdk.mjs", api: &responses},
	{name: "openai.mjs over HTTP", script: "openai.mjs", api: &openAI, http: true},
}

func TestExamples(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		if e.name == "" {
			e.name = e.script
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			e.run(t)
		})
	}
}

func (e example) run(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(npmClients(t), ".bin", "node")
	must.OK(t, should.ErrOf(installExamples()))
	if filepath.Ext(e.script) == ".py" {
		program = "python3"
	}
	script := must.Get(filepath.Abs(filepath.Join(examplesDir, e.script)))(t)
	server, more := binary, []string(nil)
	if e.prepare != nil {
		server, more = e.prepare(t)
	}
	env := append([]string{"HOME=" + os.Getenv("HOME"), "PATH=" + onPath(t, server) + ":" + os.Getenv("PATH")}, more...)
	if e.env != nil {
		env = append(env, e.env(t)...)
	}
	if e.http {
		output := filepath.Join(dir, "output")
		must.OK(t, os.Mkdir(output, 0o700))
		args := []string{"--allow-host-dir", output, "--structured-content=false"}
		if !e.api.sees {
			args = append(args, "--images", "path")
		}
		s := startHTTP(t, args...)
		env = append(env, "MCP_URL="+s.url, "MCP_TOKEN="+s.token)
	}
	if e.api != nil {
		model := startModel(t, *e.api, filepath.Join(dir, "output", "primes.png"))
		env = append(env, e.api.env(model)...)
		e.says, e.makes, e.begins = []string{"There are 1229 primes.\n"}, "output/primes.png", png
	}
	stdout, stderr, err := runClient(t, dir, env, program, append([]string{script}, e.args...)...)
	must.OK(t, err, "%s\n%s", stdout, stderr)
	for _, part := range e.says {
		should.Hold(t, strings.Contains(stdout, part), "%q is not in\n%s", part, stdout)
	}
	if e.makes == "" {
		return
	}
	if made, err := os.ReadFile(filepath.Join(dir, e.makes)); err != nil || !bytes.HasPrefix(made, []byte(e.begins)) {
		t.Errorf("%s begins with %.20q, %v", e.makes, made, err)
	}
}

// onPath returns a folder for the PATH, in which the program under test has the name and the settings that it has
// where it is installed, but for a state directory of its own.
func onPath(t *testing.T, server string) string {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf("#!/bin/sh\nexec env %s '%s' --state-dir '%s' \"$@\"\n", strings.Join(slowly(), " "), server, clientState(t))
	must.OK(t, os.WriteFile(filepath.Join(dir, "code-sandbox-mcp"), []byte(text), 0o700))
	return dir
}

// withGemini is a stand-in for Gemini that answers whoever brings the key.
func withGemini(t *testing.T) (program string, env []string) {
	const key = "AIza-a-key-that-code-never-sees"
	return programOfNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Goog-Api-Key") != key || !strings.HasSuffix(r.URL.Path, ":generateContent") {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"candidates": [{"content": {"parts": [{"text": "Portuguese"}]}}]}`)
	}, []string{"GEMINI_API_KEY=" + key, "GOOGLE_GEMINI_BASE_URL=https://api.example"})
}

func withDatabase(t *testing.T) []string {
	db, _ := database(t)
	return []string{"SANDBOX_SQL_MAIN=" + db.DSN(testpg.Superuser)}
}

// programOfNetwork builds a program for which every host below .example is the handler, by HTTP and by HTTPS, and returns its
// variables after those that are given.
func programOfNetwork(t *testing.T, handler http.HandlerFunc, env []string) (string, []string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "code-sandbox-mcp-fetchtest")
	must.OK(t, buildWith(program, ",fetchtest"))
	dir := t.TempDir()
	must.OK(t, internet.Certify(dir, "api.example", "public.example"))
	certificate := must.Get(tls.LoadX509KeyPair(filepath.Join(dir, "host.pem"), filepath.Join(dir, "host.key")))(t)
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	return program, append(env,
		"CODE_SANDBOX_FETCHTEST="+plain.Listener.Addr().String(), "CODE_SANDBOX_FETCHTEST_TLS="+secure.Listener.Addr().String(), "SSL_CERT_FILE="+filepath.Join(dir, "ca.pem"))
}
