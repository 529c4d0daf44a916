package telemetry

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// Paths of what watches a server, whose own requests are in no trace.
const (
	MetricsPath = "/metrics"
	HealthPath  = "/healthz"
	ReadyPath   = "/readyz"
)

// Requests counts the requests of a handler, and traces them.
func (rec *Recorder) Requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := r.Context(), (*span)(nil)
		if r.URL.Path != MetricsPath && r.URL.Path != HealthPath && r.URL.Path != ReadyPath {
			ctx, span = rec.tracer.start(under(ctx, r.Header.Get("Traceparent")), methodOf(r), kindServer)
		}
		r = r.WithContext(ctx)
		answer := web.NoteStatus(w)
		defer func() { // also where the handler gives the connection up by a panic
			method, route := methodOf(r), routeOf(r)
			status := strconv.Itoa(answer.Status)
			rec.metrics.requests.add("", 1, route, method, status)
			if answer.Status >= http.StatusBadRequest {
				rec.metrics.refusals.add("", 1, "http", status)
			}
			span.name(method + " " + route)
			span.with("http.request.method", method).with("http.route", route).with("http.response.status_code", answer.Status)
			if answer.Status >= http.StatusInternalServerError {
				span.fail()
			}
			span.end()
		}()
		next.ServeHTTP(answer, r)
	})
}

// methodOf is the method where it is one of those that there are: clients can write anything.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}

// routeOf is the pattern that the path of a request has matched; none where the request was refused before.
func routeOf(r *http.Request) string {
	_, path, has := strings.Cut(r.Pattern, " ")
	switch {
	case r.Pattern == "":
		return "none"
	case has:
		return path
	}
	return r.Pattern
}
