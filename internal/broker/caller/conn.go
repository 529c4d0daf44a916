package caller

import (
	"context"
	"io"
	"net"
	"sync"
)

// Conn is a connection from code, and a listener that returns this connection alone and closes with it.
type Conn struct {
	net.Conn
	// Caller is the connection's maker.
	Caller Caller
	// Ends is done when the connection is closed. Nil where it is not used.
	Ends context.Context

	reader io.Reader
	free   chan *Conn // holds the connection until it is accepted
	closed chan struct{}
	once   sync.Once
}

// NewConn returns a connection that is read by a reader, which may hold bytes read ahead.
func NewConn(conn net.Conn, reader io.Reader) *Conn {
	c := &Conn{Conn: conn, reader: reader, free: make(chan *Conn, 1), closed: make(chan struct{})}
	c.free <- c
	return c
}

func (c *Conn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// Accept returns the connection once, and then waits for its end.
func (c *Conn) Accept() (net.Conn, error) {
	select {
	case <-c.free:
		return c, nil
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the connection, and ends the listener.
func (c *Conn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		close(c.closed)
		err = c.Conn.Close()
	})
	return err
}

// Addr is the address of the server's end.
func (c *Conn) Addr() net.Addr { return c.LocalAddr() }
