// Package sqlserver reads Microsoft SQL Server and Azure SQL, and cannot write them.
//
// Open returns a sql.Database. SQL Server offers no transaction that refuses to write, so four things stand in for it:
// a statement is divided as the server divides it, and only one reading statement is admitted (check.go); the
// server is asked whether it returns rows before it runs, if the server can tell (describe.go); the connection declares that it
// intends to read, so that it goes to a readable replica if there is one; and its transaction is rolled back in any case.
// Only a login that may do nothing but read is beyond doubt: Rights reports how to make one.
package sqlserver

import (
	"context"
	dbsql "database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// Database is one connection string's database. It implements sql.Database.
type Database struct {
	pool    *dbsql.DB
	limits  sql.Limits
	config  msdsn.Config
	secrets []string
	turns   checked.Turns
	// silent is set when the server cannot describe statements, or the login may not ask.
	silent atomic.Bool
}

var _ sql.Database = (*Database)(nil)

// Password returns the password in a connection string; empty if there is none.
func Password(dsn string) string {
	config, _ := parseDSN(dsn, "")
	return config.Password
}

// Open reads a connection string: a URL (sqlserver://, azuresql://), key=value pairs, or ODBC's form. The password is for a string without
// one. It does not connect before the first use; an invalid string is a *fault.Error that reveals none of its values. SQL Server knows no
// limit of temporary files for a session; that limit has no effect.
func Open(dsn, password string, limits sql.Limits) (*Database, error) {
	config, err := parseDSN(dsn, password)
	if err != nil {
		return nil, err
	}
	pool := checked.Pool(&connector{config, setup(limits)})
	return &Database{pool: pool, limits: limits, config: config, secrets: secrets(config), turns: checked.NewTurns()}, nil
}

// String returns the database's address, and keeps %+v from printing the password.
func (d *Database) String() string { return "SQL Server at " + address(d.config) }

// GoString does so for %#v.
func (d *Database) GoString() string { return d.String() }

// Close implements sql.Database.
func (d *Database) Close() { _ = d.pool.Close() }

// setup returns the first statements of every session. TEXTSIZE cuts values of the long types; it leaves enough to recognise them as too
// long. A text is twice as long for the server as it is here.
func setup(limits sql.Limits) string {
	lock, size := int64(-1), int64(-1)
	if limits.Timeout > 0 { // less than a statement's time, so that the server itself reports the lock
		lock = limits.Timeout.Milliseconds() * 3 / 4
	}
	if limits.RowBytes > 0 {
		size = min(2*int64(limits.RowBytes)+2, 1<<31-1)
	}
	return fmt.Sprintf("SET XACT_ABORT ON; SET NOCOUNT ON; SET QUOTED_IDENTIFIER ON; SET ANSI_NULLS ON; SET ANSI_PADDING ON; "+
		"SET ANSI_WARNINGS ON; SET ARITHABORT ON; SET CONCAT_NULL_YIELDS_NULL ON; SET NUMERIC_ROUNDABORT OFF; "+
		"SET IMPLICIT_TRANSACTIONS OFF; SET DEADLOCK_PRIORITY LOW; SET LOCK_TIMEOUT %d; SET TEXTSIZE %d;", lock, size)
}

// withTimeout bounds a call by the limit of a statement. It ends like a cancelled one: after a deadline the driver would close the
// connection as broken.
func (d *Database) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if d.limits.Timeout <= 0 {
		return ctx, func() { cancel(nil) }
	}
	timer := time.AfterFunc(d.limits.Timeout, func() { cancel(sql.ErrTimeout) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
