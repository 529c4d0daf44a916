package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/meter"
)

// connector makes connections with a time limit for the log-in and metered answers, and sets their sessions up.
type connector struct {
	settings *settings
	limits   sql.Limits
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.settings.config.Timeout, checked.ErrNoAnswer)
	defer cancel()
	conn, err := c.dial(ctx)
	if err == nil {
		if err = conn.begin(ctx); err == nil {
			return conn, nil
		}
		conn.abandon()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, &checked.LoginError{Err: err}
}

// dial makes a connection with a session in the server's default state.
func (c *connector) dial(ctx context.Context) (conn *wireConn, err error) {
	conn = &wireConn{limits: c.limits, timeZone: c.settings.timeZone}
	config := c.settings.config.Clone()
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn.net = dialed
		return &meter.Conn{Conn: dialed, Meter: &conn.meter}, nil
	}
	conn.meter.Allow(checked.CatalogBytes)
	err = checked.Guard(func() error {
		made, err := mysql.NewConnector(config)
		if err != nil {
			return err
		}
		inner, err := made.Connect(ctx)
		if err == nil {
			conn.driverConn = inner.(driverConn)
		}
		return err
	})
	if err != nil {
		if conn.net != nil {
			conn.abandon()
		}
		return nil, err
	}
	return conn, nil
}

// driverConn lists the methods of the driver's connection.
type driverConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

// wireConn is the driver's connection with metered reads.
type wireConn struct {
	driverConn
	net      net.Conn
	meter    meter.Meter
	limits   sql.Limits
	timeZone string
	id       int64  // the server's, for KILL
	host     string // the server's name for itself: behind one address may be several
	mariadb  bool
}

// abandon closes the connection to the server, whatever the driver waits for.
func (c *wireConn) abandon() { _ = c.net.Close() }

// begin detects the server's kind, and sets the session up.
func (c *wireConn) begin(ctx context.Context) error {
	return checked.Guard(func() error {
		if err := c.identify(ctx); err != nil {
			return err
		}
		return c.set(ctx)
	})
}

// identify asks the server what it is.
func (c *wireConn) identify(ctx context.Context) error {
	rows, err := c.QueryContext(ctx, "SELECT CONNECTION_ID(), VERSION(), @@hostname", nil)
	if err != nil {
		return err
	}
	found := make([]driver.Value, len(rows.Columns()))
	if err = rows.Next(found); err != nil || len(found) != 3 {
		return errors.Join(errors.New("the server does not say what it is"), err)
	}
	id, _ := found[0].(int64)
	version, _ := found[1].([]byte)
	host, _ := found[2].([]byte)
	c.id, c.host, c.mariadb = id, string(host), strings.Contains(strings.ToLower(string(version)), "mariadb")
	if err := rows.Next(found); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("the server says more than it was asked"), err)
	}
	return rows.Close()
}

// set sets a session's variables. The mode makes "x" a string and \ an escape, as the check assumes.
func (c *wireConn) set(ctx context.Context) error {
	mode := "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
	limit := fmt.Sprintf("max_statement_time = %.3f", c.limits.Timeout.Seconds()) // 0 is none
	if !c.mariadb {
		mode += ",ONLY_FULL_GROUP_BY"
		limit = fmt.Sprintf("max_execution_time = %d", c.limits.Timeout.Milliseconds())
	}
	zone := "+00:00"
	if c.timeZone != "" {
		zone = c.timeZone
	}
	settings := fmt.Sprintf("SET SESSION sql_mode = '%s', time_zone = '%s', autocommit = 1, %s", mode, zone, limit)
	if c.limits.Timeout > 0 {
		settings += fmt.Sprintf(", lock_wait_timeout = %d", max(1, int(c.limits.Timeout.Seconds()*3/4)))
	}
	for _, statement := range []string{"SET NAMES utf8mb4", settings, "SET SESSION TRANSACTION READ ONLY"} {
		if _, err := c.ExecContext(ctx, statement, nil); err != nil {
			return err
		}
	}
	return nil
}

// resetTime is for a connection that was idle to show that it is still one: where the computer slept, or its
// network changed, nothing else says that it is not.
const resetTime = 5 * time.Second

// ResetSession implements driver.SessionResetter: it sets the session up anew. A connection that broke meanwhile shows here, before any
// statement.
func (c *wireConn) ResetSession(ctx context.Context) error {
	c.meter.Allow(checked.CatalogBytes)
	late := time.AfterFunc(resetTime, c.abandon)
	defer late.Stop()
	if checked.Guard(func() error { return errors.Join(c.driverConn.ResetSession(ctx), c.set(ctx)) }) != nil {
		return driver.ErrBadConn
	}
	return nil
}

// kill ends the statement that a connection runs, by another one to the same server. A login may always end its own.
func (c *connector) kill(ctx context.Context, running *wireConn) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.abandon()
	return checked.Guard(func() error {
		err := conn.identify(ctx)
		if err == nil && conn.host != running.host {
			err = fmt.Errorf("the address leads to %s now", conn.host)
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", running.id), nil)
		}
		_ = conn.Close()
		return err
	})
}
