// Package mysql reads MySQL and MariaDB, and cannot write them.
//
// Open returns a sql.Database. A statement runs in a transaction of START TRANSACTION READ ONLY, in a session that makes all its
// transactions read-only: the server refuses statements that write a table. It lets through statements that read or write files,
// take locks or change settings; a check of the statement's words (check.go) and a look into the catalog for functions of the
// database's own (uses.go) refuse those. The transaction is rolled back in any case. Only a login that may do nothing but read
// is beyond doubt: Rights reports how to make one.
package mysql

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// Password returns the password in a connection string; empty if there is none.
func Password(dsn string) string {
	s, err := parseDSN(dsn)
	if err != nil {
		return ""
	}
	return s.config.Passwd
}

// Open reads a connection string: a URL (mysql://, mariadb://), or the form user:password@tcp(host:3306)/database. It does not connect
// before the first use; an invalid string is a *fault.Error that reveals none of its values. Neither server offers every login a limit of
// temporary files for a session; that limit has no effect.
func Open(dsn string, limits sql.Limits) (*reader.Database, error) {
	s, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	s.limits = limits
	return reader.Open(&reader.Dialect{
		Address: "MySQL at " + s.config.Addr, Secrets: reader.Forms(s.config.Passwd), LoginTime: s.config.Timeout, ReadOnly: true, Ahead: 2,
		Cheaper: "Make the statement cheaper: LIMIT, an indexed column in WHERE, or an aggregate. EXPLAIN shows the plan.",
		Check:   s.check, Dial: s.dial, SetUp: s.setUp, Kill: s.kill, Send: send, Answer: s.answer, Said: s.said, Own: ownError,
		Catalog: catalog,
	}, limits), nil
}

func (s *settings) check(q sql.Query) (*reader.Statement, error) {
	used, err := check(q.Text, len(q.Params))
	if err != nil {
		return nil, err
	}
	params, err := reader.Bind(q.Params, bindOne)
	admit := func(session *reader.Session) error { return used.admit(session, s.limits.Functions) }
	return &reader.Statement{Text: q.Text, Params: params, Admit: admit}, err
}

// bindOne converts a JSON value to one that the driver sends beside the statement.
func bindOne(n int, param any) (any, error) {
	switch v := param.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		if whole, err := strconv.ParseUint(string(v), 10, 64); err == nil && whole > math.MaxInt64 {
			return whole, nil
		}
		return reader.BindNumber(n, v, "MySQL", "Give it as a text and convert it in the statement: CAST(? AS DECIMAL(65, 10)).", "BIGINT")
	default:
		return nil, reader.ErrParam(n, param, "MySQL has no arrays: write a ? for each value, or give a JSON text and read it with JSON_TABLE(?, '$[*]' COLUMNS (v INT PATH '$')).")
	}
}

// unprepared is the error for a statement that cannot be prepared, such as SHOW in some versions.
const unprepared = 1295

// send sends a statement as a prepared one, in which parameters and values are no text.
func send(s *reader.Session, text string, params []any) (*dbsql.Rows, error) {
	found, err := s.Prepared(text, params...)
	var said *mysql.MySQLError
	if errors.As(err, &said) && said.Number == unprepared && len(params) == 0 {
		return s.Query(text)
	}
	return found, err
}

// conn is the driver's connection, with the server's word on itself.
type conn struct {
	driverConn
	id      int64  // for KILL
	host    string // the server's name for itself: behind one address may be several
	mariadb bool
}

// driverConn lists the methods of the driver's connection.
type driverConn interface {
	reader.Driver
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
}

// dial makes a connection with a session in the server's default state.
func (s *settings) dial(ctx context.Context, wire *reader.Wire) (reader.Driver, error) {
	config := s.config.Clone()
	config.DialFunc = wire.DialContext
	made, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	inner, err := made.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{driverConn: inner.(driverConn)}
	return c, c.identify(ctx)
}

// identify asks the server what it is.
func (c *conn) identify(ctx context.Context) error {
	rows, err := c.QueryContext(ctx, "SELECT CONNECTION_ID(), VERSION(), @@hostname", nil)
	if err != nil {
		return err
	}
	found := make([]driver.Value, len(rows.Columns()))
	if err = rows.Next(found); err != nil || len(found) != 3 {
		return errors.Join(errors.New("the server does not say what it is"), err)
	}
	id, _ := found[0].(int64)
	version, _ := found[1].([]byte)
	host, _ := found[2].([]byte)
	c.id, c.host, c.mariadb = id, string(host), strings.Contains(strings.ToLower(string(version)), "mariadb")
	if err := rows.Next(found); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("the server says more than it was asked"), err)
	}
	return rows.Close()
}

// setUp sets a session's variables. The mode makes "x" a string and \ an escape, as the check assumes.
func (s *settings) setUp(ctx context.Context, made *reader.Conn) error {
	c := made.Driver.(*conn)
	mode := "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
	limit := fmt.Sprintf("max_statement_time = %.3f", s.limits.Timeout.Seconds()) // 0 is none
	if !c.mariadb {
		mode += ",ONLY_FULL_GROUP_BY"
		limit = fmt.Sprintf("max_execution_time = %d", s.limits.Timeout.Milliseconds())
	}
	zone := "+00:00"
	if s.timeZone != "" {
		zone = s.timeZone
	}
	settings := fmt.Sprintf("SET SESSION sql_mode = '%s', time_zone = '%s', autocommit = 1, %s", mode, zone, limit)
	if s.limits.Timeout > 0 {
		settings += fmt.Sprintf(", lock_wait_timeout = %d", max(1, int(s.limits.Timeout.Seconds()*3/4)))
	}
	for _, statement := range []string{"SET NAMES utf8mb4", settings, "SET SESSION TRANSACTION READ ONLY"} {
		if _, err := c.ExecContext(ctx, statement, nil); err != nil {
			return err
		}
	}
	return nil
}

// kill ends the statement that a connection runs, by another one to the same server. A login may always end its own.
func (s *settings) kill(ctx context.Context, made *reader.Conn) error {
	running, wire := made.Driver.(*conn), &reader.Wire{}
	defer wire.Abandon()
	return reader.Guard(func() error {
		dialed, err := s.dial(ctx, wire)
		if err != nil {
			return err
		}
		other := dialed.(*conn)
		if other.host != running.host {
			return fmt.Errorf("the address leads to %s now", other.host)
		}
		_, err = other.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", running.id), nil)
		return err
	})
}

// silent keeps the driver's messages out of the log: its errors tell all that matters.
var silent = &mysql.NopLogger{}
