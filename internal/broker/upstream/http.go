package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// httpTransport is the client library's, with bounded answers that go to callers who want them raw.
type httpTransport struct{ *transport.StreamableHTTP }

// stopKey is the key for the function that ends a request with a reason: the library drops errors from reading an event.
type stopKey struct{}

// SendRequest implements transport.Interface.
func (t httpTransport) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	response, err := t.StreamableHTTP.SendRequest(context.WithValue(ctx, stopKey{}, stop), request)
	if err != nil {
		if cause := context.Cause(ctx); errors.As(cause, new(*misbehavedError)) {
			return nil, cause
		}
		return nil, err
	}
	return captured(ctx, response)
}

func (t httpTransport) over() <-chan struct{} { return nil } // only a request tells

func (t httpTransport) end(ctx context.Context) {
	closed := make(chan struct{})
	go func() { _ = t.Close(); close(closed) }()
	select {
	case <-closed:
	case <-ctx.Done():
	case <-time.After(closeGrace):
	}
}

// openHTTP returns a connection to a server's address. It sends no request yet.
func openHTTP(d Definition, bound bound) (httpTransport, error) {
	own := http.DefaultTransport.(*http.Transport).Clone() // as the user's clients go, by a proxy too
	t, err := transport.NewStreamableHTTP(d.URL, transport.WithHTTPHeaders(d.Headers), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPBasicClient(&http.Client{
			Transport: bounded{own, bound},
			// Headers with credentials go to the address that the user names and to no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}))
	if err != nil {
		return httpTransport{}, errors.New("its address cannot be used")
	}
	return httpTransport{t}, nil
}

// bounded bounds the bodies of answers.
type bounded struct {
	*http.Transport
	bound bound
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.Transport.RoundTrip(r)
	if err == nil {
		stop, _ := r.Context().Value(stopKey{}).(context.CancelCauseFunc)
		response.Body = &incoming{ReadCloser: response.Body, bound: b.bound, until: r.Context(), refuse: func(err error) {
			if stop != nil {
				stop(err)
			}
		}}
	}
	return response, err
}
