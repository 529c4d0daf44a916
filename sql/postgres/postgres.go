// Package postgres reads PostgreSQL, and leaves it to the server to refuse writes.
//
// A statement passes check, which admits one reading statement and none of the functions that a
// read-only transaction lets through. It runs in a read-only transaction after the first snapshot was
// taken, so nothing in the statement can make it writable; it goes by the extended protocol,
// which takes one statement; and the transaction is always rolled back. Values come in the wire's
// text form, a row at a time.
package postgres

import (
	"context"
	dbsql "database/sql"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

const (
	connectTime = 10 * time.Second
	// tidyTime bounds the end of a transaction and the work after a cancelled statement.
	tidyTime = 5 * time.Second
)

// dialect is one connection string's settings.
type dialect struct {
	config *pgconn.Config
	limits sql.Limits
	types  types
	// zoned reports that the connection string chooses a time zone; otherwise it is UTC.
	zoned bool
}

// Open reads a connection string, a URL or libpq's key=value pairs, with the environment, password file and service file that libpq would
// use. It does not connect.
func Open(dsn string, limits sql.Limits) (*reader.Database, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		// The driver's words quote the string, in which any part can be the password.
		return nil, errors.New("not a connection string for PostgreSQL")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	if _, named := config.RuntimeParams["application_name"]; !named {
		config.RuntimeParams["application_name"] = "code-sandbox-mcp"
	}
	d := &dialect{config: config, limits: limits, types: newTypes()}
	for name, value := range config.RuntimeParams {
		d.zoned = d.zoned || strings.EqualFold(name, "timezone") ||
			strings.EqualFold(name, "options") && strings.Contains(strings.ToLower(value), "timezone")
	}
	return reader.Open(&reader.Dialect{
		Address: "PostgreSQL at " + config.Host, Secrets: reader.Forms(config.Password),
		LoginTime: time.Duration(1+len(config.Fallbacks)) * config.ConnectTimeout,
		Patience:  tidyTime, // the server's own clock ends a statement first, unless the server is gone
		Ahead:     2,
		Cheaper:   cheaper,
		Check:     d.check, Dial: d.dial, SetUp: func(context.Context, *reader.Conn) error { return nil }, Full: isFull, Send: send, Answer: answer,
		Said: said, Own: ownError, Catalog: catalog(),
	}, limits), nil
}

// Password returns the password in a connection string, or in a file that it refers to; empty if there is none.
func Password(dsn string) string {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return ""
	}
	return config.Password
}

func (d *dialect) check(q sql.Query) (*reader.Statement, error) {
	uses, err := check(q.Text)
	if err != nil {
		return nil, err
	}
	admit := func(s *reader.Session) error { return uses.admit(s, d.limits.Functions) }
	return &reader.Statement{Text: q.Text, Params: q.Params, Admit: admit}, nil
}

// dial makes a connection. It asks whether the login may bound its temporary files.
func (d *dialect) dial(ctx context.Context, wire *reader.Wire) (reader.Driver, error) {
	config := d.config.Copy()
	config.DialFunc = wire.DialContext
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {} // or the driver keeps them all
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		if d.limits.RowBytes > 0 { // of one message, which the driver holds in memory
			f.SetMaxBodyLen(d.limits.RowBytes)
		}
		return f
	}
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler { // gives up on the connection if that does not help
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: tidyTime}
	}
	inner, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	c := &conn{PgConn: inner, dialect: d, limitsTemp: inner.ParameterStatus("is_superuser") == "on"}
	if !c.limitsTemp && serverVersion(inner) >= 15 {
		var may [][][]byte
		may, err = c.list(ctx, "SELECT pg_catalog.has_parameter_privilege('temp_file_limit', 'SET')")
		c.limitsTemp = len(may) == 1 && string(may[0][0]) == "t"
	}
	return c, err
}

// described marks the parameters of a user's statement, which is described before it runs.
type described []any

func send(s *reader.Session, text string, params []any) (*dbsql.Rows, error) {
	return s.Query(text, described(params))
}

func answer(s *reader.Session, _ *reader.Statement, _ *dbsql.Rows) (reader.Answer, error) {
	return s.Conn.Driver.(*conn).answer, nil
}
