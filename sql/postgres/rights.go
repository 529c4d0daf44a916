// Rights of a login beside reading, and how to take them away.

package postgres

import (
	"fmt"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
)

// safeRole is the statements that make a login that can only read. The first argument is the database's name.
const safeRole = `Use a login of its own that can only read:
CREATE ROLE reader LOGIN PASSWORD '…' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE reader SET default_transaction_read_only = on;
GRANT CONNECT ON DATABASE %[1]s TO reader;
GRANT pg_read_all_data TO reader;
-- or, for some schemas only, instead of pg_read_all_data:
-- GRANT USAGE ON SCHEMA public TO reader;
-- GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
-- ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO reader;`

// powers are the attributes and memberships of a role that let it do more than read. Membership is enough: whoever knows the login's
// password gets by SET ROLE any rights that it does not inherit.
var powers = []struct{ column, what string }{
	{"rolsuper", "is a superuser: it can do anything, on the server's computer too"},
	{"rolcreaterole", "can make and change roles (CREATEROLE)"},
	{"rolcreatedb", "can make databases (CREATEDB)"},
	{"rolreplication", "can replicate the whole server and make replication slots (REPLICATION)"},
	{"rolbypassrls", "is above row-level security (BYPASSRLS)"},
	{"rolname = 'pg_read_server_files'", "can read files of the database's server (pg_read_server_files)"},
	{"rolname = 'pg_write_server_files'", "can write files of the database's server (pg_write_server_files)"},
	{"rolname = 'pg_execute_server_program'", "can start programs on the database's server (pg_execute_server_program)"},
	{"rolname = 'pg_signal_backend'", "can end other sessions (pg_signal_backend)"},
	{"rolname = 'pg_signal_autovacuum_worker'", "can end autovacuum (pg_signal_autovacuum_worker)"},
	{"rolname = 'pg_maintain'", "can vacuum, reindex and lock all tables (pg_maintain)"},
	{"rolname = 'pg_checkpoint'", "can order checkpoints (pg_checkpoint)"},
	{"rolname = 'pg_write_all_data'", "can write all tables (pg_write_all_data)"},
	{"rolname = 'pg_create_subscription'", "can subscribe to other servers (pg_create_subscription)"},
}

// right is a query for the names of the objects that the login may change.
type right struct {
	what  string // with %d for the number of objects and %s for one of them
	query string
	fix   string // with %s for one of them; empty for safeRole
}

var objectRights = []right{
	{
		"owns %d tables or views, such as %s", `
		SELECT c.oid::pg_catalog.regclass::text FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND pg_catalog.pg_has_role(c.relowner, 'MEMBER') AND` + ofUsers,
		"",
	},
	{
		"can write %d tables, such as %s", `
		SELECT c.oid::pg_catalog.regclass::text FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'f') AND NOT pg_catalog.pg_has_role(c.relowner, 'MEMBER')
			AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
			AND (pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
				OR pg_catalog.has_any_column_privilege(c.oid, 'INSERT, UPDATE')) AND` + ofUsers,
		"REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON %s FROM PUBLIC; and the same FROM the login and its roles.\n",
	},
	{
		"can make objects in %d schemas, such as %s", `
		SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_namespace n
		WHERE pg_catalog.has_schema_privilege(n.oid, 'CREATE') AND` + ofUsers,
		"REVOKE CREATE ON SCHEMA %s FROM PUBLIC; and the same FROM the login and its roles.\n",
	},
	{
		"can make schemas in %d database, %s", `
		SELECT pg_catalog.quote_ident(d.datname) FROM pg_catalog.pg_database d
		WHERE d.datname = pg_catalog.current_database() AND pg_catalog.has_database_privilege(d.oid, 'CREATE')`,
		"REVOKE CREATE ON DATABASE %s FROM PUBLIC; and the same FROM the login and its roles.\n",
	},
	{
		"can call %d functions that run with their owner's rights (SECURITY DEFINER), such as %s", `
		SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
		JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		WHERE p.prosecdef AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
			AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND NOT pg_catalog.pg_has_role(p.proowner, 'USAGE')
			AND` + ofUsers,
		"Where it does more than read: REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC; and GRANT it to those who need it.\n",
	},
	{
		"can reach other databases by %d functions of dblink, such as %s", `
		SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
		JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid
			AND d.deptype = 'e'
		JOIN pg_catalog.pg_extension e ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
			AND d.refobjid = e.oid
		WHERE e.extname = 'dblink' AND p.proname ~ '^dblink(_connect|_exec|_open|_send_query)?$'
			AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
			AND pg_catalog.has_schema_privilege(p.pronamespace, 'USAGE')`,
		"REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC; and so for all of dblink's, or DROP EXTENSION dblink.\n",
	},
	{
		"can reach %d foreign servers or wrappers, such as %s", `
		SELECT pg_catalog.quote_ident(s.srvname) FROM pg_catalog.pg_foreign_server s
		WHERE pg_catalog.has_server_privilege(s.oid, 'USAGE')
		UNION SELECT pg_catalog.quote_ident(w.fdwname) FROM pg_catalog.pg_foreign_data_wrapper w
		WHERE pg_catalog.has_foreign_data_wrapper_privilege(w.oid, 'USAGE')`,
		"REVOKE USAGE ON FOREIGN SERVER %[1]s FROM PUBLIC; or ON FOREIGN DATA WRAPPER; and FROM the login and its roles.\n",
	},
}

// rights reports rights of the login beyond reading. For a superuser that is the only finding.
func rights(s *reader.Session) (findings []sql.Finding, err error) {
	var database string
	if _, err := s.One(`SELECT pg_catalog.quote_ident(pg_catalog.current_database())`, nil, &database); err != nil {
		return nil, err
	}
	safe := fmt.Sprintf(safeRole, database)
	for _, power := range powers {
		var has bool
		if _, err := s.One(`SELECT coalesce(pg_catalog.bool_or(`+power.column+`), false)
			FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(oid, 'MEMBER')`, nil, &has); err != nil {
			return nil, err
		}
		if has {
			findings = append(findings, sql.Finding{What: power.what, Fix: safe})
			if power.column == "rolsuper" {
				return findings, nil
			}
		}
	}
	for _, right := range objectRights {
		var count int
		var example string
		if _, err := s.One(`SELECT count(*), coalesce(pg_catalog.min(x.name), '') FROM (`+right.query+`) AS x(name)`, nil, &count, &example); err != nil {
			return nil, err
		}
		fix := safe
		if right.fix != "" {
			fix = strings.TrimRight(fmt.Sprintf(right.fix, example), "\n") + "\n" + safe
		}
		if count > 0 {
			findings = append(findings, sql.Finding{What: fmt.Sprintf(right.what, count, example), Fix: fix})
		}
	}
	return findings, nil
}
