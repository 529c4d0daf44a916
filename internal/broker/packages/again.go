package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	tries      = 5                      // of one page or file; pip makes six, npm three
	firstPause = 250 * time.Millisecond // before the second, and twice as long before each further one
	mostPause  = 30 * time.Second       // that an index may ask for
	patience   = 15 * time.Second       // without a byte, as in pip
)

// errStalled is the cause of a request's end when no byte comes within patience.
var errStalled = fmt.Errorf("no byte has come for a while: %w", os.ErrDeadlineExceeded)

// passing is behind a failure that another try may not meet, which comes no earlier than after.
type passing struct {
	error
	after time.Duration
}

func (p *passing) Unwrap() error { return p.error }

// again does work until it succeeds or fails for good, within the time of ctx.
func (h *Handler) again(ctx context.Context, work func() (any, error)) (any, error) {
	pause := h.pause
	for try := 1; ; try++ {
		value, err := work()
		var p *passing
		if try == tries || !errors.As(err, &p) {
			return value, err
		}
		select {
		case <-time.After(max(pause, p.after)):
		case <-ctx.Done():
			return value, err
		}
		pause *= 2
	}
}

// busy reports whether a status is one of a server that may answer the next request: those that pip or npm try again.
func busy(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

// retryAfter returns the wait that an answer asks for.
func retryAfter(header http.Header) time.Duration {
	seconds, _ := strconv.ParseUint(header.Get("Retry-After"), 10, 16)
	return min(time.Duration(seconds)*time.Second, mostPause)
}

// impatient does a request, which ends with errStalled when no byte comes for as long as patience.
func impatient(client *http.Client, request *http.Request, patience time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(patience, func() { cancel(errStalled) })
	response, err := client.Do(request.WithContext(ctx))
	if err != nil {
		timer.Stop()
		cancel(nil)
		return nil, stalled(ctx, err)
	}
	response.Body = &watched{ReadCloser: response.Body, ctx: ctx, cancel: cancel, timer: timer, patience: patience}
	return response, nil
}

// stalled returns errStalled if that ended the request, else err.
func stalled(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return err
}

// watched is a body that comes without long pauses.
type watched struct {
	io.ReadCloser
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer
	patience time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.patience)
	n, err := w.ReadCloser.Read(p)
	w.timer.Stop() // the reader's own time is not the index's
	if err != nil && !errors.Is(err, io.EOF) {
		err = stalled(w.ctx, err)
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	w.cancel(nil)
	return w.ReadCloser.Close()
}
