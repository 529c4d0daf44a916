package reader

import (
	"context"
	dbsql "database/sql"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// Form is how the values of a column become text.
type Form struct {
	Kind sql.Kind
	// Write makes the text of a value that is not NULL.
	Write func(value any) []byte
}

// text is the text of a value; nil: it is NULL.
func (f Form) text(value any) []byte {
	if value == nil {
		return nil
	}
	if text := f.Write(value); text != nil {
		return text
	}
	return []byte{}
}

// Plain writes values that a driver returns as text or as numbers.
func Plain(value any) []byte {
	switch v := value.(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case float32:
		return strconv.AppendFloat(nil, float64(v), 'g', -1, 32)
	case float64:
		return strconv.AppendFloat(nil, v, 'g', -1, 64)
	case time.Time:
		return v.AppendFormat(nil, time.RFC3339Nano)
	}
	return fmt.Append(nil, value)
}

// Hex writes bytes as hexadecimal digits.
func Hex(value any) []byte {
	if b, ok := value.([]byte); ok {
		return hex.AppendEncode(nil, b)
	}
	return Plain(value)
}

// rows implements sql.Rows.
type rows struct {
	Answer
	ctx       context.Context
	cancel    func() // ends the context
	over      func() // ends the call
	session   *Session
	inner     *dbsql.Rows
	statement string

	found   []any // the driver's values
	raw     []dbsql.RawBytes
	targets []any // pointers to found, or to raw where there are no forms
	texts   [][]byte
	err     error
	done    bool // the server sent all
	stopped bool // nothing more is read
}

// start sends a statement, and reads the head of its result.
func (r *rows) start(statement *Statement) error {
	s, dialect := r.session, r.session.db.dialect
	err := Guard(func() (err error) {
		if statement.Admit != nil {
			if err := statement.Admit(s); err != nil {
				return err
			}
		}
		s.Conn.wire.allow(s.db.budget())
		if dialect.Send != nil {
			r.inner, err = dialect.Send(s, statement.Text, statement.Params)
		} else {
			r.inner, err = s.Query(statement.Text, statement.Params...)
		}
		if err != nil {
			return err
		}
		r.Answer, err = dialect.Answer(s, statement, r.inner)
		return err
	})
	if err != nil {
		if r.inner != nil {
			_ = Guard(r.inner.Close)
		}
		if s.Conn.wire.tripped.Load() {
			err = ErrTooLong
		}
		return err
	}
	columns := len(r.Answer.Columns)
	r.found, r.raw, r.texts = make([]any, columns), make([]dbsql.RawBytes, columns), make([][]byte, columns)
	for i := range columns {
		if r.Forms != nil {
			r.targets = append(r.targets, &r.found[i])
		} else {
			r.targets = append(r.targets, &r.raw[i])
		}
	}
	return nil
}

// Columns implements sql.Rows.
func (r *rows) Columns() []sql.Column { return r.Answer.Columns }

// Values implements sql.Rows.
func (r *rows) Values() [][]byte { return r.texts }

// Err implements sql.Rows.
func (r *rows) Err() error { return r.err }

// Next implements sql.Rows. No rows are no value where rows are pieces of one, as in an empty result of FOR JSON.
func (r *rows) Next() bool {
	if !r.Joined {
		return r.read() && r.fits(r.convert())
	}
	var whole []byte
	for r.read() {
		whole = append(whole, r.Forms[0].text(r.found[0])...)
		if !r.fits(len(whole)) {
			return false
		}
	}
	r.texts[0], r.Joined = whole, false
	return r.err == nil && whole != nil
}

// read takes the next row from the driver.
func (r *rows) read() bool {
	if r.stopped {
		return false
	}
	r.session.Conn.wire.allow(r.session.db.budget())
	err := Guard(func() error {
		if r.inner.Next() {
			return r.inner.Scan(r.targets...)
		}
		r.done = true
		return r.inner.Err()
	})
	if err != nil {
		r.fail(err)
	}
	r.stopped = r.stopped || r.done
	return !r.stopped
}

// convert makes texts of the row's values, and returns their length.
func (r *rows) convert() (size int) {
	for i, value := range r.found {
		if r.Forms != nil {
			r.texts[i] = r.Forms[i].text(value)
		} else {
			r.texts[i] = r.raw[i]
		}
		size += len(r.texts[i])
	}
	return size
}

func (r *rows) fits(size int) bool {
	if limit := r.session.db.limits.RowBytes; limit > 0 && size > limit {
		r.fail(ErrTooLong)
		return false
	}
	return true
}

func (r *rows) fail(err error) {
	r.stopped = true
	if r.session.Conn.wire.tripped.Load() {
		err = ErrTooLong
	}
	r.err = r.session.db.fail(r.ctx, err, r.statement)
}

// Close implements sql.Rows. The drivers would read all rows that are left: the server is asked to end the statement instead.
func (r *rows) Close() {
	if r.inner == nil {
		return
	}
	if !r.done {
		r.cancel()
	}
	_ = Guard(r.inner.Close)
	r.inner, r.stopped = nil, true
	r.session.end()
	r.over()
}

// Types returns what a driver tells of a result's columns. Drivers panic at types that somebody made for one database.
func Types(found *dbsql.Rows) (types []*dbsql.ColumnType, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.SQLFailed, "Leave such columns out, or select their text: column.ToString(), or CAST(column AS varbinary(max)).",
				"A column has a type that only this database knows.").Because(fmt.Errorf("driver: %v", p))
		}
	}()
	return found.ColumnTypes()
}

// AnswerOf describes a result's columns by their types.
func AnswerOf(types []*dbsql.ColumnType, form func(*dbsql.ColumnType) Form, text func(*dbsql.ColumnType) string) (a Answer) {
	for _, t := range types {
		f := form(t)
		a.Forms = append(a.Forms, f)
		a.Columns = append(a.Columns, sql.Column{Name: t.Name(), Type: text(t), Kind: f.Kind})
	}
	return a
}
