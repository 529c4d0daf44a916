// A query from its check to its rows.

package sqlserver

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/meter"
)

// grace is how much longer than its statement a transaction may take to be rolled back.
const grace = 10 * time.Second

// noLimit stands for a statement without a limit of time.
const noLimit = 24 * time.Hour

// Query implements sql.Database.
func (d *Database) Query(ctx context.Context, q sql.Query) (sql.Rows, error) {
	if err := check(q.Text, len(q.Params)); err != nil {
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
	r, err := d.open(ctx, q.Text, params, true)
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
func (d *Database) open(ctx context.Context, statement string, params []any, foreign bool) (*rows, error) {
	s, columns, err := d.session(ctx, statement, params, foreign)
	if err != nil {
		return nil, err
	}
	// The driver takes a text of one word for the name of a procedure; a line break makes it none.
	s.meter.Allow(d.budget())
	inner, err := s.tx.QueryContext(ctx, statement+"\n", params...)
	if err != nil {
		if s.meter.Tripped() {
			err = checked.ErrTooLong
		}
		s.end()
		return nil, err
	}
	r := &rows{db: d, ctx: ctx, session: s, inner: inner, statement: statement}
	if err := r.describe(columns); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// budget bounds the bytes between two rows: the driver reads a few ahead, and a text takes two bytes a letter.
func (d *Database) budget() int64 {
	if d.limits.RowBytes <= 0 {
		return 1 << 62
	}
	return 16*int64(d.limits.RowBytes) + 1<<20
}

// session is one connection in a transaction, which ends by being rolled back.
type session struct {
	conn   *dbsql.Conn
	tx     *dbsql.Tx
	meter  *meter.Meter
	cancel context.CancelFunc
}

// session begins a transaction, after asking the server about a statement that is not our own. A connection that breaks before the statement
// was sent is replaced once.
func (d *Database) session(ctx context.Context, statement string, params []any, foreign bool) (s *session, columns []described, err error) {
	err = checked.Begin(ctx, func() (err error) {
		s, columns, err = d.trySession(ctx, statement, params, foreign)
		return err
	})
	return s, columns, err
}

func (d *Database) trySession(ctx context.Context, statement string, params []any, foreign bool) (*session, []described, error) {
	conn, err := checked.Conn(ctx, d.pool)
	if err != nil {
		return nil, nil, err
	}
	s := &session{conn: conn}
	if err := conn.Raw(func(c any) error { s.meter = c.(*wireConn).meter; return nil }); err != nil {
		s.end()
		return nil, nil, err
	}
	s.meter.Allow(checked.CatalogBytes)
	var columns []described
	if foreign {
		if columns, err = d.describe(ctx, conn, statement, params); err != nil {
			s.end()
			return nil, nil, s.because(err)
		}
	}
	if err := s.begin(ctx, d.limits.Timeout); err != nil {
		s.end()
		return nil, nil, err
	}
	return s, columns, nil
}

// begin begins the transaction under a context of its own, so that it is rolled back in order when the
// statement's ends: the rollback's answer is waited for then, but not for ever.
func (s *session) begin(ctx context.Context, limit time.Duration) error {
	if limit <= 0 {
		limit = noLimit
	}
	txCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit+grace)
	s.cancel = cancel
	tx, err := s.conn.BeginTx(txCtx, nil)
	s.tx = tx
	return err
}

// because is err, or why it came where too much was in the catalog's answer.
func (s *session) because(err error) error {
	if err != nil && s.meter.Tripped() {
		return checked.ErrTooWide
	}
	return err
}

// end rolls back and returns the connection to the pool. One that cannot roll back is closed, which does the same.
func (s *session) end() {
	if s.tx != nil {
		if err := s.tx.Rollback(); err != nil && !errors.Is(err, dbsql.ErrTxDone) {
			_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}
	_ = s.conn.Close()
	if s.cancel != nil {
		s.cancel()
	}
}
