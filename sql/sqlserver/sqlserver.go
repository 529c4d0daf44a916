// Package sqlserver reads Microsoft SQL Server and Azure SQL, and cannot write them.
//
// Open returns a sql.Database. SQL Server offers no transaction that refuses to write, so four things stand in for it:
// a statement is divided as the server divides it, and only one reading statement is admitted (check.go); the
// server is asked whether it returns rows before it runs, if the server can tell; the connection declares that it
// intends to read, so that it goes to a readable replica if there is one; and its transaction is rolled back in any case.
// Only a login that may do nothing but read is beyond doubt: Rights reports how to make one.
package sqlserver

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf16"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/azuread"
	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// dialect is one connection string's settings.
type dialect struct {
	config msdsn.Config
	setup  string // run in every session that begins
	// silent is set when the server cannot describe statements, or the login may not ask.
	silent atomic.Bool
}

// Password returns the password in a connection string; empty if there is none.
func Password(dsn string) string {
	config, _ := parseDSN(dsn, "")
	return config.Password
}

// Open reads a connection string: a URL (sqlserver://, azuresql://), key=value pairs, or ODBC's form. The password is for a string without
// one. It does not connect before the first use; an invalid string is a *fault.Error that reveals none of its values. SQL Server knows no
// limit of temporary files for a session; that limit has no effect.
func Open(dsn, password string, limits sql.Limits) (*reader.Database, error) {
	config, err := parseDSN(dsn, password)
	if err != nil {
		return nil, err
	}
	d := &dialect{config: config, setup: setup(limits)}
	cutOff, cutOffHint := "", ""
	if byToken(config) {
		cutOff, cutOffHint = withoutEntra, withoutEntraHint
	}
	return reader.Open(&reader.Dialect{
		Address: "SQL Server at " + address(config), Secrets: reader.Forms(config.Password), LoginTime: config.DialTimeout,
		CutOff: cutOff, CutOffHint: cutOffHint,
		Ahead: 16, // the driver reads a few rows ahead, and a text takes two bytes a letter
		Cheaper: "Make the statement cheaper: TOP (n), an indexed column in WHERE, or an aggregate. " +
			"SET SHOWPLAN_XML ON in a client of the database's own shows the plan.",
		Check: d.check, Dial: d.dial, SetUp: d.setUp, Send: send, Answer: answer, Said: d.said, Own: d.ownError, Catalog: catalog,
	}, limits), nil
}

// setup returns the first statements of every session. TEXTSIZE cuts values of the long types; it leaves enough to recognise them as too
// long. A text is twice as long for the server as it is here.
func setup(limits sql.Limits) string {
	lock, size := int64(-1), int64(-1)
	if limits.Timeout > 0 { // less than a statement's time, so that the server itself reports the lock
		lock = limits.Timeout.Milliseconds() * 3 / 4
	}
	if limits.RowBytes > 0 {
		size = min(2*int64(limits.RowBytes)+2, 1<<31-1)
	}
	return fmt.Sprintf("SET XACT_ABORT ON; SET NOCOUNT ON; SET QUOTED_IDENTIFIER ON; SET ANSI_NULLS ON; SET ANSI_PADDING ON; "+
		"SET ANSI_WARNINGS ON; SET ARITHABORT ON; SET CONCAT_NULL_YIELDS_NULL ON; SET NUMERIC_ROUNDABORT OFF; "+
		"SET IMPLICIT_TRANSACTIONS OFF; SET DEADLOCK_PRIORITY LOW; SET LOCK_TIMEOUT %d; SET TEXTSIZE %d;", lock, size)
}

// dial logs in. Each connection has a connector of its own: it writes to the settings of TLS while it connects.
func (d *dialect) dial(ctx context.Context, wire *reader.Wire) (reader.Driver, error) {
	config := d.config
	config.TLSConfig = config.TLSConfig.Clone()
	connector := mssql.NewConnectorConfig(config)
	if byToken(config) {
		var err error
		if connector, err = azuread.NewConnector(join(config.Parameters)); err != nil {
			return nil, err
		}
	}
	connector.Dialer = wire
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn.(*mssql.Conn), nil
}

// setUp sets a session's variables: with this request the server resets the session.
func (d *dialect) setUp(ctx context.Context, conn *reader.Conn) error {
	statement, err := conn.PrepareContext(ctx, d.setup)
	if err != nil {
		return err
	}
	_, err = statement.(driver.StmtExecContext).ExecContext(ctx, nil)
	return err
}

func (d *dialect) check(q sql.Query) (*reader.Statement, error) {
	if err := check(q.Text, len(q.Params)); err != nil {
		return nil, err
	}
	params, err := reader.Bind(q.Params, bindOne)
	statement := &reader.Statement{Text: q.Text, Params: params}
	statement.Before = func(s *reader.Session) error { return d.describe(s, statement) }
	return statement, err
}

// send sends a statement. The driver takes a text of one word for the name of a procedure; a line break makes it none.
func send(s *reader.Session, text string, params []any) (*dbsql.Rows, error) {
	return s.Query(text+"\n", params...)
}

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

// describe adds the server's description of a statement's columns; nothing if the server cannot tell. A statement that returns no rows
// does something else, whatever the check took it for.
func (d *dialect) describe(s *reader.Session, statement *reader.Statement) error {
	if d.silent.Load() {
		return nil
	}
	var declared any
	if len(statement.Params) > 0 {
		declared = declarations(statement.Params)
	}
	columns, known, found := []sql.Column{}, true, false
	err := s.Each(describeStatement, []any{statement.Text, declared}, func(scan reader.Scan) error {
		var name, kind dbsql.NullString
		var hidden dbsql.NullBool
		var number dbsql.NullInt64
		if err := scan(&name, &kind, &hidden, &number); err != nil {
			return err
		}
		if number.Int64 == lockTimeout {
			return mssql.Error{Number: lockTimeout, Message: "Lock request time out period exceeded."}
		}
		found = true
		known = known && !number.Valid && len(columns) <= maxDescribed
		if !hidden.Bool && known {
			columns = append(columns, sql.Column{Name: name.String, Type: kind.String})
		}
		return nil
	})
	var said mssql.Error
	switch {
	case errors.As(err, &said) && said.Number != lockTimeout: // for which the statement would only wait again
		about := said.Number != 195 && said.Number != 208 || strings.Contains(said.Message, "dm_exec_describe_first_result_set")
		d.silent.Store(d.silent.Load() || about && slices.Contains(unable, said.Number))
		return nil // since the statement can run without being described
	case err != nil:
		return err
	case !found:
		return fault.New(fault.SQLRejected, oneStatement, "The server says that the statement returns no rows: it is no reading statement.")
	case known: // otherwise it is in error, which running it tells better, or depends on objects that do not exist yet
		statement.Told = columns
	}
	return nil
}

const castHint = "Give it as a text and convert it in the statement: CAST(@p1 AS decimal(38, 10))."

// bindOne converts a JSON value to one that the driver sends beside the statement.
func bindOne(n int, param any) (any, error) {
	switch v := param.(type) {
	case nil:
		return dbsql.NullString{}, nil // a NULL without a type is none of a text
	case bool, string:
		return v, nil
	case json.Number:
		return reader.BindNumber(n, v, "SQL Server", castHint, "bigint")
	default:
		return nil, reader.ErrParam(n, param, fmt.Sprintf("SQL Server has no arrays: give it as a JSON text and read it with IN (SELECT value FROM OPENJSON(@p%d)).", n))
	}
}

// declarations returns the parameters' types as the driver declares them, for the server's description of a statement.
func declarations(bound []any) string {
	parts := make([]string, len(bound))
	for i, value := range bound {
		kind := "nvarchar(4000)"
		switch v := value.(type) {
		case bool:
			kind = "bit"
		case int64:
			kind = "bigint"
		case float64:
			kind = "float"
		case string:
			if n := len(utf16.Encode([]rune(v))); n > 4000 || n == 0 {
				kind = "nvarchar(max)"
			} else {
				kind = fmt.Sprintf("nvarchar(%d)", n)
			}
		}
		parts[i] = fmt.Sprintf("@p%d %s", i+1, kind)
	}
	return strings.Join(parts, ", ")
}
