// The words and functions that are refused, each with the reason.

package mysql

// refused are reserved words that a query does not need. A read-only transaction refuses most of their effects, and lets INTO through, which
// writes files of the server's.
var refused = map[string]string{
	"INTO":   "SELECT … INTO writes a file of the server's or a variable",
	"UPDATE": "it writes",
	"DELETE": "it writes",
}

// instead maps a refused word to an alternative.
var instead = map[string]string{
	"INTO":     "Leave INTO out: the result comes back, and a large one is written to a file of the session.",
	"USE":      "Name tables as database.table.",
	"SET":      "Give values in params, for each ? in the statement; settings of the session are fixed.",
	"BEGIN":    "Leave it out: every call is a read-only transaction of its own.",
	"START":    "Leave it out: every call is a read-only transaction of its own.",
	"COMMIT":   "Leave it out: every call is a read-only transaction of its own.",
	"ROLLBACK": "Leave it out: every call is a read-only transaction of its own.",
	"PREPARE":  "Give the SELECT itself, with params for each ?.",
	"EXECUTE":  "Give the SELECT itself, with params for each ?.",
	"CALL":     "Procedures cannot be run; read tables and views.",
	"DO":       "Write SELECT for an expression's value.",
	"HANDLER":  "Write SELECT … LIMIT n.",
	"CREATE":   "Name intermediate results with WITH name AS (SELECT …).",
}

// refusedFunctions are functions of the server's own that a read-only transaction allows, though they do more than compute.
var refusedFunctions = map[string]string{
	"LOAD_FILE":         "it reads files of the server's machine",
	"GET_LOCK":          "it takes a lock that others wait for",
	"RELEASE_LOCK":      "it releases a lock",
	"RELEASE_ALL_LOCKS": "it releases locks",
	"SETVAL":            "it sets a sequence",
	"NEXTVAL":           "it takes a number from a sequence, which is a write",
}

// refusedPrefixes begin the names of well-known loadable functions, which act with the server's own rights and are no secret to
// any login.
var refusedPrefixes = map[string]string{
	"SYS_EXEC": "it runs a program of the server's machine", "SYS_EVAL": "it runs a program of the server's machine",
	"SYS_SET": "it changes the server's environment", "SYS_GET": "it reads the server's environment",
	"HTTP_": "it sends a request to another machine", "SPIDER_": "it sends a statement to another server",
	"KEYRING_": "it reads or changes the server's keys", "AUDIT_LOG_": "it changes the server's audit log",
	"GROUP_REPLICATION_": "it changes the server's replication", "ASYNCHRONOUS_CONNECTION_FAILOVER_": "it changes the server's replication",
	"VERSION_TOKENS_": "it changes the server's version tokens", "SERVICE_": "it takes or releases locks",
	"INNODB_REDO_LOG_": "it changes the server's redo log", "MASKING_DICTIONARY": "it changes the server's dictionaries",
	"LOAD_REWRITE_RULES": "it changes the server's rules", "SET_FIREWALL_": "it changes the server's firewall",
	"MYSQL_FIREWALL_": "it changes the server's firewall",
}
