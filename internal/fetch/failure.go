package fetch

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"code.dny.dev/ssrf"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// errTooSlow is the cause of a download's end when its time is over.
var errTooSlow = errors.New("the time for a download is over")

// failure puts what went wrong into words: which host and why, and nothing of the address but the
// host. A fault stays as it is, and so does the end of the caller's own context.
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

// reason names the kind of failure. Error texts are not passed on: they have addresses in them.
func reason(err error) string {
	var redirect redirectError
	var encoding encodingError
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.As(err, &redirect):
		return redirect.why
	case errors.As(err, &encoding):
		return encoding.Error()
	case errors.Is(err, ssrf.ErrProhibitedIP):
		return "the host has an address that is private, local or reserved; only hosts on the open internet are reached"
	case errors.Is(err, ssrf.ErrProhibitedPort), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return "the port is not one of a web server"
	case errors.As(err, &lookup):
		return "the host's name could not be found"
	case errors.As(err, &certificate):
		return "its TLS certificate is not valid"
	case errors.As(err, &record):
		return "it does not speak TLS there"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refused the connection"
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), isCorrupt(err):
		return "what it sent is not the compressed file that it announced"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended before the file did"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it did not answer in time"
	}
	return "the connection failed"
}

func isCorrupt(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt)
}

// harmless returns the part of an error for the log that cannot have the address's query in it.
func harmless(err error) error {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation
	}
	return nil
}
