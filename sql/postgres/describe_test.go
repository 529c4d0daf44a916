//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

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

// reader makes read-only transactions of a clerk's in the shop, with a hostile search_path.
func reader(t *testing.T) func() querier {
	t.Helper()
	dsn := inDatabase(t, "shop", shop)
	t.Cleanup(func() { exec(t, dsn, "DROP OWNED BY clerk; DROP ROLE clerk") })
	clerk := strings.Replace(dsn, "user="+testpg.Superuser, "user=clerk", 1) + " search_path='hostile, public, pg_catalog'"
	return func() querier { return readOnly(t, clerk) }
}

func readOnly(t *testing.T, dsn string) pgx.Tx {
	t.Helper()
	conn := connect(t, dsn)
	tx, err := conn.BeginTx(context.Background(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	must.OK(t, err)
	t.Cleanup(func() {
		_ = tx.Rollback(context.Background())
		_ = conn.Close(context.Background())
	})
	return tx
}

// same compares a description with the JSON that a model sees.
func same(t *testing.T, what string, got any, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	must.OK(t, err)
	should.Equal(t, string(text), want, "%s", what)
}

func TestDescriptionsAreWhatAFirstQueryNeeds(t *testing.T) {
	ctx, q := t.Context(), reader(t)
	t.Run("schemas are those that the login may use", func(t *testing.T) {
		got, err := schemas(ctx, q())
		must.OK(t, err)
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
		got, err := tables(ctx, q(), c.filter)
		must.OK(t, err)
		same(t, c.filter.Schema+" "+c.filter.Glob, got, c.want)
	}
	for _, c := range []struct {
		schema, name string
		examples     bool
		want         string
	}{
		{"", "customers", true, `{"schema":"public","table":"customers","kind":"table","rows_estimate":2000,"comment":"who buys","columns":[` +
			`{"name":"id","type":"integer","nullable":false,"default":"generated always as identity","examples":["1","2","3","4","5"]},` +
			`{"name":"name","type":"text","nullable":false,"comment":"as on the letter","examples":["customer 1","customer 2","customer 0"]},` +
			`{"name":"mood","type":"public.mood","nullable":true,"values":["glad","sad"],"examples":["sad"]},` +
			`{"name":"moods","type":"public.mood[]","nullable":true,"values":["glad","sad"]},` +
			`{"name":"note","type":"text","nullable":true,"default":"'none'::text","examples":["` + strings.Repeat("ä", 60) + `…"]},` +
			`{"name":"shout","type":"text","nullable":true,"default":"generated always as (upper(name))","examples":["CUSTOMER 1","CUSTOMER 2","CUSTOMER 0"]},` +
			`{"name":"picture","type":"bytea","nullable":true,"examples":["\\x` + strings.Repeat("0", 58) + `…"]}],` +
			`"primary_key":["id"],"referenced_by":[{"name":"orders_customer_fkey","table":"sales.orders","columns":["customer"],` +
			`"references":"public.customers","referenced_columns":["id"]}],` +
			`"indexes":[{"name":"customers_pkey","definition":"CREATE UNIQUE INDEX customers_pkey ON public.customers USING btree (id)","unique":true}]}`},
		{"sales", "Orders", true, `{"schema":"sales","table":"orders","kind":"table","rows_estimate":0,"columns":[` +
			`{"name":"a","type":"integer","nullable":false},{"name":"b","type":"text","nullable":false},{"name":"customer","type":"integer","nullable":true},` +
			`{"name":"total","type":"public.price (a domain of bigint)","nullable":false,"default":"0"}],"primary_key":["b","a"],` +
			`"foreign_keys":[{"name":"orders_customer_fkey","table":"sales.orders","columns":["customer"],"references":"public.customers","referenced_columns":["id"]}],` +
			`"referenced_by":[{"name":"line","table":"sales.lines","columns":["order_b","order_a"],"references":"sales.orders","referenced_columns":["b","a"]}],` +
			`"indexes":[{"name":"pair","definition":"CREATE UNIQUE INDEX pair ON sales.orders USING btree (b, a)","unique":true},` +
			`{"name":"by_customer","definition":"CREATE UNIQUE INDEX by_customer ON sales.orders USING btree (customer DESC) WHERE (a \u003e 1)","unique":true}],` +
			`"checks":["CHECK ((a \u003e 0))"]}`},
		{"", "Customers", false, `{"schema":"public","table":"Customers","kind":"table","columns":[{"name":"upper_case","type":"integer","nullable":true}]}`},
		{"", `"Odd Name"."A ""b"".c"`, true, `{"schema":"Odd Name","table":"A \"b\".c","kind":"table","columns":[` +
			`{"name":"x y","type":"integer","nullable":true,"examples":["1"]},{"name":"x","type":"integer","nullable":true,"examples":["2"]}]}`},
		{"Odd Name", "stays", false, `{"schema":"Odd Name","table":"stays","kind":"table","columns":[{"name":"during","type":"daterange","nullable":true}],` +
			`"indexes":[{"name":"apart","definition":"EXCLUDE USING gist (during WITH \u0026\u0026)","unique":false}]}`},
		{"", "SALES.heavy", true, `{"schema":"sales","table":"heavy","kind":"view","columns":[{"name":"count","type":"bigint","nullable":true}]}`},
		{"sales", "empty", true, `{"schema":"sales","table":"empty","kind":"materialized view","columns":[{"name":"one","type":"integer","nullable":true}]}`},
		{"", "half", true, `{"schema":"public","table":"half","kind":"table","columns":[{"name":"seen","type":"integer","nullable":true}]}`},
	} {
		got, err := table(ctx, q(), c.schema, c.name, c.examples, nil)
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
		_, err := table(ctx, q(), c.schema, c.name, false, nil)
		isMissing(t, err, c.hint)
	}
	_, err := tables(ctx, q(), sql.TableFilter{Schema: "sails", Limit: 1})
	isMissing(t, err, "sales")
}

func TestKeysOfPeriodsSaySo(t *testing.T) {
	conn := admin(t)
	if serverVersion(conn.PgConn()) < 18 {
		t.Skip("needs PostgreSQL 18")
	}
	const rooms = `CREATE TABLE rooms (id int4range, valid daterange, PRIMARY KEY (id, valid WITHOUT OVERLAPS));
		CREATE TABLE bookings (room int4range, during daterange, FOREIGN KEY (room, PERIOD during) REFERENCES rooms (id, PERIOD valid))`
	q := readOnly(t, inDatabase(t, "hotel", rooms))
	got, err := table(t.Context(), q, "", "rooms", false, nil)
	must.OK(t, err)
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
