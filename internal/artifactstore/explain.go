package artifactstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/dustin/go-humanize"
	"github.com/minio/minio-go/v7"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// known is an error in words that are fit for an answer.
type known struct {
	words       string
	passing     bool
	unreachable bool
}

// Error implements error.
func (e *known) Error() string { return e.words }

var (
	errSlow    = &known{words: fmt.Sprintf("the store did not take them in %v", uploadTime), unreachable: true}
	errLongKey = &known{words: fmt.Sprintf("the path is too long for the store, which takes %d bytes with the prefix and the session", maxKey)}
	errChanged = &known{words: "the file was changed while it was uploaded", passing: true}
	errNoLink  = &known{words: "uploaded, but the credentials cannot make an address"}
	errNotMade = errors.New("make the bucket")
)

func tooLarge(most int64) error {
	return &known{words: fmt.Sprintf("larger than %s, the most that is uploaded", humanize.IBytes(uint64(most)))}
}

// unreadable is a failure of the session's side.
type unreadable struct{ error }

// Unwrap returns the session's error.
func (e unreadable) Unwrap() error { return e.error }

// explained is a store's error as the step to take.
type explained struct {
	words       string
	passing     bool // it may work the next time
	missing     bool // there is no bucket
	unreachable bool // no other file will get through either
}

// code matches a plausible error code of a store: it stands in answers.
var code = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// explain describes an error for a reader. Its words contain no address, no text of the store and no secret.
func explain(err error) explained {
	var own *known
	var side unreadable
	switch {
	case errors.As(err, &own):
		return explained{words: own.words, passing: own.passing, unreachable: own.unreachable}
	case errors.As(err, &side):
		return explained{words: "the file could not be read: " + fault.From(side.error).Message}
	}
	status, name := answerOf(err)
	e := explainStatus(status, name, err)
	if errors.Is(err, errNotMade) {
		e.words, e.missing = "the bucket is not there and could not be made: "+e.words, false
	}
	return e
}

func explainStatus(status int, name string, err error) explained {
	said := fmt.Sprintf(" (%d)", status)
	if code.MatchString(name) {
		said = fmt.Sprintf(" (%d %s)", status, name)
	}
	var network net.Error
	switch {
	case status == 0 && errors.Is(err, context.Canceled):
		return explained{words: "the server is ending"}
	case status == 0 && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()):
		return explained{words: "the store does not answer", passing: true, unreachable: true}
	case status == 0:
		return explained{words: "the store cannot be reached", passing: true, unreachable: true}
	case name == "NoSuchBucket", name == "ContainerNotFound", status == http.StatusNotFound:
		return explained{words: "there is no such bucket" + said, missing: true}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return explained{words: "the store refuses the credentials" + said}
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout,
		name == "ContainerBeingDeleted", name == "OperationAborted":
		return explained{words: "the store has a problem" + said, passing: true}
	}
	return explained{words: "the store refuses it" + said}
}

// withoutAddress returns the part of an error for the log: an address may be signed.
func withoutAddress(err error) error {
	var asked *url.Error
	if errors.As(err, &asked) {
		return asked.Err
	}
	return err
}

// answerOf returns the status and the code that a store answered; 0: it did not.
func answerOf(err error) (status int, name string) {
	var azure *azcore.ResponseError
	var s3 minio.ErrorResponse
	switch {
	case errors.As(err, &azure):
		return azure.StatusCode, azure.ErrorCode
	case errors.As(err, &s3):
		return s3.StatusCode, s3.Code
	}
	return 0, ""
}
