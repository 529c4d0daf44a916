//go:build unix

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
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

// What a call does is traced up to its end, and what is not sent by then goes out when the server ends.
func TestTracesOfACall(t *testing.T) {
	t.Parallel()
	type span struct{ TraceID, SpanID, ParentSpanID, Name string }
	var mu sync.Mutex
	spans := make(map[string]span)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range sent.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					spans[s.Name] = s
				}
			}
		}
	}))
	defer collector.Close()
	s := start(t, setup{env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL}})
	s.run(python, object{"code": "x = 1"}, "completed")
	s.endBy("its stdin closing", func() { _ = s.stdin.Close() })
	mu.Lock()
	defer mu.Unlock()
	call, run := spans["tools/call "+python], spans["run python"]
	if call.SpanID == "" || run.ParentSpanID != call.SpanID || run.TraceID != call.TraceID {
		t.Errorf("got %+v", spans)
	}
}
