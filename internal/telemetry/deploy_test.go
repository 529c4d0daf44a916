package telemetry

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"

	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"go.yaml.in/yaml/v3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

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
	if panels == 0 || len(found) == panels {
		t.Fatalf("%d panels, %d alerts", panels, len(found)-panels)
	}
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
	families, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
	must.OK(t, err)
	for name := range families { // those of the process, which declare nothing
		names[name] = true
	}
	labels := []string{"job", "instance", "le", principalLabel}
	for _, f := range append(w.metrics.families, nowOf(t, &standIn{}, slog.New(slog.DiscardHandler)).gauges(t.Context(), w.metrics.principals.label)...) {
		labels = append(labels, f.labels...)
	}
	for where, expr := range expressions(t) {
		for _, name := range metricName.FindAllString(expr, -1) {
			if !names[name] {
				t.Errorf("%s: there is no %s", where, name)
			}
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
			if !slices.Contains(labels, label) {
				t.Errorf("%s: no figure has the label %q", where, label)
			}
		}
		should.Equal(t, strings.Count(expr, "("), strings.Count(expr, ")"), "%s: parentheses", where)
	}
	page, err := os.ReadFile("../../docs/monitoring.md")
	must.OK(t, err)
	for line := range strings.Lines(text.String()) {
		if declared, is := strings.CutPrefix(line, "# TYPE "+prefix); is {
			if name, _, _ := strings.Cut(declared, " "); !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/monitoring.md does not have %s", name)
			}
		}
	}
}

// Prometheus' own judgement, where its tool is there.
func TestPromtoolTakesTheAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", filepath.Join(monitoring, "alerts.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
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
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
