package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
)

// httpTransport is the client library's, with bounded answers that go to callers who want them raw.
type httpTransport struct{ *transport.StreamableHTTP }

// stopKey is the key of the function that ends a request with a reason: the library drops the error of reading an event.
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
	return captured(ctx, response), nil
}

// openHTTP returns a connection to a server's address. Nothing is sent yet.
func openHTTP(d Definition, gate *gate, maxAnswer int, greeted *atomic.Bool) (httpTransport, error) {
	own := http.DefaultTransport.(*http.Transport).Clone() // as the user's clients go, by a proxy too
	t, err := transport.NewStreamableHTTP(d.URL, transport.WithHTTPHeaders(d.Headers), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPBasicClient(&http.Client{
			Transport: bounded{own, gate, maxAnswer, greeted},
			// Headers with credentials go to the address that the user names and to no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}))
	if err != nil {
		return httpTransport{}, errors.New("its address cannot be used")
	}
	return httpTransport{t}, nil
}

// bounded ends answers that are too long, and holds up long ones while there are too many.
type bounded struct {
	to      *http.Transport
	gate    *gate
	most    int
	greeted *atomic.Bool
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.to.RoundTrip(r)
	if err == nil {
		body := &boundedBody{ReadCloser: response.Body, ctx: r.Context(), gate: b.gate, most: b.most}
		if !b.greeted.Load() {
			body.most, body.counted.all = min(b.most, maxGreeting), true
		}
		response.Body = body
	}
	return response, err
}

func (b bounded) CloseIdleConnections() { b.to.CloseIdleConnections() }

type boundedBody struct {
	io.ReadCloser
	ctx        context.Context // of the request: the client library ends it when it received the answer
	gate       *gate
	read, most int
	counted    counter
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.read >= b.most {
		return 0, b.refuse("it sent an answer of more than %d bytes", b.most)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.most-b.read)])
	if b.counted.add(p[:n]); b.counted.values > jsonbound.Request.Values {
		return 0, b.refuse("it sent more than %d values besides a result", jsonbound.Request.Values)
	}
	if before := b.read; before <= usualLine && before+n > usualLine {
		context.AfterFunc(b.ctx, b.gate.wait(b.ctx.Done(), b.most))
	}
	b.read += n
	return n, err
}

func (b *boundedBody) refuse(format string, most int) error {
	err := &misbehavedError{fmt.Sprintf(format, most)}
	if stop, is := b.ctx.Value(stopKey{}).(context.CancelCauseFunc); is {
		stop(err)
	}
	return err
}

// counter counts the values of JSON messages that the client library decodes: all but those of a result, if the message stands on one line.
// For a message on several lines, and all that follow it, it counts every value.
type counter struct {
	all, inResult     bool
	inString, escaped bool
	depth, values     int
	name              []byte // the last string, if it is short, with the quote before it
}

func (c *counter) add(text []byte) {
	for _, b := range text {
		switch {
		case b == '\n' || b == '\r': // which no string contains
			c.all = c.all || c.depth != 0
			c.inString, c.escaped, c.inResult = false, false, false
		case c.escaped:
			c.escaped = false
		case c.inString:
			c.escaped, c.inString = b == '\\', b != '"'
			if c.inString && len(c.name) < len(`"result`)+1 {
				c.name = append(c.name, b)
			}
		case b == '"':
			c.inString, c.name = true, append(c.name[:0], b)
		case b == ':' && c.depth == 1:
			c.inResult = !c.all && string(c.name) == `"result`
		case b == '{' || b == '[':
			c.depth++
			c.count()
		case b == '}' || b == ']':
			c.depth = max(c.depth-1, 0)
		case b == ',':
			c.inResult = c.inResult && c.depth > 1
			c.count()
		}
	}
}

func (c *counter) count() {
	if !c.inResult {
		c.values++
	}
}
