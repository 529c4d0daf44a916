package reader

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// Errors of our own.
var (
	ErrTooLong  = errors.New("a row is longer than it may be")
	errTooWide  = errors.New("the catalog's answer is longer than it may be")
	errNoTurn   = errors.New("as many statements run as may")
	errNoAnswer = errors.New("the server did not answer in time")
)

// SeeFirewall is the hint where nothing answers.
const SeeFirewall = "See whether the server runs, and whether a firewall is in between."

// MaxMessage is how many letters of the server's own words are told.
const MaxMessage = 2000

// OfConnecting returns the hint for a connection error without a hint of its own.
func OfConnecting() string {
	return "See whether the server runs (it may be starting), and mend the server, the database or the login in the connection string; `" + fault.Program + " doctor` tries it."
}

// LoginError is an error from before the connection; no statement caused it.
type LoginError struct{ Err error }

func (e *LoginError) Error() string { return e.Err.Error() }
func (e *LoginError) Unwrap() error { return e.Err }

// isOfLogin reports whether an error is from before there was a connection.
func isOfLogin(err error) bool {
	var login *LoginError
	return errors.As(err, &login)
}

// fail makes a fault of an error of a statement. It quotes nothing of the login.
func (d *Database) fail(ctx context.Context, err error, statement string) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	cause := context.Cause(ctx)
	told, slow := d.dialect.Said(err, statement, isOfLogin(err))
	switch {
	case errors.Is(err, errNoTurn):
		return fault.New(fault.SQLFailed, "Wait for a statement that still runs, or cancel one.",
			"%d statements run on this connection already, which is as many as there may be.", d.pool.Stats().InUse).Because(err)
	case errors.Is(err, ErrTooLong):
		return fault.New(fault.SQLFailed, "Select fewer columns, or parts of long values with SUBSTRING(column, 1, n).",
			"A row has more than %d bytes.", d.limits.RowBytes).With("limit_bytes", d.limits.RowBytes)
	case errors.Is(err, errTooWide):
		return fault.New(fault.SQLFailed, "Ask for less: one schema, a glob or one table.",
			"The catalog's answer has more than %d bytes.", catalogBytes).With("limit_bytes", catalogBytes)
	case slow, errors.Is(cause, sql.ErrTimeout):
		return fault.New(fault.SQLFailed, d.dialect.Cheaper, "The statement was ended after %s.", d.limits.Timeout).
			With("timeout_seconds", d.limits.Timeout.Seconds()).Because(sql.ErrTimeout)
	case cause != nil:
		return fault.New(fault.SQLFailed, "Send it again if it is still wanted.", "The statement was cancelled.").Because(cause)
	case told != nil:
		return told
	}
	return d.unreachable(err)
}

// IsSilent reports whether an error is that nothing answers.
func IsSilent(err error) bool {
	var timeout net.Error
	return errors.Is(err, errNoAnswer) || errors.As(err, &timeout) && timeout.Timeout()
}

// unreachable reports why there is no connection, without the driver's words: those may quote the connection string.
func (d *Database) unreachable(err error) error {
	what, hint := d.dialect.Own(err)
	var dns *net.DNSError
	var dial *net.OpError
	switch {
	case what != "":
	case IsSilent(err):
		what, hint = "The database does not answer.", SeeFirewall
	case errors.As(err, &dns):
		what, hint = "The database's host has no address.", "Mend the host in the connection string."
	case errors.As(err, &dial) && dial.Op == "dial":
		what, hint = "The database is not in reach.", "See whether the server runs, and mend host and port in the connection string."
	case isOfLogin(err):
		what = cmp.Or(d.dialect.CutOff, "The database ended the connection before the login.")
		hint = cmp.Or(d.dialect.CutOffHint, OfConnecting())
	default:
		what, hint = "The connection to the database broke.", "Send the statement again."
	}
	return fault.New(fault.SQLFailed, hint, "%s", what).Because(errors.New(Scrub(err.Error(), d.dialect.Secrets)))
}

// Untrusted recognizes an error of a server's certificate. Some drivers hand it on as text.
func Untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) || strings.Contains(err.Error(), "x509:")
}

// Forms are the forms in which a password could stand in a message.
func Forms(password string) []string {
	if password == "" {
		return nil
	}
	forms := []string{password, url.QueryEscape(password), url.PathEscape(password), url.UserPassword("", password).String()[1:]}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// Line returns a line of a statement for a message; empty if it has none of that number.
func Line(statement string, number int) string {
	lines := strings.Split(statement, "\n")
	if number < 1 || number > len(lines) {
		return ""
	}
	return Excerpt(lines[number-1])
}

// Scrub takes secrets out of a text.
func Scrub(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
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
