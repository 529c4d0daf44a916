//go:build unix

package postgres

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

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
	rows, err := conn.Query(context.Background(), volatile)
	must.OK(t, err)
	functions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(functions) < 100 {
		t.Fatalf("%d functions, %v", len(functions), err)
	}
	for _, function := range functions {
		refused, allowed := refusal("", function) != "", slices.Contains(harmless, function)
		if refused == allowed {
			t.Errorf("%s: refused is %t and allowed is %t; one of them it has to be", function, refused, allowed)
		}
	}
}

func TestHarmlessFunctionsAreAdmitted(t *testing.T) {
	for _, function := range append(harmless, "currval", "schema_to_xml", "table_to_xml", "txid_current_if_assigned",
		"pg_stat_get_db_stat_reset_time", "pg_get_viewdef", "lower", "loyalty") {
		should.Equal(t, refusal("", function), "", "%s is refused: it", function)
	}
}
