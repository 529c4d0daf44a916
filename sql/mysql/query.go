// A query from its check to its rows.

package mysql

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// grace is how long a server may take to end a statement or a transaction before its connection is closed.
const grace = 10 * time.Second

// Query implements sql.Database.
func (d *Database) Query(ctx context.Context, q sql.Query) (sql.Rows, error) {
	used, err := check(q.Text, len(q.Params))
	if err != nil {
		return nil, err
	}
	params, err := checked.Bind(q.Params, bindOne)
	if err != nil {
		return nil, err
	}
	leave, err := d.turns.Take(ctx, d.limits.Timeout)
	if err != nil {
		return nil, d.fail(ctx, err, q.Text)
	}
	ctx, cancel := d.withTimeout(ctx)
	r, err := d.open(ctx, q.Text, params, used)
	if err != nil {
		err = d.fail(ctx, err, q.Text)
		cancel()
		leave()
		return nil, err
	}
	r.cancel, r.leave = cancel, leave
	return r, nil
}

// open runs a statement in a transaction of its own and returns its rows.
func (d *Database) open(ctx context.Context, statement string, params []any, used *uses) (*rows, error) {
	s, err := d.session(ctx)
	if err != nil {
		return nil, err
	}
	r := &rows{db: d, ctx: ctx, session: s, statement: statement}
	err = checked.Guard(func() error {
		if err := used.admit(s.ctx, s.tx, d.limits.Functions); err != nil {
			return err
		}
		s.wire.meter.Allow(d.budget())
		if err := s.query(r, statement, params); err != nil {
			return err
		}
		return r.describe()
	})
	if err != nil {
		if s.wire.meter.Tripped() {
			err = checked.ErrTooLong
		}
		s.end()
		return nil, err
	}
	return r, nil
}

// unprepared is the error for a statement that cannot be prepared, such as SHOW in some versions.
const unprepared = 1295

// query sends a statement by the protocol of prepared ones, in which parameters and values are no text.
func (s *session) query(r *rows, statement string, params []any) (err error) {
	s.prepared, err = s.tx.PrepareContext(s.ctx, statement)
	var said *mysql.MySQLError
	if errors.As(err, &said) && said.Number == unprepared && len(params) == 0 {
		r.inner, err = s.tx.QueryContext(s.ctx, statement)
	} else if err == nil {
		r.inner, err = s.prepared.QueryContext(s.ctx, params...)
	}
	return err
}

// budget is how much may come between two rows.
func (d *Database) budget() int64 {
	if d.limits.RowBytes <= 0 {
		return 1 << 62
	}
	return 2*int64(d.limits.RowBytes) + 1<<20
}

// session is one connection in a transaction, which ends by being rolled back.
type session struct {
	db       *Database
	conn     *dbsql.Conn
	tx       *dbsql.Tx
	prepared *dbsql.Stmt
	wire     *wireConn
	// ctx is the driver's: it ends after the caller's, if the server did not end the statement on request. The driver closes the connection
	// then.
	ctx    context.Context
	cancel context.CancelFunc
	unhook func() bool
	over   chan struct{} // closed when nothing of the statement is waited for
	killed chan struct{} // closed when interrupt ended
	once   sync.Once
}

// session begins a read-only transaction. A connection that breaks before the statement was sent is replaced once.
func (d *Database) session(ctx context.Context) (s *session, err error) {
	err = checked.Begin(ctx, func() (err error) {
		s, err = d.trySession(ctx)
		return err
	})
	return s, err
}

func (d *Database) trySession(ctx context.Context) (*session, error) {
	conn, err := checked.Conn(ctx, d.pool)
	if err != nil {
		return nil, err
	}
	s := &session{db: d, conn: conn, over: make(chan struct{}), killed: make(chan struct{})}
	_ = conn.Raw(func(c any) error { s.wire = c.(*wireConn); return nil })
	s.wire.meter.Allow(checked.CatalogBytes)
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.unhook = context.AfterFunc(ctx, s.interrupt)
	if err := checked.Guard(func() (err error) {
		s.tx, err = conn.BeginTx(s.ctx, &dbsql.TxOptions{ReadOnly: true})
		return err
	}); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// interrupt asks the server to end the statement, and closes the connection: the request could hit another statement on it.
func (s *session) interrupt() {
	s.once.Do(func() {
		defer close(s.killed)
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if s.db.connector.kill(ctx, s.wire) == nil {
			select {
			case <-s.over:
			case <-ctx.Done():
			}
		}
		s.cancel()
		s.wire.abandon()
	})
}

// end rolls back and returns the connection to the pool. One that was interrupted, or cannot roll back, is closed, which does the same.
func (s *session) end() {
	late := time.AfterFunc(grace, s.wire.abandon)
	defer late.Stop()
	close(s.over)
	interrupted := !s.unhook()
	if interrupted {
		<-s.killed
	}
	err := checked.Guard(func() error {
		if s.prepared != nil {
			_ = s.prepared.Close()
		}
		if s.tx != nil {
			return s.tx.Rollback()
		}
		return nil
	})
	if interrupted || err != nil {
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = s.conn.Close()
	s.cancel()
}
