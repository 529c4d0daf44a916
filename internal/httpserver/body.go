package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/admission"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
)

// A message may take admission.BodyTime, and a second more for each slowest bytes of it.
const slowest = 64 << 10

var errTooMuch = errors.New("too many large messages at once")

// readBody reads a message. What it takes of the memory for large ones is given back by release, which is never nil.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (message []byte, release func(), err error) {
	release = func() {}
	if r.ContentLength > rpc.MaxMessageBytes {
		return nil, release, &http.MaxBytesError{Limit: rpc.MaxMessageBytes}
	}
	control := http.NewResponseController(w)
	// The connection is watched for its end from now on, which is no reading that has a time.
	defer func() {
		admission.Keep(r.Context())
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Now().Add(admission.WriteTime))
	}()
	body := &paced{body: http.MaxBytesReader(w, r.Body, rpc.MaxMessageBytes), control: control, began: time.Now()}
	var b bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength <= smallMessage {
		b.Grow(int(r.ContentLength) + bytes.MinRead) // what ReadFrom wants beyond the end
	}
	if r.ContentLength <= smallMessage {
		_, err = b.ReadFrom(io.LimitReader(body, smallMessage))
		if err != nil || b.Len() < smallMessage {
			return b.Bytes(), release, err
		}
	}
	size := r.ContentLength
	if size < 0 {
		size = rpc.MaxMessageBytes
	}
	waiting, cancel := context.WithTimeout(r.Context(), slotTime)
	defer cancel()
	if s.large.Acquire(waiting, size) != nil {
		return nil, release, errTooMuch
	}
	if r.ContentLength > 0 {
		b.Grow(int(r.ContentLength) - b.Len() + bytes.MinRead)
	}
	_, err = b.ReadFrom(body)
	return b.Bytes(), func() { s.large.Release(size) }, err
}

// bounded bounds the POSTs of a handler as those of MCP.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		giveBack := s.take(r.Context())
		if giveBack == nil {
			s.busy(w, r)
			return
		}
		defer giveBack()
		body, release, err := s.readBody(w, r)
		defer release()
		if errors.Is(err, errTooMuch) {
			s.busy(w, r)
			return
		}
		if err != nil {
			admission.Refuse(w)
			r.Body = io.NopCloser(failed{err})
		} else {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// failed is a body that could not be read.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// paced is a body that has to come at a certain pace.
type paced struct {
	body    io.Reader
	control *http.ResponseController
	began   time.Time
	got     int64
}

func (p *paced) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(p.began.Add(admission.BodyTime + time.Duration(p.got/slowest)*time.Second))
	n, err := p.body.Read(b)
	p.got += int64(n)
	return n, err
}
