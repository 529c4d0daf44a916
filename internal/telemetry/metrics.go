package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	victoria "github.com/VictoriaMetrics/metrics"
)

// metrics are the figures. Present values are read when a client asks; see Recorder.gauges.
type metrics struct {
	families []*family

	calls, refusals, runs, fileBytes, networkRequests, networkBytes, requests counter
	runSeconds                                                                histogram

	principals principals
}

// family is the series of one name, by their labels.
type family struct {
	name, kind, help string
	labels           []string
	set              *victoria.Set
}

func newMetrics(version, principals string) *metrics {
	m := &metrics{}
	m.principals.by = principals
	m.family("build_info", "gauge", "Always 1; the label has the version.", "version").set.
		NewGauge(series("build_info", []string{"version"}, []string{version}, ""), func() float64 { return 1 })
	m.calls = m.counter("tool_calls_total", "Calls of tools. The code is ok, cancelled, or that of the error.", "tool", "code")
	m.refusals = m.counter("refusals_total", "What was refused, by a tool (code: the error's), over HTTP (the status) or to code in the sandbox (the kind of request).", "by", "code")
	m.runs = m.counter("runs_total", "Runs that are over. The status is error where the code did not come to run.", "language", "status")
	m.runSeconds = histogram{m.family("run_duration_seconds", "histogram", "Times of runs that are over, with what they waited for.", "language")}
	m.fileBytes = m.counter("file_bytes_total", "Bytes of files written to sessions (in) and read from them (out).", "direction")
	m.networkRequests = m.counter("network_requests_total", "Requests of code in the sandbox.", "kind", "allowed")
	m.networkBytes = m.counter("network_bytes_total", "Bytes that such requests sent and received.", "kind", "direction")
	m.requests = m.counter("http_requests_total", "HTTP requests that were answered.", "route", "method", "status")
	return m
}

func (m *metrics) family(name, kind, help string, labels ...string) *family {
	f := &family{name: name, kind: kind, help: help, labels: labels, set: victoria.NewSet()}
	m.families = append(m.families, f)
	return f
}

func (m *metrics) counter(name, help string, labels ...string) counter {
	return counter{m.family(name, "counter", help, labels...)}
}

// prefix begins every name.
const prefix = "code_sandbox_"

// principalLabel is the label of one principal's figures; the owner's carry none.
const principalLabel = "principal"

// series is the full name of one, as it is written. Values are words of ours, and names of principals, in which all can be
// seen: for both Go's quotes are Prometheus'.
func series(name string, labels, values []string, who string) string {
	var b strings.Builder
	b.WriteString(prefix + name)
	separator := "{"
	label := func(name, value string) {
		fmt.Fprintf(&b, "%s%s=%q", separator, name, value)
		separator = ","
	}
	for i, name := range labels {
		label(name, values[i])
	}
	if who != "" {
		label(principalLabel, who)
	}
	if separator == "," {
		b.WriteByte('}')
	}
	return b.String()
}

type counter struct{ *family }

// add counts an event of the principal labelled who.
func (c counter) add(who string, n int64, values ...string) {
	c.set.GetOrCreateCounter(series(c.name, c.labels, values, who)).AddInt64(n)
}

type histogram struct{ *family }

// seconds reach from a warm call to the longest run.
var seconds = []float64{0.005, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10, 30, 60, 300, 900, 3600}

func (h histogram) observe(who string, value float64, values ...string) {
	h.set.GetOrCreatePrometheusHistogramExt(series(h.name, h.labels, values, who), seconds).Update(value)
}

// write writes a family with its help, which the library cannot hold.
func (f *family) write(w io.Writer) {
	fmt.Fprintf(w, "# HELP %[1]s%[2]s %[3]s\n# TYPE %[1]s%[2]s %[4]s\n", prefix, f.name, f.help, f.kind)
	f.set.WritePrometheus(w)
}

// Metrics serves the figures in Prometheus' text format, with those of the process and the present values.
func (rec *Recorder) Metrics(now *Now) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		for _, f := range append(rec.metrics.families, now.gauges(r.Context(), rec.metrics.principals.label)...) {
			f.write(&text)
		}
		victoria.WriteProcessMetrics(&text)
		victoria.WriteFDMetrics(&text)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text.Bytes())
	})
}
