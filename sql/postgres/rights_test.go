//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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
		got, err := open(t, strings.Replace(dsn, "user="+testpg.Superuser, "user="+role, 1), sql.Limits{}).Rights(t.Context())
		must.OK(t, err, "%s", role)
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
	findings, err := open(t, dsn, sql.Limits{}).Rights(t.Context())
	must.Hold(t, err == nil && len(findings) == 1, "%q %v", findings, err)
	_, statements, _ := strings.Cut(findings[0].Fix, "\n")
	exec(t, dsn, statements)
	t.Cleanup(func() { exec(t, dsn, "DROP OWNED BY reader; DROP ROLE reader") })
	advised := strings.Replace(dsn, "user="+testpg.Superuser, "user=reader", 1)
	got, err := open(t, advised, sql.Limits{}).Rights(t.Context())
	should.Hold(t, err == nil && len(got) == 0, "%q %v", got, err)
	exec(t, advised, "SELECT * FROM ledger")
}

// harmless is the volatile functions of PostgreSQL 15 to 18 that may be called: they read, they wait, or what
// they change is their own session's and gone with the transaction.
var harmless = strings.Fields(`
	amvalidate array_sample array_shuffle bernoulli clock_timestamp currtid2 current_query currval gen_random_uuid lastval
	pg_available_wal_summaries pg_blocking_pids pg_collation_actual_version pg_control_checkpoint
	pg_control_init pg_control_recovery pg_control_system pg_current_logfile pg_current_wal_flush_lsn
	pg_current_wal_insert_lsn pg_current_wal_lsn pg_database_collation_actual_version pg_database_size
	pg_get_aios pg_get_backend_memory_contexts pg_get_loaded_modules pg_get_multixact_members
	pg_get_sequence_data pg_get_shmem_allocations pg_get_shmem_allocations_numa pg_get_wait_events
	pg_get_wal_replay_pause_state pg_get_wal_resource_managers pg_get_wal_summarizer_state
	pg_hba_file_rules pg_ident_file_mappings pg_indexes_size pg_is_in_recovery pg_is_wal_replay_paused
	pg_isolation_test_session_is_blocked pg_jit_available pg_last_committed_xact pg_last_wal_receive_lsn
	pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_lock_status pg_notification_queue_usage
	pg_numa_available pg_partition_ancestors pg_partition_tree pg_prepared_xact pg_relation_size
	pg_replication_origin_progress pg_replication_origin_session_is_setup
	pg_replication_origin_session_progress pg_safe_snapshot_blocking_pids pg_sequence_last_value
	pg_sequence_read_tuple pg_show_all_file_settings pg_show_replication_origin_status
	pg_sleep pg_sleep_for pg_sleep_until
	pg_stat_clear_snapshot pg_stat_get_backend_io pg_stat_get_backend_wal pg_stat_get_io
	pg_stat_get_recovery_prefetch pg_stat_get_xact_blocks_fetched pg_stat_get_xact_blocks_hit
	pg_stat_get_xact_function_calls pg_stat_get_xact_function_self_time
	pg_stat_get_xact_function_total_time pg_stat_get_xact_numscans pg_stat_get_xact_tuples_deleted
	pg_stat_get_xact_tuples_fetched pg_stat_get_xact_tuples_hot_updated
	pg_stat_get_xact_tuples_newpage_updated pg_stat_get_xact_tuples_inserted
	pg_stat_get_xact_tuples_returned pg_stat_get_xact_tuples_updated pg_stat_have_stats
	pg_table_size pg_tablespace_size pg_total_relation_size pg_wal_summary_contents
	pg_xact_commit_timestamp pg_xact_commit_timestamp_origin pg_xact_status
	plpgsql_validator random random_normal setseed system timeofday txid_status uuidv4 uuidv7
	ts_rewrite`) // ts_rewrite is refused by the number of its arguments

func TestEveryVolatileFunctionIsKnown(t *testing.T) {
	// Functions that take or give a pseudotype of the server's insides cannot be called from a statement.
	const volatile = `SELECT DISTINCT p.proname::text FROM pg_catalog.pg_proc p
		JOIN pg_catalog.pg_type r ON r.oid = p.prorettype
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.provolatile = 'v'
		AND r.typname <> ALL ('{trigger,event_trigger,internal,language_handler,fdw_handler,index_am_handler,table_am_handler}')
		AND 'internal'::regtype <> ALL (p.proargtypes) ORDER BY 1`
	conn := connect(t, server.DSN(testpg.Superuser))
	defer conn.Close(context.Background())
	rows := must.Get(conn.Query(context.Background(), volatile))(t)
	functions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.Hold(t, err == nil && len(functions) >= 100, "%d functions, %v", len(functions), err)
	for _, function := range functions {
		refused, allowed := refusal("", function) != "", slices.Contains(harmless, function)
		should.Hold(t, refused != allowed, "%s: refused is %t and allowed is %t; one of them it has to be", function, refused, allowed)
	}
}

func TestHarmlessFunctionsAreAdmitted(t *testing.T) {
	for _, function := range append(harmless, "currval", "schema_to_xml", "table_to_xml", "txid_current_if_assigned",
		"pg_stat_get_db_stat_reset_time", "pg_get_viewdef", "lower", "loyalty") {
		should.Equal(t, refusal("", function), "", "%s is refused: it", function)
	}
}

func TestTokensAreThoseOfPostgreSQL(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // kind letter and value or text
	}{
		{`SELECT Ünicode_1$x`, []string{"n:select", "n:Ünicode_1$x"}},
		{`'a''b' E'\'c' e'\\' + 'd\'`, []string{"l:a'b", `l:\'c`, `l:\\`, "o:+", `l:d\`}},
		{"E'a' -- c\n '\\'b' c", []string{"l:a", "b:"}},
		{`U&'\0041' B'01' x'1F' N'n'`, []string{`l:\0041`, "l:01", "l:1F", "l:n"}},
		{`"A ""b"`, []string{`q:A "b`}},
		{`U&"d\0061"`, []string{"b:"}},
		{`U & "x"`, []string{"n:u", "o:&", "q:x"}},
		{`$$a'b$$ $T$ $t$ $T$ a$$b`, []string{"l:a'b", "l: $t$ ", "n:a$$b"}},
		{`$1$$x$$`, []string{"p:$1", "l:x"}},
		{`/* a /* b */ c */ d /***/e/*/*/**/*/*/`, []string{"n:d", "n:e"}},
		{"a -- b\rc", []string{"n:a", "n:c"}},
		{`1e5 0x1F 1_000 .5 1.5e-3 1.`, []string{"0:1e5", "0:0x1F", "0:1_000", "0:.5", "0:1.5e-3", "0:1."}},
		{`1a`, []string{"b:"}},
		{`a+/*x*/b<=--c`, []string{"n:a", "o:+", "n:b", "o:<="}},
		{`a::int[1:2]`, []string{"n:a", "::", "::", "n:int", ":[", "0:1", "::", "0:2", ":]"}},
		{`'open`, []string{"b:"}},
		{`"open`, []string{"b:"}},
		{`/* open /* */`, []string{"b:"}},
		{`$a$ open $A$`, []string{"b:"}},
		{`\`, []string{"b:"}},
	} {
		var got []string
		for _, tok := range tokenize(c.text) {
			switch tok.kind {
			case name:
				got = append(got, "n:"+tok.value)
			case quotedName:
				got = append(got, "q:"+tok.value)
			case literal:
				got = append(got, "l:"+tok.value)
			case number:
				got = append(got, "0:"+tok.text)
			case parameter:
				got = append(got, "p:"+tok.text)
			case operator:
				got = append(got, "o:"+tok.text)
			case punctuation:
				got = append(got, ":"+tok.text)
			case broken:
				got = append(got, "b:")
			}
		}
		should.EqualSlice(t, got, c.want, "%s", c.text)
	}
}

func FuzzTokens(f *testing.F) {
	for _, file := range []string{"attacks", "legitimate"} {
		for _, s := range sqltest.Corpus(f, file) {
			f.Add(s)
		}
	}
	f.Add("$a$ $b")
	f.Add("'a\r\n'b\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		var whole strings.Builder
		line := 1
		for _, tok := range tokenize(text) {
			must.Hold(t, tok.text != "" && tok.line >= line, "%q: a token is empty or goes back: %+v", text, tok)
			line = tok.line
			whole.WriteString(tok.text)
		}
		must.Hold(t, whole.String() == text, "the tokens of %q are %q", text, whole.String())
		_, _ = check(text)
	})
}

// server is the tests' own PostgreSQL, and localeDir where it finds locales that the system does not have.
var (
	server    *testpg.Server
	localeDir string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if localeDir, err = os.MkdirTemp("", "locales-"); err == nil {
		defer os.RemoveAll(localeDir)
		os.Setenv("LOCPATH", localeDir)
		err = os.Chmod(localeDir, 0o755) // the server is another user
	}
	if err == nil {
		server, err = testpg.Start(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop()
	return m.Run()
}

// shop has one of everything that a description tells. Its schema hostile has a function and an operator
// that would catch names of the catalogs' that are not qualified.
const shop = `
	CREATE SCHEMA sales; COMMENT ON SCHEMA sales IS 'what we sell';
	CREATE SCHEMA "Odd Name"; CREATE SCHEMA secret; CREATE SCHEMA hostile;
	CREATE TYPE mood AS ENUM ('glad', 'sad');
	CREATE DOMAIN cents AS bigint CHECK (VALUE >= 0);
	CREATE DOMAIN price AS cents DEFAULT 0 NOT NULL;
	CREATE TABLE customers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, mood mood,
		moods mood[], note text DEFAULT 'none', shout text GENERATED ALWAYS AS (upper(name)) STORED, picture bytea);
	COMMENT ON TABLE customers IS 'who buys'; COMMENT ON COLUMN customers.name IS 'as on the letter';
	INSERT INTO customers (name, mood, note, picture)
		SELECT 'customer ' || i % 3, 'sad', repeat('ä', 100), decode(repeat('00', 20000), 'hex') FROM generate_series(1, 2000) i;
	CREATE TABLE sales.orders (a int, b text, customer int REFERENCES customers, total price, CONSTRAINT pair PRIMARY KEY (b, a),
		CONSTRAINT positive CHECK (a > 0));
	CREATE TABLE sales.lines (order_b text, order_a int, CONSTRAINT line FOREIGN KEY (order_b, order_a) REFERENCES sales.orders (b, a));
	CREATE UNIQUE INDEX by_customer ON sales.orders (customer DESC) WHERE a > 1;
	CREATE TABLE sales.events (at date, what text) PARTITION BY RANGE (at);
	CREATE TABLE sales.events_2025 PARTITION OF sales.events FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
	CREATE TABLE sales.events_2026 PARTITION OF sales.events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
	INSERT INTO sales.events SELECT date '2025-12-01' + i, 'x' FROM generate_series(0, 59) i;
	CREATE VIEW sales.glad AS SELECT * FROM customers WHERE mood = 'glad';
	CREATE VIEW sales.heavy AS SELECT count(*) FROM generate_series(1, 100000000) i;
	CREATE MATERIALIZED VIEW sales.empty AS SELECT 1 AS one WITH NO DATA;
	CREATE TABLE "Odd Name"."A ""b"".c" ("x y" int, X int); INSERT INTO "Odd Name"."A ""b"".c" VALUES (1, 2);
	CREATE TABLE "Customers" (upper_case int);
	CREATE TABLE never_analyzed (id int);
	CREATE TABLE a_b (id int); CREATE TABLE axb (id int);
	CREATE TABLE secret.hidden (id int);
	CREATE TABLE half (seen int, unseen int);
	CREATE TABLE "Odd Name".stays (during daterange, CONSTRAINT apart EXCLUDE USING gist (during WITH &&));
	CREATE FUNCTION hostile.obj_description(oid, name) RETURNS text LANGUAGE sql AS 'SELECT ''caught''';
	CREATE FUNCTION hostile.eq(name, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
	CREATE OPERATOR hostile.= (LEFTARG = name, RIGHTARG = text, FUNCTION = hostile.eq);
	ANALYZE customers, sales.orders, sales.events_2025, sales.events_2026;
	CREATE ROLE clerk LOGIN;
	GRANT USAGE ON SCHEMA sales, "Odd Name", hostile TO clerk;
	GRANT SELECT ON ALL TABLES IN SCHEMA public, sales, "Odd Name", secret TO clerk;
	REVOKE SELECT ON half FROM clerk; GRANT SELECT (seen) ON half TO clerk;`

// clerks is the shop as a clerk reads it, with a hostile search_path.
func clerks(t *testing.T) *reader.Database {
	t.Helper()
	dsn := inDatabase(t, "shop", shop)
	t.Cleanup(func() { exec(t, dsn, "DROP OWNED BY clerk; DROP ROLE clerk") })
	return open(t, strings.Replace(dsn, "user="+testpg.Superuser, "user=clerk", 1)+" search_path='hostile, public, pg_catalog'", sql.Limits{})
}

// same compares a description with the JSON that a model sees.
func same(t *testing.T, what string, got any, want string) {
	t.Helper()
	text := must.Get(json.Marshal(got))(t)
	should.Equal(t, string(text), want, "%s", what)
}

func TestDescriptionsAreWhatAFirstQueryNeeds(t *testing.T) {
	ctx, db := t.Context(), clerks(t)
	t.Run("schemas are those that the login may use", func(t *testing.T) {
		got := must.Get(db.Schemas(ctx))(t)
		same(t, "schemas", got, `[{"schema":"Odd Name","tables":2},{"schema":"hostile","tables":0},{"schema":"public","tables":6,"comment":"standard public schema"},`+
			`{"schema":"sales","tables":6,"comment":"what we sell"}]`)
	})
	for _, c := range []struct {
		filter sql.TableFilter
		want   string
	}{
		{sql.TableFilter{Limit: 3}, `[{"schema":"Odd Name","table":"A \"b\".c","kind":"table"},{"schema":"Odd Name","table":"stays","kind":"table"},` +
			`{"schema":"public","table":"Customers","kind":"table"}]`},
		{sql.TableFilter{Schema: "SALES", Limit: 100}, `[{"schema":"sales","table":"empty","kind":"materialized view"},` +
			`{"schema":"sales","table":"events","kind":"partitioned table","rows_estimate":60},{"schema":"sales","table":"glad","kind":"view"},` +
			`{"schema":"sales","table":"heavy","kind":"view"},{"schema":"sales","table":"lines","kind":"table"},` +
			`{"schema":"sales","table":"orders","kind":"table","rows_estimate":0}]`},
		{sql.TableFilter{Glob: "a_*", Limit: 100}, `[{"schema":"public","table":"a_b","kind":"table"}]`},
		{sql.TableFilter{Glob: "cust?mers", Limit: 1}, `[{"schema":"public","table":"Customers","kind":"table"}]`},
		{sql.TableFilter{Schema: "public", Glob: "customers*", Limit: 9}, `[{"schema":"public","table":"Customers","kind":"table"},` +
			`{"schema":"public","table":"customers","kind":"table","rows_estimate":2000,"comment":"who buys"}]`},
		{sql.TableFilter{Glob: "%", Limit: 9}, `[]`},
	} {
		got := must.Get(db.Tables(ctx, c.filter))(t)
		same(t, c.filter.Schema+" "+c.filter.Glob, got, c.want)
	}
	for _, c := range []struct {
		schema, name, want string
	}{
		{"", "customers", `{"schema":"public","table":"customers","kind":"table","rows_estimate":2000,"comment":"who buys","columns":[` +
			`{"name":"id","type":"integer","nullable":false,"default":"generated always as identity"},` +
			`{"name":"name","type":"text","nullable":false,"comment":"as on the letter"},` +
			`{"name":"mood","type":"public.mood","nullable":true,"values":["glad","sad"]},` +
			`{"name":"moods","type":"public.mood[]","nullable":true,"values":["glad","sad"]},` +
			`{"name":"note","type":"text","nullable":true,"default":"'none'::text"},` +
			`{"name":"shout","type":"text","nullable":true,"default":"generated always as (upper(name))"},` +
			`{"name":"picture","type":"bytea","nullable":true}],` +
			`"primary_key":["id"],"referenced_by":[{"name":"orders_customer_fkey","table":"sales.orders","columns":["customer"],` +
			`"references":"public.customers","referenced_columns":["id"]}],` +
			`"indexes":[{"name":"customers_pkey","definition":"CREATE UNIQUE INDEX customers_pkey ON public.customers USING btree (id)","unique":true}]}`},
		{"sales", "Orders", `{"schema":"sales","table":"orders","kind":"table","rows_estimate":0,"columns":[` +
			`{"name":"a","type":"integer","nullable":false},{"name":"b","type":"text","nullable":false},{"name":"customer","type":"integer","nullable":true},` +
			`{"name":"total","type":"public.price (a domain of bigint)","nullable":false,"default":"0"}],"primary_key":["b","a"],` +
			`"foreign_keys":[{"name":"orders_customer_fkey","table":"sales.orders","columns":["customer"],"references":"public.customers","referenced_columns":["id"]}],` +
			`"referenced_by":[{"name":"line","table":"sales.lines","columns":["order_b","order_a"],"references":"sales.orders","referenced_columns":["b","a"]}],` +
			`"indexes":[{"name":"pair","definition":"CREATE UNIQUE INDEX pair ON sales.orders USING btree (b, a)","unique":true},` +
			`{"name":"by_customer","definition":"CREATE UNIQUE INDEX by_customer ON sales.orders USING btree (customer DESC) WHERE (a \u003e 1)","unique":true}],` +
			`"checks":["CHECK ((a \u003e 0))"]}`},
		{"", "Customers", `{"schema":"public","table":"Customers","kind":"table","columns":[{"name":"upper_case","type":"integer","nullable":true}]}`},
		{"", `"Odd Name"."A ""b"".c"`, `{"schema":"Odd Name","table":"A \"b\".c","kind":"table","columns":[` +
			`{"name":"x y","type":"integer","nullable":true},{"name":"x","type":"integer","nullable":true}]}`},
		{"Odd Name", "stays", `{"schema":"Odd Name","table":"stays","kind":"table","columns":[{"name":"during","type":"daterange","nullable":true}],` +
			`"indexes":[{"name":"apart","definition":"EXCLUDE USING gist (during WITH \u0026\u0026)","unique":false}]}`},
		{"", "SALES.heavy", `{"schema":"sales","table":"heavy","kind":"view","columns":[{"name":"count","type":"bigint","nullable":true}]}`},
		{"sales", "empty", `{"schema":"sales","table":"empty","kind":"materialized view","columns":[{"name":"one","type":"integer","nullable":true}]}`},
		{"", "half", `{"schema":"public","table":"half","kind":"table","columns":[{"name":"seen","type":"integer","nullable":true}]}`},
	} {
		got, err := db.Table(ctx, c.schema, c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		same(t, c.name, got, c.want)
	}
	for _, c := range []struct{ schema, name, hint string }{
		{"", "costumers", "public.customers"},
		{"", "orders", "sales.orders"},
		{"sales", "ordrs", "sales.orders"},
		{"secret", "hidden", "describe_sql"},
		{"", "'; DROP TABLE x; --", "describe_sql"},
		{"", "", "describe_sql"},
	} {
		_, err := db.Table(ctx, c.schema, c.name)
		isMissing(t, err, c.hint)
	}
	_, err := db.Tables(ctx, sql.TableFilter{Schema: "sails", Limit: 1})
	isMissing(t, err, "sales")
}

func TestKeysOfPeriodsSaySo(t *testing.T) {
	conn := admin(t)
	if serverVersion(conn.PgConn()) < 18 {
		t.Skip("needs PostgreSQL 18")
	}
	const rooms = `CREATE TABLE rooms (id int4range, valid daterange, PRIMARY KEY (id, valid WITHOUT OVERLAPS));
		CREATE TABLE bookings (room int4range, during daterange, FOREIGN KEY (room, PERIOD during) REFERENCES rooms (id, PERIOD valid))`
	got := must.Get(open(t, inDatabase(t, "hotel", rooms), sql.Limits{}).Table(t.Context(), "", "rooms"))(t)
	same(t, "rooms", got, `{"schema":"public","table":"rooms","kind":"table","columns":[{"name":"id","type":"int4range","nullable":false},`+
		`{"name":"valid","type":"daterange","nullable":false}],"primary_key":["id","valid WITHOUT OVERLAPS"],`+
		`"referenced_by":[{"name":"bookings_room_during_fkey","table":"public.bookings","columns":["room","PERIOD during"],`+
		`"references":"public.rooms","referenced_columns":["id","PERIOD valid"]}],`+
		`"indexes":[{"name":"rooms_pkey","definition":"PRIMARY KEY (id, valid WITHOUT OVERLAPS)","unique":true}]}`)
}

func isMissing(t *testing.T, err error, hint string) {
	t.Helper()
	should.Contain(t, must.Code(t, err, fault.NotFound).Hint, hint)
}

func TestNearestNames(t *testing.T) {
	known := []string{"public.customers", "public.customer_orders", "public.zebra", "sales.orders"}
	for name, want := range map[string][]string{
		"custmers":    {"public.customers"},
		"order":       {"sales.orders", "public.customer_orders"},
		"sales.order": {"sales.orders"},
		"unlike":      nil,
	} {
		should.EqualSlice(t, nearest(name, known), want, "%s", name)
	}
}
