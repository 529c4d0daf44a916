package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/prometheus/common/expfmt"
	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
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
	return engine.Inventory{Containers: []engine.Container{{Running: true}, {Running: true}, {Running: false}}}, nil
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
	now := NewNow(NowOptions{Tenants: func() []Tenant { return []Tenant{{Manager: m}} }, Logger: log})
	now.machine = func() (memory, disk room) { return room{8 << 30, 4 << 30}, room{100 << 30, 2 << 30} }
	return now
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
	families := must.Get(parser.TextToMetricFamilies(strings.NewReader(text)))(t, "in\n%s", text)
	values := make(map[string]float64)
	for name, f := range families {
		short, ours := strings.CutPrefix(name, prefix)
		if !ours {
			continue
		}
		should.Hold(t, f.GetHelp() != "" && f.GetType().String() != "UNTYPED", "%s has neither help nor a type", name)
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
	return Options{Version: "1.2.3", Logger: slog.New(slog.DiscardHandler)}
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
	w.FileMoved(t.Context(), sandbox.Transfer{Direction: sandbox.In, Bytes: 10})
	w.FileMoved(t.Context(), sandbox.Transfer{Direction: sandbox.In, Bytes: 5})
	w.FileMoved(t.Context(), sandbox.Transfer{Direction: sandbox.Out, Bytes: 7})
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
		"containers":          2,
		"kernels python idle": 0, "kernels python running": 0, "kernels javascript idle": 0, "kernels javascript running": 0,
		"memory_limit_bytes": 0, "draining": 0, "overloaded": 0, "audit_log_failing": 0, "start_wait_seconds": 0,
	}
	for series, value := range want {
		v, there := got[series]
		should.Hold(t, there && v == value, "%s is %v, want %v", series, v, value)
	}
	should.Hold(t, len(got) == len(want), "got %d series, want %d: %v", len(got), len(want), got)
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
	should.Hold(t, answer.Code == http.StatusOK && answer.Flushed, "got %+v", answer)
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
		should.Equal(t, got[series], value, "%s", series)
	}
	for series := range got {
		should.Hold(t, !strings.Contains(series, "secret") && !strings.Contains(series, "BREW"), "there is %s", series)
	}
}

func TestReady(t *testing.T) {
	for name, test := range map[string]struct {
		engine  standIn
		change  func(*Now)
		told    string
		log     string
		reasons string
	}{
		"ready":     {standIn{}, func(*Now) {}, isReady, "level=INFO msg=ready", "null"},
		"no engine": {standIn{down: true}, func(*Now) {}, notReady, `level=WARN msg="not ready" error="no engine"`, "null"},
		"no image":  {standIn{missing: true}, func(*Now) {}, notReady, `level=WARN msg="not ready" error="image`, "null"},
		"draining":  {standIn{}, func(n *Now) { n.o.Draining = func() bool { return true } }, draining, "msg=ready", "null"},
		"containers wait": {
			standIn{}, func(n *Now) { n.o.StartWait = func() time.Duration { return longWait } }, overloaded, "msg=ready",
			`["a container has waited 10s for its turn to be started"]`,
		},
		"containers wait a little": {standIn{}, func(n *Now) { n.o.StartWait = func() time.Duration { return longWait - 1 } }, isReady, "msg=ready", "null"},
		"no memory and no disk": {
			standIn{}, func(n *Now) {
				n.machine = func() (memory, disk room) { return room{8 << 30, 100 << 20}, room{100 << 30, 900 << 20} }
			},
			overloaded, "msg=ready", `["memory: 100 MB of 8192 MB are left","the disk of the state directory: 900 MB of 102400 MB are left"]`,
		},
		"no audit log": {
			standIn{}, func(n *Now) { n.o.Audit, n.o.AuditRequired = func() error { return errors.New("disk full") }, true }, notReady, "msg=ready",
			`["the audit log cannot be written"]`,
		},
		"an audit log that is not required": {standIn{}, func(n *Now) { n.o.Audit = func() error { return errors.New("disk full") } }, isReady, "msg=ready", "null"},
		"a small machine": {
			standIn{}, func(n *Now) { n.machine = func() (memory, disk room) { return room{1 << 30, 100 << 20}, room{} } }, isReady, "msg=ready", "null",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			now := nowOf(t, &test.engine, slog.New(slog.NewTextHandler(&log, nil)))
			test.change(now)
			want := http.StatusServiceUnavailable
			if test.told == isReady {
				want = http.StatusOK
			}
			for _, operator := range []bool{false, true} {
				for _, accept := range []string{"", "text/html, application/json"} {
					r, answer := httptest.NewRequest(http.MethodGet, ReadyPath, nil), httptest.NewRecorder()
					r.Header.Set("Accept", accept)
					now.Ready(func(*http.Request) bool { return operator }).ServeHTTP(answer, r)
					told := test.told + "\n"
					if operator && accept != "" {
						told = `{"state":"` + test.told + `",`
						var reasons struct{ Reasons json.RawMessage }
						if err := json.Unmarshal(answer.Body.Bytes(), &reasons); err != nil || cmp.Or(string(reasons.Reasons), "null") != test.reasons {
							t.Errorf("reasons %s, %v", reasons.Reasons, err)
						}
						answer.Body.Truncate(min(len(told), answer.Body.Len()))
					}
					should.Hold(t, answer.Code == want && answer.Body.String() == told, "%d %q", answer.Code, answer.Body)
				}
			}
			if test.told == overloaded {
				want = http.StatusOK
				should.Hold(t, len(now.Overload()) > 0 && strings.Count(log.String(), `msg="overloaded: new sessions are refused" why="`+now.Overload()[0]) == 1, "the log is\n%s", log.String())
			}
			alone := get(now.Ready(func(*http.Request) bool { return false }), http.MethodGet, ReadyPath+"?exclude=overloaded")
			should.Hold(t, alone.Code == want && alone.Body.String() == test.told+"\n", "the only server is told %d %q", alone.Code, alone.Body)
			should.Hold(t, test.engine.asked == 1 && strings.Count(log.String(), test.log) == 1,
				"the engine was asked %d times, and the log is\n%s", test.engine.asked, log.String())
		})
	}
	answer := get(Healthy(), "GET", HealthPath)
	should.Hold(t, answer.Code == http.StatusOK && answer.Body.String() == "ok\n", "%d %q", answer.Code, answer.Body)
}

func TestFiguresOfPrincipals(t *testing.T) {
	odd := principal.Principal{Name: `a "b", \ ü@example.com`}
	for by, label := range map[string]string{ByName: " " + odd.Name, ByKey: " " + odd.Key(), Off: ""} {
		t.Run(by, func(t *testing.T) {
			o := quiet()
			o.Principals = by
			w := New(o)
			record := func(w *Recorder) {
				_, ended := w.Call(t.Context(), callOf("read_artifact"))
				ended(string(fault.NotFound))
				w.RunBegan(t.Context(), &sandbox.Run{Language: sandbox.Python})(&sandbox.Result{Status: sandbox.Completed}, nil)
				w.FileMoved(t.Context(), sandbox.Transfer{Direction: sandbox.In, Bytes: 10})
				w.Network(netlog.Entry{Kind: "proxy", Allowed: true, SentBytes: 3})
			}
			record(w)
			record(w.For(principal.Principal{}))
			record(w.For(odd))
			now := nowOf(t, &standIn{}, slog.New(slog.DiscardHandler))
			own := now.o.Tenants()[0]
			now.o.Tenants = func() []Tenant { return []Tenant{own, {odd, own.Manager}} }
			got := figures(t, get(w.Metrics(now), "GET", MetricsPath).Body.String())
			for _, series := range []string{
				"tool_calls_total read_artifact not_found", "refusals_total tool not_found", "runs_total python completed", "run_duration_seconds python",
				"file_bytes_total in", "network_requests_total proxy true", "network_bytes_total proxy sent",
			} {
				each := 1.0
				switch series {
				case "file_bytes_total in":
					each = 10
				case "network_bytes_total proxy sent":
					each = 3
				}
				if label == "" && got[series] != 3*each || label != "" && (got[series] != 2*each || got[series+label] != each) {
					t.Errorf("%s is %v and %v", series, got[series], got[series+label])
				}
			}
			for _, series := range []string{"sessions", "memory_limit_bytes", "kernels python idle"} {
				_, there := got[series+label]
				should.Hold(t, there, "there is no %s in %v", series+label, got)
			}
		})
	}
}

func TestSoManyPrincipalsHaveFiguresOfTheirOwn(t *testing.T) {
	o := quiet()
	o.Principals = ByName
	w := New(o)
	for range 2 {
		for i := range mostPrincipals + 20 {
			w.For(principal.Principal{Name: fmt.Sprint("person ", i)}).FileMoved(t.Context(), sandbox.Transfer{Direction: sandbox.In, Bytes: 1})
		}
	}
	got := figures(t, get(w.Metrics(nowOf(t, &standIn{}, slog.New(slog.DiscardHandler))), "GET", MetricsPath).Body.String())
	count := 0
	for series := range got {
		if strings.HasPrefix(series, "file_bytes_total") {
			count++
		}
	}
	should.Hold(t, count == mostPrincipals+1 && got["file_bytes_total in other"] == 40 && got["file_bytes_total in person 99"] == 2,
		"%d series: %v", count, got)
}

func TestContainersAreNotToldWithoutTheEngine(t *testing.T) {
	now := nowOf(t, &standIn{down: true}, slog.New(slog.DiscardHandler))
	got := figures(t, get(New(quiet()).Metrics(now), "GET", MetricsPath).Body.String())
	_, told := got["containers"]
	should.Hold(t, !told && got["ready"] == 0, "got %v", got)
}

const monitoring = "../../docs/deploy/monitoring"

// expressions are the PromQL of the dashboard and of the alerts, by what they are called.
func expressions(t *testing.T) map[string]string {
	found := make(map[string]string)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	for name, read := range map[string]func([]byte) error{
		"dashboard.json": func(text []byte) error { return json.Unmarshal(text, &dashboard) },
		"alerts.yaml":    func(text []byte) error { return yaml.Unmarshal(text, &alerts) },
	} {
		text, err := os.ReadFile(filepath.Join(monitoring, name))
		if err == nil {
			err = read(text)
		}
		must.OK(t, err, "%s", name)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			found["panel "+p.Title+" "+target.Expr] = target.Expr
		}
	}
	panels := len(found)
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			found["alert "+r.Alert] = r.Expr
		}
	}
	must.Hold(t, panels != 0 && len(found) != panels, "%d panels, %d alerts", panels, len(found)-panels)
	return found
}

var (
	metricName = regexp.MustCompile(`\b(?:code_sandbox|process|go)_[a-z_]+\b`)
	// selector is a metric with what is in its braces, and grouping the labels that are kept.
	selector = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// What dashboards and alerts ask for is there: a name that nobody writes any more alerts of nothing.
func TestDashboardAndAlertsNameWhatIsThere(t *testing.T) {
	w := New(quiet())
	var text strings.Builder
	text.WriteString(get(w.Metrics(nowOf(t, &standIn{}, slog.New(slog.DiscardHandler))), "GET", MetricsPath).Body.String())
	names := make(map[string]bool)
	for line := range strings.Lines(text.String()) {
		if declared, is := strings.CutPrefix(line, "# TYPE "); is {
			name, kind, _ := strings.Cut(strings.TrimSpace(declared), " ")
			names[name] = true
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[name+suffix] = kind == "histogram"
			}
		}
	}
	parser := expfmt.TextParser{}
	families := must.Get(parser.TextToMetricFamilies(strings.NewReader(text.String())))(t)
	for name := range families { // those of the process, which declare nothing
		names[name] = true
	}
	labels := []string{"job", "instance", "le", principalLabel}
	for _, f := range append(w.metrics.families, nowOf(t, &standIn{}, slog.New(slog.DiscardHandler)).gauges(t.Context(), w.metrics.principals.label)...) {
		labels = append(labels, f.labels...)
	}
	for where, expr := range expressions(t) {
		for _, name := range metricName.FindAllString(expr, -1) {
			should.Hold(t, names[name], "%s: there is no %s", where, name)
		}
		var used []string
		for _, braces := range selector.FindAllStringSubmatch(expr, -1) {
			for _, m := range matcher.FindAllStringSubmatch(braces[2], -1) {
				used = append(used, m[1])
			}
		}
		for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
			used = append(used, strings.Split(by[1], ", ")...)
		}
		for _, label := range used {
			should.Hold(t, slices.Contains(labels, label), "%s: no figure has the label %q", where, label)
		}
		should.Equal(t, strings.Count(expr, "("), strings.Count(expr, ")"), "%s: parentheses", where)
	}
	page := must.Get(os.ReadFile("../../docs/monitoring.md"))(t)
	for line := range strings.Lines(text.String()) {
		if declared, is := strings.CutPrefix(line, "# TYPE "+prefix); is {
			name, _, _ := strings.Cut(declared, " ")
			should.Hold(t, strings.Contains(string(page), "`"+name+"`"), "docs/monitoring.md does not have %s", name)
		}
	}
}

// Prometheus' own judgement, where its tool is there.
func TestPromtoolTakesTheAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", filepath.Join(monitoring, "alerts.yaml")).CombinedOutput()
	should.Hold(t, err == nil, "%v\n%s", err, out)
	var metrics strings.Builder
	w := New(quiet())
	w.FileMoved(t.Context(), sandbox.Transfer{Direction: "in", Bytes: 1})
	metrics.WriteString(get(w.Metrics(nowOf(t, &standIn{}, slog.New(slog.DiscardHandler))), "GET", MetricsPath).Body.String())
	var ours strings.Builder // those of the process have no help
	for line := range strings.Lines(metrics.String()) {
		if strings.Contains(line, prefix) {
			ours.WriteString(line)
		}
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(ours.String())
	out, err = check.CombinedOutput()
	should.Hold(t, err == nil, "%v\n%s", err, out)
}
