// PostgreSQL's errors in words for a model, by SQLSTATE.

package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// said turns an error of the server's into a fault. One at login names no host, user or database.
func said(err error, statement string, atLogin bool) (told *fault.Error, slow bool) {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return nil, false
	}
	if atLogin {
		return refusedLogin(said).Because(shortened(said)), false
	}
	return saidFault(said, statement), false
}

// ownError describes this driver's own errors.
func ownError(err error) (what, hint string) {
	if strings.Contains(err.Error(), "tls") || reader.Untrusted(err) {
		return "The encrypted connection failed.", "See sslmode and sslrootcert in the connection string."
	}
	return "", ""
}

func isFull(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == tooManyConnections
}

// refusedParameter finds the name in PgBouncer's words, and in PostgreSQL's own.
var refusedParameter = regexp.MustCompile(`^(?:unsupported startup parameter(?: in options)?: |unrecognized configuration parameter ")([\w.]{1,63})`)

func refusedLogin(e *pgconn.PgError) *fault.Error {
	what, hint := "refused the connection", "Ask the user to check the database and its connection string."
	switch e.Code {
	case "28P01", "28000":
		what = "refused the login"
	case "3D000":
		what = "does not have the database that the connection string names"
	case tooManyConnections:
		what, hint = "has no connection free", "Try again in a moment."
	case "57P03":
		what, hint = "is starting or stopping", "Try again in a moment."
	case "42501":
		what = "does not let this login connect"
	}
	code := text.Shorten(e.Code, maxCode)
	if found := refusedParameter.FindStringSubmatch(e.Message); found != nil {
		what = "does not take the parameter " + found[1]
		hint = "Ask the user to leave it out of the connection string, or to have the pooler ignore it."
	}
	return fault.New(fault.SQLFailed, hint, "PostgreSQL %s (%s).", what, code).With("sqlstate", code)
}

// Codes of PostgreSQL's, from appendix A of its manual.
const (
	readOnlyViolation = "25006"
	// queryCanceled is the error of a statement's timeout, and of cancelling: then nobody hears it.
	queryCanceled      = "57014"
	tooManyConnections = "53300"
)

// Bounds of the server's quoted words. A value of the statement may be among them, of any length.
const (
	maxMessage = 2000
	maxCode    = 5
)

// shortened returns e without the parts that are too long for an answer or a log.
func shortened(e *pgconn.PgError) *pgconn.PgError {
	return &pgconn.PgError{
		Severity: text.Shorten(e.Severity, maxCode), Code: text.Shorten(e.Code, maxCode), Position: e.Position,
		Message: text.Shorten(e.Message, maxMessage), Detail: text.Shorten(e.Detail, maxMessage), Hint: text.Shorten(e.Hint, maxMessage),
	}
}

func saidFault(e *pgconn.PgError, query string) *fault.Error {
	e = shortened(e)
	code := fault.SQLFailed
	if e.Code == readOnlyViolation {
		code = fault.SQLRejected
	}
	message := fmt.Sprintf("PostgreSQL says %s: %s", e.Code, e.Message)
	if e.Detail != "" {
		message += "\n" + e.Detail
	}
	where := sql.Where(query, byteOffset(query, int(e.Position)))
	if e.Position > 0 && query != "" {
		message += "\n" + where.String()
	}
	var cause error = e
	if e.Code == queryCanceled {
		cause = fmt.Errorf("%w: %w", sql.ErrTimeout, e)
	}
	f := fault.New(code, hintFor(e), "%s", message).With("sqlstate", e.Code).Because(cause)
	if e.Position > 0 && query != "" {
		f = f.With("line", where.Line).With("column", where.Column)
	}
	return f
}

// byteOffset turns the server's position, which counts characters from 1, into an offset.
func byteOffset(text string, position int) int {
	for offset := range text {
		if position--; position <= 0 {
			return offset
		}
	}
	return len(text)
}

// cheaper is the hint for a slow statement.
const cheaper = "Make the statement cheaper: fewer rows, a LIMIT, an index's column in WHERE. EXPLAIN shows the plan."

// hints maps the server's codes, and the beginnings of others, to the next step.
var hints = map[string]string{
	readOnlyViolation: "exec_sql reads and cannot write. Work on a copy of the rows in the session instead.",
	"42P01":           "describe_sql lists the schemas and tables; names with capitals need double quotes.",
	"3F000":           "describe_sql lists the schemas and tables; names with capitals need double quotes.",
	"42703":           "describe_sql with the table's name lists its columns; names with capitals need double quotes.",
	"42501":           "This login may not read that. describe_sql lists what it may.",
	"42704":           "describe_sql lists schemas, tables and their types; SHOW is for settings.",
	"42601":           "Correct the statement and call again; values are $1, $2 … with params, and odd names are in double quotes.",
	"42803":           "Put the column into GROUP BY or into an aggregate.",
	"42P18":           "Say the parameter's type, for example $1::int.",
	"22003":           "Use a wider type, such as numeric or bigint.",
	"22012":           "Divide by NULLIF(x, 0).",
	queryCanceled:     cheaper,
	"53":              "The statement needs more than the database gives it; make it cheaper.",
	"22":              "A value does not fit its type; see the statement's casts and params.",
	"42":              "Correct the statement and call again.",
	"57P0":            "The database ended the connection; run the statement again.",
}

// hintFor returns the next step: the database's own hint if it gives one.
func hintFor(e *pgconn.PgError) string {
	upTo := func(length int) string { return hints[e.Code[:min(length, len(e.Code))]] }
	return cmp.Or(e.Hint, hints[e.Code], upTo(4), upTo(2), "See the database's own words.")
}
