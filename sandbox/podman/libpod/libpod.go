// Package libpod makes the requests of Podman's API that this program needs, over a connection of Podman's own bindings: ctx comes
// from bindings.NewConnection, or is a child of that.
//
// The bindings offer a function for each request, in packages that import buildah, the storage of images, docker and gRPC, which
// is more than half of a program that uses them. This package uses their connection, their description of a container and their
// errors unchanged.
//
// A refusal is an error of the bindings' own types, with the status of HTTP; every other error is net/http's. All functions may be
// called from several goroutines.
package libpod

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings"
)

// request is the input besides the endpoint and its names, the %s.
type request struct {
	query  url.Values
	header http.Header
	body   io.Reader
	names  []string
}

// carrying is a request with a body of JSON.
func carrying(body any, names ...string) (request, error) {
	text, err := json.Marshal(body)
	return request{body: bytes.NewReader(text), names: names}, err
}

func to(name string) request { return request{names: []string{name}} }

// send makes a request and returns its answer; the caller closes its body.
func (r request) send(ctx context.Context, method, endpoint string) (*bindings.APIResponse, error) {
	conn, err := bindings.GetClient(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := conn.DoRequest(ctx, r.body, method, endpoint, r.query, r.header, r.names...)
	if err != nil {
		return nil, err
	}
	if answer.IsSuccess() || answer.IsRedirection() {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }()
	return nil, answer.Process(nil)
}

// do makes a request without a result.
func (r request) do(ctx context.Context, method, endpoint string) error {
	answer, err := r.send(ctx, method, endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.Process(nil)
}

// download writes the answer's body.
func (r request) download(ctx context.Context, endpoint string, to io.Writer) error {
	answer, err := r.send(ctx, http.MethodGet, endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(to, answer.Body)
	return err
}

// ask makes a request with an answer in JSON.
func ask[T any](ctx context.Context, method, endpoint string, r request) (T, error) {
	var told T
	answer, err := r.send(ctx, method, endpoint)
	if err != nil {
		return told, err
	}
	defer func() { _ = answer.Body.Close() }()
	err = answer.Process(&told)
	return told, err
}

// filters is the query of a list.
func filters(of map[string][]string) (url.Values, error) {
	text, err := json.Marshal(of)
	return url.Values{"filters": {string(text)}}, err
}

// told is one part of an answer in parts.
type told struct {
	Stream, Error, Message string
	ErrorDetail            struct{ Message string }

	// Of a pull.
	Status, ID     string
	ProgressDetail struct{ Current, Total int64 }
}

// follow makes a request with an answer in parts, for as long as it takes, and passes every part to take. It returns the error in
// the answer, or take's.
func (r request) follow(ctx context.Context, method, endpoint string, take func(told) error) error {
	answer, err := r.send(ctx, method, endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	for decoder := json.NewDecoder(answer.Body); ; {
		var message told
		if err := decoder.Decode(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if failed := cmp.Or(message.ErrorDetail.Message, message.Error, message.Message); failed != "" {
			return errors.New(failed)
		}
		if err := take(message); err != nil {
			return err
		}
	}
}

// Info is the engine's description of itself and its machine.
func Info(ctx context.Context) (define.Info, error) {
	return ask[define.Info](ctx, http.MethodGet, "/info", request{})
}
