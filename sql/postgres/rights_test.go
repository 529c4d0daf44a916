//go:build unix

package postgres

import (
	"strings"
	"testing"

	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
)

func TestRightsAreTold(t *testing.T) {
	dsn := inDatabase(t, "office", `
		REVOKE CREATE ON SCHEMA public FROM PUBLIC;
		CREATE TABLE ledger (id int, note text);
		CREATE FUNCTION burn() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'DELETE FROM ledger';
		REVOKE EXECUTE ON FUNCTION burn() FROM PUBLIC;
		CREATE ROLE pure LOGIN; GRANT pg_read_all_data TO pure;
		CREATE ROLE boss LOGIN SUPERUSER;
		CREATE ROLE strong LOGIN CREATEROLE CREATEDB REPLICATION BYPASSRLS;
		CREATE ROLE between NOINHERIT; GRANT pg_read_server_files, pg_signal_backend TO between;
		CREATE ROLE member LOGIN; GRANT between TO member;
		CREATE ROLE writer LOGIN; GRANT INSERT ON ledger TO writer; GRANT EXECUTE ON FUNCTION burn() TO writer;
		CREATE ROLE editor LOGIN; GRANT UPDATE (note) ON ledger TO editor;
		CREATE ROLE maker LOGIN; GRANT CREATE ON SCHEMA public TO maker; GRANT CREATE ON DATABASE office TO maker;
		CREATE ROLE keeper LOGIN; CREATE TABLE kept (); ALTER TABLE kept OWNER TO keeper;
		CREATE ROLE caller LOGIN;
		CREATE EXTENSION dblink; CREATE EXTENSION postgres_fdw;
		REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
		GRANT EXECUTE ON FUNCTION dblink(text) TO caller;
		GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO caller;`)
	t.Cleanup(func() {
		for _, role := range strings.Fields("pure boss strong member between writer editor maker keeper caller") {
			exec(t, dsn, "DROP OWNED BY "+role+"; DROP ROLE "+role)
		}
	})
	for role, want := range map[string][]string{
		"pure":   nil,
		"boss":   {"superuser"},
		"strong": {"CREATEROLE", "CREATEDB", "REPLICATION", "BYPASSRLS"},
		"member": {"pg_read_server_files", "pg_signal_backend"},
		"writer": {"can write 1 tables, such as public.ledger", "SECURITY DEFINER"},
		"editor": {"can write 1 tables, such as public.ledger"},
		"maker":  {"can make objects in 1 schemas, such as public", "can make schemas in 1 database, office"},
		"keeper": {"owns 1 tables or views, such as public.kept"},
		"caller": {"dblink, such as public.dblink(text)", "foreign servers or wrappers, such as postgres_fdw"},
	} {
		tx := readOnly(t, strings.Replace(dsn, "user="+testpg.Superuser, "user="+role, 1))
		got, err := rights(t.Context(), tx)
		if err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %q, want %q", role, got, want)
			continue
		}
		for i, finding := range got {
			if !strings.Contains(finding.What, want[i]) || !strings.Contains(finding.Fix, "GRANT pg_read_all_data") ||
				strings.Contains(finding.What+finding.Fix, "%!") {
				t.Errorf("%s: %q, want %q", role, finding, want[i])
			}
		}
	}
}

// The role that the findings advise has none, where PUBLIC has no rights that it should not have.
func TestTheAdvisedRoleOnlyReads(t *testing.T) {
	dsn := inDatabase(t, "advised", `CREATE TABLE ledger (id int)`)
	findings, err := rights(t.Context(), readOnly(t, dsn))
	if err != nil || len(findings) != 1 {
		t.Fatalf("%q %v", findings, err)
	}
	_, statements, _ := strings.Cut(findings[0].Fix, "\n")
	exec(t, dsn, statements)
	t.Cleanup(func() { exec(t, dsn, "DROP OWNED BY reader; DROP ROLE reader") })
	advised := strings.Replace(dsn, "user="+testpg.Superuser, "user=reader", 1)
	if got, err := rights(t.Context(), readOnly(t, advised)); err != nil || len(got) != 0 {
		t.Errorf("%q %v", got, err)
	}
	exec(t, advised, "SELECT * FROM ledger")
}
