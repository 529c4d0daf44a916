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

	mu              sync.Mutex
	closed          bool
	readBy, writeBy time.Time
}

// longAgo is a deadline that ends what waits.
var longAgo = time.Unix(1, 0)

func (s *stream) Read(b []byte) (int, error) {
	if err := s.over(&s.readBy); err != nil {
		return 0, err
	}
	n, err := s.Stream.Read(b)
	if n < len(b) {
		s.Shrink() // nothing is left in its buffer, which is up to twice as large as the window
	}
	if errors.Is(err, io.EOF) {
		_ = s.Stream.Close()
	}
	return n, s.translate(err)
}

func (s *stream) Write(b []byte) (int, error) {
	if err := s.over(&s.writeBy); err != nil {
		return 0, err
	}
	n, err := s.Stream.Write(b)
	return n, s.translate(err)
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
