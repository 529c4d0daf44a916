// SQL Server's errors in words for a model.

package sqlserver

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// hintsByNumber maps the most frequent errors, by the server's number, to the next step.
var hintsByNumber = map[int32]string{
	102:  "Mend the statement at the line shown; it is T-SQL: TOP (n) and OFFSET … FETCH for LIMIT, + or CONCAT for ||.",
	103:  "Mend the statement at the line shown; it is T-SQL.",
	105:  "Close the string at the line shown.",
	156:  "Mend the statement at the line shown; it is T-SQL. Names that are keywords go in [brackets].",
	137:  "Parameters are @p1, @p2 … in the order of params.",
	195:  "That is no function of this server.",
	207:  "Look up the table's columns with describe_sql; texts go in 'single quotes'.",
	208:  "Look up tables with describe_sql; write the schema before the name.",
	209:  "Write the table's name or alias before the column.",
	229:  "The login may not read this; ask for the right, or read something else.",
	230:  "The login may not read this column; name the columns that it may read.",
	262:  "The login may not do this; read something else.",
	297:  "The login may not do this; read something else.",
	300:  "The login may not do this; read something else.",
	245:  "Convert the value with TRY_CAST.",
	241:  "Write dates as 2026-01-31T13:05:00, or use TRY_CONVERT.",
	8114: "Convert the value with TRY_CAST.",
	8115: "Use a wider type, such as decimal(38, 6) or bigint.",
	8120: "Put the column into GROUP BY or into an aggregate.",
	8134: "Divide by NULLIF(x, 0).",
	1205: "The statement lost to another one over a lock; send it once more.",
	1222: "Another session holds a lock on what it reads; try later, or read WITH (NOLOCK), which sees what is not committed.",
	701:  "The server is out of memory; make the statement smaller.",
	1105: "The server has no room for the statement's work; make it smaller.",
	916:  "The login has no user in that database; read another one, or ask for one.",
}

const inAMoment = "The server or the database is starting, stopping or being restored; try again in a moment."

// connectHints are those for errors while connecting, and for errors that no change of the statement mends.
var connectHints = map[int32]string{
	10928: "The database has reached a limit of its Azure plan; try later.",
	10929: "The database has reached a limit of its Azure plan; try later.",
	40197: "The database is being moved; try once more.",
	40501: "The database is busy; try in a moment.",
	40613: "The database is not available just now; try in a moment.",
	40615: "Azure's firewall does not let this machine in; its owner adds the address.",
	40914: "Azure's firewall does not let this machine in; its owner adds the network.",
	911:   "Mend the database's name in the connection string, or give the login a user in it.",
	921:   inAMoment,
	922:   inAMoment,
	927:   inAMoment,
	6005:  inAMoment,
	17142: inAMoment,
	18401: inAMoment,
	17809: "The server has no connection free; try again in a moment.",
	4060:  "Mend the database's name in the connection string, or give the login a user in it.",
	18456: "Mend the user or the password of the connection.",
	18452: "Use a login of SQL Server, not of Windows, in the connection string.",
	18470: "The login is disabled; use another one.",
	18486: "The login is locked out; its owner unlocks it.",
	18487: "The login's password has expired; its owner sets a new one.",
	18488: "The login's password must be changed; its owner sets a new one.",
}

// fail makes a fault of a driver's error. Neither it nor the log quotes the password.
func (d *Database) fail(ctx context.Context, err error, statement string) error {
	if f := checked.Failure(ctx, err, d.limits, false, "Make the statement cheaper: TOP (n), an indexed column in WHERE, or an aggregate. "+
		"SET SHOWPLAN_XML ON in a client of the database's own shows the plan."); f != nil {
		return f
	}
	var said mssql.Error
	if errors.As(err, &said) {
		return d.serverSaid(said, statement, checked.IsOfLogin(err))
	}
	return d.unreachable(err)
}

// serverSaid reports an error of the server in its own words, with its number and place. One at login is about no
// statement, and its words name the user, the database or the server.
func (d *Database) serverSaid(said mssql.Error, statement string, atLogin bool) error {
	first := said
	if len(said.All) > 0 {
		first = said.All[0]
	}
	message := text.Shorten(checked.Scrub(first.Message, d.secrets), checked.MaxMessage)
	hint := cmp.Or(hintsByNumber[first.Number], connectHints[first.Number], "Mend the statement, or look up tables and columns with describe_sql.")
	if atLogin || ofLogin(first.Number) {
		message, hint = "SQL Server refused the connection", cmp.Or(connectHints[first.Number], checked.OfConnecting)
		statement, first.ProcName = "", ""
	}
	place := fmt.Sprintf("error %d, state %d", first.Number, first.State)
	if first.ProcName != "" {
		place += ", in " + checked.Scrub(first.ProcName, d.secrets)
	} else if line := lineOf(statement, int(first.LineNo)); line != "" {
		place += fmt.Sprintf(", line %d: %s", first.LineNo, line)
	}
	f := fault.New(fault.SQLFailed, hint, "%s (%s)", message, place).
		With("number", first.Number).With("state", first.State).With("severity", first.Class)
	if first.LineNo > 0 && statement != "" {
		f = f.With("line", first.LineNo)
	}
	if first.ProcName != "" {
		f = f.With("procedure", checked.Scrub(first.ProcName, d.secrets))
	}
	return f
}

// ofLogin distinguishes errors of connecting from those of statements.
func ofLogin(number int32) bool {
	return 18400 <= number && number < 18500 || slices.Contains([]int32{4060, 4064, 40532, 40613, 40615, 40914}, number)
}

func lineOf(statement string, number int) string {
	lines := strings.Split(statement, "\n")
	if statement == "" || number < 1 || number > len(lines) {
		return ""
	}
	return checked.Excerpt(lines[number-1])
}

// unreachable reports why there is no connection, without the driver's words: those quote the connection string.
func (d *Database) unreachable(err error) error {
	before, beforeHint := checked.BeforeLogin, checked.OfConnecting
	entra := byToken(d.config)
	if entra {
		before = "Microsoft Entra ID gave no token for the login, or the database ended the connection before it."
		beforeHint = "Run `az login` on this server's computer, or mend the user, the password and Authentication in the connection string; the log has Entra's words."
	}
	what, hint := "", ""
	switch {
	case entra && checked.IsSilent(err):
		what, hint = "The database or Microsoft Entra ID does not answer.", checked.SeeFirewall
	case checked.IsOfLogin(err) && strings.Contains(err.Error(), "Credential"): // of Entra's; any of the errors below may be behind it
		what, hint = before, beforeHint
	case isCertificate(err):
		what, hint = "The server's certificate is not trusted.", "Set certificate to its authority's file or HostNameInCertificate to its name; TrustServerCertificate=true trusts any, "+
			"and so does Encrypt=no (Optional, False), with which the login alone is encrypted."
	case strings.Contains(err.Error(), "server does not support encryption"):
		what, hint = "The server does not encrypt.", "Set encrypt=disable in the connection string, if the network is trusted."
	}
	return checked.Unreachable(err, d.secrets, before, beforeHint, what, hint)
}

func isCertificate(err error) bool {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	// The driver hands the errors of most handshakes on as text.
	return errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) || strings.Contains(err.Error(), "x509:")
}
