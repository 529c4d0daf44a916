package e2b

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// The Connect protocol (connectrpc.com/docs/protocol) with JSON, which both SDKs speak: a request is an object or, of a stream, envelopes
// of a flag, a big-endian length and an object. Compression is refused, so that nothing unpacks to more than was sent.
const (
	envelopeHead       = 5
	flagCompressed     = 1
	flagEnd            = 2
	typeUnary          = "application/json"
	typeStream         = "application/connect+json"
	headerTimeout      = "Connect-Timeout-Ms"
	headerKeepAlive    = "Keepalive-Ping-Interval"
	keepAlive          = 90 * time.Second
	maxTimeoutMS       = 1 << 40
	codeNotFound       = "not_found"
	codeInvalid        = "invalid_argument"
	codeUnimplemented  = "unimplemented"
	codeDeadline       = "deadline_exceeded"
	codeInternal       = "internal"
	codeUnavailable    = "unavailable"
	codePrecondition   = "failed_precondition"
	headerEncoding     = "Content-Encoding"
	headerConnectCoded = "Connect-Content-Encoding"
)

// statuses are the HTTP statuses for Connect's codes.
var statuses = map[string]int{
	codeInvalid: http.StatusBadRequest, codePrecondition: http.StatusBadRequest, "unauthenticated": http.StatusUnauthorized, "permission_denied": http.StatusForbidden,
	codeNotFound: http.StatusNotFound, "already_exists": http.StatusConflict, "resource_exhausted": http.StatusTooManyRequests,
	codeUnimplemented: http.StatusNotImplemented, codeUnavailable: http.StatusServiceUnavailable, codeDeadline: http.StatusGatewayTimeout,
}

// rpcError is a call's error in Connect's form.
type rpcError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Full    bool   `json:"full,omitempty"` // there is no space left
}

func (e *rpcError) Error() string { return e.Message }

// status is the code's HTTP status.
func (e *rpcError) status() int { return cmp.Or(statuses[e.Code], http.StatusInternalServerError) }

// statusOf returns the HTTP status of our error. By 409 this API says that something exists.
func statusOf(err error) int {
	if fault.From(err).Code == fault.SessionBusy {
		return http.StatusServiceUnavailable
	}
	return web.StatusOf(err)
}

// rpcOf returns an error as one of a call.
func rpcOf(err error) *rpcError {
	var rpc *rpcError
	if errors.As(err, &rpc) {
		return rpc
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &rpcError{Code: codeDeadline, Message: "the time of the request is over"}
	}
	var told *refused
	if errors.As(err, &told) {
		code := codeUnavailable // the SDKs ask then whether the sandbox is there
		if told.status == http.StatusBadRequest {
			code = codeInvalid
		}
		return &rpcError{Code: code, Message: told.message}
	}
	status, code := statusOf(err), codeInternal
	switch status {
	case http.StatusInsufficientStorage:
		code = "resource_exhausted"
	case http.StatusRequestEntityTooLarge:
		code = codeInvalid // by the other one the SDKs say that there were too many requests
	}
	for c, s := range statuses {
		if s == status && c != codePrecondition {
			code = c
		}
	}
	return &rpcError{Code: code, Message: apis.Sentence(fault.From(err).JSON())}
}

type object = map[string]any

// unary serves a call with one answer.
func unary[T any](serve func(c *call, b *box, request T) (any, error)) func(*call, *box) error {
	return func(c *call, b *box) error {
		var request T
		err := c.checkEncoding(typeUnary)
		if err == nil && c.decode(&request) != nil {
			err = &rpcError{Code: codeInvalid, Message: "the body is not the JSON message of this call, or has too many values"}
		}
		var answer any
		if err == nil {
			answer, err = serve(c, b, request)
		}
		if err != nil {
			rpc := rpcOf(err)
			web.JSON(c.w, c.r, rpc.status(), rpc)
			return nil
		}
		web.JSON(c.w, c.r, http.StatusOK, answer)
		return nil
	}
}

func (c *call) checkEncoding(kind string) error {
	got, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(got) != kind {
		return &rpcError{Code: codeUnimplemented, Message: "send " + kind}
	}
	for _, name := range []string{headerEncoding, headerConnectCoded} {
		if coding := c.r.Header.Get(name); coding != "" && coding != "identity" {
			return &rpcError{Code: codeUnimplemented, Message: "messages must not be compressed"}
		}
	}
	return nil
}

// messageTime is how long a message may take from its head on.
var messageTime = web.BodyTime

// envelopes reads a request's messages, and has room for one of them.
type envelopes struct {
	from    io.Reader
	control *http.ResponseController
	release func()
}

// next reads the next message; io.EOF behind the last. Its length is believed only as far as bytes come.
func (e *envelopes) next(ctx context.Context, into any) error {
	e.release()
	e.release = func() {}
	var head [envelopeHead]byte
	if _, err := io.ReadFull(e.from, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return &rpcError{Code: codeInvalid, Message: "an envelope is cut"}
	}
	switch {
	case head[0]&flagCompressed != 0:
		return &rpcError{Code: codeUnimplemented, Message: "messages must not be compressed"}
	case head[0]&flagEnd != 0:
		return io.EOF
	}
	length := int64(binary.BigEndian.Uint32(head[1:]))
	if length > maxBody {
		return &rpcError{Code: codeInvalid, Message: "a message may have " + strconv.Itoa(maxBody) + " bytes"}
	}
	release, err := room.Take(ctx, 4*length) // it grows as it comes, and is decoded
	if err != nil {
		return err
	}
	e.release = release
	_ = e.control.SetReadDeadline(time.Now().Add(messageTime))
	defer func() { _ = e.control.SetReadDeadline(time.Time{}) }() // the connection is watched for its end by reading on
	body, err := io.ReadAll(io.LimitReader(e.from, length))
	if err != nil || int64(len(body)) < length {
		return &rpcError{Code: codeInvalid, Message: "an envelope is shorter than it says"}
	}
	if jsonbound.Request.Check(body) != nil || json.Unmarshal(body, into) != nil {
		return &rpcError{Code: codeInvalid, Message: "a message is not the JSON of this call"}
	}
	return nil
}

// stream is the answer to a streaming call. It is for several goroutines.
type stream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

// streaming serves a call with many answers; ctx ends with the time that the client gives it, and with the client.
func streaming[T any](serve func(ctx context.Context, c *call, b *box, request T, out *stream) error) func(*call, *box) error {
	return func(c *call, b *box) error {
		c.w.Header().Set("Content-Type", typeStream)
		out := &stream{w: c.w, control: http.NewResponseController(c.w)}
		c.in = &envelopes{c.r.Body, out.control, func() {}}
		defer func() { c.in.release() }()
		ctx, cancel := context.WithCancel(c.r.Context())
		defer cancel()
		if limit := c.timeout(); limit > 0 {
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		var request T
		err := c.checkEncoding(typeStream)
		if err == nil {
			err = c.in.next(ctx, &request)
		}
		if errors.Is(err, io.EOF) {
			err = &rpcError{Code: codeInvalid, Message: "there is no message"}
		}
		if err == nil {
			err = serve(ctx, c, b, request, out)
		}
		end := object{}
		if err != nil {
			end["error"] = rpcOf(err)
		}
		_ = out.send(flagEnd, end)
		return nil
	}
}

// timeout is the time that a client gives a call; zero: any.
func (c *call) timeout() time.Duration {
	ms, err := strconv.ParseInt(c.r.Header.Get(headerTimeout), 10, 64)
	if err != nil || ms <= 0 || ms > maxTimeoutMS {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// pings returns a ticker for signs of life, as often as the client asks for.
func (c *call) pings() *time.Ticker {
	every := keepAlive
	if seconds, err := strconv.Atoi(c.r.Header.Get(headerKeepAlive)); err == nil && seconds > 0 {
		every = min(every, time.Duration(seconds)*time.Second)
	}
	return time.NewTicker(every)
}

// send sends a message. A client that does not read loses the stream in bounded time.
func (s *stream) send(flag byte, message any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	text, err := json.Marshal(message)
	if err == nil {
		_ = s.control.SetWriteDeadline(time.Now().Add(web.WriteTime))
		head := binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(text)))
		if _, err = s.w.Write(append(head, text...)); err == nil {
			err = s.control.Flush()
		}
	}
	if s.err = err; err == nil && flag == flagEnd { // the handler returns
		s.err = io.ErrClosedPipe
	}
	return err
}
