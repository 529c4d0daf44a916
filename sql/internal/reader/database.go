package reader

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

const (
	// idleTime is how long an unused connection stays open.
	idleTime = 5 * time.Minute
	// grace is how long a server may take to end a statement or a transaction before its connection is closed.
	grace = 10 * time.Second
	// noLimit stands for a statement without a limit of time.
	noLimit = 24 * time.Hour
	// A full server is asked again after a pause, as long as calls of this program hold connections, or for some time.
	retryPause = 20 * time.Millisecond
	retryTime  = 5 * time.Second
)

// Database is one connection string's database, reached by a small pool that connects at first use. It implements sql.Database.
type Database struct {
	dialect *Dialect
	limits  sql.Limits
	pool    *dbsql.DB
	turns   turns
}

var _ sql.Database = (*Database)(nil)

// Open makes a database of a dialect. It does not connect.
func Open(dialect *Dialect, limits sql.Limits) *Database {
	d := &Database{dialect: dialect, limits: limits, turns: newTurns()}
	d.pool = dbsql.OpenDB(&connector{dialect})
	d.pool.SetMaxOpenConns(sql.PoolSize)
	d.pool.SetMaxIdleConns(sql.PoolSize)
	d.pool.SetConnMaxIdleTime(idleTime)
	return d
}

// String returns the database's address, and keeps %+v from printing the password.
func (d *Database) String() string { return d.dialect.Address }

// GoString does so for %#v.
func (d *Database) GoString() string { return d.String() }

// Close implements sql.Database.
func (d *Database) Close() { _ = d.pool.Close() }

// Query implements sql.Database.
func (d *Database) Query(ctx context.Context, q sql.Query) (sql.Rows, error) {
	statement, err := d.dialect.Check(q)
	if err != nil {
		return nil, err
	}
	return d.Run(ctx, statement)
}

// Run runs a statement that was checked.
func (d *Database) Run(ctx context.Context, statement *Statement) (sql.Rows, error) {
	ctx, cancel, over, err := d.turn(ctx)
	if err != nil {
		return nil, d.fail(ctx, err, "")
	}
	r := &rows{ctx: ctx, cancel: cancel, over: over, statement: statement.Text}
	if r.session, err = d.session(ctx, statement.Before); err == nil {
		if err = r.start(statement); err != nil {
			r.session.end()
		}
	}
	if err != nil {
		err = d.fail(ctx, err, statement.Text)
		over()
		return nil, err
	}
	return r, nil
}

// Look runs statements of our own in a session.
func (d *Database) Look(ctx context.Context, do func(*Session) error) error {
	ctx, _, over, err := d.turn(ctx)
	if err != nil {
		return d.fail(ctx, err, "")
	}
	defer over()
	s, err := d.session(ctx, nil)
	if err == nil {
		if look := d.dialect.Catalog.Look; look != nil {
			err = look(s)
		}
		if err == nil {
			err = do(s)
		}
		s.end()
	}
	if err != nil {
		return d.fail(ctx, err, "")
	}
	return nil
}

// turn waits for the call's turn, and bounds the call by the time of a statement. The context ends like a cancelled one: after a deadline
// SQL Server's driver would close the connection as broken.
func (d *Database) turn(ctx context.Context) (_ context.Context, cancel, over func(), err error) {
	leave, err := d.turns.take(ctx, d.limits.Timeout)
	if err != nil {
		return ctx, nil, nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if d.limits.Timeout > 0 {
		stop = time.AfterFunc(d.limits.Timeout+d.dialect.Patience, func() { end(sql.ErrTimeout) }).Stop
	}
	cancel = func() {
		stop()
		end(nil)
	}
	return ctx, cancel, func() {
		cancel()
		leave()
	}, nil
}

// budget bounds the bytes between two rows.
func (d *Database) budget() int64 {
	if d.limits.RowBytes <= 0 {
		return 1 << 62
	}
	return d.dialect.Ahead*int64(d.limits.RowBytes) + 1<<20
}

// turns lets as many calls run as there are connections: the time of one that waits begins with its turn.
type turns struct{ free *semaphore.Weighted }

// newTurns returns turns that nobody has taken.
func newTurns() turns { return turns{semaphore.NewWeighted(sql.PoolSize)} }

// take waits for a turn, as long as a statement may take; a limit of 0 is none. The error is errNoTurn, or the context's cause.
func (t turns) take(ctx context.Context, limit time.Duration) (leave func(), err error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errNoTurn)
		defer cancel()
	}
	if t.free.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() { t.free.Release(1) }), nil
}

// conn takes a connection of the pool. A role may be limited to fewer than the pool has: then it waits for those.
func (d *Database) conn(ctx context.Context) (*dbsql.Conn, error) {
	for patience := time.Now().Add(retryTime); ; time.Sleep(retryPause) {
		conn, err := d.pool.Conn(ctx)
		if err == nil || d.dialect.Full == nil || !d.dialect.Full(err) || d.pool.Stats().InUse == 0 && time.Now().After(patience) {
			return conn, err
		}
		for stats := d.pool.Stats(); stats.InUse > 0 && stats.Idle == 0; stats = d.pool.Stats() {
			if ctx.Err() != nil {
				return nil, errNoTurn
			}
			time.Sleep(retryPause)
		}
	}
}

// session begins a session. A connection that breaks before the statement was sent is replaced once, and the others with it: they were idle
// for no less long.
func (d *Database) session(ctx context.Context, before func(*Session) error) (*Session, error) {
	s, err := d.trySession(ctx, before)
	if errors.Is(err, driver.ErrBadConn) && ctx.Err() == nil {
		d.pool.SetMaxIdleConns(0)
		d.pool.SetMaxIdleConns(sql.PoolSize)
		s, err = d.trySession(ctx, before)
	}
	return s, err
}
