package postgres

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// conn is a connection as database/sql wants one. Values come as the wire's texts: the driver's own types would round some.
type conn struct {
	*pgconn.PgConn
	dialect    *dialect
	limitsTemp bool          // whether the login may set temp_file_limit
	answer     reader.Answer // of the user's statement that was sent last
}

// Prepare implements driver.Conn. Nothing is prepared by name: DISCARD ALL and poolers take that away.
func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return nil, errors.ErrUnsupported
}

// Begin implements driver.Conn.
func (c *conn) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

// Commit implements driver.Tx.
func (c *conn) Commit() error { return errors.ErrUnsupported }

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(*driver.NamedValue) error { return nil }

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool { return !c.IsClosed() }

// Close implements driver.Conn.
func (c *conn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTime)
	defer cancel()
	return c.PgConn.Close(ctx)
}

func serverVersion(conn *pgconn.PgConn) (major int) {
	_, _ = fmt.Sscanf(conn.ParameterStatus("server_version"), "%d", &major)
	return major
}

// BeginTx begins the transaction and bounds it. The SELECT that sets the bounds takes the snapshot, after which a transaction cannot be made
// writable. A connection that broke while it was idle, as all do when the database is restarted, shows here.
func (c *conn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	// Not by the context: its end would first make the server cancel the statement.
	_ = c.Conn().SetDeadline(time.Now().Add(reader.ResetTime))
	defer func() { _ = c.Conn().SetDeadline(time.Time{}) }()
	milliseconds := fmt.Sprint(max(1, c.dialect.limits.Timeout.Milliseconds()))
	settings := [][2]string{
		{"statement_timeout", milliseconds}, {"lock_timeout", milliseconds},
		{"idle_in_transaction_session_timeout", milliseconds},
		{"standard_conforming_strings", "on"}, {"client_encoding", "UTF8"},
		{"datestyle", "ISO"}, {"intervalstyle", "iso_8601"}, {"bytea_output", "hex"},
		{"extra_float_digits", "1"}, {"xmlbinary", "base64"},
	}
	if !c.dialect.zoned {
		settings = append(settings, [2]string{"timezone", "UTC"})
	}
	if c.limitsTemp && c.dialect.limits.TempBytes > 0 {
		settings = append(settings, [2]string{"temp_file_limit", fmt.Sprint(c.dialect.limits.TempBytes >> 10)})
	}
	calls := make([]string, len(settings))
	for i, s := range settings {
		calls[i] = fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", s[0], s[1])
	}
	err := c.Exec(ctx, "BEGIN READ ONLY; SELECT "+strings.Join(calls, ", ")).Close() // which keeps no rows
	if err == nil {
		return c, nil
	}
	_ = c.Close()
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !strings.HasPrefix(refused.Code, "57P0") { // by which a server says that it closes the connection
		return nil, &reader.LoginError{Err: err}
	}
	return nil, fmt.Errorf("%w: %w", driver.ErrBadConn, err)
}

// Rollback implements driver.Tx. It clears other state that a statement may have left on the connection, such as a lock that a function of
// the user's took.
func (c *conn) Rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTime)
	defer cancel()
	return errors.Join(c.Exec(ctx, "ROLLBACK").Close(), c.Exec(ctx, "DISCARD ALL").Close())
}

// list returns the rows of a statement of our own that goes by the simple protocol.
func (c *conn) list(ctx context.Context, query string) (rows [][][]byte, err error) {
	results, err := c.Exec(ctx, query).ReadAll()
	for _, result := range results {
		rows = append(rows, result.Rows...)
	}
	return rows, err
}

// QueryContext implements driver.QueryerContext. A user's statement is prepared first, which reports the number and types of its parameters
// and the columns of its result, before anything is executed.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) == 1 {
		if params, ok := args[0].Value.(described); ok {
			return c.describe(ctx, query, params)
		}
	}
	values := make([][]byte, len(args))
	for i, arg := range args {
		switch v := arg.Value.(type) {
		case []string:
			values[i] = arrayOf(v)
		default:
			values[i] = []byte(fmt.Sprint(v)) // and never nil, which is NULL
		}
	}
	return &rows{conn: c, reader: c.ExecParams(ctx, query, values, nil, nil, nil)}, nil
}

// arrayOf writes the text of an array.
func arrayOf(texts []string) []byte {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	text, _ := types{}.arrayLiteral(nil, list, typeInfo{comma: ','})
	return text
}

func (c *conn) describe(ctx context.Context, query string, params []any) (driver.Rows, error) {
	statement, err := c.PgConn.Prepare(ctx, "", query, nil)
	if err != nil {
		return nil, err
	}
	found := c.dialect.types
	asked, err := found.learn(ctx, c, statement)
	if err == nil && asked { // and the question replaced the unnamed statement
		statement, err = c.PgConn.Prepare(ctx, "", query, nil)
	}
	if err != nil {
		return nil, err
	}
	encoded, err := encodeParams(params, statement.ParamOIDs, found)
	if err != nil {
		return nil, err
	}
	c.answer = reader.Answer{}
	forms := make([]form, len(statement.Fields))
	for i, field := range statement.Fields {
		column, form := found.column(field)
		c.answer.Columns = append(c.answer.Columns, column)
		forms[i] = form
	}
	return &rows{conn: c, reader: c.ExecPrepared(ctx, "", encoded, nil, nil), forms: forms}, nil
}

// rows implements driver.Rows.
type rows struct {
	conn   *conn
	reader *pgconn.ResultReader
	forms  []form // nil: of a statement of our own
	done   bool   // the whole result was read, or it failed
}

// Columns implements driver.Rows.
func (r *rows) Columns() []string { return make([]string, len(r.reader.FieldDescriptions())) }

// Next implements driver.Rows.
func (r *rows) Next(to []driver.Value) error {
	if r.done {
		return io.EOF
	}
	if !r.reader.NextRow() {
		return cmp.Or(r.end(), io.EOF)
	}
	for i, value := range r.reader.Values() {
		to[i] = nil
		if value == nil {
			continue
		}
		if r.forms != nil && r.forms[i] != nil {
			value = r.forms[i](value)
		}
		to[i] = value
	}
	return nil
}

// Close implements driver.Rows. After a result that was cancelled the connection is not used again: the cancelling could reach whatever
// comes next.
func (r *rows) Close() error {
	if r.done {
		return nil
	}
	err := r.end()
	if err != nil {
		_ = r.conn.Close()
	}
	return err
}

func (r *rows) end() error {
	r.done = true
	_, err := r.reader.Close()
	var large *pgproto3.ExceededMaxBodyLenErr
	if errors.As(err, &large) {
		return fmt.Errorf("%w: %w", reader.ErrTooLong, err)
	}
	return err
}
