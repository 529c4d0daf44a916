//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
)

// databases measures exec_sql on a PostgreSQL of its own, beside PostgreSQL's own clients.
func (b *bench) databases(ctx context.Context) {
	db := must(testpg.Start(ctx))
	defer db.Stop()
	dsn := db.DSN(testpg.Superuser)
	check(os.Setenv("SANDBOX_SQL_BENCH", dsn))
	c := b.start(ctx)
	defer c.close()
	b.selectOne(ctx, c, dsn)
	b.exportRows(c, db)
	b.queryFromCode(c)
}

// queryFromCode reads the same rows into a DataFrame, beside pandas on the file that they were exported to.
func (b *bench) queryFromCode(c *client) {
	c.call("run_python_code", "import sandbox, time, duckdb, pandas as pd", nil)
	patient := object{"timeout_seconds": 300}
	var query, file, guarded, bare series
	const total = "select name[1] as a, sum(price), max(at) from '/mnt/data/input/rows.csv' group by 1"
	for range b.rounds {
		query = append(query, c.call("run_python_code", fmt.Sprintf("frame = sandbox.sql(%q); len(frame)", exportedQuery), patient))
		file = append(file, c.call("run_python_code", "frame = pd.read_csv('/mnt/data/input/rows.csv', parse_dates=['at']); len(frame)", patient))
		guarded = append(guarded, c.call("run_python_code", fmt.Sprintf("len(sandbox.sql(%q))", total), patient))
		bare = append(bare, c.call("run_python_code", fmt.Sprintf("len(duckdb.sql(%q).df())", total), patient))
	}
	b.row("sandbox.sql, a total over the file of 1,000,000 rows", guarded.String(), "1.25 x DuckDB", "DuckDB itself "+bare.String())
	b.row("sandbox.sql, the same rows into a DataFrame", query.String(), "2 x read_csv", "read_csv of the file "+file.String())
}

// selectOne asks the least there is, in turn with a bare client: what differs is the tool call, the
// read-only transaction and the masking.
func (b *bench) selectOne(ctx context.Context, c *client, dsn string) {
	conn := must(pgx.Connect(ctx, dsn))
	defer func() { _ = conn.Close(ctx) }()
	var tool, bare series
	for range b.calls + 1 {
		tool = append(tool, c.tool("exec_sql", object{"query": "SELECT 1"}))
		began := time.Now()
		var one int
		check(conn.QueryRow(ctx, "SELECT 1").Scan(&one))
		bare = append(bare, time.Since(began))
	}
	b.row("exec_sql, SELECT 1, warm", tool[1:].String(), "pgx + 1 ms", "pgx "+bare[1:].String()) // the first connects
}

const (
	exportedRows  = 1_000_000
	exportedQuery = `SELECT n AS id, n * 2 AS b, 'name ' || n AS name, n / 7.0 AS price, n % 2 = 0 AS even,
		timestamptz '2026-01-01' + n * interval '1 second' AS at, n::float8 / 3 AS ratio, md5(n::text) AS hash FROM bench_numbers`
)

// exportRows writes a million rows into the session, in turn with COPY through psql.
func (b *bench) exportRows(c *client, db *testpg.Server) {
	create := fmt.Sprintf("CREATE TABLE bench_numbers AS SELECT n FROM generate_series(1, %d) n", exportedRows)
	for _, statement := range []string{create, "VACUUM ANALYZE bench_numbers", "CHECKPOINT"} {
		if out, err := db.Psql("-q", "-c", statement).CombinedOutput(); err != nil {
			check(fmt.Errorf("psql: %w\n%s", err, out))
		}
	}
	c.call("run_python_code", "1", nil)
	// The first export pays for what the others find there.
	c.tool("exec_sql", object{"query": "SELECT 1 AS n", "save_as": "rows.csv"})
	before := c.memory("VmHWM:")
	var tool, psql series
	for range b.rounds {
		tool = append(tool, c.tool("exec_sql", object{"query": exportedQuery, "save_as": "rows.csv", "overwrite": true}))
		copying := db.Psql("-c", "COPY ("+exportedQuery+") TO STDOUT (FORMAT csv, HEADER)")
		copying.Stdout = io.Discard
		began := time.Now()
		check(copying.Run())
		psql = append(psql, time.Since(began))
	}
	rate := func(s series) string { return fmt.Sprintf("%.0f rows/s", exportedRows/s.at(50).Seconds()) }
	b.row("exec_sql, 1,000,000 rows of 8 columns to CSV in the session", rate(tool)+" ("+tool.String()+")", "0.5 of psql", "COPY by psql "+rate(psql))
	b.row("server memory at its most while that ran, more than before", inMB(c.memory("VmHWM:")-before), "16 MB", "")
}
