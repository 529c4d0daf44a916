package sqlserver

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"sync"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/azuread"
	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/meter"
)

// connector makes connections with a time limit for the log-in and metered answers. The driver itself waits without bound for a server that
// takes a connection and says nothing.
type connector struct {
	config msdsn.Config
	setup  string // run in every session that begins
}

// inner is the driver's connector, one for each connection: it writes to the settings of TLS while it connects.
func (c *connector) inner() (inner *mssql.Connector, err error) {
	config := c.config
	if byToken(config) {
		inner, err = azuread.NewConnector(join(config.Parameters))
	} else {
		config.TLSConfig = config.TLSConfig.Clone()
		inner = mssql.NewConnectorConfig(config)
	}
	if err == nil {
		inner.Dialer = dialer{net.Dialer{KeepAlive: config.KeepAlive}}
	}
	return inner, err
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return &mssql.Driver{} }

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.DialTimeout, checked.ErrNoAnswer)
	defer cancel()
	var dialed dialing
	stop := context.AfterFunc(ctx, dialed.abandon)
	dialed.meter.Allow(checked.CatalogBytes)
	var conn *wireConn
	err := checked.Guard(func() (err error) {
		conn, err = c.connect(context.WithValue(ctx, dialingKey{}, &dialed), &dialed)
		return err
	})
	if err == nil && stop() {
		return conn, nil
	}
	dialed.abandon()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, &checked.LoginError{Err: err}
}

func (c *connector) connect(ctx context.Context, dialed *dialing) (*wireConn, error) {
	connector, err := c.inner()
	if err != nil {
		return nil, err
	}
	inner, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := &wireConn{Conn: inner.(*mssql.Conn), meter: &dialed.meter, setup: c.setup, abandon: dialed.abandon}
	return conn, conn.begin(ctx)
}

// wireConn is the driver's connection with metered reads.
type wireConn struct {
	*mssql.Conn
	meter *meter.Meter
	setup string
	// abandon closes the connection to the server, whatever the driver waits for.
	abandon func()
}

// resetTime is for a connection that was idle to show that it is still one: where the computer slept, or its
// network changed, nothing else says that it is not.
const resetTime = 5 * time.Second

// ResetSession implements driver.SessionResetter: with the next request the server resets the session, and the request sets it up anew. A
// connection that broke meanwhile shows here, before any statement.
func (c *wireConn) ResetSession(ctx context.Context) error {
	c.meter.Allow(checked.CatalogBytes)
	late := time.AfterFunc(resetTime, c.abandon)
	defer late.Stop()
	if checked.Guard(func() error { return errors.Join(c.Conn.ResetSession(ctx), c.begin(ctx)) }) != nil {
		return driver.ErrBadConn
	}
	return nil
}

func (c *wireConn) begin(ctx context.Context) error {
	statement, err := c.PrepareContext(ctx, c.setup)
	if err != nil {
		return err
	}
	_, err = statement.(driver.StmtExecContext).ExecContext(ctx, nil)
	return err
}

// dialing holds the connections that were made for one log-in; a name with several addresses makes several.
type dialing struct {
	meter meter.Meter
	mu    sync.Mutex
	conns []net.Conn
	over  bool
}

type dialingKey struct{}

func (d *dialing) add(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		_ = c.Close()
	}
	d.conns = append(d.conns, c)
}

// abandon closes all of them, so that whoever reads from one goes on.
func (d *dialing) abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	for _, c := range d.conns {
		_ = c.Close()
	}
}

// dialer gives the driver connections that are metered and known to their dialing.
type dialer struct{ net.Dialer }

// DialContext implements mssql.Dialer.
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if dialing, ok := ctx.Value(dialingKey{}).(*dialing); ok {
		conn = &meter.Conn{Conn: conn, Meter: &dialing.meter}
		dialing.add(conn)
	}
	return conn, nil
}
