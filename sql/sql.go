// Package sql reads databases and cannot write them.
//
// A Database is one configured connection; packages postgres, mysql and sqlserver implement one each.
// Connections holds all of them by name and opens them at first use. Query gives Rows, one after the
// other and never all in memory; an Export writes them to the writer that it gets, as CSV or
// JSON lines. A refusal by a database or a rule of ours is a *fault.Error.
//
// The package knows no MCP and no containers.
package sql

import (
	"context"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// Database is a database that can be read. Its methods may be called by several goroutines. Their
// errors are of *fault.Error: sql_rejected if the statement was not sent, sql_failed if the
// database said no or is not in reach.
type Database interface {
	// Query runs one reading statement. When ctx ends, the statement is ended in the database too. The
	// caller closes the rows.
	Query(ctx context.Context, q Query) (Rows, error)
	// Schemas lists the schemas that the login may use, the database's own left out.
	Schemas(ctx context.Context) ([]Schema, error)
	// Tables lists tables and views, ordered by schema and name, at most filter.Limit of them.
	Tables(ctx context.Context, filter TableFilter) ([]Table, error)
	// Table describes one table or view; not_found if there is none. An empty schema finds the table
	// as an unqualified name in a statement would.
	Table(ctx context.Context, schema, name string) (*TableDetail, error)
	// Rights reports rights of the login beyond reading, and how to take them away. Empty: none.
	Rights(ctx context.Context) ([]Finding, error)
	// Close closes the pool.
	Close()
}

// PoolSize is how many statements run at once on one connection; more wait for their turn.
const PoolSize = 4

// Limits bound the cost and the calls of one statement. They are part of every Database.
type Limits struct {
	// Timeout ends a statement. Lock waits and pauses within it are bounded by it too.
	Timeout time.Duration
	// TempBytes bounds the database's temporary files if the login may set that; 0 leaves it alone.
	TempBytes int64
	// RowBytes bounds one row, so that a value of a gigabyte does not become memory of this program's.
	RowBytes int
	// Functions of the database's own, as name or schema.name, may be called though they may do more than read.
	Functions []string
}

// Query is one statement. Params are the values of $1, $2 … (PostgreSQL), ? (MySQL) or @p1, @p2 … (SQL Server) in their JSON form: nil,
// bool, json.Number, string, and []any of those.
type Query struct {
	Text   string
	Params []any
}

// MaxStatement is how long a statement may be, in bytes. Its tokens take a hundred times as much memory while it is checked.
const MaxStatement = 100_000

// CheckLength refuses a statement that is too long to be checked.
func CheckLength(statement string) error {
	if len(statement) <= MaxStatement {
		return nil
	}
	return fault.New(fault.SQLRejected, "Shorten the statement; pass long values in params.",
		"The statement has %d bytes, and %d are the most.", len(statement), MaxStatement).With("limit_bytes", MaxStatement)
}

// Rows is a result that is still coming. It is not safe for several goroutines.
type Rows interface {
	// Columns is known before the first Next.
	Columns() []Column
	// Next reads the next row; false at the end and at an error, which Err tells.
	Next() bool
	// Values is the row's values as text in the form that Kind tells; nil is NULL. They are valid until
	// the next call of Next.
	Values() [][]byte
	Err() error
	// Close ends the statement if it still runs, rolls back, and returns the connection. The first
	// error of reading stays with Err.
	Close()
}

// Column is one column of a result.
type Column struct {
	Name string `json:"name"`
	// Type is the database's own word for it, such as "numeric(10,2)" or "datetimeoffset".
	Type string `json:"type"`
	Kind Kind   `json:"-"`
}

// Kind is how a value's text is to be read.
type Kind int

// The kinds. Text, as the database would print it, stands for every other type.
const (
	Text        Kind = iota
	Boolean          // true, false
	Integer          // digits, 64 bits at most, with a sign or without
	Float            // 1.5, 1e300, NaN, Infinity, -Infinity
	Decimal          // exact, any number of digits; NaN and Infinity as in Float
	Date             // 2026-01-31
	Time             // 13:05:00.123456, with +02 behind it if the type carries a zone
	Timestamp        // 2026-01-31 13:05:00.123456
	TimestampTZ      // 2026-01-31 13:05:00.123456+00
	Interval         // ISO 8601: P1DT2H
	Bytes            // hexadecimal digits
	JSON             // a JSON value
	Array            // a JSON array; elements in the forms above, numbers and booleans bare
)

// Schema is one schema of a database.
type Schema struct {
	Name    string `json:"schema"`
	Tables  int    `json:"tables"` // tables and views
	Comment string `json:"comment,omitempty"`
}

// TableFilter chooses tables.
type TableFilter struct {
	Schema string // empty: all but the database's own
	Glob   string // * and ? in the table's name; empty: all
	Limit  int
	// Columns is how many tables there may be for each to come with its columns.
	Columns int
}

var likeSigns = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `[`, `\[`, `]`, `\]`, `*`, `%`, `?`, `_`)

// Like returns the glob as a pattern of LIKE, with \ before characters that LIKE would take for a wildcard in any dialect.
func (f TableFilter) Like() string { return likeSigns.Replace(f.Glob) }

// Table is a table or a view.
type Table struct {
	Schema string `json:"schema"`
	Name   string `json:"table"`
	// Kind is table, view, materialized view, foreign table or partitioned table.
	Kind string `json:"kind"`
	// Rows is the database's own estimate; nil if it gives none.
	Rows    *int64 `json:"rows_estimate,omitempty"`
	Comment string `json:"comment,omitempty"`
	// Described is the columns with their types, where the filter asks for them: "id integer, name text".
	Described string `json:"columns,omitempty"`
}

// TableDetail is the information for a first query of a table.
type TableDetail struct {
	Table
	Columns     []TableColumn `json:"columns"`
	PrimaryKey  []string      `json:"primary_key,omitempty"`
	ForeignKeys []ForeignKey  `json:"foreign_keys,omitempty"`
	// ReferencedBy is the foreign keys of other tables that point here.
	ReferencedBy []ForeignKey `json:"referenced_by,omitempty"`
	Indexes      []Index      `json:"indexes,omitempty"`
	Checks       []string     `json:"checks,omitempty"`
}

// TableColumn is one column of a table.
type TableColumn struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
	Default  string `json:"default,omitempty"`
	Comment  string `json:"comment,omitempty"`
	// Values are the values that an enumeration allows.
	Values []string `json:"values,omitempty"`
}

// ForeignKey points from columns of one table to columns of another.
type ForeignKey struct {
	Name       string   `json:"name"`
	Table      string   `json:"table"` // schema.table with the key
	Columns    []string `json:"columns"`
	References string   `json:"references"` // schema.table that it points to
	RefColumns []string `json:"referenced_columns"`
}

// Index is one index of a table.
type Index struct {
	Name       string `json:"name"`
	Definition string `json:"definition"` // as the dialect writes it
	Unique     bool   `json:"unique"`
}

// Finding is something that a login could do beside reading.
type Finding struct {
	What string // "is a superuser"
	Fix  string // the statements that give a safe login, or a hint
}
