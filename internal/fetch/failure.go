package fetch

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
)

// errTooSlow is the cause of a download's end when its time is over.
var errTooSlow = errors.New("the time for a download is over")

// failure describes an error in words: the host and the reason, and nothing of the address but the host. A fault stays as it is, and so does
// the end of the caller's own context.
func (f *Fetcher) failure(ctx context.Context, host string, err error) error {
	var already *fault.Error
	if errors.As(err, &already) {
		return already
	}
	if cause := context.Cause(ctx); cause != nil {
		if !errors.Is(cause, errTooSlow) {
			return cause
		}
		return failed(host, fmt.Sprintf("it took longer than %v", f.options.Timeout))
	}
	return failed(host, reason(err)).Because(harmless(err))
}

func failed(host, why string) *fault.Error {
	hint := "Check the address, or use another source."
	return fault.New(fault.DownloadFailed, hint, "The download from %s failed: %s.", clip(host, 100), why)
}

// reason names the kind of failure. Error texts are not passed on: they contain addresses.
func reason(err error) string {
	var redirect redirectError
	var encoding encodingError
	switch {
	case errors.As(err, &redirect):
		return redirect.why
	case errors.As(err, &encoding):
		return encoding.Error()
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), isCorrupt(err):
		return "what it sent is not the compressed file that it announced"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended before the file did"
	}
	return netguard.Reason(err)
}

func isCorrupt(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt)
}

// harmless returns the part of an error for the log that cannot contain the address's query.
func harmless(err error) error {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation
	}
	return nil
}
