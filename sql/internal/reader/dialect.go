// Package reader is the layer that PostgreSQL, MySQL and SQL Server share: connections, sessions, results, descriptions and errors.
//
// A Dialect adds what differs. Each call has a session of its own: one connection in one transaction, which is rolled back.
package reader

import (
	"context"
	dbsql "database/sql"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// Dialect is the part of a database that differs between its kinds.
type Dialect struct {
	Address string   // of the server, with its kind; neither a login nor a password
	Secrets []string // that no error may quote
	// LoginTime bounds connecting and logging in.
	LoginTime time.Duration
	// Patience is how much longer than its time a statement may run, for a server whose own clock ends it.
	Patience time.Duration
	// ReadOnly reports that the driver can begin a transaction that refuses writes.
	ReadOnly bool
	// Ahead is how many rows of the largest size may come before one is read.
	Ahead   int64
	Cheaper string // the hint for a slow statement
	// CutOff is for a login that ended without a word; empty: in the words for every database.
	CutOff, CutOffHint string

	// Check admits one reading statement, or refuses it before anything is sent.
	Check func(sql.Query) (*Statement, error)
	// Dial logs in through a wire.
	Dial func(context.Context, *Wire) (Driver, error)
	// SetUp sets a session's variables, on a new connection and again before each later use.
	SetUp func(context.Context, *Conn) error
	// Kill ends the statement that a connection runs; nil: the driver does, when the statement's context ends.
	Kill func(context.Context, *Conn) error
	// Full recognizes a server's error that it gives the login no further connection; nil: there is none.
	Full func(error) bool
	// Send sends a statement in the session's transaction; nil: as it is.
	Send func(s *Session, text string, params []any) (*dbsql.Rows, error)
	// Answer reads the head of a statement's result.
	Answer func(*Session, *Statement, *dbsql.Rows) (Answer, error)
	// Said returns an error of the server in words for a model; nil: it is none. slow: the server's clock ended the statement.
	Said func(err error, statement string, atLogin bool) (told *fault.Error, slow bool)
	// Own describes one of the driver's own errors; empty: in the words for every driver.
	Own func(error) (what, hint string)

	Catalog Catalog
}

// Statement is a statement that Check admitted.
type Statement struct {
	Text   string
	Params []any
	// Before asks the server about the statement before the transaction begins, and Admit within it. Either may be nil.
	Before, Admit func(*Session) error
	// Told is for Answer: the server's own description of the columns.
	Told []sql.Column
}

// Answer is the head of a result.
type Answer struct {
	Columns []sql.Column
	Forms   []Form // nil: the driver's values are texts already
	// Joined: the rows are pieces of one value.
	Joined bool
}

// Catalog holds the statements that describe a database. Their parameters and columns are in the order that is told for each.
type Catalog struct {
	// Look prepares a session for the others; nil: nothing to do.
	Look func(*Session) error
	// Schemas: name, number of tables, comment.
	Schemas string
	// Tables returns a statement for schema, name, kind, estimated rows and comment.
	Tables func(*Session, sql.TableFilter) (query string, args []any, err error)
	// Find finds a table, or returns an error of not_found. key is the parameters of the statements below.
	Find func(s *Session, schema, name string) (table sql.Table, key []any, err error)
	// Columns: name, type, nullable, default, comment, listed values; Column reads another row.
	Columns string
	Column  func(Scan) (sql.TableColumn, error)
	// Listed reads the values of an enumeration.
	Listed func(string) []string
	// PrimaryKey: a column's name; empty: Indexes tells it.
	PrimaryKey string
	// Indexes, a row for each column: name, unique, definition without columns, filter, column of the primary key, column in the definition, included.
	Indexes string
	// ForeignKeys and ReferencedBy, a row for each column: name, table, column, referenced table, referenced column.
	ForeignKeys, ReferencedBy string
	// Checks: a constraint.
	Checks func(*Session) string
	// Rights finds rights beside reading.
	Rights func(*Session) ([]sql.Finding, error)
}
