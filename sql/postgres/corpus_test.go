//go:build unix

package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/reader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

// fixture is what the corpora's statements speak of.
const fixture = `
	CREATE TYPE mood AS ENUM ('glad', 'sad');
	CREATE TABLE accounts (id int PRIMARY KEY, owner text, kind text, balance numeric);
	INSERT INTO accounts VALUES (1, 'anna', 'a', 10), (2, 'bert', 'b', 20), (3, 'anna', 'b', NULL);
	CREATE TABLE words ("into" text, update text, "for" text, "with" text, "select" text,
		nextval int, dblink int, set_config int);
	CREATE TABLE dblink (id int);
	CREATE MATERIALIZED VIEW totals AS SELECT owner, sum(balance) AS total FROM accounts GROUP BY owner;
	CREATE SEQUENCE tickets;
	SELECT nextval('tickets'), lo_from_bytea(4711, 'untouched'),
		pg_create_physical_replication_slot('watcher', true);
	CREATE FUNCTION deposit(account int, amount numeric) RETURNS numeric LANGUAGE sql AS
		'UPDATE accounts SET balance = balance + amount WHERE id = account RETURNING balance';
	CREATE FUNCTION deposit_as_owner(account int, amount numeric) RETURNS numeric LANGUAGE sql SECURITY DEFINER AS
		'UPDATE accounts SET balance = balance + amount WHERE id = account RETURNING balance';
	CREATE FUNCTION run_text(statement text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE statement; END';
	CREATE PROCEDURE empty_accounts() LANGUAGE sql AS 'DELETE FROM accounts';

	CREATE SCHEMA my_files;
	CREATE FUNCTION write_visible(t text) RETURNS text LANGUAGE plpgsql AS
		'BEGIN EXECUTE format(''COPY (SELECT %L) TO /tmp/stolen'', t); RETURN t; END';
	CREATE FUNCTION my_files.write_out(t text) RETURNS text LANGUAGE sql AS 'SELECT public.write_visible(t)';
	CREATE FUNCTION write_visible_whose_name_is_as_long_as_names_may_be_and_then_some_more(t text) RETURNS text LANGUAGE sql AS
		'SELECT write_visible(t)';
	CREATE FUNCTION write_row(a accounts) RETURNS text LANGUAGE sql AS 'SELECT write_visible(a.owner)';
	CREATE FUNCTION write_default(t text DEFAULT 'x') RETURNS text LANGUAGE sql AS 'SELECT write_visible(t)';
	CREATE FUNCTION write_many(VARIADIC t text[]) RETURNS text LANGUAGE sql AS 'SELECT write_visible(t[1])';
	CREATE FUNCTION write_both(a text, b text) RETURNS text LANGUAGE sql AS 'SELECT write_visible(b)';
	CREATE AGGREGATE write_all(text) (SFUNC = write_both, STYPE = text);
	CREATE VIEW writing AS SELECT write_visible('x');
	CREATE VIEW my_files.writing_twice AS SELECT * FROM writing;
	CREATE OPERATOR >>>> (LEFTARG = text, RIGHTARG = text, FUNCTION = write_both);
	CREATE TYPE noted AS (t text);
	CREATE TYPE written AS (t text);
	CREATE FUNCTION write_cast(n noted) RETURNS written LANGUAGE sql AS 'SELECT ROW(write_visible(n.t))::written';
	CREATE FUNCTION write_equal(a noted, b written) RETURNS boolean LANGUAGE sql AS 'SELECT write_visible(a.t) IS NOT NULL';
	CREATE TABLE notes (a noted, b written);
	INSERT INTO notes VALUES (ROW('a'), ROW('b'));
	CREATE CAST (noted AS written) WITH FUNCTION write_cast(noted);
	CREATE OPERATOR = (LEFTARG = noted, RIGHTARG = written, FUNCTION = write_equal);
	CREATE DOMAIN checked AS text CHECK (write_visible(VALUE) IS NOT NULL);
	CREATE FUNCTION hidden_read(path text) RETURNS text STABLE STRICT LANGUAGE internal AS 'pg_read_file_all';

	CREATE SCHEMA calm;
	CREATE FUNCTION doubled(n int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT n * 2';
	CREATE FUNCTION calm.doubled(n int) RETURNS int STABLE LANGUAGE plpgsql AS 'BEGIN RETURN n * 2; END';
	CREATE FUNCTION label(a accounts) RETURNS text STABLE LANGUAGE sql AS 'SELECT a.owner';
	CREATE FUNCTION round(a text, b text, c text) RETURNS text LANGUAGE sql AS 'SELECT write_visible(a)';
	CREATE FUNCTION calm.lower(t text) RETURNS text LANGUAGE sql AS 'SELECT write_visible(t)';
	CREATE AGGREGATE calm.total(numeric) (SFUNC = numeric_add, STYPE = numeric);
	CREATE VIEW calm_view AS SELECT doubled(1);
	CREATE OPERATOR ==== (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq);
	CREATE DOMAIN small AS int CHECK (VALUE < doubled(10));
	CREATE EXTENSION pgcrypto; CREATE EXTENSION tablefunc; CREATE EXTENSION pg_buffercache;`

// inDatabase makes a database of its own for a test, and returns its DSN.
func inDatabase(t *testing.T, name, statements string) string {
	t.Helper()
	exec(t, server.DSN(testpg.Superuser), "CREATE DATABASE "+name)
	t.Cleanup(func() { exec(t, server.DSN(testpg.Superuser), "DROP DATABASE "+name+" WITH (FORCE)") })
	dsn := server.DSN(testpg.Superuser) + " dbname=" + name
	exec(t, dsn, statements)
	return dsn
}

// exec runs statements in a connection of their own.
func exec(t *testing.T, dsn, statements string) {
	t.Helper()
	ctx := context.Background()
	conn := connect(t, dsn)
	defer conn.Close(ctx)
	must.OK(t, should.ErrOf(conn.PgConn().Exec(ctx, statements).ReadAll()), "%s", statements)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn := must.Get(pgx.Connect(context.Background(), dsn))(t)
	return conn
}

func bank(t *testing.T) string {
	t.Helper()
	dsn := inDatabase(t, "bank", fixture)
	t.Cleanup(func() { exec(t, dsn, "SELECT pg_drop_replication_slot('watcher')") })
	return dsn
}

// ask runs a statement to its end, as the tool does or without the check before it.
func ask(t *testing.T, db *reader.Database, text string, checked bool) error {
	t.Helper()
	q := sql.Query{Text: text}
	if strings.Contains(text, "$1::int") {
		q.Params = []any{json.Number("1")}
	}
	run := func() (sql.Rows, error) { return db.Query(t.Context(), q) }
	if !checked {
		run = func() (sql.Rows, error) {
			return db.Run(t.Context(), &reader.Statement{Text: q.Text, Params: q.Params})
		}
	}
	rows, err := run()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

func TestAttacksAreRefusedAndChangeNothing(t *testing.T) {
	dsn := bank(t)
	exec(t, dsn, "CREATE EXTENSION dblink")
	bystander := connect(t, dsn+" application_name=bystander")
	defer bystander.Close(context.Background())
	before, db := contents(t, dsn), open(t, dsn, sql.Limits{})
	for _, text := range sqltest.Corpus(t, "attacks") {
		err := ask(t, db, text, true)
		should.Hold(t, err != nil, "this was not refused: %s", text)
	}
	if after := contents(t, dsn); after != before {
		t.Errorf("the attacks changed the database:\n%s", difference(before, after))
	}
	should.OK(t, bystander.Ping(context.Background()), "the attacks reached another session")
}

func TestLegitimateStatementsRun(t *testing.T) {
	db := open(t, bank(t), sql.Limits{})
	for _, text := range sqltest.Corpus(t, "legitimate") {
		should.OK(t, ask(t, db, text, true), "%s", text)
	}
}

// writes are the verbs whose statements a read-only transaction refuses.
var writes = []string{"insert", "update", "delete", "merge", "create", "alter", "drop", "truncate", "grant",
	"revoke", "comment", "refresh", "do", "call"}

func TestTheTransactionAloneRefusesWrites(t *testing.T) {
	dsn := bank(t)
	before, tried, db := contents(t, dsn), 0, open(t, dsn, sql.Limits{})
	for _, text := range sqltest.Corpus(t, "attacks") {
		words := significant(text)
		write := slices.ContainsFunc(words, func(word token) bool { return word.is("into", "for") }) &&
			words[0].is("select", "with", "table") && !slices.ContainsFunc(words, func(w token) bool { return w.punct(";") })
		if len(words) == 0 || !write && !words[0].is(writes...) || strings.Contains(text, "pg_advisory_lock") {
			continue
		}
		tried++
		err := ask(t, db, text, false)
		should.Hold(t, err != nil, "the server did not refuse %s", text)
	}
	should.Hold(t, tried >= 60, "the corpus has but %d statements that write", tried)
	if after := contents(t, dsn); after != before {
		t.Errorf("the statements changed the database:\n%s", difference(before, after))
	}
}

// What the check cannot see is what the database's own functions do; it leaves writes inside a statement to the
// read-only transaction, and in an explained one, which may not run, it refuses them.
func TestTheCheckAloneRefusesAllButTheDatabasesFunctionsAndWrites(t *testing.T) {
	own := regexp.MustCompile(`(?i)deposit|run_text|write_|write\\|writing|written|checked|hidden_read|>>>>|notes|_to_xml|^SELECT stolen FROM accounts$`)
	written := regexp.MustCompile(`(?i)^[^;]*(\(|\)|SET o,.*)\W*(INSERT|UPDATE|DELETE|MERGE)\W|FOR\W.*(UPDATE|SHARE)`)
	explained := regexp.MustCompile(`^EXPLAIN`)
	for _, text := range sqltest.Corpus(t, "attacks") {
		if _, err := check(text); err == nil && !own.MatchString(text) && (explained.MatchString(text) || !written.MatchString(text)) {
			t.Errorf("this was not refused: %s", text)
		}
	}
}

func TestFunctionsOfTheDatabasesOwnAreTold(t *testing.T) {
	dsn := inDatabase(t, "shop", `
		CREATE SCHEMA tools;
		CREATE FUNCTION tools.stamp(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN n; END';
		CREATE FUNCTION stamp(n text) RETURNS text LANGUAGE sql AS 'SELECT n';
		CREATE FUNCTION lower(n int) RETURNS text LANGUAGE sql AS 'SELECT n::text';
		CREATE VIEW stamped AS SELECT tools.stamp(1);
		CREATE FUNCTION raw(a int, b int) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'int4eq';
		CREATE FUNCTION locked() RETURNS int LANGUAGE sql AS 'SELECT 1';
		REVOKE EXECUTE ON FUNCTION locked() FROM PUBLIC;
		CREATE ROLE visitor LOGIN; GRANT USAGE ON SCHEMA tools TO visitor; GRANT SELECT ON stamped TO visitor;`)
	owner := dsn
	t.Cleanup(func() { exec(t, owner, "DROP OWNED BY visitor; DROP ROLE visitor") })
	dsn = strings.Replace(dsn, "user="+testpg.Superuser, "user=visitor", 1)
	for _, c := range []struct {
		text    string
		allowed []string
		refused []string // words of the refusal; none where it runs
	}{
		{"SELECT tools.stamp(1)", nil, []string{"tools.stamp(integer)", "VOLATILE", "STABLE", "--sql-allow-functions tools.stamp"}},
		{"SELECT tools.stamp(1)", []string{"tools.stamp"}, nil},
		{"SELECT * FROM stamped", nil, []string{"tools.stamp(integer)"}},
		{"SELECT * FROM stamped", []string{"lower", "stamp"}, nil},
		{"SELECT stamp('a')", []string{"tools.stamp"}, []string{"stamp(text)"}},
		{"SELECT stamp('a')", []string{"public.stamp"}, nil},
		{"SELECT lower('a')", nil, []string{"lower(integer)", "pg_catalog.lower"}},
		{"SELECT pg_catalog.lower('a')", nil, nil},
		{"SELECT raw(1, 1)", nil, []string{"internal", "--sql-allow-functions public.raw"}},
		{"SELECT raw(1, 1)", []string{"raw"}, nil},
		{"SELECT pg_read_file('x')", []string{"pg_read_file", "pg_catalog.pg_read_file"}, []string{"reaches files"}},
	} {
		err := ask(t, open(t, dsn, sql.Limits{Functions: c.allowed}), c.text, true)
		if len(c.refused) > 0 {
			wantFault(t, err, fault.SQLRejected, c.refused...)
		} else if err != nil {
			t.Errorf("%s with %q: %v", c.text, c.allowed, err)
		}
	}
	wantFault(t, ask(t, open(t, dsn, sql.Limits{}), "SELECT locked()", true), fault.SQLFailed, "42501")
}

func significant(text string) []token {
	return slices.DeleteFunc(tokenize(text), func(t token) bool { return t.kind == space || t.kind == comment })
}

func TestARefusalSaysWhatWhereAndWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "no statement",
		"SELECT 1;\nDELETE FROM t":        "line 2, `DELETE FROM t`: It is a second statement",
		"SELECT\n\n pg_read_file('x')":    "line 3, `pg_read_file`: It reaches files",
		"SELECT cron.schedule('a', 'b')":  "`cron.schedule`: It starts jobs",
		"EXPLAIN\nANALYZE\nDELETE FROM t": "line 3, `DELETE FROM t`: It is no statement that only reads",
		"SELECT 'a":                       "without its closing quote",
		"SELECT\n1\x00":                   "line 2",
		`SELECT U&"d!0061ta" UESCAPE '!'`: "a name with escapes",
		"SELECT E'a'\n'b'":                "goes on in a later line",
		"SELECT '\xff'":                   "not UTF-8",
		"EXPLAIN WITH a AS (DELETE FROM t) SELECT 1":                                 "`DELETE FROM t`",
		"EXPLAIN SELECT 1 FOR UPDATE":                                                "`FOR UPDATE`",
		"EXPLAIN SELECT substring((SELECT a FROM t FOR UPDATE) FOR 2)":               "`FOR UPDATE )`",
		"WITH x AS (INSERT INTO t VALUES (1) RETURNING a) SELECT a FROM x":           "`INTO t VALUES`: It writes",
		"WITH x AS (SELECT 1) MERGE INTO t USING x ON true WHEN MATCHED THEN DELETE": "`INTO t USING`: It writes",
		"SELECT a INTO b FROM t":                                                     "`INTO b FROM`: It writes",
		"EXPLAIN":                                                                    "missing",
		strings.Repeat("SELECT 1 ", 200_000):                                         "1800000 bytes",
		"SELECT " + strings.Repeat("x", 1000) + "\x01":                               "does not know",
	} {
		f := must.Code(t, should.ErrOf(check(text)), fault.SQLRejected, want)
		should.Hold(t, len(f.Message) <= 300, "%q: the message is long: %s", text, f.Message)
	}
}

// contents reports all that a statement could change, a line each.
func contents(t *testing.T, dsn string) string {
	t.Helper()
	conn := connect(t, dsn)
	defer conn.Close(context.Background())
	list := func(query string) []string {
		rows := must.Get(conn.Query(context.Background(), query))(t, "%s", query)
		lines := must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(t, "%s", query)
		return lines
	}
	var lines []string
	relations := append(list(`SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'm', 'S')
		AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)`),
		"pg_authid", "pg_auth_members", "pg_db_role_setting", "pg_largeobject", "pg_largeobject_metadata",
		"pg_replication_slots", "pg_replication_origin", "pg_prepared_xacts", "pg_seclabel", "pg_description",
		"pg_namespace", "pg_type", "pg_proc", "pg_attribute", "pg_attrdef", "pg_constraint", "pg_trigger", "pg_rewrite",
		"pg_extension", "pg_publication", "pg_subscription", "pg_foreign_server", "pg_policy", "pg_tablespace",
		"pg_cast", "pg_operator", "pg_language", "pg_event_trigger", "pg_default_acl", "pg_statistic_ext",
		"pg_settings", "pg_file_settings")
	for _, relation := range relations {
		for _, row := range list("SELECT to_jsonb(x)::text FROM (TABLE " + relation + ") x ORDER BY 1") {
			lines = append(lines, relation+" "+row)
		}
	}
	for _, query := range []string{
		"SELECT datname || coalesce(datacl::text, '') FROM pg_database ORDER BY 1",
		"SELECT oid::regclass::text || relkind::text || relowner::text || relfilenode::text || coalesce(relacl::text, '') FROM pg_class ORDER BY oid",
		"SELECT s::text FROM pg_stats s WHERE schemaname = 'public' ORDER BY 1",
		"SELECT l::text FROM pg_locks l WHERE locktype = 'advisory'",
		"SELECT datname || coalesce(stats_reset::text, '') FROM pg_stat_database WHERE datname IS NOT NULL ORDER BY 1",
		"SELECT stats_reset::text FROM pg_stat_bgwriter",
		"SELECT pg_conf_load_time()::text",
	} {
		for _, row := range list(query) {
			lines = append(lines, query+" "+row)
		}
	}
	return strings.Join(append(lines, files(t, list("SHOW data_directory")[0])...), "\n")
}

// files are those of the server's that a statement may be able to write, and not those it writes by itself.
func files(t *testing.T, data string) []string {
	t.Helper()
	var lines []string
	for _, dir := range []string{data, filepath.Dir(data), filepath.Join(data, "pg_snapshots"), filepath.Join(data, "pg_tblspc")} {
		entries := must.Get(os.ReadDir(dir))(t)
		for _, entry := range entries {
			line := dir + "/" + entry.Name()
			if strings.HasSuffix(line, ".conf") {
				content, _ := os.ReadFile(line)
				line += fmt.Sprintf(" %x", sha256.Sum256(content))
			}
			lines = append(lines, line)
		}
	}
	if _, err := os.Stat("/tmp/stolen"); err == nil {
		lines = append(lines, "/tmp/stolen")
	}
	return lines
}

func difference(before, after string) string {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	var out []string
	for _, line := range was {
		if !slices.Contains(is, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}
