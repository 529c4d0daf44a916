package channel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// stream is a stream of the multiplexer that keeps what net.Conn documents: its deadlines end what is going on with
// os.ErrDeadlineExceeded, which crypto/tls takes for no end of the connection, and Close ends reads and writes at once.
//
// It has no halves: where one end closes, what it has sent can be read, and then the other end is closed too. So
// nothing waits for the window of an end that reads no more.
type stream struct {
	*yamux.Stream

	idle *time.Timer // of its buffer, which is up to twice as large as the window

	mu              sync.Mutex
	closed          bool
	readBy, writeBy time.Time
}

// longAgo is a deadline that ends what waits.
var longAgo = time.Unix(1, 0)

const (
	// shrinkAfter is how long nothing comes until a stream's buffer is given back: where much comes, each piece would make another.
	shrinkAfter = time.Second
	// maxData is how much of a stream is in one of the multiplexer's frames: what fits into one of ours, as a stream cannot be
	// read while a frame of it is arriving.
	maxData = writtenBytes - headBytes - muxHeadBytes
)

func newStream(muxed *yamux.Stream, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return &stream{Stream: muxed, idle: time.AfterFunc(shrinkAfter, muxed.Shrink)}, nil
}

func (s *stream) Read(b []byte) (int, error) {
	if err := s.over(&s.readBy); err != nil {
		return 0, err
	}
	n, err := s.Stream.Read(b)
	if n < len(b) { // nothing is left in its buffer
		s.idle.Reset(shrinkAfter)
	}
	if errors.Is(err, io.EOF) {
		_ = s.Stream.Close()
	}
	return n, s.translate(err)
}

func (s *stream) Write(b []byte) (done int, err error) {
	if err := s.over(&s.writeBy); err != nil {
		return 0, err
	}
	for done < len(b) && err == nil {
		var n int
		n, err = s.Stream.Write(b[done:min(done+maxData, len(b))])
		done += n
	}
	return done, s.translate(err)
}

// over returns why nothing may begin.
func (s *stream) over(by *time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return net.ErrClosed
	case !by.IsZero() && !time.Now().Before(*by):
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (s *stream) translate(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case s.closed, errors.Is(err, yamux.ErrStreamClosed):
		return net.ErrClosed
	case errors.Is(err, yamux.ErrTimeout):
		return os.ErrDeadlineExceeded
	}
	return err
}

// Close ends the stream for both ends.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed = true
	_ = s.Stream.SetDeadline(longAgo) // the multiplexer's Close does not end what reads
	s.mu.Unlock()
	return s.Stream.Close()
}

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

func (s *stream) SetReadDeadline(t time.Time) error {
	return s.set(&s.readBy, t, s.Stream.SetReadDeadline)
}

func (s *stream) SetWriteDeadline(t time.Time) error {
	return s.set(&s.writeBy, t, s.Stream.SetWriteDeadline)
}

func (s *stream) set(by *time.Time, t time.Time, set func(time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	*by = t
	return set(t)
}
