package reader

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"
)

// Session is one connection in a transaction, which ends by being rolled back.
type Session struct {
	Conn *Conn
	// Path is for a dialect's Catalog: the schemas in which Look found names without one.
	Path string

	db       *Database
	ctx      context.Context // of its statements
	conn     *dbsql.Conn
	tx       *dbsql.Tx
	prepared *dbsql.Stmt
	cancel   context.CancelFunc

	// Only where the dialect kills:
	unhook func() bool
	over   chan struct{} // closed when nothing of the statement is waited for
	killed chan struct{} // closed when interrupt ended
	once   sync.Once
}

// trySession begins a transaction, after before. The transaction has a context of its own, so that it is rolled back in order when the
// statement's ends: the rollback's answer is waited for then, but not for ever.
func (d *Database) trySession(ctx context.Context, before func(*Session) error) (*Session, error) {
	conn, err := d.conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &Session{db: d, ctx: ctx, conn: conn, over: make(chan struct{}), killed: make(chan struct{})}
	_ = conn.Raw(func(c any) error { s.Conn = c.(*Conn); return nil })
	s.Conn.wire.allow(catalogBytes)
	limit := d.limits.Timeout + d.dialect.Patience
	if d.limits.Timeout <= 0 {
		limit = noLimit
	}
	txCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit+grace)
	s.cancel = cancel
	if d.dialect.Kill != nil { // the driver would close the connection and leave the statement running
		s.ctx, s.unhook = txCtx, context.AfterFunc(ctx, s.interrupt)
	}
	err = Guard(func() (err error) {
		if before != nil {
			if err := before(s); err != nil {
				return err
			}
		}
		s.tx, err = conn.BeginTx(txCtx, &dbsql.TxOptions{ReadOnly: d.dialect.ReadOnly})
		return err
	})
	if err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// Context is the context of the session's statements.
func (s *Session) Context() context.Context { return s.ctx }

// Query sends a statement to the database.
func (s *Session) Query(query string, args ...any) (*dbsql.Rows, error) {
	if s.tx == nil {
		return s.conn.QueryContext(s.ctx, query, args...)
	}
	return s.tx.QueryContext(s.ctx, query, args...)
}

// Prepared sends a statement by the protocol of prepared ones, in which parameters and values are no text.
func (s *Session) Prepared(query string, args ...any) (found *dbsql.Rows, err error) {
	if s.prepared, err = s.tx.PrepareContext(s.ctx, query); err != nil {
		return nil, err
	}
	return s.prepared.QueryContext(s.ctx, args...)
}

// Each sends a statement of our own and hands over each row.
func (s *Session) Each(query string, args []any, each func(Scan) error) error {
	s.Conn.wire.allow(catalogBytes)
	err := Guard(func() error {
		found, err := s.Query(query, args...)
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }()
		for found.Next() {
			if err := each(found.Scan); err != nil {
				return err
			}
		}
		return found.Err()
	})
	if err != nil && s.Conn.wire.tripped.Load() {
		return errTooWide
	}
	return err
}

// One reads the first row of an answer into targets; false: there is none.
func (s *Session) One(query string, args []any, targets ...any) (found bool, err error) {
	err = s.Each(query, args, func(scan Scan) error {
		if found {
			return nil
		}
		found = true
		return scan(targets...)
	})
	return found, err
}

// List reads an answer of one column.
func List[T any](s *Session, query string, args ...any) (list []T, err error) {
	return list, s.Each(query, args, Into(&list, func(scan Scan) (item T, err error) { return item, scan(&item) }))
}

// interrupt asks the server to end the statement, and closes the connection: the request could hit another statement on it.
func (s *Session) interrupt() {
	s.once.Do(func() {
		defer close(s.killed)
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if s.db.dialect.Kill(ctx, s.Conn) == nil {
			select {
			case <-s.over:
			case <-ctx.Done():
			}
		}
		s.cancel()
		s.Conn.wire.Abandon()
	})
}

// end rolls back and returns the connection to the pool. One that was interrupted, or cannot roll back, is closed, which does the same.
func (s *Session) end() {
	late := time.AfterFunc(grace, s.Conn.wire.Abandon)
	defer late.Stop()
	close(s.over)
	interrupted := s.unhook != nil && !s.unhook()
	if interrupted {
		<-s.killed
	}
	s.Conn.wire.allow(s.db.budget()) // for the bytes on their way when the statement was ended
	err := Guard(func() error {
		if s.prepared != nil {
			_ = s.prepared.Close()
		}
		if s.tx != nil {
			return s.tx.Rollback()
		}
		return nil
	})
	if interrupted || err != nil && !errors.Is(err, dbsql.ErrTxDone) {
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = s.conn.Close()
	s.cancel()
}
