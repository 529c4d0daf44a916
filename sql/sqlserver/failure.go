// SQL Server's errors in words for a model.

package sqlserver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
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

// said reports an error of the server in its own words, with its number and place. One at login is about no statement, and its words name
// the user, the database or the server.
func (d *dialect) said(err error, statement string, atLogin bool) (told *fault.Error, slow bool) {
	var said mssql.Error
	if !errors.As(err, &said) {
		return nil, false
	}
	first := said
	if len(said.All) > 0 {
		first = said.All[0]
	}
	scrub := func(text string) string { return reader.Scrub(text, reader.Forms(d.config.Password)) }
	message := text.Shorten(scrub(first.Message), reader.MaxMessage)
	hint := cmp.Or(hintsByNumber[first.Number], connectHints[first.Number], "Mend the statement, or look up tables and columns with describe_sql.")
	if atLogin || ofLogin(first.Number) {
		message, hint = "SQL Server refused the connection", cmp.Or(connectHints[first.Number], reader.OfConnecting())
		statement, first.ProcName = "", ""
	}
	place := fmt.Sprintf("error %d, state %d", first.Number, first.State)
	if first.ProcName != "" {
		place += ", in " + scrub(first.ProcName)
	} else if line := reader.Line(statement, int(first.LineNo)); line != "" {
		place += fmt.Sprintf(", line %d: %s", first.LineNo, line)
	}
	told = fault.New(fault.SQLFailed, hint, "%s (%s)", message, place).
		With("number", first.Number).With("state", first.State).With("severity", first.Class)
	if first.LineNo > 0 && statement != "" {
		told = told.With("line", first.LineNo)
	}
	if first.ProcName != "" {
		told = told.With("procedure", scrub(first.ProcName))
	}
	return told, false
}

// ofLogin distinguishes errors of connecting from those of statements.
func ofLogin(number int32) bool {
	return 18400 <= number && number < 18500 || slices.Contains([]int32{4060, 4064, 40532, 40613, 40615, 40914}, number)
}

// The words for a login by Entra that was cut off.
const (
	withoutEntra     = "Microsoft Entra ID gave no token for the login, or the database ended the connection before it."
	withoutEntraHint = "Run `az login` on this server's computer, or mend the user, the password and Authentication in the connection string; the log has Entra's words."
)

// ownError describes this driver's own errors, and Entra's.
func (d *dialect) ownError(err error) (what, hint string) {
	switch {
	case byToken(d.config) && reader.IsSilent(err):
		return "The database or Microsoft Entra ID does not answer.", reader.SeeFirewall
	case strings.Contains(err.Error(), "Credential"): // of Entra's; any other error may be behind it
		return withoutEntra, withoutEntraHint
	case reader.Untrusted(err):
		return "The server's certificate is not trusted.", "Set certificate to its authority's file or HostNameInCertificate to its name; TrustServerCertificate=true trusts any, " +
			"and so does Encrypt=no (Optional, False), with which the login alone is encrypted."
	case strings.Contains(err.Error(), "server does not support encryption"):
		return "The server does not encrypt.", "Set encrypt=disable in the connection string, if the network is trusted."
	}
	return "", ""
}
