package checked

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

const (
	// DefaultTables is the number of listed tables if the filter sets no limit.
	DefaultTables = 1000
	// CatalogBytes bounds an answer of the catalog. A server may send anything.
	CatalogBytes = 32 << 20
	// idleTime is how long an unused connection stays open.
	idleTime = 5 * time.Minute
)

// Pool makes a pool of a database's connections.
func Pool(connector driver.Connector) *dbsql.DB {
	pool := dbsql.OpenDB(connector)
	pool.SetMaxOpenConns(sql.PoolSize)
	pool.SetMaxIdleConns(sql.PoolSize)
	pool.SetConnMaxIdleTime(idleTime)
	return pool
}

// Conn takes a connection of a pool.
func Conn(ctx context.Context, pool *dbsql.DB) (*dbsql.Conn, error) {
	conn, err := pool.Conn(ctx)
	if err != nil && errors.Is(context.Cause(ctx), sql.ErrTimeout) && pool.Stats().InUse >= sql.PoolSize {
		err = ErrNoTurn
	}
	return conn, err
}

// Turns lets as many statements run as there are connections: the time of one that waits begins with its turn.
type Turns struct{ free *semaphore.Weighted }

// NewTurns returns turns that nobody has taken.
func NewTurns() Turns { return Turns{semaphore.NewWeighted(sql.PoolSize)} }

// Take waits for a turn, as long as a statement may take; a limit of 0 is none. The error is ErrNoTurn, or the context's cause.
func (t Turns) Take(ctx context.Context, limit time.Duration) (leave func(), err error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, ErrNoTurn)
		defer cancel()
	}
	if t.free.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() { t.free.Release(1) }), nil
}

// Form is how the values of a column become text.
type Form struct {
	Kind sql.Kind
	// Write makes the text of a value that is not NULL.
	Write func(value any) []byte
}

// Text is the text of a value; nil: it is NULL.
func (f Form) Text(value any) []byte {
	if value == nil {
		return nil
	}
	if text := f.Write(value); text != nil {
		return text
	}
	return []byte{}
}

// Row is the current one of an answer.
type Row struct {
	Cols    []sql.Column
	Forms   []Form
	Found   []any // the driver's values
	Targets []any // pointers to Found
	Texts   [][]byte
	Failed  error
}

// Make makes room for a row of columns.
func (r *Row) Make(columns int) {
	r.Found, r.Texts = make([]any, columns), make([][]byte, columns)
	for i := range r.Found {
		r.Targets = append(r.Targets, &r.Found[i])
	}
}

// Fill converts the found values to texts, and returns their length.
func (r *Row) Fill() (size int) {
	for i, value := range r.Found {
		r.Texts[i] = r.Forms[i].Text(value)
		size += len(r.Texts[i])
	}
	return size
}

// Columns implements sql.Rows.
func (r *Row) Columns() []sql.Column { return r.Cols }

// Values implements sql.Rows.
func (r *Row) Values() [][]byte { return r.Texts }

// Err implements sql.Rows.
func (r *Row) Err() error { return r.Failed }

// Scan reads the columns of a row.
type Scan = func(...any) error

// Each hands over each row of an answer.
func Each(found *dbsql.Rows, each func(Scan) error) error {
	defer func() { _ = found.Close() }()
	for found.Next() {
		if err := each(found.Scan); err != nil {
			return err
		}
	}
	return found.Err()
}

// Into returns a function that converts each row by one and appends it to a list.
func Into[T any](list *[]T, one func(Scan) (T, error)) func(Scan) error {
	return func(scan Scan) error {
		item, err := one(scan)
		*list = append(*list, item)
		return err
	}
}

// The limits of reading a table for examples.
const (
	ExampleColumns = 60
	ExampleRows    = 500
	ExampleLetters = 60
	exampleValues  = 5
)

// Examples adds the values of a row to the examples of its columns, in the form that show gives them.
func Examples(columns []*sql.TableColumn, show func(declared, value string) string) func(Scan) error {
	return func(scan Scan) error {
		values := make([]dbsql.NullString, len(columns))
		targets := make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := scan(targets...); err != nil {
			return err
		}
		for i, c := range columns {
			v := show(c.Type, values[i].String)
			if values[i].Valid && len(c.Examples) < exampleValues && !slices.Contains(c.Examples, v) {
				c.Examples = append(c.Examples, v)
			}
		}
		return nil
	}
}
