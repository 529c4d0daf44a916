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

	"github.com/prometheus/common/expfmt"
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

// figures are the sums of what /metrics has, over the labels that are not named.
func (s *httpServer) figures(t *testing.T) func(name string, labels ...string) float64 {
	t.Helper()
	status, text := s.look(t, "/metrics", s.token)
	parser := expfmt.TextParser{}
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v in\n%s", status, err, text)
	}
	return func(name string, labels ...string) (sum float64) {
		for _, m := range families["code_sandbox_"+name].GetMetric() {
			matching := 0
			for _, l := range m.Label {
				for i := 0; i < len(labels); i += 2 {
					if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
						matching++
					}
				}
			}
			if matching == len(labels)/2 {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return sum
	}
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
	before := s.figures(t)
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
	after := s.figures(t)
	for _, moved := range []struct {
		by     float64
		name   string
		labels []string
	}{
		{2, "tool_calls_total", []string{"tool", python, "code", "ok"}},
		{1, "refusals_total", []string{"by", "tool", "code", "not_found"}},
		{1, "runs_total", []string{"language", "python", "status", "failed"}},
		{12, "file_bytes_total", []string{"direction", "in"}},
		{1, "kernels", []string{"language", "python", "state", "idle"}},
	} {
		if got := after(moved.name, moved.labels...) - before(moved.name, moved.labels...); got != moved.by {
			t.Errorf("%s %v moved by %v, want %v", moved.name, moved.labels, got, moved.by)
		}
	}
	if _, text := s.look(t, "/metrics", s.token); strings.Contains(text, session) || strings.Contains(text, s.token) || strings.Contains(text, "no-such-file") {
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
