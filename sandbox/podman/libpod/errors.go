// The kinds of errors.

package libpod

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/errorhandling"
)

// Lost reports whether err means that the connection failed, as opposed to an engine's refusal, or an ended context.
func Lost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, answered := Status(err); answered {
		return false
	}
	var dial *net.OpError
	var request *url.Error
	return errors.As(err, &dial) || errors.As(err, &request) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Status is the HTTP status of a refusal.
func Status(err error) (int, bool) {
	var model *errorhandling.ErrorModel
	if errors.As(err, &model) {
		return model.Code(), true
	}
	code, unknown := bindings.CheckResponseCode(err)
	return code, unknown == nil
}

// Says reports whether an answer of Podman's contains one of the phrases, in small letters. Podman's API distinguishes most
// failures only in words.
func Says(err error, phrases ...string) bool {
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(text, phrase) })
}
