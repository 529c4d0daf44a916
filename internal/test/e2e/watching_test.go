//go:build unix

package e2e

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// look gets a path of the server, with a token or without.
func (s *httpServer) look(t *testing.T, path, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(s.url, "/mcp")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestWatchingAServer(t *testing.T) {
	t.Parallel()
	s := startHTTP(t)
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if status, body := s.look(t, path, ""); status != http.StatusOK || body != want {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	if status, body := s.look(t, "/metrics", ""); status != http.StatusUnauthorized || strings.Contains(body, "code_sandbox") {
		t.Errorf("without the token: %d %q", status, body)
	}
	c := s.plain()
	if err := c.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	call := func(tool string, arguments object) {
		if _, err := c.request(t.Context(), "tools/call", object{"name": tool, "arguments": arguments}); err != nil {
			t.Fatal(err)
		}
	}
	_, session := c.run(t, object{"code": "x = 1"})
	c.run(t, object{"code": "1/0"})
	call("upload_file", object{"filename": "a.txt", "text": "twelve bytes"})
	call("read_artifact", object{"path": "no-such-file"})
	call("wait_for_run", object{"run_id": "run-of-nobody"})
	_, text := s.look(t, "/metrics", s.token)
	for _, line := range []string{
		`tool_calls_total{tool="run_python_code",code="ok"} 2`, `refusals_total{by="tool",code="not_found"} 1`,
		`runs_total{language="python",status="failed"} 1`, `file_bytes_total{direction="in"} 12`, `kernels{language="python",state="idle"} 1`,
	} {
		if !strings.Contains(text, "\ncode_sandbox_"+line+"\n") {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
	if strings.Contains(text, session) || strings.Contains(text, s.token) || strings.Contains(text, "no-such-file") {
		t.Errorf("the figures tell too much:\n%s", text)
	}
	log := s.stderr.String()
	for _, line := range []string{`run ended" session=` + regexp.QuoteMeta(session) + ` run=run-\w+ language=python status=failed`, `tool refused" session=` + regexp.QuoteMeta(session) + ` run=run-of-nobody tool=wait_for_run`} {
		if !regexp.MustCompile(line).MatchString(log) {
			t.Errorf("the log lacks %s:\n%s", line, log)
		}
	}
}

// Figures tell principals apart, and are the operator's alone, as what there is to do is.
func TestWatchingPrincipals(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, "--metrics-principals", "name")
	alice := s.as("alice@example.com")
	for _, who := range []*httpServer{s, alice, alice} {
		var res struct{ Status string }
		who.ask(&res, "/v1/sessions/e2e-watched/runs?wait_seconds=120", post(object{"code": "1"})...)
		defer who.curl("/v1/sessions/e2e-watched", "-X", "DELETE")
	}
	_, text := s.look(t, "/metrics", s.token)
	for _, line := range []string{
		`runs_total{language="python",status="completed"} 1`, `runs_total{language="python",status="completed",principal="alice@example.com"} 2`,
		`tool_calls_total{tool="run_python_code",code="ok",principal="alice@example.com"} 2`, `sessions 1`, `sessions{principal="alice@example.com"} 1`,
		`kernels{language="python",state="idle",principal="alice@example.com"} 1`, `memory_limit_bytes{principal="alice@example.com"} 1073741824`,
	} {
		if !strings.Contains(text, "\ncode_sandbox_"+line+"\n") {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
	if status, body := s.look(t, "/metrics", alice.token); status == http.StatusOK || strings.Contains(body, "code_sandbox") {
		t.Errorf("the figures of all for a principal: %d %q", status, body)
	}
	accept := []string{"-H", "Accept: application/json"}
	if body, status := s.curl("/readyz", accept...); status != "200" || !strings.Contains(string(body), `"sessions":2,`) {
		t.Errorf("what there is to do: %s %s", status, body)
	}
	if body, status := alice.curl("/readyz", accept...); status != "200" || string(body) != "ready\n" {
		t.Errorf("the same for a principal: %s %s", status, body)
	}
}
