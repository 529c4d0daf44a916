package reader

import (
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// catalogBytes bounds an answer of the catalog, and what a server may send during the login. A server may send anything.
const catalogBytes = 32 << 20

// ResetTime is for a connection that was idle to show that it is still one: where the computer slept, or its
// network changed, nothing else says that it is not.
const ResetTime = 5 * time.Second

// connector makes connections with a time limit for the login and metered answers. The drivers wait without bound for a server that takes
// a connection and says nothing.
type connector struct{ dialect *Dialect }

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return nil }

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.dialect.LoginTime, errNoAnswer)
	defer cancel()
	conn := &Conn{dialect: c.dialect, wire: &Wire{}}
	conn.wire.allow(catalogBytes)
	stop := context.AfterFunc(ctx, conn.wire.Abandon)
	err := Guard(func() (err error) {
		if conn.Driver, err = c.dialect.Dial(ctx, conn.wire); err == nil {
			err = c.dialect.SetUp(ctx, conn)
		}
		return err
	})
	if err == nil && stop() {
		return conn, nil
	}
	conn.wire.Abandon()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, &LoginError{err}
}

// Driver is what the drivers' connections have in common.
type Driver interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.NamedValueChecker
	driver.Validator
}

// Conn is a driver's connection with its wire.
type Conn struct {
	Driver
	wire    *Wire
	dialect *Dialect
}

// QueryContext implements driver.QueryerContext.
func (c *Conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if inner, ok := c.Driver.(driver.QueryerContext); ok {
		return inner.QueryContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

// ResetSession implements driver.SessionResetter: it sets the session up anew. A connection that broke meanwhile shows here, before any
// statement.
func (c *Conn) ResetSession(ctx context.Context) error {
	c.wire.allow(catalogBytes)
	late := time.AfterFunc(ResetTime, c.wire.Abandon)
	defer late.Stop()
	if Guard(func() error {
		if inner, ok := c.Driver.(driver.SessionResetter); ok {
			if err := inner.ResetSession(ctx); err != nil {
				return err
			}
		}
		return c.dialect.SetUp(ctx, c)
	}) != nil {
		return driver.ErrBadConn
	}
	return nil
}

// Wire holds the connections to a server that were made for one login; a name with several addresses makes several. It counts what comes.
type Wire struct {
	limited atomic.Bool
	left    atomic.Int64
	tripped atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
	over  bool
}

// allow lets so many more bytes in, from now on. The zero Wire bounds nothing.
func (w *Wire) allow(bytes int64) {
	w.left.Store(min(bytes, math.MaxInt64))
	w.limited.Store(true)
}

// DialContext makes a metered connection.
func (w *Wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		_ = conn.Close()
	}
	w.conns = append(w.conns, conn)
	return &metered{conn, w}, nil
}

// Abandon closes all of them, so that a driver that reads from one goes on.
func (w *Wire) Abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, c := range w.conns {
		_ = c.Close()
	}
}

var errTooMuch = errors.New("more came than a row may have")

// metered is a connection whose reads its wire counts.
type metered struct {
	net.Conn
	wire *Wire
}

// Read implements net.Conn.
func (c *metered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.wire.limited.Load() && c.wire.left.Add(-int64(n)) < 0 {
		c.wire.tripped.Store(true)
		return 0, errTooMuch
	}
	return n, err
}
