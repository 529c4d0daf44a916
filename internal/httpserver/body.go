package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// A message may take web.BodyTime, and a second more for each slowest bytes of it.
const slowest = 64 << 10

// A body with unknown length gets firstRoom, which is a small share, before it gets room for the longest.
const firstRoom = 16 << 10

// bodyBounds bound one kind of body, in bytes.
type bodyBounds struct {
	length  int64 // of the longest
	decoded int64 // how much is decoded as a whole
}

// mcp-go decodes the part beside large arguments; a route decodes all, and takes large files as they are.
var (
	messageBounds = bodyBounds{length: rpc.MaxMessageBytes, decoded: rpc.MaxEnvelope}
	routeBounds   = bodyBounds{length: 16 << 20, decoded: 16 << 20}
)

var errTooMuch = errors.New("the messages that are being served take too much memory")

// memory returns the memory for a body with this length.
func (b bodyBounds) memory(length int64) int64 {
	return rpc.MemoryBytes(length, min(length, b.decoded), min(length/2, int64(jsonbound.Request.Values)))
}

// readBody reads a body. Its memory share is the caller's to give back, also after an error.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, most bodyBounds) (message []byte, taken *room.Share, err error) {
	taken = s.memory.Share(room.WhoseIs(r))
	if r.ContentLength > most.length {
		return nil, taken, &http.MaxBytesError{Limit: most.length}
	}
	control := http.NewResponseController(w)
	// From now on the connection is only watched for its end, and that reading needs no deadline.
	defer func() {
		web.Keep(r.Context(), ownerOf(r))
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Now().Add(web.WriteTime))
	}()
	fits := func(length int64) bool {
		waiting, cancel := context.WithTimeout(r.Context(), slotTime)
		defer cancel()
		return taken.Resize(waiting, most.memory(length))
	}
	first := r.ContentLength
	if first < 0 {
		first = firstRoom
	}
	if !fits(first) {
		return nil, taken, errTooMuch
	}
	body := &paced{body: http.MaxBytesReader(w, r.Body, most.length), control: control, began: time.Now()}
	var b bytes.Buffer
	b.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead) // ReadFrom's margin beyond the end
	_, err = b.ReadFrom(io.LimitReader(body, first))
	if r.ContentLength < 0 && err == nil && int64(b.Len()) == first {
		if !fits(most.length) {
			return nil, taken, errTooMuch
		}
		b.Grow(int(most.length-first) + bytes.MinRead) // unwritten memory is free
		_, err = b.ReadFrom(body)
	}
	taken.Shrink(most.memory(int64(b.Len())))
	return b.Bytes(), taken, err
}

// bounded bounds a handler's POSTs as MCP's, but for forms and for bodies read as they come, and its streams.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind := r.Header.Get("Content-Type"); r.Method != http.MethodPost || strings.HasPrefix(strings.ToLower(kind), "multipart/") || web.IsStreamed(r) {
			if isStream(r) {
				release, ok := s.openStream(w, r)
				if !ok {
					return
				}
				defer release()
			}
			next.ServeHTTP(w, r) // files, which go where they belong as they come
			return
		}
		giveBack := s.take(r)
		if giveBack == nil {
			s.busy(w, r)
			return
		}
		defer func() { giveBack() }()
		body, taken, err := s.readBody(w, r, routeBounds)
		defer taken.GiveBack()
		if errors.Is(err, errTooMuch) {
			s.busy(w, r)
			return
		}
		if err != nil {
			web.Refuse(w)
			r.Body = io.NopCloser(failed{err})
		} else {
			values, _ := jsonbound.Request.Count(body)
			taken.Shrink(rpc.MemoryBytes(int64(len(body)), int64(len(body)), int64(values)))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		if isStream(r) {
			release, ok := s.openStream(w, r)
			if !ok {
				return
			}
			giveBack()
			giveBack = release
		}
		next.ServeHTTP(w, r)
	})
}

// failed is a body that could not be read.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// paced is a body that must come at a certain pace.
type paced struct {
	body    io.Reader
	control *http.ResponseController
	began   time.Time
	got     int64
}

func (p *paced) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(p.began.Add(web.BodyTime + time.Duration(p.got/slowest)*time.Second))
	n, err := p.body.Read(b)
	p.got += int64(n)
	return n, err
}
