package telemetry

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// Paths of monitoring requests.
const (
	MetricsPath = "/metrics"
	HealthPath  = "/healthz"
	ReadyPath   = "/readyz"
)

// Requests counts the requests of a handler.
func (rec *Recorder) Requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := web.NoteStatus(w)
		defer func() { // also where the handler gives the connection up by a panic
			status := strconv.Itoa(answer.Status)
			rec.metrics.requests.add("", 1, routeOf(r), methodOf(r), status)
			if answer.Status >= http.StatusBadRequest {
				rec.metrics.refusals.add("", 1, "http", status)
			}
		}()
		next.ServeHTTP(answer, r)
	})
}

// methodOf is the method if it is one of those that there are: clients can write anything.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}

// routeOf returns the pattern that matches the path of a request; none if the request was refused before.
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
