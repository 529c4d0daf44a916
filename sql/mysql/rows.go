package mysql

import (
	"context"
	dbsql "database/sql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// rows implements sql.Rows.
type rows struct {
	checked.Row
	db        *Database
	ctx       context.Context
	cancel    context.CancelFunc
	leave     func() // gives the turn back
	session   *session
	inner     *dbsql.Rows
	statement string

	done    bool // the server sent all
	stopped bool // nothing more is read
}

// describe reads the columns' names and types.
func (r *rows) describe() error {
	types, err := r.inner.ColumnTypes()
	if err != nil {
		return err
	}
	if len(types) == 0 {
		return errNoRows
	}
	for _, t := range types {
		f := formOf(t.DatabaseTypeName(), r.db.connector.settings.timeZone == "")
		r.Cols = append(r.Cols, sql.Column{Name: t.Name(), Type: typeText(t), Kind: f.Kind})
		r.Forms = append(r.Forms, f)
	}
	r.Make(len(types))
	return nil
}

// Next implements sql.Rows.
func (r *rows) Next() bool {
	if r.stopped {
		return false
	}
	r.session.wire.meter.Allow(r.db.budget())
	err := checked.Guard(func() error {
		if r.inner.Next() {
			return r.inner.Scan(r.Targets...)
		}
		r.done = true
		return r.inner.Err()
	})
	if err != nil || r.done {
		r.fail(err)
		return false
	}
	size := r.Fill()
	if limit := r.db.limits.RowBytes; limit > 0 && size > limit {
		r.fail(checked.ErrTooLong)
		return false
	}
	return true
}

func (r *rows) fail(err error) {
	r.stopped = true
	if r.session.wire.meter.Tripped() {
		err = checked.ErrTooLong
	}
	if err != nil {
		r.Failed = r.db.fail(r.ctx, err, r.statement)
	}
}

// Close implements sql.Rows. The driver would read all rows that are left: the server is asked to end the statement instead.
func (r *rows) Close() {
	if r.inner == nil {
		return
	}
	if !r.done {
		r.cancel() // which makes interrupt end it
	}
	_ = checked.Guard(r.inner.Close)
	r.inner, r.stopped = nil, true
	r.session.end()
	r.cancel()
	r.leave()
}
