package checked

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// Errors of our own.
var (
	ErrTooLong  = errors.New("a row is longer than it may be")
	ErrTooWide  = errors.New("the catalog's answer is longer than it may be")
	ErrNoTurn   = errors.New("as many statements run as may")
	ErrNoAnswer = errors.New("the server did not answer in time")
)

// SeeFirewall is the hint where nothing answers.
const SeeFirewall = "See whether the server runs, and whether a firewall is in between."

// MaxMessage is how many letters of the server's own words are told.
const MaxMessage = 2000

// OfConnecting is the hint for a connection error without a hint of its own.
const OfConnecting = "See whether the server runs (it may be starting), and mend the server, the database or the login in the " +
	"connection string; `code-sandbox-mcp doctor` tries it."

// LoginError is an error from before the connection; no statement caused it.
type LoginError struct{ Err error }

func (e *LoginError) Error() string { return e.Err.Error() }
func (e *LoginError) Unwrap() error { return e.Err }

// IsOfLogin reports whether an error is from before there was a connection.
func IsOfLogin(err error) bool {
	var login *LoginError
	return errors.As(err, &login)
}

// Failure returns the fault of a statement that neither the server nor the connection ended; nil: one of them did. cheaper says how to make
// a slow statement cheaper.
func Failure(ctx context.Context, err error, limits sql.Limits, slow bool, cheaper string) error {
	var f *fault.Error
	cause := context.Cause(ctx)
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, ErrNoTurn):
		return fault.New(fault.SQLFailed, "Wait for a statement that still runs, or cancel one.",
			"%d statements run on this connection already, which is as many as there may be.", sql.PoolSize).Because(err)
	case errors.Is(err, ErrTooLong):
		return fault.New(fault.SQLFailed, "Select fewer columns, or parts of long values with SUBSTRING(column, 1, n).",
			"A row has more than %d bytes.", limits.RowBytes).With("limit_bytes", limits.RowBytes)
	case errors.Is(err, ErrTooWide):
		return fault.New(fault.SQLFailed, "Ask for less: one schema, a glob or one table.",
			"The catalog's answer has more than %d bytes.", CatalogBytes).With("limit_bytes", CatalogBytes)
	case slow, errors.Is(cause, sql.ErrTimeout):
		return fault.New(fault.SQLFailed, cheaper, "The statement was ended after %s.", limits.Timeout).
			With("timeout_seconds", limits.Timeout.Seconds()).Because(sql.ErrTimeout)
	case cause != nil:
		return fault.New(fault.SQLFailed, "Send it again if it is still wanted.", "The statement was cancelled.").Because(cause)
	}
	return nil
}

// BeforeLogin reports a login that was cut off.
const BeforeLogin = "The database ended the connection before the login."

// IsSilent reports whether an error is that nothing answers.
func IsSilent(err error) bool {
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded)
}

// Unreachable reports why there is no connection, without the driver's words: those may quote the connection string. own and ownHint
// describe an error of one driver alone; before and beforeHint a login that was cut off.
func Unreachable(err error, secrets []string, before, beforeHint, own, ownHint string) error {
	what, hint := "The connection to the database broke.", "Send the statement again."
	if IsOfLogin(err) {
		what, hint = before, beforeHint
	}
	var dns *net.DNSError
	var dial *net.OpError
	switch {
	case own != "":
		what, hint = own, ownHint
	case IsSilent(err):
		what, hint = "The database does not answer.", SeeFirewall
	case errors.As(err, &dns):
		what, hint = "The database's host has no address.", "Mend the host in the connection string."
	case errors.As(err, &dial) && dial.Op == "dial":
		what, hint = "The database is not in reach.", "See whether the server runs, and mend host and port in the connection string."
	}
	return fault.New(fault.SQLFailed, hint, "%s", what).Because(errors.New(Scrub(err.Error(), secrets)))
}

// Scrub takes secrets out of a text.
func Scrub(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// Begin begins a session. A connection that breaks before the statement was sent is replaced once.
func Begin(ctx context.Context, try func() error) error {
	err := try()
	if errors.Is(err, driver.ErrBadConn) && ctx.Err() == nil {
		err = try()
	}
	return err
}

// Guard makes an error of a panic: drivers panic at answers that no server should give.
func Guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("driver: %v", p)
		}
	}()
	return do()
}
