package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
)

// answer passes an answer on: it counts it, and masks it if the host is one of secrets.
type answer struct {
	http.ResponseWriter
	x      *exchange
	isHead bool
	mask   *secrets.Masker
	body   *secrets.Stream // may be nil
}

// masks makes the answer mask its content.
func (a *answer) masks(mask *secrets.Masker) {
	a.mask, a.body = mask, mask.Stream(writerFunc(a.pass))
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// begins checks the beginning of the host's answer.
func (a *answer) begins(response *http.Response) error {
	if limit := a.x.over(response.ContentLength, 0); limit != nil && !a.isHead {
		return limit
	}
	if a.body != nil {
		if problem := decode(response, a.isHead); problem != nil {
			return problem
		}
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		maskHeader(a.mask, response.Header)
		response.Status = "" // the host's own words, which would be passed on
		a.x.entry.Status = response.StatusCode
		host, ok := response.Body.(io.ReadWriteCloser)
		if !ok || !isSame(response.Header.Get("Upgrade"), response.Request.Header.Get("Upgrade")) {
			return &refusal{status: http.StatusBadGateway, rule: "host_unreachable", words: "the host changed to a protocol that the request did not name"}
		}
		response.Body = upgrade(host, a)
	}
	return nil
}

// isSame reports whether two protocol names are the same, in any case, by ASCII as the library compares them.
func isSame(a, b string) bool {
	return len(a) == len(b) && strings.EqualFold(a, b)
}

// WriteHeader sends headers, those of informational answers as well.
func (a *answer) WriteHeader(status int) {
	h := a.Header()
	maskHeader(a.mask, h)
	_ = a.x.receive(headerBytes(h)) // over a bound, the body fails
	if status >= http.StatusOK {
		a.x.entry.Status = status
		if a.body != nil && !a.isHead && status != http.StatusNotModified {
			h.Del("Content-Length") // masking may change it
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.body == nil {
		return a.pass(p)
	}
	return a.body.Write(p)
}

// pass counts bytes and passes them on.
func (a *answer) pass(p []byte) (int, error) {
	if err := a.x.receive(len(p)); err != nil {
		return 0, err
	}
	return a.ResponseWriter.Write(p)
}

// finish sends the bytes that masking held back. Trailers are sent when the handler returns.
func (a *answer) finish() {
	if a.body != nil {
		_ = a.body.Close()
		maskHeader(a.mask, a.Header())
	}
}

func maskHeader(mask *secrets.Masker, h http.Header) {
	for name, values := range h {
		if mask.In([]byte(name)) {
			delete(h, name)
			continue
		}
		for i := range values {
			values[i] = mask.Mask(values[i])
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// upgraded is a connection to a host that speaks another protocol by now, such as that of websockets.
type upgraded struct {
	io.ReadWriteCloser
	x  *exchange
	in *io.PipeReader
}

// holdTime is the time for which a secret's beginning is held back in such a connection. The rest comes with it, or it is no secret:
// the other side may wait for an answer before it goes on.
const holdTime = 200 * time.Millisecond

func upgrade(host io.ReadWriteCloser, a *answer) io.ReadWriteCloser {
	in, out := io.Pipe()
	stream := a.mask.StreamBytes(out) // frames keep their length
	go func() {
		var mu sync.Mutex
		release := time.AfterFunc(holdTime, func() {
			mu.Lock()
			defer mu.Unlock()
			_ = stream.Close()
		})
		defer release.Stop()
		buffer := make([]byte, 32<<10)
		for {
			n, err := host.Read(buffer)
			mu.Lock()
			if n > 0 {
				_, _ = stream.Write(buffer[:n])
			}
			if err != nil {
				_ = stream.Close()
			}
			mu.Unlock()
			if err != nil {
				_ = out.CloseWithError(err)
				return
			}
			release.Reset(holdTime)
		}
	}()
	return &upgraded{host, a.x, in}
}

func (u *upgraded) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if limit := u.x.receive(n); limit != nil {
		return 0, limit
	}
	return n, err
}

func (u *upgraded) Write(p []byte) (int, error) {
	if err := u.x.send(len(p)); err != nil {
		return 0, err
	}
	return u.ReadWriteCloser.Write(p)
}

func (u *upgraded) Close() error {
	_ = u.in.Close()
	return u.ReadWriteCloser.Close()
}
