package web

import (
	"errors"
	"net/http"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// statuses are those of the codes, if they are not 500.
var statuses = map[fault.Code]int{
	fault.InvalidSessionID:   http.StatusBadRequest,
	fault.InvalidArgument:    http.StatusBadRequest,
	fault.InvalidFilename:    http.StatusBadRequest,
	fault.InvalidPath:        http.StatusBadRequest,
	fault.InvalidContent:     http.StatusBadRequest,
	fault.CodeTooLarge:       http.StatusRequestEntityTooLarge,
	fault.UploadTooLarge:     http.StatusRequestEntityTooLarge,
	fault.ArtifactTooLarge:   http.StatusRequestEntityTooLarge,
	fault.FileExists:         http.StatusConflict,
	fault.NotFound:           http.StatusNotFound,
	fault.SessionNotFound:    http.StatusNotFound,
	fault.RunNotFound:        http.StatusNotFound,
	fault.ConnectionNotFound: http.StatusNotFound,
	fault.SessionBusy:        http.StatusConflict,
	fault.MaxSessions:        http.StatusTooManyRequests,
	fault.QuotaExceeded:      http.StatusInsufficientStorage,
	fault.PackageDenied:      http.StatusForbidden,
	fault.InstallFailed:      http.StatusUnprocessableEntity,
	fault.DownloadFailed:     http.StatusBadGateway,
	fault.SQLRejected:        http.StatusUnprocessableEntity,
	fault.SQLFailed:          http.StatusUnprocessableEntity,
	fault.EngineUnavailable:  http.StatusServiceUnavailable,
	fault.AuditUnavailable:   http.StatusServiceUnavailable,
	fault.ImageMissing:       http.StatusServiceUnavailable,
	fault.ServerDraining:     http.StatusServiceUnavailable,
	fault.ServerBusy:         http.StatusServiceUnavailable,
}

// StatusOf returns the status that an error is answered with: that of a Refusal, or that of its code.
func StatusOf(err error) int {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Status
	}
	f := fault.From(err)
	if f.Fields[fault.RetryAfter] != nil {
		return http.StatusTooManyRequests
	}
	if status := statuses[f.Code]; status != 0 {
		return status
	}
	return http.StatusInternalServerError
}

// Refusal is a fault with a status of its own.
type Refusal struct {
	Status int
	Fault  *fault.Error
}

// NewRefusal returns a Refusal.
func NewRefusal(status int, code fault.Code, hint, message string, values ...any) *Refusal {
	return &Refusal{status, fault.New(code, hint, message, values...)}
}

// Error implements error.
func (r *Refusal) Error() string { return r.Fault.Error() }

// Unwrap returns the fault.
func (r *Refusal) Unwrap() error { return r.Fault }
