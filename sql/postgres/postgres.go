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
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

const (
	poolSize    = sql.PoolSize
	idleTime    = 5 * time.Minute
	connectTime = 10 * time.Second
	// enterTime is for a connection that was idle to show that it is still one: where the computer slept, or
	// its network changed, nothing else says that it is not.
	enterTime = 5 * time.Second
	// tidyTime bounds the end of a transaction and the work after a cancelled statement.
	tidyTime = 5 * time.Second
	// retryPause is the pause between two requests for a connection if the database is full.
	retryPause = 20 * time.Millisecond
)

// Database is one PostgreSQL, reached by a small pool that connects at first use. Make one with Open.
type Database struct {
	pool    *pgxpool.Pool
	limits  sql.Limits
	types   *typeCache
	tidying atomic.Int64 // connections that are free in a moment
	// zoned reports that the connection string chooses a time zone; otherwise it is UTC.
	zoned bool
}

var _ sql.Database = (*Database)(nil)

// Open reads a connection string, a URL or libpq's key=value pairs, with the environment, password file and service file that libpq would
// use. It does not connect.
func Open(dsn string, limits sql.Limits) (*Database, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The driver's words quote the string, in which any part can be the password.
		return nil, errors.New("not a connection string for PostgreSQL")
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTime
	}
	if _, named := config.ConnConfig.RuntimeParams["application_name"]; !named {
		config.ConnConfig.RuntimeParams["application_name"] = "code-sandbox-mcp"
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = poolSize, 0, 0
	config.MaxConnIdleTime = idleTime
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // beginning is one
	config.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}          // or the driver keeps them all
	config.ConnConfig.BuildFrontend = pgconnFrontend(limits.RowBytes)
	config.ConnConfig.BuildContextWatcherHandler = cancelInDatabase
	// Nothing is prepared by name: DISCARD ALL and poolers take that away.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	config.AfterConnect = noteTempLimit
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	return &Database{pool: pool, limits: limits, types: newTypeCache(), zoned: choosesZone(config.ConnConfig)}, nil
}

// Password returns the password in a connection string, or in a file that it refers to; empty if there is none.
func Password(dsn string) string {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return ""
	}
	return config.Password
}

// Close closes the pool; statements that still run are waited for.
func (d *Database) Close() { d.pool.Close() }

func choosesZone(config *pgx.ConnConfig) bool {
	for name, value := range config.RuntimeParams {
		if strings.EqualFold(name, "timezone") ||
			strings.EqualFold(name, "options") && strings.Contains(strings.ToLower(value), "timezone") {
			return true
		}
	}
	return false
}

// pgconnFrontend bounds a message of the server's, which the driver holds in memory.
func pgconnFrontend(rowBytes int) pgconn.BuildFrontendFunc {
	return func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		if rowBytes > 0 {
			f.SetMaxBodyLen(rowBytes)
		}
		return f
	}
}

// cancelInDatabase ends a statement in the database when its context ends, and gives up on the
// connection if that does not help.
func cancelInDatabase(conn *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: tidyTime}
}

// Keys of the facts on one connection.
const maySetTempLimit = "may set temp_file_limit"

// noteTempLimit finds out whether the login may bound its temporary files.
func noteTempLimit(ctx context.Context, conn *pgx.Conn) error {
	may := conn.PgConn().ParameterStatus("is_superuser") == "on"
	if !may && serverVersion(conn.PgConn()) >= 15 {
		err := conn.QueryRow(ctx, "SELECT pg_catalog.has_parameter_privilege('temp_file_limit', 'SET')",
			pgx.QueryExecModeExec).Scan(&may)
		if err != nil {
			return err
		}
	}
	conn.PgConn().CustomData()[maySetTempLimit] = may
	return nil
}

func serverVersion(conn *pgconn.PgConn) int {
	var major int
	_, _ = fmt.Sscanf(conn.ParameterStatus("server_version"), "%d", &major)
	return major
}

// Query runs one reading statement; see sql.Database.
func (d *Database) Query(ctx context.Context, q sql.Query) (sql.Rows, error) {
	uses, err := check(q.Text)
	if err != nil {
		return nil, err
	}
	return d.query(ctx, q, uses)
}

// query is Query for a statement that was checked.
func (d *Database) query(ctx context.Context, q sql.Query, uses *uses) (*rows, error) {
	conn, err := d.begin(ctx)
	if err != nil {
		return nil, connectFault(err)
	}
	// The server's own clock ends the statement first, unless the server is gone.
	ctx, cancel := context.WithTimeout(ctx, d.limits.Timeout+tidyTime)
	r := &rows{db: d, conn: conn, cancel: cancel, query: q.Text}
	err = uses.admit(ctx, conn.Conn(), d.limits.Functions)
	if err == nil {
		err = r.start(ctx, d.types, q)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// begin returns a connection in a read-only transaction. A connection that broke while it was idle, as
// all do when the database is restarted, is replaced once.
func (d *Database) begin(ctx context.Context) (*pgxpool.Conn, error) {
	for again := true; ; again = false {
		conn, err := d.acquire(ctx)
		if err != nil {
			return nil, err
		}
		if err = d.enter(ctx, conn.Conn().PgConn()); err == nil {
			return conn, nil
		}
		discard(conn)
		d.pool.Reset() // the others were idle for no less long
		var refused *pgconn.PgError
		if !again || ctx.Err() != nil || errors.As(err, &refused) && !ending(refused) {
			return nil, err
		}
	}
}

// acquire waits for a connection as long as a statement may take, which is how long others keep theirs. It makes no further one while one is
// tidied, or if the database gives this login no more: a role may be limited to one, and a pooler may let one wait for the other.
func (d *Database) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, max(d.limits.Timeout, connectTime))
	defer cancel()
	most := poolSize
	for patience := time.Now().Add(tidyTime); ; {
		await(limited, func() bool { return d.tidying.Load() == 0 || d.pool.Stat().IdleConns() > 0 })
		conn, err := d.pool.Acquire(limited)
		running := int(d.pool.Stat().AcquiredConns())
		if err == nil || limited.Err() != nil {
			if err != nil && ctx.Err() == nil && running >= most {
				err = fault.New(fault.SQLFailed, "Wait for a statement that still runs, or cancel one.",
					"%d statements run on this connection already, which is as many as there may be.", running).Because(err)
			}
			return conn, err
		}
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != tooManyConnections || running == 0 && time.Now().After(patience) {
			return nil, err
		}
		most = max(1, running)
		time.Sleep(retryPause)
		await(limited, func() bool { return d.pool.Stat().IdleConns() > 0 || d.pool.Stat().AcquiredConns() == 0 })
	}
}

// await waits until something is so or the context ends.
func await(ctx context.Context, isSo func() bool) {
	for !isSo() && ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
	}
}

// ending recognizes an error by which a server says that it closes the connection.
func ending(e *pgconn.PgError) bool { return strings.HasPrefix(e.Code, "57P0") }

// enter begins the transaction and bounds it. The SELECT that sets the bounds takes the snapshot, after
// which a transaction cannot be made writable.
func (d *Database) enter(ctx context.Context, conn *pgconn.PgConn) error {
	// Not by the context: its end would first make the server cancel the statement.
	_ = conn.Conn().SetDeadline(time.Now().Add(enterTime))
	defer func() { _ = conn.Conn().SetDeadline(time.Time{}) }()
	milliseconds := fmt.Sprint(max(1, d.limits.Timeout.Milliseconds()))
	settings := [][2]string{
		{"statement_timeout", milliseconds}, {"lock_timeout", milliseconds},
		{"idle_in_transaction_session_timeout", milliseconds},
		{"standard_conforming_strings", "on"}, {"client_encoding", "UTF8"},
		{"datestyle", "ISO"}, {"intervalstyle", "iso_8601"}, {"bytea_output", "hex"},
		{"extra_float_digits", "1"}, {"xmlbinary", "base64"},
	}
	if !d.zoned {
		settings = append(settings, [2]string{"timezone", "UTC"})
	}
	if may, _ := conn.CustomData()[maySetTempLimit].(bool); may && d.limits.TempBytes > 0 {
		settings = append(settings, [2]string{"temp_file_limit", fmt.Sprint(d.limits.TempBytes >> 10)})
	}
	calls := make([]string, len(settings))
	for i, s := range settings {
		calls[i] = fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", s[0], s[1])
	}
	return conn.Exec(ctx, "BEGIN READ ONLY; SELECT "+strings.Join(calls, ", ")).Close() // which keeps no rows
}

// discard closes a connection instead of giving it back.
func discard(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTime)
	defer cancel()
	_ = conn.Conn().Close(ctx)
	conn.Release()
}

// lookInto runs statements of our own in a read-only transaction, and returns the result of do.
func lookInto[T any](ctx context.Context, d *Database, do func(querier) (T, error)) (T, error) {
	var none T
	limited, cancel := context.WithTimeout(ctx, d.limits.Timeout)
	defer cancel()
	conn, err := d.begin(limited)
	if err != nil {
		return none, connectFault(err)
	}
	result, err := do(conn.Conn())
	d.finish(conn)
	var said *fault.Error
	switch {
	case err == nil:
		return result, nil
	case errors.As(err, &said):
		return none, err
	}
	return none, queryFault(err, "")
}

// finish rolls back and returns the connection, after the answer. It clears other state that a statement may have left on it, such as a lock
// that a function of the user's took. A connection on which that fails is closed.
func (d *Database) finish(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTime)
	if err := conn.Conn().PgConn().Exec(ctx, "ROLLBACK").Close(); err != nil {
		cancel()
		discard(conn)
		return
	}
	d.tidying.Add(1)
	go func() {
		defer d.tidying.Add(-1)
		defer cancel()
		if err := conn.Conn().PgConn().Exec(ctx, "DISCARD ALL").Close(); err != nil {
			discard(conn)
			return
		}
		conn.Release()
	}()
}

// Schemas lists schemas; see sql.Database.
func (d *Database) Schemas(ctx context.Context) ([]sql.Schema, error) {
	return lookInto(ctx, d, func(q querier) ([]sql.Schema, error) { return schemas(ctx, q) })
}

// Tables lists tables; see sql.Database.
func (d *Database) Tables(ctx context.Context, filter sql.TableFilter) ([]sql.Table, error) {
	return lookInto(ctx, d, func(q querier) ([]sql.Table, error) { return tables(ctx, q, filter) })
}

// Table describes one table; see sql.Database.
func (d *Database) Table(ctx context.Context, schema, name string, examples bool) (*sql.TableDetail, error) {
	return lookInto(ctx, d, func(q querier) (*sql.TableDetail, error) {
		return table(ctx, q, schema, name, examples, d.limits.Functions)
	})
}

// Rights reports rights of the login beyond reading; see sql.Database.
func (d *Database) Rights(ctx context.Context) ([]sql.Finding, error) {
	return lookInto(ctx, d, func(q querier) ([]sql.Finding, error) { return rights(ctx, q) })
}
