package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/prometheus/common/expfmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// standIn is one that only answers questions.
type standIn struct {
	engine.Engine
	down    bool
	missing bool
	asked   int
}

func (e *standIn) List(context.Context, string, string) (engine.Inventory, error) {
	e.asked++
	if e.down {
		return engine.Inventory{}, errors.New("no engine")
	}
	container := func(language sandbox.Language, running bool) engine.Container {
		return engine.Container{Running: running, Labels: map[string]string{sandbox.LabelLanguage: string(language)}}
	}
	return engine.Inventory{Containers: []engine.Container{
		container(sandbox.Python, true), container(sandbox.Python, true), container(sandbox.Python, false), container(`a "stranger"`, true),
	}}, nil
}

func (e *standIn) Image(context.Context, string) (engine.ImageInfo, error) {
	if e.missing {
		return engine.ImageInfo{}, engine.ErrImageMissing
	}
	return engine.ImageInfo{}, nil
}

func nowOf(t *testing.T, e *standIn, log *slog.Logger) *Now {
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir = e, t.TempDir()
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{sandbox.Python: {Image: "python"}, sandbox.JavaScript: {Image: "js"}}
	m := sandbox.NewManager(config)
	t.Cleanup(func() { m.Close(context.Background()) })
	return NewNow(m, log)
}

func get(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// figures are the values of the series of ours, by their names and labels; of a histogram the count.
func figures(t *testing.T, text string) map[string]float64 {
	t.Helper()
	parser := expfmt.TextParser{}
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	values := make(map[string]float64)
	for name, f := range families {
		short, ours := strings.CutPrefix(name, prefix)
		if !ours {
			continue
		}
		if f.GetHelp() == "" || f.GetType().String() == "UNTYPED" {
			t.Errorf("%s has neither help nor a type", name)
		}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			values[strings.Join(append([]string{short}, labels...), " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func quiet() Options {
	return Options{Version: "1.2.3", Logger: slog.New(slog.DiscardHandler), Variables: func(string) (string, bool) { return "", false }}
}

func callOf(tool string) mcp.CallToolRequest {
	return mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool}}
}

func TestFiguresMove(t *testing.T) {
	w := New(quiet())
	for _, code := range []string{tools.CodeOK, tools.CodeOK, tools.CodeCancelled, string(fault.NotFound)} {
		_, ended := w.Call(t.Context(), callOf("read_artifact"))
		ended(code)
	}
	run := &sandbox.Run{ID: "run-1", SessionID: "s", Language: sandbox.Python}
	w.RunBegan(t.Context(), run)(&sandbox.Result{Status: sandbox.Failed}, nil)
	w.RunBegan(t.Context(), run)(nil, fault.New(fault.ImageMissing, "", "no image"))
	w.RunBegan(t.Context(), run) // goes on
	w.FileBytes(sandbox.In, 10)
	w.FileBytes(sandbox.In, 5)
	w.FileBytes(sandbox.Out, 7)
	w.Network(netlog.Entry{Kind: "proxy", Host: "example.com", Allowed: true, SentBytes: 3, ReceivedBytes: 4})
	w.Network(netlog.Entry{Kind: "packages", Host: "example.com", Rule: "no"})
	got := figures(t, get(w.Metrics(nowOf(t, &standIn{}, slog.New(slog.DiscardHandler))), "GET", MetricsPath).Body.String())
	want := map[string]float64{
		"build_info 1.2.3": 1, "ready": 1, "sessions": 0,
		"tool_calls_total read_artifact ok": 2, "tool_calls_total read_artifact cancelled": 1, "tool_calls_total read_artifact not_found": 1,
		"refusals_total tool not_found": 1, "refusals_total network packages": 1,
		"runs_total python failed": 1, "runs_total python error": 1, "run_duration_seconds python": 2,
		"file_bytes_total in": 15, "file_bytes_total out": 7,
		"network_requests_total proxy true": 1, "network_requests_total packages false": 1,
		"network_bytes_total proxy sent": 3, "network_bytes_total proxy received": 4,
		"network_bytes_total packages sent": 0, "network_bytes_total packages received": 0,
		"containers python": 2, "containers javascript": 0,
		"kernels python idle": 0, "kernels python running": 0, "kernels javascript idle": 0, "kernels javascript running": 0,
	}
	for series, value := range want {
		if v, there := got[series]; !there || v != value {
			t.Errorf("%s is %v, want %v", series, v, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d series, want %d: %v", len(got), len(want), got)
	}
}

// What a client writes is in no label: it could fill the server's memory, and others' dashboards.
func TestRequestsAreCountedByWhatIsThere(t *testing.T) {
	w := New(quiet())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /files/{name}", func(rw http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(rw).Flush()
		_, _ = rw.Write([]byte("x"))
		rw.WriteHeader(http.StatusTeapot) // too late
	})
	mux.HandleFunc("/gone", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	h := w.Requests(mux)
	answer := get(h, "GET", "/files/secret")
	if answer.Code != http.StatusOK || !answer.Flushed {
		t.Errorf("got %+v", answer)
	}
	get(h, "GET", "/files/another")
	get(h, "BREW", "/other")
	get(h, "POST", "/files/x")
	func() {
		defer func() { _ = recover() }()
		get(h, "GET", "/gone")
	}()
	got := figures(t, get(w.Metrics(nowOf(t, &standIn{}, slog.New(slog.DiscardHandler))), "GET", MetricsPath).Body.String())
	for series, value := range map[string]float64{
		"http_requests_total /files/{name} GET 200": 2, "http_requests_total none other 404": 1, "http_requests_total none POST 405": 1,
		"http_requests_total /gone GET 200": 1, "refusals_total http 404": 1, "refusals_total http 405": 1,
	} {
		if got[series] != value {
			t.Errorf("%s is %v, want %v", series, got[series], value)
		}
	}
	for series := range got {
		if strings.Contains(series, "secret") || strings.Contains(series, "BREW") {
			t.Errorf("there is %s", series)
		}
	}
}

func TestReady(t *testing.T) {
	for name, test := range map[string]struct {
		engine standIn
		status int
		log    string
	}{
		"ready":     {standIn{}, http.StatusOK, "level=INFO msg=ready"},
		"no engine": {standIn{down: true}, http.StatusServiceUnavailable, `level=WARN msg="not ready" error="no engine"`},
		"no image":  {standIn{missing: true}, http.StatusServiceUnavailable, `level=WARN msg="not ready" error="image`},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			now := nowOf(t, &test.engine, slog.New(slog.NewTextHandler(&log, nil)))
			for range 3 {
				answer := get(now.Ready(), "GET", ReadyPath)
				if told := answer.Body.String(); answer.Code != test.status || !slices.Contains([]string{"ready\n", "not ready\n"}, told) {
					t.Errorf("%d %q", answer.Code, told)
				}
			}
			if test.engine.asked != 1 || strings.Count(log.String(), test.log) != 1 {
				t.Errorf("the engine was asked %d times, and the log is\n%s", test.engine.asked, log.String())
			}
		})
	}
	if answer := get(Healthy(), "GET", HealthPath); answer.Code != http.StatusOK || answer.Body.String() != "ok\n" {
		t.Errorf("%d %q", answer.Code, answer.Body)
	}
}

func TestContainersAreNotToldWithoutTheEngine(t *testing.T) {
	now := nowOf(t, &standIn{down: true}, slog.New(slog.DiscardHandler))
	got := figures(t, get(New(quiet()).Metrics(now), "GET", MetricsPath).Body.String())
	if _, told := got["containers python"]; told || got["ready"] != 0 {
		t.Errorf("got %v", got)
	}
}
