// Functions and words that a read-only transaction lets through and the check refuses.

package postgres

import (
	"path"
	"strings"
)

// group is functions that do one thing that is not to be done.
type group struct {
	does  string
	names string // with * for any characters
	// calls lists more names that columns may use too: x.name is not taken for a call of them.
	calls string
}

// A read-only transaction keeps the database's tables as they are. It does not keep a strong role from
// calling a function that reaches something else: a file of the server, another session, the write-ahead
// log. These are the names of such functions, each group with its effect.
//
// The list is by name alone, so a function of the database's own with such a name is refused too. One of
// another name is looked up in the catalog; see uses.
var refused = []group{
	{"reaches files of the database's server", `
		pg_read_file* pg_read_binary_file pg_ls_* pg_stat_file pg_file_* pg_logdir_ls pg_rotate_logfile*
		pg_export_snapshot pg_logfile_rotate
		utl_file.* oracle_execute read_csv* read_json* read_parquet* duckdb.*`, ""},
	{"reaches large objects or files of the database's server", `
		lo_close lo_creat lo_create lo_export lo_from_bytea lo_get lo_import* lo_lseek* lo_open lo_put lo_tell*
		lo_truncate* lo_unlink loread lowrite`, `lo_*`},
	{"takes locks that outlive the statement", `pg_*advisory* dbms_lock.*`, ""},
	{"signals or controls other sessions or the server", `
		pg_terminate_backend pg_cancel_backend pg_reload_conf pg_log_backend_memory_contexts pg_promote
		pg_import_system_collations pg_extension_config_dump pg_execute* pg_nextoid
		pg_stop_making_pinned_objects binary_upgrade_* pg_stat_force_next_flush
		pg_background_* sepgsql_setcon`, ""},
	{"controls the write-ahead log, backups or recovery", `
		pg_switch_wal pg_switch_xlog pg_create_restore_point pg_wal_replay_* pg_xlog_replay_*
		pg_backup_start pg_backup_stop pg_start_backup pg_stop_backup pg_log_standby_snapshot`, ""},
	{"changes replication or decodes its log", `
		pg_create_*_replication_slot pg_copy_*_replication_slot pg_drop_replication_slot
		pg_replication_slot_advance pg_sync_replication_slots pg_logical_slot_* pg_logical_emit_message
		pg_replication_origin_advance pg_replication_origin_create pg_replication_origin_drop
		pg_replication_origin_session_reset pg_replication_origin_session_setup
		pg_replication_origin_xact_* pglogical.* spock.* bdr.*`, ""},
	{"reaches another database or host", `
		dblink* postgres_fdw_disconnect* postgres_fdw_validator postgres_fdw_get_connections
		oracle_close_connections
		http_get http_post http_put http_patch http_delete http_head http_set_curlopt
		http_reset_curlopt net.* aws_s3.* aws_lambda.* azure_storage.* azure_openai.* azure_cognitive.*
		azure_ml.* azure_ai.* google_ml.* ai.* aidb.* pgml.* vectorize.* curl.*
		run_command_on_* master_run_on_worker`, `http`},
	{"changes settings", `set_config set_limit`, ""},
	{"changes sequences", `nextval setval`, ""},
	{"sends notifications", `pg_notify dbms_pipe.* dbms_alert.*`, ""},
	{"changes statistics", `
		pg_stat_reset* pg_stat_statements_reset pg_stat_monitor_reset pg_stat_kcache_reset
		pg_qualstats_reset pg_wait_sampling_reset_profile pg_restore_*_stats pg_clear_*_stats`, ""},
	{"runs a text as a statement, which cannot be seen here", `
		query_to_xml* cursor_to_xml* query_to_json* ts_stat crosstab* connectby* xpath_table
		xslt_process dbms_sql.* dbms_utility.* pgr_* _pgr_* cypher citus_run_local_command worker_apply_*`, ""},
	{"assigns a transaction number", `txid_current pg_current_xact_id`, ""},
	{"does a table's or the cache's maintenance", `
		brin_summarize_new_values brin_summarize_range brin_desummarize_range gin_clean_pending_list
		heap_force_* bt_index_parent_check pg_truncate_visibility_map pg_prewarm autoprewarm_* pg_buffercache_evict*
		pg_buffercache_mark_dirty* repack.* partman.* squeeze.*`, ""},
	{"starts jobs or installs code", `
		cron.* pgagent.* pgtle.* add_job delete_job alter_job run_job add_retention_policy
		add_compression_policy add_continuous_aggregate_policy`, ""},
}

// pattern is one name of refused's, or one with a star.
type pattern struct {
	prefix string // the part before the star, to reject most names quickly
	glob   string
	does   string
	column bool // it is of calls
}

// exact and patterns are refused's, prepared.
var exact, patterns = func() (map[string]pattern, []pattern) {
	exact := make(map[string]pattern)
	var patterns []pattern
	for _, group := range refused {
		for i, names := range []string{group.names, group.calls} {
			for _, name := range strings.Fields(names) {
				prefix, _, star := strings.Cut(name, "*")
				p := pattern{prefix, name, group.does, i == 1}
				if star {
					patterns = append(patterns, p)
				} else {
					exact[name] = p
				}
			}
		}
	}
	return exact, patterns
}()

// refusal describes the effect for which the function is refused; empty: it is allowed. The schema is empty for a name without one.
func refusal(schema, function string) string { return match(schema, function).does }

// dotted is refusal for x.function, which may be a column as well where x is a name.
func dotted(function string, ofName bool) string {
	if p := match("", function); !p.column || !ofName {
		return p.does
	}
	return ""
}

func match(schema, function string) pattern {
	if p, ok := exact[function]; ok {
		return p
	}
	for _, p := range patterns {
		of := function
		if strings.Contains(p.prefix, ".") {
			of = schema + "." + function
		}
		if !strings.HasPrefix(of, p.prefix) {
			continue
		}
		if ok, _ := path.Match(p.glob, of); ok {
			return p
		}
	}
	return pattern{}
}
