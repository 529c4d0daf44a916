package service

import (
	"errors"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// UnavailableError reports that no engine answers and that nothing was done. It matches engine.ErrEngineUnavailable. Reason and
// Fix are written for the user and the model, and contain no path or error text of the host; Err is for the log.
type UnavailableError struct {
	Reason string // one sentence without a final stop
	Fix    string // a command, or a sentence that names one
	Runs   bool   // Fix is a command for a shell, and nothing else
	Err    error  // for the log; may be nil

	stopped string // the virtual machine that needs a start, and can be started
}

// Error returns the reason and, for the log, the cause.
func (e *UnavailableError) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + ": " + e.Err.Error()
}

// Explain returns the words for a person: the reason and the fix.
func (e *UnavailableError) Explain() (reason, fix string) {
	return e.Reason + ".", e.Fix
}

// Unwrap lets errors.Is find engine.ErrEngineUnavailable and the cause.
func (e *UnavailableError) Unwrap() []error {
	if e.Err == nil {
		return []error{engine.ErrEngineUnavailable}
	}
	return []error{engine.ErrEngineUnavailable, e.Err}
}

// orUnavailable returns the more exact description in err, or else this one.
func orUnavailable(err error, otherwise UnavailableError) *UnavailableError {
	var exact *UnavailableError
	if errors.As(err, &exact) {
		return exact
	}
	otherwise.Err = err
	return &otherwise
}

// silent describes an engine that took a request and did not answer it in time. Zero limit: the caller's, unknown here.
func silent(limit time.Duration, err error) *UnavailableError {
	reason := "Podman did not answer in time"
	if limit > 0 {
		reason = "Podman did not answer within " + limit.String()
	}
	return &UnavailableError{Reason: reason, Fix: RestartFix, Err: err}
}

// RestartFix is the Fix for a service that does not answer.
const RestartFix = "restart Podman's service (systemctl --user restart podman.service; on a Mac or Windows podman machine stop, then podman machine start), then run code-sandbox-mcp doctor"
