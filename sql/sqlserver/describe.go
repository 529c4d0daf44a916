package sqlserver

import (
	"context"
	dbsql "database/sql"
	"errors"
	"slices"
	"strings"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// describeStatement asks the server for the columns that a statement would return. It binds the statement's names and plans it, and does not
// run it. An error in the statement comes as a row.
const describeStatement = "SELECT name, system_type_name, is_hidden, error_number " +
	"FROM sys.dm_exec_describe_first_result_set(@p1, @p2, 0) ORDER BY column_ordinal"

// unable are the errors of servers without the function and of logins that may not use it; the first two count only if they are about it.
var unable = []int32{195, 208, 229, 262, 297, 300, 371, 15151, 104309}

// lockTimeout is the error of waiting for another session's lock.
const lockTimeout = 1222

// maxDescribed is more columns than a statement's result may return.
const maxDescribed = 5000

// described is the server's word on one column.
type described struct{ name, kind string }

// describe returns the server's description of a statement's columns; nothing if the server cannot tell. A statement that returns no rows
// does something else, whatever the check took it for.
func (d *Database) describe(ctx context.Context, conn *dbsql.Conn, statement string, params []any) ([]described, error) {
	if d.silent.Load() {
		return nil, nil
	}
	var declared any
	if len(params) > 0 {
		declared = declarations(params)
	}
	rows, err := conn.QueryContext(ctx, describeStatement, statement, declared)
	if err != nil {
		return nil, d.cannotDescribe(err)
	}
	defer func() { _ = rows.Close() }()
	columns, known, any := []described{}, true, false
	for rows.Next() {
		var name, kind dbsql.NullString
		var hidden dbsql.NullBool
		var number dbsql.NullInt64
		if err := rows.Scan(&name, &kind, &hidden, &number); err != nil {
			return nil, err
		}
		any = true
		if len(columns) > maxDescribed {
			return nil, nil // and the statement's own answer tells
		}
		if number.Int64 == lockTimeout {
			return nil, mssql.Error{Number: lockTimeout, Message: "Lock request time out period exceeded."}
		}
		known = known && !number.Valid
		if !hidden.Bool {
			columns = append(columns, described{name.String, kind.String})
		}
	}
	switch err := rows.Err(); {
	case err != nil:
		return nil, d.cannotDescribe(err)
	case !any:
		return nil, fault.New(fault.SQLRejected, oneStatement, "The server says that the statement returns no rows: it is no reading statement.")
	case !known: // the statement is in error, which running it tells better, or depends on objects that do not exist yet
		return nil, nil
	}
	return columns, nil
}

// cannotDescribe lets an answer of the server pass, since the statement can run without being described.
func (d *Database) cannotDescribe(err error) error {
	var said mssql.Error
	if !errors.As(err, &said) || said.Number == lockTimeout { // for which the statement would only wait again
		return err
	}
	about := said.Number != 195 && said.Number != 208 || strings.Contains(said.Message, "dm_exec_describe_first_result_set")
	if about && slices.Contains(unable, said.Number) {
		d.silent.Store(true)
	}
	return nil
}
