package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// rows is a result that is still coming, and the transaction that it comes from.
type rows struct {
	db     *Database
	conn   *pgxpool.Conn
	cancel context.CancelFunc
	query  string

	reader  *pgconn.ResultReader
	columns []sql.Column
	forms   []form
	values  [][]byte
	done    bool // the whole result was read, or it failed
	closed  bool
	err     error
}

// start sends the statement. It is prepared first, which reports the number and types of its parameters and the columns of its result,
// before anything is executed.
func (r *rows) start(ctx context.Context, types *typeCache, q sql.Query) error {
	conn := r.conn.Conn().PgConn()
	statement, err := conn.Prepare(ctx, "", q.Text, nil)
	if err != nil {
		return queryFault(err, q.Text)
	}
	found, asked, err := types.of(ctx, conn, statement)
	if err != nil {
		return queryFault(err, q.Text)
	}
	if asked { // and the question replaced the unnamed statement
		if statement, err = conn.Prepare(ctx, "", q.Text, nil); err != nil {
			return queryFault(err, q.Text)
		}
	}
	params, err := encodeParams(q.Params, statement.ParamOIDs, found)
	if err != nil {
		return err
	}
	for _, field := range statement.Fields {
		column, form := found.column(field)
		r.columns, r.forms = append(r.columns, column), append(r.forms, form)
	}
	r.values = make([][]byte, len(r.columns))
	r.reader = conn.ExecPrepared(ctx, "", params, nil, nil)
	return nil
}

func (r *rows) Columns() []sql.Column { return r.columns }

func (r *rows) Next() bool {
	if r.done || r.closed {
		return false
	}
	if !r.reader.NextRow() {
		r.done = true
		if _, err := r.reader.Close(); err != nil {
			r.err = queryFault(err, r.query)
		}
		return false
	}
	for i, value := range r.reader.Values() {
		if form := r.forms[i]; form != nil && value != nil {
			value = form(value)
		}
		r.values[i] = value
	}
	return true
}

func (r *rows) Values() [][]byte { return r.values }

func (r *rows) Err() error { return r.err }

// Close ends the transaction. A result that was not read to its end is cancelled in the database, and
// its connection is not used again: the cancelling could reach whatever comes next.
func (r *rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.cancel()
	if r.reader != nil && !r.done {
		_, _ = r.reader.Close()
		discard(r.conn)
		return
	}
	r.db.finish(r.conn)
}
