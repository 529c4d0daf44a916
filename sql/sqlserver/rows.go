package sqlserver

import (
	"context"
	dbsql "database/sql"
	"fmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// rows implements sql.Rows.
type rows struct {
	checked.Row
	db        *Database
	ctx       context.Context
	cancel    context.CancelFunc // nil for statements of our own: their caller holds it
	leave     func()             // gives the turn back; nil with cancel
	session   *session
	inner     *dbsql.Rows
	statement string

	// pieces is set where the one value of FOR JSON and FOR XML comes in rows of two thousand letters.
	pieces bool

	done   bool
	closed bool
}

// streamed maps the names of the columns in which FOR JSON and FOR XML come in pieces to their columns here.
var streamed = map[string]sql.Column{
	"JSON_F52E2B61-18A1-11d1-B105-00805F49916B": {Name: "json", Type: "json", Kind: sql.JSON},
	"XML_F52E2B61-18A1-11d1-B105-00805F49916B":  {Name: "xml", Type: "xml", Kind: sql.Text},
}

// describe reads the columns, by the server's own description if there is one.
func (r *rows) describe(said []described) error {
	types, err := columnTypes(r.inner)
	if err != nil {
		return err
	}
	for i, t := range types {
		column := sql.Column{Name: t.name, Type: t.text, Kind: t.form.Kind}
		if len(said) == len(types) && said[i].name == t.name && said[i].kind != "" {
			column.Type = said[i].kind
		}
		r.Cols = append(r.Cols, column)
		r.Forms = append(r.Forms, t.form)
	}
	r.Make(len(types))
	if len(types) == 1 {
		if column, ok := streamed[types[0].name]; ok {
			r.pieces = true
			r.Cols[0] = column
		}
	}
	return nil
}

// Next implements sql.Rows.
func (r *rows) Next() bool {
	if r.done || r.closed {
		return false
	}
	if r.pieces {
		r.done = true
		return r.join()
	}
	if !r.read() {
		r.done = true
		return false
	}
	size := r.Fill()
	return r.fits(size)
}

// read takes the next row from the driver.
func (r *rows) read() bool {
	r.session.meter.Allow(r.db.budget())
	if r.inner.Next() {
		if err := r.inner.Scan(r.Targets...); err != nil {
			r.failed(err)
			return false
		}
		return true
	}
	if err := r.inner.Err(); err != nil {
		r.failed(err)
	}
	return false
}

func (r *rows) failed(err error) {
	if r.session.meter.Tripped() {
		err = checked.ErrTooLong
	}
	r.Failed = r.db.fail(r.ctx, err, r.statement)
	r.done = true
}

func (r *rows) fits(size int) bool {
	if limit := r.db.limits.RowBytes; limit > 0 && size > limit {
		r.failed(checked.ErrTooLong)
		return false
	}
	return true
}

// join joins all rows to one value. No rows are no value, as in an empty result of FOR JSON.
func (r *rows) join() bool {
	var whole []byte
	for r.read() {
		whole = append(whole, r.Forms[0].Text(r.Found[0])...)
		if !r.fits(len(whole)) {
			return false
		}
	}
	r.Texts[0] = whole
	return r.Failed == nil && whole != nil
}

// Close implements sql.Rows.
func (r *rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.session.meter.Allow(r.db.budget()) // for the bytes on their way when the statement was ended
	_ = r.inner.Close()
	r.session.end()
	if r.cancel != nil {
		r.cancel()
		r.leave()
	}
}

// columnType is the type of a column by the answer's head.
type columnType struct {
	name, text string
	form       form
}

// columnTypes reads the head of an answer. The driver panics at .NET types that somebody made for one database, and does not name the
// column.
func columnTypes(inner *dbsql.Rows) (types []columnType, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.SQLFailed, "Leave such columns out, or select their text: column.ToString(), or CAST(column AS varbinary(max)).",
				"A column has a type that only this database knows.").Because(fmt.Errorf("driver: %v", p))
		}
	}()
	known, err := inner.ColumnTypes()
	for _, t := range known {
		types = append(types, columnType{t.Name(), typeText(t), formOf(t)})
	}
	return types, err
}
