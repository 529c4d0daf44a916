// The connections of the SQL tools.

package tools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
)

// Databases are the connections of exec_sql and describe_sql, and their limits. Without connections neither tool exists.
type Databases struct {
	Connections *sql.Connections
	// FromClients reports that clients may give one by the headers of their requests, and Open opens it.
	FromClients bool
	Open        sql.Opener
	InlineRows  int   // the most rows of a result in an answer
	MaxRows     int64 // of one result; max_rows may ask for fewer
	MaxBytes    int64 // of one exported file
	Timeout     time.Duration
}

func connectionParam(databases *Databases) mcp.ToolOption {
	names := make([]string, 0, 4)
	for _, s := range databases.Connections.Sources() {
		names = append(names, s.Name)
	}
	if databases.FromClients {
		names = append(names, clientheader.DatabaseName+" (which the client's requests give)")
	}
	text := "Which database: " + strings.Join(names, ", ") + "."
	if len(names) == 1 {
		text += " It is the only one, so leave this out."
	}
	return mcp.WithString("connection", mcp.Description(text))
}

// dialects names the kinds of database there are.
func (d *Databases) dialects() string {
	var found []string
	sources := d.Connections.Sources()
	if d.FromClients {
		sources = append(slices.Clip(sources), sql.Source{Dialect: sql.SQLServer})
	}
	for _, s := range sources {
		name := map[sql.Dialect]string{sql.PostgreSQL: "PostgreSQL", sql.SQLServer: "T-SQL", sql.MySQL: "MySQL"}[s.Dialect]
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return strings.Join(found, " or ")
}

// sources returns the connections that a call can name. The client's own comes first.
func (d *Databases) sources(ctx context.Context) []sql.Source {
	if own := clientheader.Of(ctx); own != nil && own.Database != nil {
		return append([]sql.Source{*own.Database}, d.Connections.Sources()...)
	}
	return d.Connections.Sources()
}

// get returns a connection and the function that releases it. Without a name it returns the client's own connection, which is opened for
// this call alone and is never shared.
func (d *Databases) get(ctx context.Context, name string) (source sql.Source, database sql.Database, release func(), err error) {
	connections, release := d.Connections, func() {}
	if own := clientheader.Of(ctx); own != nil && own.Database != nil && (name == "" || strings.EqualFold(name, own.Database.Name)) {
		connections = sql.NewConnections([]sql.Source{*own.Database}, d.Open)
		release = func() { connections.Close(ctx) }
	}
	source, database, err = connections.Get(name)
	return source, database, release, err
}

// connectMargin is the time for connecting and ending, beside that of a statement and those before it.
const connectMargin = 30 * time.Second

// limited sets a call's deadline: its statement may wait for as long as another one takes.
func (d *Databases) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*d.Timeout+connectMargin)
}

// inTime returns the fault of a statement that its limit ended, with the limit. The hint is the dialect's.
func (d *Databases) inTime(ctx context.Context, err error) error {
	var said *fault.Error
	late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !errors.As(err, &said)
	if !late && !errors.Is(err, sql.ErrTimeout) {
		return err
	}
	hint := "Make the statement cheaper: fewer rows, or an indexed column in WHERE."
	if errors.As(err, &said) {
		hint = said.Hint
	}
	return fault.New(fault.SQLFailed, hint,
		"The statement was ended after %s, the most that one may take (--sql-timeout).", d.Timeout).
		With("timeout_seconds", d.Timeout.Seconds()).Because(err)
}
