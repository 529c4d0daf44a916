// Package channel is the connection between a server and the supervisor of a container: control messages, and streams of bytes
// beside them, over one pair of pipes. Both ends use it.
//
// A frame is a 4-byte big-endian length, a byte for its kind, and so many bytes. A control frame is one JSON text; the bytes of
// all stream frames are those of a multiplexer (github.com/hashicorp/yamux), with its flow control. docs/kernel-protocol.md lists
// the messages.
//
// A server treats the other end as hostile: it bounds a frame's length before it keeps any of it, and the bytes that the
// multiplexer did not take yet. [Conn.Send] may be used by several goroutines at once, [Conn.Receive] by one.
package channel

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// Kinds of frames.
const (
	kindControl = 'c'
	kindStream  = 's'
)

const (
	headBytes = 5
	// bulkBytes bounds the streams' bytes in one frame: a control frame waits for at most one.
	bulkBytes = 32 << 10
	// writtenBytes is the part of a stream written at once, with the frame's head: the carriers behind copy in units of that size.
	writtenBytes = 32<<10 - 64
	// window bounds the bytes of a stream that a supervisor may send before the server reads them, and trustedWindow those of a
	// server: a distant end does not wait for each piece.
	window        = 512 << 10
	trustedWindow = 1 << 20
	// maxPending bounds the streams' bytes that arrived before the multiplexer took them. It takes them as soon as it runs, unless
	// it waits for an end that breaks the rules and does not read. More waits in the pipe.
	maxPending = 1 << 20
	// maxBacklog bounds the other end's opened streams that are not accepted yet. Either end waits before it opens more, so both
	// need the same. Each may hold a window of unread bytes.
	maxBacklog = 16
	// maxStreams bounds a server's streams, including those that it closed and the supervisor did not. A supervisor that keeps to
	// the rules stays below.
	maxStreams = 256
	// writeTimeout bounds how long a stream waits for an end that does not read, before and after it is closed: after it, unread
	// bytes are lost. Every user of a stream sets a shorter limit of its own.
	writeTimeout = 10 * time.Minute
)

// Errors of [Conn.Receive]: the other end broke the rules, and the connection is over.
var (
	ErrFrameTooLarge = errors.New("frame too large")
	ErrUnknownFrame  = errors.New("frame of an unknown kind")
	ErrBrokenStreams = errors.New("stream data that breaks the multiplexer's rules")
)

// Conn is one end of a connection. It must be closed.
type Conn struct {
	raw    io.ReadWriteCloser
	in     *bufio.Reader
	most   int
	trusts bool // the other end is a server
	pipe   *pipe
	mux    *yamux.Session
	sender sender
	broken atomic.Bool // there were more streams than maxStreams
}

// Options selects the end of a connection.
type Options struct {
	Supervisor bool // the supervisor's end; else the server's
	MaxControl int  // the largest accepted control message, in bytes
}

// New begins a connection over raw, and owns raw from now on.
func New(raw io.ReadWriteCloser, o Options) *Conn {
	c := &Conn{raw: raw, in: bufio.NewReaderSize(raw, 8<<10), most: o.MaxControl, trusts: o.Supervisor}
	c.sender.raw = raw
	c.sender.free.L = &c.sender.mu
	c.pipe = newPipe(&c.sender)
	config := yamux.DefaultConfig()
	config.AcceptBacklog = maxBacklog
	config.EnableKeepAlive = false // the end of the pipes says it
	config.StreamOpenTimeout = 0   // it would end all streams for a slow one
	config.ConnectionWriteTimeout = writeTimeout
	config.StreamCloseTimeout = writeTimeout
	config.LogOutput = io.Discard
	config.MaxStreamWindowSize = window
	start := yamux.Client
	if o.Supervisor {
		start = yamux.Server
		config.MaxStreamWindowSize = trustedWindow
	}
	mux, err := start(c.pipe, config)
	if err != nil {
		panic(err) // only a bad configuration
	}
	c.mux = mux
	return c
}

// Send writes one control message, in one write, before any waiting bytes of the streams.
func (c *Conn) Send(message []byte) error { return c.sender.control(message) }

// Receive returns the next control message. Streams get their bytes while somebody receives, so one goroutine always should.
// io.EOF: the other end closed.
func (c *Conn) Receive() ([]byte, error) {
	message, err := c.receive()
	if err != nil && c.broken.Load() {
		return nil, ErrBrokenStreams
	}
	return message, err
}

func (c *Conn) receive() ([]byte, error) {
	for {
		kind, n, err := c.readHead()
		if err != nil {
			return nil, err
		}
		switch {
		case kind == kindControl && n > c.most, kind == kindStream && n > bulkBytes:
			return nil, ErrFrameTooLarge
		case kind == kindControl:
			return c.readBody(n)
		case kind != kindStream:
			return nil, ErrUnknownFrame
		}
		if err := c.pipe.fill(c.in, n); err != nil {
			return nil, err
		}
	}
}

func (c *Conn) readHead() (kind byte, n int, err error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, 0, err
	}
	return head[4], int(binary.BigEndian.Uint32(head[:4])), nil
}

// readBody grows with the bytes that arrive, so that a forged length costs nothing.
func (c *Conn) readBody(n int) ([]byte, error) {
	const step = 64 << 10
	body := make([]byte, 0, min(n, step))
	for len(body) < n {
		at := len(body)
		more := min(n-at, max(at, step))
		body = append(body, make([]byte, more)...)
		if _, err := io.ReadFull(c.in, body[at:]); err != nil {
			return nil, cut(err)
		}
	}
	return body, nil
}

// Open begins a stream, which must be closed. It waits while maxBacklog streams wait for the other end to accept them.
func (c *Conn) Open() (net.Conn, error) { return newStream(c.mux.OpenStream()) }

// Accept returns the next stream that the other end began, which must be closed. A supervisor with more streams than the rules
// allow ends the connection.
func (c *Conn) Accept() (net.Conn, error) {
	muxed, err := c.mux.AcceptStream()
	if err == nil && !c.trusts && c.mux.NumStreams() > maxStreams {
		c.broken.Store(true)
		_ = c.Close()
		return nil, ErrBrokenStreams
	}
	return newStream(muxed, err)
}

// Close ends the connection and all of its streams. It may be called more than once.
func (c *Conn) Close() error {
	c.sender.close()
	_ = c.pipe.Close()
	err := c.raw.Close()
	_ = c.mux.Close()
	return err
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// sender writes whole frames, and control frames first.
type sender struct {
	raw io.Writer

	mu      sync.Mutex
	free    sync.Cond
	busy    bool
	waiting int // control frames
	closed  bool
	room    []byte // of a control frame
}

func (s *sender) control(message []byte) error {
	s.mu.Lock()
	s.waiting++
	s.wait(func() bool { return s.busy })
	s.waiting--
	if s.closed {
		s.mu.Unlock()
		return net.ErrClosed
	}
	s.busy = true
	s.mu.Unlock()
	s.room = append(append(s.room[:0], make([]byte, headBytes)...), message...)
	err := s.write(kindControl, s.room)
	if cap(s.room) > 256<<10 {
		s.room = nil
	}
	s.release()
	return err
}

// bulk writes one stream frame; frame reserves room for the head.
func (s *sender) bulk(frame []byte) error {
	s.mu.Lock()
	s.wait(func() bool { return s.busy || s.waiting > 0 })
	if s.closed {
		s.mu.Unlock()
		return net.ErrClosed
	}
	s.busy = true
	s.mu.Unlock()
	err := s.write(kindStream, frame)
	s.release()
	return err
}

func (s *sender) write(kind byte, frame []byte) error {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-headBytes))
	frame[4] = kind
	_, err := s.raw.Write(frame)
	return err
}

func (s *sender) wait(hasTo func() bool) {
	for hasTo() && !s.closed {
		s.free.Wait()
	}
}

func (s *sender) release() {
	s.mu.Lock()
	s.busy = false
	s.mu.Unlock()
	s.free.Broadcast()
}

func (s *sender) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *sender) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.free.Broadcast()
}
