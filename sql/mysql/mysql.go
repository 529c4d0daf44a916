// Package mysql reads MySQL and MariaDB, and cannot write them.
//
// Open returns a sql.Database. A statement runs in a transaction of START TRANSACTION READ ONLY, in a session that makes all its
// transactions read-only: the server refuses statements that write a table. It lets through statements that read or write files,
// take locks or change settings; a check of the statement's words (check.go) and a look into the catalog for functions of the
// database's own (uses.go) refuse those. The transaction is rolled back in any case. Only a login that may do nothing but read
// is beyond doubt: Rights reports how to make one.
package mysql

import (
	"context"
	dbsql "database/sql"

	"github.com/go-sql-driver/mysql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// Database is one connection string's database. It implements sql.Database.
type Database struct {
	pool      *dbsql.DB
	connector *connector
	limits    sql.Limits
	secrets   []string
	turns     checked.Turns
}

var _ sql.Database = (*Database)(nil)

// Password returns the password in a connection string; empty if there is none.
func Password(dsn string) string {
	s, err := parseDSN(dsn)
	if err != nil {
		return ""
	}
	return s.config.Passwd
}

// Open reads a connection string: a URL (mysql://, mariadb://), or the form user:password@tcp(host:3306)/database. It does not connect
// before the first use; an invalid string is a *fault.Error that reveals none of its values. Neither server offers every login a limit of
// temporary files for a session; that limit has no effect.
func Open(dsn string, limits sql.Limits) (*Database, error) {
	s, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	c := &connector{settings: s, limits: limits}
	pool := checked.Pool(c)
	return &Database{pool: pool, connector: c, limits: limits, secrets: s.secrets(), turns: checked.NewTurns()}, nil
}

// String returns the database's address, and keeps %+v from printing the password.
func (d *Database) String() string { return "MySQL at " + d.connector.settings.config.Addr }

// GoString does so for %#v.
func (d *Database) GoString() string { return d.String() }

// Close implements sql.Database.
func (d *Database) Close() { _ = d.pool.Close() }

// withTimeout bounds a call by the limit of a statement.
func (d *Database) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.limits.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d.limits.Timeout, sql.ErrTimeout)
}

// silent keeps the driver's messages out of the log: its errors tell all that matters.
var silent = &mysql.NopLogger{}
