// The words that are refused, each with the reason.

package sqlserver

import "strings"

// refused are the reserved words that a reading statement does not need, with the effect of each. They cannot be names without quotes, so
// each is a statement, or part of one.
var refused = reasons{
	"it writes":                             "INSERT UPDATE DELETE MERGE TRUNCATE BULK WRITETEXT UPDATETEXT",
	"it makes a table":                      "INTO",
	"it changes the database's objects":     "CREATE ALTER DROP ADD",
	"it changes rights":                     "GRANT REVOKE DENY REVERT SETUSER",
	"it runs a procedure or a text":         "EXEC EXECUTE",
	"it begins or ends a transaction":       "BEGIN COMMIT ROLLBACK SAVE TRAN TRANSACTION CHECKPOINT",
	"it changes the session":                "USE SET DECLARE LINENO",
	"it is a program, not a statement":      "IF WHILE GOTO RETURN BREAK CONTINUE WAITFOR PRINT RAISERROR",
	"it uses a cursor":                      "CURSOR OPEN CLOSE DEALLOCATE FETCH READTEXT",
	"it administers the server":             "DBCC KILL SHUTDOWN RECONFIGURE BACKUP RESTORE DUMP LOAD DISK",
	"it reaches beyond this database":       "OPENROWSET OPENQUERY OPENDATASOURCE",
	"it has a table locked":                 "HOLDLOCK",
	"it is not part of a reading statement": "PROC PROCEDURE TRIGGER ROWCOUNT TEXTSIZE IDENTITY_INSERT STATISTICS OFFSETS",
}.byWord()

// instead maps a refused word to an alternative.
var instead = map[string]string{
	"INTO":    "Leave INTO out: the result comes back, and large ones are written to a file of the session.",
	"DECLARE": "Give values in params, as @p1, @p2 …, and name intermediate results with WITH name AS (SELECT …).",
	"SET":     "Give values in params, as @p1, @p2 …; settings of the session are fixed.",
	"USE":     "Name tables as database.schema.table.",
	"CREATE":  "Name intermediate results with WITH name AS (SELECT …).",
	"EXEC":    "Procedures cannot be run; read the tables and views of the schema sys instead, or use describe_sql.",
	"EXECUTE": "Procedures cannot be run; read the tables and views of the schema sys instead, or use describe_sql.",
}

// beginners are words that may be names and that also begin statements in which all other words may be names.
var beginners = map[string]string{
	"SEND":    "it sends a message",
	"GET":     "it locks a conversation",
	"MOVE":    "it moves a conversation",
	"RENAME":  "it changes the database's objects",
	"RECEIVE": "it takes messages from a queue",
	"THROW":   "it is a program, not a statement",
}

// operators are the reserved words with which no statement can end.
var operators = words("SELECT DISTINCT ALL TOP AS BY WHERE AND OR NOT ON FROM JOIN CASE WHEN THEN ELSE IN LIKE BETWEEN HAVING " +
	"UNION EXCEPT INTERSECT OPTION OVER PIVOT UNPIVOT ESCAPE COLLATE IS WITH")

// afterNames are the reserved words that may come after a name, and could begin no value.
var afterNames = words("FROM AS IN IS LIKE BETWEEN AND OR NOT THEN ELSE WHEN END ASC DESC ON WHERE GROUP HAVING ORDER UNION EXCEPT " +
	"INTERSECT OPTION FOR JOIN INNER LEFT RIGHT FULL CROSS OUTER PIVOT UNPIVOT WITH TABLESAMPLE COLLATE")

// holding are table hints that keep locks, or take ones that keep others out.
var holding = words("XLOCK UPDLOCK TABLOCKX TABLOCK HOLDLOCK SERIALIZABLE REPEATABLEREAD")

// hints are the table hints that may stand in parentheses without WITH.
var hints = words("NOLOCK READUNCOMMITTED READCOMMITTED READCOMMITTEDLOCK READPAST ROWLOCK PAGLOCK TABLOCK " +
	"TABLOCKX UPDLOCK XLOCK HOLDLOCK SERIALIZABLE REPEATABLEREAD NOWAIT SNAPSHOT NOEXPAND FASTFIRSTROW")

// farFunctions reach out of the databases, with the server's own rights. Functions with such a beginning count too: a new version of one is
// called name_v2.
var farFunctions = reasons{
	"it reads files of the server's machine": "FN_TRACE_GETTABLE FN_GET_AUDIT FN_XE_FILE_TARGET FN_XE_TELEMETRY_BLOB_TARGET " +
		"FN_MSXE_READ FN_DUMP_DBLOG DM_OS_FILE_EXISTS DM_OS_ENUMERATE_FILESYSTEM FN_LEDGER_RETRIEVE_DIGESTS",
	// Binding a name of another server asks that server.
	"it binds a text that is not checked": "DM_EXEC_DESCRIBE_FIRST_RESULT_SET",
}.byWord()

// serverVariables are the functions that are written with @@.
var serverVariables = words("CONNECTIONS CPU_BUSY CURSOR_ROWS DATEFIRST DBTS ERROR FETCH_STATUS IDENTITY IDLE IO_BUSY " +
	"LANGID LANGUAGE LOCK_TIMEOUT MAX_CONNECTIONS MAX_PRECISION MICROSOFTVERSION NESTLEVEL OPTIONS PACKET_ERRORS " +
	"PACK_RECEIVED PACK_SENT PROCID REMSERVER ROWCOUNT SERVERNAME SERVICENAME SPID TEXTSIZE TIMETICKS TOTAL_ERRORS " +
	"TOTAL_READ TOTAL_WRITE TRANCOUNT VERSION")

// reasons are lists of words by the objection to them.
type reasons map[string]string

func (r reasons) byWord() map[string]string {
	by := make(map[string]string)
	for reason, list := range r {
		for word := range words(list) {
			by[word] = reason
		}
	}
	return by
}

func words(list string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}
