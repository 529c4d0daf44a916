// MySQL's and MariaDB's errors in words for a model.

package mysql

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// Numbers of the server's errors that are told in words of our own.
const (
	writes     = 1792 // in a read-only transaction
	tooSlow    = 3024 // MySQL's
	tooSlowToo = 1969 // MariaDB's
)

// hintsByNumber maps the most frequent errors, by the server's number, to the next step.
var hintsByNumber = map[uint16]string{
	1064: "Mend the statement at the place shown; it is MySQL's SQL: names in `backticks`, 'texts' in quotes, LIMIT n, CONCAT for ||.",
	1054: "Look up the table's columns with describe_sql; texts go in 'single quotes'.",
	1052: "Write the table's name or alias before the column.",
	1055: "Put the column into GROUP BY or into an aggregate such as ANY_VALUE.",
	1146: "Look up tables with describe_sql; write the database before the name.",
	1046: "Write the database before the table's name: database.table.",
	1049: "Look up the databases with describe_sql.",
	1109: "Look up tables with describe_sql; write the database before the name.",
	1111: "Put a condition on an aggregate into HAVING.",
	1140: "Put the column into GROUP BY or into an aggregate.",
	1142: "The login may not read this; ask for the right, or read something else.",
	1143: "The login may not read this column; name the columns that it may read.",
	1044: "The login may not use this database; read another one.",
	1227: "The login may not do this; read something else.",
	1370: "The login may not call this function; read something else.",
	1305: "That is no function of this server.",
	1128: "That is no function of this server.",
	1630: "That is no function of this server.",
	1242: "Add LIMIT 1, or use IN.",
	1267: "Add COLLATE to one side, such as COLLATE utf8mb4_general_ci.",
	1690: "Use CAST(x AS DECIMAL(65, 0)) or CAST(x AS SIGNED) before computing.",
	1104: "Select fewer rows with WHERE or LIMIT.",
	1205: "Another session holds a lock on what it reads; try later.",
	1213: "The statement lost to another one over a lock; send it once more.",
	1114: "The server has no room for the statement's work; make it smaller.",
	1038: "The server is out of memory for sorting; sort fewer or narrower columns.",
	1210: "A value in params has the wrong type for its place: give numbers, as for LIMIT, as numbers.",
	1290: "The server is set up to refuse this; read something else.",
}

// connectHints are those for errors while connecting.
var connectHints = map[uint16]string{
	1045: "Mend the user or the password in the connection string.",
	1698: "Mend the user or the password in the connection string: the server lets this login in by other means.",
	1044: "Mend the database in the connection string, or give the login rights in it.",
	1049: "Mend the database in the connection string.",
	1040: "The server has no connection free; try again in a moment.",
	1203: "The login has no connection free; try again in a moment.",
	1226: "The login has reached one of its limits; try again later.",
	1129: "The server has shut this machine out after errors; its owner runs FLUSH HOSTS.",
	1130: "The server does not let this machine in; its owner makes the login for this host.",
	1251: "The server asks for a login in the old form; its owner sets another plugin for it.",
	1820: "The login's password has expired; its owner sets a new one.",
	1862: "The login's password has expired; its owner sets a new one.",
	3118: "The login is locked; its owner unlocks it.",
	3159: "The server takes encrypted connections only: leave ssl-mode out, or set another than DISABLED.",
	4151: "The login is locked; its owner unlocks it.",
	1053: "The server is shutting down; try again in a moment.",
}

var (
	account = regexp.MustCompile(`'[^']*'@'[^']*'|\b[^\s'@]+@[^\s'@]+ `)
	atLine  = regexp.MustCompile(`^(?s)You have an error in your SQL syntax.* near '(.*)' at line (\d+)$`)
)

// said reports an error of the server in its own words, with its number and place. One at login is about no statement, and its words name
// the user, the database or the server.
func (s *settings) said(err error, statement string, atLogin bool) (told *fault.Error, slow bool) {
	var said *mysql.MySQLError
	if !errors.As(err, &said) {
		return nil, false
	}
	state := strings.Trim(string(said.SQLState[:]), "\x00")
	if said.Number == writes {
		return fault.New(fault.SQLRejected, oneStatement, "The database refused the statement: it writes or locks rows, and this is a read-only transaction.").
			With("number", said.Number).With("sqlstate", state), false
	}
	message, shown, line := said.Message, "", 0
	hint := cmp.Or(hintsByNumber[said.Number], connectHints[said.Number], "Mend the statement, or look up tables and columns with describe_sql.")
	if parts := atLine.FindStringSubmatch(message); parts != nil {
		line, _ = strconv.Atoi(parts[2])
		shown = reader.Line(statement, line)
		message = "The statement has an error in its syntax near '" + text.Shorten(parts[1], 80) + "'"
	}
	if atLogin {
		message, hint, shown = "MySQL refused the connection", cmp.Or(connectHints[said.Number], reader.OfConnecting()), ""
	}
	message = text.Shorten(reader.Scrub(account.ReplaceAllString(message, "the login "), reader.Forms(s.config.Passwd)), reader.MaxMessage)
	place := fmt.Sprintf("error %d, SQLSTATE %s", said.Number, state)
	if shown != "" {
		place += fmt.Sprintf(", line %d: %s", line, shown)
	}
	told = fault.New(fault.SQLFailed, hint, "%s (%s)", message, place).With("number", said.Number).With("sqlstate", state)
	if shown != "" {
		told = told.With("line", line)
	}
	return told, said.Number == tooSlow || said.Number == tooSlowToo
}

// ownError describes this driver's own errors.
func ownError(err error) (what, hint string) {
	switch {
	case reader.Untrusted(err):
		return "The server's certificate is not trusted.",
			"Set ssl-ca to its authority's file, or ssl-mode to VERIFY_CA where the host has another name; ssl-mode=REQUIRED encrypts and trusts any certificate."
	case errors.Is(err, mysql.ErrNoTLS):
		return "The server does not encrypt.", "Set ssl-mode=DISABLED in the connection string, if the network is trusted."
	case errors.Is(err, mysql.ErrCleartextPassword):
		return "The server asks for the password in clear text.", "If it has to, set allowCleartextPasswords=true with ssl-mode=VERIFY_IDENTITY in the connection string."
	case errors.Is(err, mysql.ErrOldPassword), errors.Is(err, mysql.ErrUnknownPlugin), errors.Is(err, mysql.ErrNativePassword):
		return "The server asks for a login in a form that is not known here.", "Use a login with caching_sha2_password, ed25519 or mysql_native_password."
	}
	return "", ""
}
