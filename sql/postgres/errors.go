// PostgreSQL's errors in words for a model, by SQLSTATE.

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// connectFault reports why there is no connection. It names no host, user or database: the driver's own
// words, which do, are for the log.
func connectFault(err error) error {
	var refused *pgconn.PgError
	var said *fault.Error
	switch {
	case errors.Is(err, context.Canceled), errors.As(err, &said):
		return err
	case errors.As(err, &refused):
		return refusedLogin(refused).Because(shortened(refused))
	}
	reason := "it gave no answer that PostgreSQL gives"
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		reason = "its host's name is not known"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		reason = "nothing listens at its address"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		reason = "there is no way to its host"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		reason = "it did not answer in time"
	case strings.Contains(err.Error(), "tls"), strings.Contains(err.Error(), "certificate"):
		reason = "the encrypted connection failed; see sslmode and sslrootcert"
	}
	return fault.New(fault.SQLFailed, "Ask the user to check the database and its connection string; `code-sandbox-mcp doctor` tries it.",
		"The database cannot be reached: %s.", reason).Because(err)
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
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

// queryFault turns the database's error on a statement into a fault.
func queryFault(err error, query string) error {
	var said *pgconn.PgError
	var large *pgproto3.ExceededMaxBodyLenErr
	switch {
	case errors.As(err, &said):
		return saidFault(said, query)
	case errors.As(err, &large):
		return fault.New(fault.SQLFailed, "Select less of it, for example substring(column for 100000), or length(column) first.",
			"A row of the result has %d bytes, and %d are the most.", large.ActualBodyLen, large.MaxExpectedBodyLen).Because(err)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", sql.ErrTimeout, err)
	}
	return fault.New(fault.SQLFailed, "Run the statement again; the connection is opened anew.",
		"The connection to the database broke while the statement ran.").Because(err)
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

// hintFor returns the next step: the database's own hint if it gives one.
func hintFor(e *pgconn.PgError) string {
	if e.Hint != "" {
		return e.Hint
	}
	switch {
	case e.Code == readOnlyViolation:
		return "exec_sql reads and cannot write. Work on a copy of the rows in the session instead."
	case e.Code == "42P01" || e.Code == "3F000":
		return "describe_sql lists the schemas and tables; names with capitals need double quotes."
	case e.Code == "42703":
		return "describe_sql with the table's name lists its columns; names with capitals need double quotes."
	case e.Code == "42501":
		return "This login may not read that. describe_sql lists what it may."
	case e.Code == "42704":
		return "describe_sql lists schemas, tables and their types; SHOW is for settings."
	case e.Code == "42601":
		return "Correct the statement and call again; values are $1, $2 … with params, and odd names are in double quotes."
	case e.Code == "42P18":
		return "Say the parameter's type, for example $1::int."
	case e.Code == queryCanceled:
		return "Make the statement cheaper: fewer rows, a LIMIT, an index's column in WHERE. EXPLAIN shows the plan."
	case e.Code == "53400" || strings.HasPrefix(e.Code, "53"):
		return "The statement needs more than the database gives it; make it cheaper."
	case strings.HasPrefix(e.Code, "22"):
		return "A value does not fit its type; see the statement's casts and params."
	case strings.HasPrefix(e.Code, "42"):
		return "Correct the statement and call again."
	case strings.HasPrefix(e.Code, "57P0"):
		return "The database ended the connection; run the statement again."
	}
	return "See the database's own words."
}
