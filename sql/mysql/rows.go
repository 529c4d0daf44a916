package mysql

import (
	"context"
	dbsql "database/sql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// rows implements sql.Rows.
type rows struct {
	db        *Database
	ctx       context.Context
	cancel    context.CancelFunc
	session   *session
	inner     *dbsql.Rows
	statement string

	columns []sql.Column
	forms   []form
	found   []any // what the driver gave
	targets []any // pointers to found
	values  [][]byte
	done    bool // the server has sent all
	stopped bool // nothing more is read
	err     error
}

// describe reads what the columns are.
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
		r.columns = append(r.columns, sql.Column{Name: t.Name(), Type: typeText(t), Kind: f.kind})
		r.forms = append(r.forms, f)
	}
	r.found, r.values = make([]any, len(types)), make([][]byte, len(types))
	for i := range r.found {
		r.targets = append(r.targets, &r.found[i])
	}
	return nil
}

// Columns implements sql.Rows.
func (r *rows) Columns() []sql.Column { return r.columns }

// Values implements sql.Rows.
func (r *rows) Values() [][]byte { return r.values }

// Err implements sql.Rows.
func (r *rows) Err() error { return r.err }

// Next implements sql.Rows.
func (r *rows) Next() bool {
	if r.stopped {
		return false
	}
	r.session.wire.meter.Allow(r.db.budget())
	err := guard(func() error {
		if r.inner.Next() {
			return r.inner.Scan(r.targets...)
		}
		r.done = true
		return r.inner.Err()
	})
	if err != nil || r.done {
		r.fail(err)
		return false
	}
	size := 0
	for i, value := range r.found {
		r.values[i] = r.forms[i].text(value)
		size += len(r.values[i])
	}
	if limit := r.db.limits.RowBytes; limit > 0 && size > limit {
		r.fail(errTooLong)
		return false
	}
	return true
}

func (r *rows) fail(err error) {
	r.stopped = true
	if r.session.wire.meter.Tripped() {
		err = errTooLong
	}
	if err != nil {
		r.err = r.db.fail(r.ctx, err, r.statement)
	}
}

// Close implements sql.Rows. The driver would read all rows that are left: the server is asked to end the statement instead.
func (r *rows) Close() {
	if r.inner == nil {
		return
	}
	if !r.done {
		r.cancel() // which has interrupt end it
	}
	_ = guard(r.inner.Close)
	r.inner, r.stopped = nil, true
	r.session.end()
	r.cancel()
}
