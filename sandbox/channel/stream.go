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

// stream is a stream of the multiplexer that keeps the promises of net.Conn: a deadline ends pending calls with
// os.ErrDeadlineExceeded, which crypto/tls does not take for the end of the connection, and Close ends reads and writes at once.
//
// It has no halves: when one end closes, the other end can read the bytes sent before, and then it is closed too. So nothing waits
// for the window of an end that reads no more.
type stream struct {
	*yamux.Stream

	idle *time.Timer // of its buffer, which is up to twice as large as the window

	mu              sync.Mutex
	closed          bool
	readBy, writeBy time.Time
}

// longAgo is a deadline that ends pending reads and writes.
var longAgo = time.Unix(1, 0)

const (
	// shrinkAfter is the pause after which a stream gives its buffer back: in a busy stream, each piece would make another.
	shrinkAfter = time.Second
	// maxData bounds a stream's bytes in one of the multiplexer's frames: they fit into one of ours, as a stream cannot be read
	// while a frame of it is arriving.
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

// over returns the reason why nothing may begin.
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
	_ = s.Stream.SetDeadline(longAgo) // the multiplexer's Close does not end pending reads
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
