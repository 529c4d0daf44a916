package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/mark3labs/mcp-go/client/transport"
)

// httpTransport is the client library's, whose answers are bounded and go where their caller wants them raw.
type httpTransport struct{ *transport.StreamableHTTP }

// SendRequest implements transport.Interface.
func (t httpTransport) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.StreamableHTTP.SendRequest(ctx, request)
	if err != nil {
		return nil, err
	}
	return captured(ctx, response), nil
}

// openHTTP returns a connection to a server's address. Nothing is sent yet.
func openHTTP(d Definition, maxAnswer int) (httpTransport, error) {
	own := http.DefaultTransport.(*http.Transport).Clone() // as the user's clients go, by a proxy too
	t, err := transport.NewStreamableHTTP(d.URL, transport.WithHTTPHeaders(d.Headers), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPBasicClient(&http.Client{
			Transport: bounded{own, maxAnswer},
			// Headers with credentials go to the address that the user names and to no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}))
	if err != nil {
		return httpTransport{}, errors.New("its address cannot be used")
	}
	return httpTransport{t}, nil
}

// bounded ends answers that are too long.
type bounded struct {
	to   *http.Transport
	most int
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.to.RoundTrip(r)
	if err == nil {
		response.Body = &boundedBody{response.Body, b.most, b.most}
	}
	return response, err
}

func (b bounded) CloseIdleConnections() { b.to.CloseIdleConnections() }

type boundedBody struct {
	io.ReadCloser
	left, most int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &misbehavedError{fmt.Sprintf("it sent an answer of more than %d bytes", b.most)}
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
