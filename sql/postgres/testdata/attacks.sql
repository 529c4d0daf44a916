INSERT INTO accounts VALUES (99, 'mallory', 1000000)
-- ~~~
insert into accounts default values returning *
-- ~~~
UPDATE accounts SET balance = 0
-- ~~~
UPDATE ONLY public.accounts AS a SET balance = 0 FROM accounts b WHERE a.id = b.id RETURNING a.*
-- ~~~
DELETE FROM accounts
-- ~~~
DELETE FROM accounts USING accounts b WHERE true
-- ~~~
MERGE INTO accounts a USING (VALUES (1)) v(id) ON a.id = v.id WHEN MATCHED THEN DELETE
-- ~~~
TRUNCATE accounts
-- ~~~
TRUNCATE TABLE accounts RESTART IDENTITY CASCADE
-- ~~~
CREATE TABLE stolen (id int)
-- ~~~
CREATE TABLE stolen AS SELECT * FROM accounts
-- ~~~
CREATE TEMP TABLE stolen AS SELECT * FROM accounts
-- ~~~
CREATE UNLOGGED TABLE stolen (id int)
-- ~~~
CREATE VIEW stolen AS SELECT * FROM accounts
-- ~~~
CREATE MATERIALIZED VIEW stolen AS SELECT * FROM accounts
-- ~~~
CREATE INDEX ON accounts (owner)
-- ~~~
CREATE UNIQUE INDEX CONCURRENTLY ON accounts (owner)
-- ~~~
CREATE SCHEMA stolen
-- ~~~
CREATE SEQUENCE stolen
-- ~~~
CREATE FUNCTION stolen() RETURNS int LANGUAGE sql AS 'SELECT 1'
-- ~~~
CREATE OR REPLACE PROCEDURE stolen() LANGUAGE plpgsql AS $$BEGIN COMMIT; END$$
-- ~~~
CREATE ROLE mallory SUPERUSER LOGIN PASSWORD 'x'
-- ~~~
CREATE USER mallory
-- ~~~
CREATE EXTENSION lo
-- ~~~
CREATE DATABASE stolen
-- ~~~
CREATE TABLESPACE stolen LOCATION '/tmp'
-- ~~~
CREATE TRIGGER stolen BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
-- ~~~
CREATE RULE stolen AS ON SELECT TO accounts DO INSTEAD NOTHING
-- ~~~
CREATE TYPE stolen AS ENUM ('a')
-- ~~~
CREATE DOMAIN stolen AS int
-- ~~~
CREATE CAST (text AS int) WITH INOUT AS IMPLICIT
-- ~~~
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq)
-- ~~~
CREATE PUBLICATION stolen FOR ALL TABLES
-- ~~~
CREATE SUBSCRIPTION stolen CONNECTION 'host=example.org' PUBLICATION p
-- ~~~
CREATE SERVER stolen FOREIGN DATA WRAPPER postgres_fdw
-- ~~~
CREATE EVENT TRIGGER stolen ON ddl_command_end EXECUTE FUNCTION f()
-- ~~~
CREATE LANGUAGE plpython3u
-- ~~~
CREATE POLICY stolen ON accounts USING (true)
-- ~~~
CREATE STATISTICS stolen ON id, owner FROM accounts
-- ~~~
ALTER TABLE accounts ADD COLUMN stolen int
-- ~~~
ALTER TABLE accounts DISABLE ROW LEVEL SECURITY
-- ~~~
ALTER ROLE owner PASSWORD 'stolen'
-- ~~~
ALTER ROLE ALL SET default_transaction_read_only = off
-- ~~~
ALTER DATABASE postgres SET search_path = stolen
-- ~~~
ALTER SYSTEM SET archive_command = 'touch /tmp/stolen'
-- ~~~
ALTER SYSTEM RESET ALL
-- ~~~
ALTER SEQUENCE tickets RESTART
-- ~~~
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC
-- ~~~
ALTER FUNCTION deposit(int, numeric) SECURITY INVOKER
-- ~~~
ALTER EXTENSION plpgsql UPDATE
-- ~~~
DROP TABLE accounts
-- ~~~
DROP SCHEMA public CASCADE
-- ~~~
DROP OWNED BY owner
-- ~~~
DROP DATABASE template1
-- ~~~
DROP ROLE owner
-- ~~~
GRANT ALL ON accounts TO PUBLIC
-- ~~~
GRANT pg_execute_server_program TO PUBLIC
-- ~~~
REVOKE ALL ON accounts FROM owner
-- ~~~
REASSIGN OWNED BY owner TO postgres
-- ~~~
COMMENT ON TABLE accounts IS 'stolen'
-- ~~~
SECURITY LABEL ON TABLE accounts IS 'stolen'
-- ~~~
REFRESH MATERIALIZED VIEW totals
-- ~~~
IMPORT FOREIGN SCHEMA public FROM SERVER s INTO public
-- ~~~
COPY accounts TO '/tmp/stolen'
-- ~~~
COPY accounts TO STDOUT
-- ~~~
COPY accounts FROM STDIN
-- ~~~
COPY accounts FROM PROGRAM 'id'
-- ~~~
COPY (SELECT 1) TO PROGRAM 'touch /tmp/stolen'
-- ~~~
COPY (SELECT * FROM accounts) TO STDOUT WITH (FORMAT csv)
-- ~~~
DO $$BEGIN DELETE FROM accounts; END$$
-- ~~~
DO LANGUAGE plpgsql 'BEGIN PERFORM pg_advisory_lock(1); END'
-- ~~~
CALL empty_accounts()
-- ~~~
CALL pg_catalog.pg_read_file('/etc/hostname')
-- ~~~
EXECUTE stolen
-- ~~~
PREPARE stolen AS DELETE FROM accounts
-- ~~~
DEALLOCATE ALL
-- ~~~
DECLARE stolen CURSOR WITH HOLD FOR SELECT * FROM accounts
-- ~~~
FETCH ALL FROM stolen
-- ~~~
MOVE 1 FROM stolen
-- ~~~
CLOSE ALL
-- ~~~
BEGIN
-- ~~~
BEGIN READ WRITE
-- ~~~
START TRANSACTION READ WRITE
-- ~~~
COMMIT
-- ~~~
COMMIT AND CHAIN
-- ~~~
END
-- ~~~
ROLLBACK
-- ~~~
ABORT
-- ~~~
SAVEPOINT s
-- ~~~
RELEASE SAVEPOINT s
-- ~~~
ROLLBACK TO SAVEPOINT s
-- ~~~
PREPARE TRANSACTION 'stolen'
-- ~~~
COMMIT PREPARED 'stolen'
-- ~~~
SET TRANSACTION READ WRITE
-- ~~~
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE
-- ~~~
SET transaction_read_only = off
-- ~~~
SET SESSION AUTHORIZATION postgres
-- ~~~
SET ROLE postgres
-- ~~~
SET statement_timeout = 0
-- ~~~
SET LOCAL search_path = stolen
-- ~~~
SET CONSTRAINTS ALL DEFERRED
-- ~~~
RESET ALL
-- ~~~
RESET statement_timeout
-- ~~~
DISCARD ALL
-- ~~~
LISTEN stolen
-- ~~~
UNLISTEN *
-- ~~~
NOTIFY stolen, 'words'
-- ~~~
LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE
-- ~~~
LOAD 'auto_explain'
-- ~~~
CHECKPOINT
-- ~~~
VACUUM FULL accounts
-- ~~~
VACUUM
-- ~~~
ANALYZE accounts
-- ~~~
CLUSTER accounts
-- ~~~
REINDEX TABLE accounts
-- ~~~
REINDEX DATABASE postgres
-- ~~~
SELECT * INTO stolen FROM accounts
-- ~~~
SELECT id INTO TEMP TABLE stolen FROM accounts
-- ~~~
SELECT id INTO UNLOGGED stolen FROM accounts UNION SELECT 1
-- ~~~
WITH a AS (SELECT 1) SELECT * INTO stolen FROM a
-- ~~~
SELECT 1/**/INTO/**/stolen
-- ~~~
SELECT * FROM accounts FOR UPDATE
-- ~~~
SELECT * FROM accounts FOR NO KEY UPDATE SKIP LOCKED
-- ~~~
SELECT * FROM accounts FOR SHARE NOWAIT
-- ~~~
SELECT * FROM accounts FOR KEY SHARE OF accounts
-- ~~~
SELECT * FROM (SELECT * FROM accounts FOR UPDATE) a
-- ~~~
(SELECT * FROM accounts) FOR/* */UPDATE
-- ~~~
TABLE accounts FOR UPDATE
-- ~~~
SELECT 1 WHERE EXISTS (SELECT 1 FROM accounts FOR SHARE)
-- ~~~
WITH x AS (DELETE FROM accounts RETURNING *) SELECT * FROM x
-- ~~~
WITH x AS (INSERT INTO accounts VALUES (99) RETURNING *) SELECT * FROM x
-- ~~~
WITH x AS MATERIALIZED (UPDATE accounts SET balance = 0 RETURNING *) TABLE x
-- ~~~
WITH x AS NOT MATERIALIZED (DELETE FROM accounts RETURNING *) SELECT 1
-- ~~~
WITH a AS (SELECT 1), b(c) AS (DELETE FROM accounts RETURNING id) SELECT * FROM a, b
-- ~~~
WITH RECURSIVE a AS (SELECT 1), b AS (UPDATE accounts SET balance = 0 RETURNING 1) SELECT 1
-- ~~~
WITH a AS (SELECT 1) DELETE FROM accounts
-- ~~~
WITH a AS (SELECT 1) INSERT INTO accounts SELECT 99 FROM a
-- ~~~
WITH a AS (SELECT 1) UPDATE accounts SET balance = 0
-- ~~~
WITH a AS (SELECT 1) MERGE INTO accounts USING a ON true WHEN MATCHED THEN DELETE
-- ~~~
WITH a AS (WITH b AS (DELETE FROM accounts RETURNING 1) SELECT * FROM b) SELECT * FROM a
-- ~~~
WITH a AS ((DELETE FROM accounts RETURNING 1)) SELECT 1
-- ~~~
WITH RECURSIVE r(n) AS (SELECT 1) SEARCH DEPTH FIRST BY n SET o, d AS (DELETE FROM accounts RETURNING 1) SELECT 1
-- ~~~
WITH "select" AS (DELETE FROM accounts RETURNING 1) SELECT 1
-- ~~~
WITH/**/x/**/AS/**/(/**/DELETE/**/FROM/**/accounts/**/RETURNING/**/1)SELECT/**/1
-- ~~~
(WITH x AS (DELETE FROM accounts RETURNING 1) SELECT 1)
-- ~~~
SELECT 1; DELETE FROM accounts
-- ~~~
SELECT 1; COMMIT; DROP TABLE accounts
-- ~~~
SELECT 1;;SELECT 2
-- ~~~
; SELECT 1
-- ~~~
SELECT '--'; DELETE FROM accounts
-- ~~~
SELECT '\'; DELETE FROM accounts; --'
-- ~~~
SELECT E'\\'; DELETE FROM accounts; --'
-- ~~~
SELECT E'a'
'\\'; DELETE FROM accounts; --'
-- ~~~
SELECT 'x' -- '
; DELETE FROM accounts
-- ~~~
SELECT $a$ $b$ $a$; DELETE FROM accounts --$b$
-- ~~~
SELECT 1 /* /* */ */; DELETE FROM accounts /* */
-- ~~~
SELECT "a""; b"; DELETE FROM accounts --"
-- ~~~
SELECT U&'\0027'; DELETE FROM accounts
-- ~~~
/* SELECT */ DELETE FROM accounts
-- ~~~
/* /* */ SELECT 1 */ DELETE FROM accounts
-- ~~~
-- SELECT 1
-- ~~~
-- SELECT 1
DELETE FROM accounts
-- ~~~
-- only a comment
/* and another */;
-- ~~~
;
-- ~~~
/* open SELECT 1
-- ~~~
SELECT 'open
-- ~~~
SELECT "open
-- ~~~
SELECT $$open
-- ~~~
EXPLAIN (ANALYZE) DELETE FROM accounts
-- ~~~
EXPLAIN ANALYZE DELETE FROM accounts
-- ~~~
EXPLAIN ANALYSE VERBOSE INSERT INTO accounts VALUES (99)
-- ~~~
EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) UPDATE accounts SET balance = 0
-- ~~~
EXPLAIN (ANALYZE off, ANALYZE on) MERGE INTO accounts a USING (VALUES (1)) v(id) ON a.id = v.id WHEN MATCHED THEN DELETE
-- ~~~
EXPLAIN (COSTS off, "analyze") DELETE FROM accounts
-- ~~~
EXPLAIN (ANALYZE) CREATE TABLE stolen AS SELECT 1
-- ~~~
EXPLAIN ANALYZE CREATE MATERIALIZED VIEW stolen AS SELECT 1
-- ~~~
EXPLAIN ANALYZE SELECT * INTO stolen FROM accounts
-- ~~~
EXPLAIN (ANALYZE) EXECUTE stolen
-- ~~~
EXPLAIN (ANALYZE) DECLARE stolen CURSOR WITH HOLD FOR SELECT 1
-- ~~~
EXPLAIN (ANALYZE) REFRESH MATERIALIZED VIEW totals
-- ~~~
EXPLAIN (ANALYZE) WITH x AS (DELETE FROM accounts RETURNING 1) SELECT 1
-- ~~~
EXPLAIN (ANALYZE) (WITH x AS (SELECT 1) DELETE FROM accounts)
-- ~~~
EXPLAIN ANALYZE SELECT * FROM accounts FOR UPDATE
-- ~~~
EXPLAIN ANALYZE SELECT pg_read_file('/etc/hostname')
-- ~~~
EXPLAIN (ANALYZE) SELECT deposit(1, 100)
-- ~~~
EXPLAIN (ANALYZE) EXPLAIN ANALYZE SELECT 1
-- ~~~
EXPLAIN (ANALYZE) COPY accounts TO '/tmp/stolen'
-- ~~~
EXPLAIN ANALYZE SELECT 1; DELETE FROM accounts
-- ~~~
EXPLAIN (VALUES, ANALYZE) DELETE FROM accounts
-- ~~~
EXPLAIN (ANALYZE SELECT 1
-- ~~~
EXPLAIN DELETE FROM accounts
-- ~~~
EXPLAIN (FORMAT JSON) INSERT INTO accounts VALUES (99)
-- ~~~
EXPLAIN CREATE TABLE stolen AS SELECT 1
-- ~~~
EXPLAIN EXECUTE stolen
-- ~~~
EXPLAIN DECLARE stolen CURSOR FOR SELECT 1
-- ~~~
EXPLAIN REFRESH MATERIALIZED VIEW totals
-- ~~~
EXPLAIN WITH x AS (DELETE FROM accounts RETURNING 1) SELECT 1
-- ~~~
EXPLAIN (VERBOSE) SELECT * INTO stolen FROM accounts
-- ~~~
EXPLAIN SELECT * FROM accounts FOR UPDATE
-- ~~~
EXPLAIN SELECT pg_read_file('/etc/hostname')
-- ~~~
SELECT pg_read_file('/etc/hostname')
-- ~~~
select PG_READ_FILE('/etc/hostname')
-- ~~~
SELECT "pg_read_file"('/etc/hostname')
-- ~~~
SELECT pg_catalog.pg_read_file('/etc/hostname')
-- ~~~
SELECT "pg_catalog" . "pg_read_file" ('/etc/hostname')
-- ~~~
SELECT bank.pg_catalog.pg_read_file('/etc/hostname')
-- ~~~
SELECT U&"\0070g_read_file"('/etc/hostname')
-- ~~~
SELECT u&"pg!005Fread!+00005Ffile" UESCAPE '!' ('/etc/hostname')
-- ~~~
SELECT pg_read_file/* a comment */('/etc/hostname')
-- ~~~
SELECT pg_read_file -- a comment
('/etc/hostname')
-- ~~~
SELECT ('/etc/hostname'::text).pg_read_file
-- ~~~
SELECT a.pg_read_file FROM unnest(ARRAY['/etc/hostname']) a
-- ~~~
SELECT a."pg_read_file" FROM CAST('/etc/hostname' AS text) a
-- ~~~
SELECT (ARRAY['/etc/hostname'])[1].pg_read_file
-- ~~~
SELECT (('/etc/hostname'::text).pg_read_file).length
-- ~~~
SELECT ('/etc/hostname'::text).pg_read_file.length
-- ~~~
SELECT 1 FROM CAST('/etc/hostname' AS text) a WHERE 'x' IS DISTINCT FROM a.pg_read_file
-- ~~~
SELECT extract(epoch FROM make_interval(secs => a.nextval)) FROM CAST('tickets' AS regclass) a
-- ~~~
SELECT substring('abc' FROM a.lo_creat) FROM CAST(1 AS int) a
-- ~~~
SELECT a.pg_advisory_lock FROM CAST(4711 AS bigint) a
-- ~~~
SELECT a.nextval FROM CAST('tickets' AS regclass) a
-- ~~~
SELECT a.lo_unlink FROM CAST(4711 AS oid) a
-- ~~~
SELECT ('tickets'::regclass).nextval
-- ~~~
SELECT * FROM accounts ORDER BY (id::oid).lo_unlink
-- ~~~
SELECT * FROM pg_read_file('/etc/hostname')
-- ~~~
SELECT * FROM ROWS FROM (pg_read_file('/etc/hostname'), generate_series(1, 2)) a
-- ~~~
SELECT * FROM accounts, LATERAL pg_ls_dir('.') d
-- ~~~
VALUES (pg_read_file('/etc/hostname'))
-- ~~~
SELECT pg_read_binary_file('/etc/hostname')
-- ~~~
SELECT pg_read_file_old('/etc/hostname', 0, 10)
-- ~~~
SELECT * FROM pg_stat_file('/etc/hostname')
-- ~~~
SELECT * FROM pg_ls_dir('/')
-- ~~~
SELECT * FROM pg_ls_logdir()
-- ~~~
SELECT * FROM pg_ls_waldir()
-- ~~~
SELECT * FROM pg_ls_tmpdir()
-- ~~~
SELECT * FROM pg_ls_archive_statusdir()
-- ~~~
SELECT pg_file_write('stolen', 'x', false)
-- ~~~
SELECT pg_file_unlink('postgresql.conf')
-- ~~~
SELECT lo_import('/etc/hostname')
-- ~~~
SELECT lo_export(4711, '/tmp/stolen')
-- ~~~
SELECT lo_create(4712)
-- ~~~
SELECT lo_creat(-1)
-- ~~~
SELECT lo_unlink(4711)
-- ~~~
SELECT lo_from_bytea(0, 'stolen')
-- ~~~
SELECT lo_put(4711, 0, 'stolen')
-- ~~~
SELECT lo_get(4711)
-- ~~~
SELECT lowrite(lo_open(4711, 131072), 'stolen')
-- ~~~
SELECT lo_truncate(lo_open(4711, 131072), 0)
-- ~~~
SELECT pg_advisory_lock(1)
-- ~~~
SELECT pg_advisory_lock_shared(1, 2)
-- ~~~
SELECT pg_try_advisory_lock(1)
-- ~~~
SELECT pg_try_advisory_xact_lock_shared(1)
-- ~~~
SELECT pg_advisory_unlock_all()
-- ~~~
SELECT id FROM accounts WHERE pg_advisory_lock(id) IS NOT NULL
-- ~~~
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bystander'
-- ~~~
SELECT pg_cancel_backend(pid) FROM pg_stat_activity
-- ~~~
SELECT pg_reload_conf()
-- ~~~
SELECT pg_rotate_logfile()
-- ~~~
SELECT pg_log_backend_memory_contexts(pg_backend_pid())
-- ~~~
SELECT pg_switch_wal()
-- ~~~
SELECT pg_create_restore_point('stolen')
-- ~~~
SELECT pg_backup_start('stolen', true)
-- ~~~
SELECT * FROM pg_backup_stop()
-- ~~~
SELECT pg_start_backup('stolen')
-- ~~~
SELECT pg_promote()
-- ~~~
SELECT pg_wal_replay_pause()
-- ~~~
SELECT pg_log_standby_snapshot()
-- ~~~
SELECT pg_create_physical_replication_slot('stolen', true)
-- ~~~
SELECT pg_create_logical_replication_slot('stolen', 'pgoutput')
-- ~~~
SELECT pg_copy_physical_replication_slot('watcher', 'stolen')
-- ~~~
SELECT pg_drop_replication_slot('watcher')
-- ~~~
SELECT pg_replication_slot_advance('watcher', pg_current_wal_lsn())
-- ~~~
SELECT * FROM pg_logical_slot_get_changes('watcher', NULL, NULL)
-- ~~~
SELECT * FROM pg_logical_slot_peek_binary_changes('watcher', NULL, NULL)
-- ~~~
SELECT pg_logical_emit_message(false, 'stolen', 'x')
-- ~~~
SELECT pg_replication_origin_create('stolen')
-- ~~~
SELECT pg_replication_origin_drop('stolen')
-- ~~~
SELECT pg_replication_origin_session_setup('stolen')
-- ~~~
SELECT * FROM dblink('dbname=bank', 'DELETE FROM accounts RETURNING id') AS t(id int)
-- ~~~
SELECT dblink_connect('dbname=bank')
-- ~~~
SELECT dblink_exec('dbname=bank', 'DELETE FROM accounts')
-- ~~~
SELECT public.dblink_exec('dbname=bank', 'DELETE FROM accounts')
-- ~~~
SELECT dblink_send_query('c', 'DELETE FROM accounts')
-- ~~~
SELECT postgres_fdw_disconnect_all()
-- ~~~
SELECT set_config('transaction_read_only', 'off', true)
-- ~~~
SELECT set_config('statement_timeout', '0', false)
-- ~~~
SELECT pg_catalog.set_config('search_path', 'stolen', false) FROM accounts
-- ~~~
SELECT set_config('session_authorization', 'postgres', false)
-- ~~~
SELECT nextval('tickets')
-- ~~~
SELECT setval('tickets', 1)
-- ~~~
SELECT coalesce(nextval('tickets'), 0)
-- ~~~
SELECT pg_notify('stolen', 'words')
-- ~~~
SELECT pg_stat_reset()
-- ~~~
SELECT pg_stat_reset_shared('bgwriter')
-- ~~~
SELECT pg_stat_reset_single_table_counters('accounts'::regclass)
-- ~~~
SELECT pg_stat_statements_reset()
-- ~~~
SELECT query_to_xml('SELECT pg_read_file(''/etc/hostname'')', true, true, '')
-- ~~~
SELECT query_to_xml_and_xmlschema('SELECT nextval(''tickets'')', true, true, '')
-- ~~~
SELECT query_to_xmlschema('SELECT 1', true, true, '')
-- ~~~
SELECT cursor_to_xml('c', 1, true, true, '')
-- ~~~
SELECT * FROM ts_stat('SELECT to_tsvector(pg_read_file(''/etc/hostname''))')
-- ~~~
SELECT ts_rewrite('a & b'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery')
-- ~~~
SELECT * FROM crosstab('SELECT 1, 2, 3') AS t(a int, b int)
-- ~~~
SELECT * FROM connectby('accounts', 'id', 'id', '1', 0) AS t(a int, b int, c int)
-- ~~~
SELECT txid_current()
-- ~~~
SELECT pg_current_xact_id()
-- ~~~
SELECT pg_export_snapshot()
-- ~~~
SELECT pg_import_system_collations('public')
-- ~~~
SELECT pg_extension_config_dump('accounts', '')
-- ~~~
SELECT brin_summarize_new_values('accounts_pkey')
-- ~~~
SELECT gin_clean_pending_list('accounts_pkey')
-- ~~~
SELECT pg_nextoid('pg_class', 'oid', 'pg_class_oid_index')
-- ~~~
SELECT binary_upgrade_set_next_pg_authid_oid(1)
-- ~~~
SELECT pg_stop_making_pinned_objects()
-- ~~~
SELECT pg_stat_force_next_flush()
-- ~~~
SELECT cron.schedule('* * * * *', 'DELETE FROM accounts')
-- ~~~
SELECT * FROM aws_s3.query_export_to_s3('SELECT 1', 'b', 'k', 'r')
-- ~~~
SELECT net.http_get('http://example.org')
-- ~~~
SELECT pg_prewarm('accounts')
-- ~~~
SELECT deposit(1, 100)
-- ~~~
SELECT * FROM deposit(1, 100)
-- ~~~
SELECT deposit_as_owner(1, 100)
-- ~~~
SELECT array_agg(deposit(id, 1)) FROM accounts
-- ~~~
SELECT CASE WHEN true THEN deposit(1, 1) END
-- ~~~
SELECT run_text('COMMIT')
-- ~~~
SELECT run_text('SET transaction_read_only = off')
-- ~~~
SELECT run_text('CREATE TABLE stolen (id int)')
-- ~~~
SELECT run_text('CREATE ROLE mallory SUPERUSER')
-- ~~~
SELECT stolen FROM accounts
-- ~~~
SHOW; DROP TABLE accounts
-- ~~~
SHOW ALL; SELECT 1
-- ~~~
(SHOW ALL)
-- ~~~
(EXPLAIN SELECT 1)
-- ~~~
"select" 1
-- ~~~
SELECT 1a
-- ~~~
SELECT 1 \gexec
-- ~~~
\copy accounts to '/tmp/stolen'
-- ~~~
\! id
-- ~~~
HELP
-- ~~~
SELECT (SELECT '/etc/hostname'::text).pg_read_file
-- ~~~
SELECT $1.pg_read_file
-- ~~~
SELECT a.lo_get FROM CAST(4711 AS oid) a
-- ~~~
SELECT trim(BOTH 'x' FROM a.pg_read_file) FROM CAST('/etc/hostname' AS text) a
-- ~~~
SELECT trim(FROM (a).pg_read_file) FROM CAST('/etc/hostname' AS text) a
-- ~~~
SELECT a.pg_read_file[1] FROM CAST('/etc/hostname' AS text) a
-- ~~~
SELECT 'a' COLLATE "C" || pg_read_file ('/etc/hostname')
-- ~~~
SELECT * FROM accounts AS a(pg_read_file), pg_read_file('/etc/hostname')
-- ~~~
SELECT 1 AS as, pg_read_file('/etc/hostname')
-- ~~~
SELECT (http(('GET', 'http://example.org', NULL, NULL, NULL)::http_request)).content
-- ~~~
SELECT (('GET', 'http://example.org', NULL, NULL, NULL)::http_request).http
-- ~~~
SELECT (r).http FROM (SELECT ('GET', 'http://example.org', NULL, NULL, NULL)::http_request AS r) s
-- ~~~
SELECT ((ARRAY[('GET', 'http://example.org', NULL, NULL, NULL)::http_request])[1].http).content
-- ~~~
SELECT ('http://example.org'::varchar).http_get.content
-- ~~~
SELECT content FROM extensions.http_post('http://example.org', 'x', 'text/plain')
-- ~~~
SELECT * FROM pgr_dijkstra('SELECT pg_read_file(''/etc/hostname'')', 1, 2)
-- ~~~
SELECT * FROM public._pgr_dijkstra('SELECT 1', 1, 2)
-- ~~~
SELECT ai.openai_embed('m', 'words')
-- ~~~
SELECT pgml.transform('t', '{}')
-- ~~~
SELECT vectorize.search('a', 'b')
-- ~~~
SELECT * FROM cypher('g', $$ CREATE (n) $$) AS (n text)
-- ~~~
SELECT * FROM ag_catalog.cypher('g', $$ CREATE (n) $$) AS (n text)
-- ~~~
SELECT citus_run_local_command('DELETE FROM accounts')
-- ~~~
SELECT * FROM duckdb.query('COPY t TO ''/tmp/stolen''')
-- ~~~
SELECT * FROM read_csv('/etc/passwd')
-- ~~~
SELECT dblink_ora_call('c', 'q')
-- ~~~
SELECT ((SELECT 'dbname=bank'::text).dblink_connect)
-- ~~~
EXPLAIN ANALYZE SELECT a.pg_read_file FROM CAST('/etc/hostname' AS text) a
-- ~~~
SELECT my_files.write_out('x')
-- ~~~
SELECT my_files."write_out"('x')
-- ~~~
SELECT my_files.U&"write\005fout"('x')
-- ~~~
SELECT "my_files" . /* a comment */ "write_out" ('x')
-- ~~~
SELECT write_visible('x')
-- ~~~
SELECT WRITE_VISIBLE('x')
-- ~~~
SELECT ('x'::text).write_visible
-- ~~~
SELECT a.write_visible FROM CAST('x' AS text) a
-- ~~~
SELECT (a).write_row FROM accounts a
-- ~~~
SELECT a.write_row FROM accounts a
-- ~~~
SELECT * FROM write_visible('x')
-- ~~~
SELECT * FROM ROWS FROM (write_visible('x'))
-- ~~~
SELECT write_visible(t => 'x'), 1
-- ~~~
SELECT write_default()
-- ~~~
SELECT ('x'::text).write_default
-- ~~~
SELECT write_many('x', 'y', 'z')
-- ~~~
SELECT write_many(VARIADIC ARRAY['x'])
-- ~~~
SELECT 1 LIMIT length(write_visible('x'))
-- ~~~
VALUES (write_visible('x'))
-- ~~~
SELECT sum(id) OVER (ROWS length(write_visible('x')) PRECEDING) FROM accounts
-- ~~~
SELECT 1 WHERE write_visible('x') IS NOT NULL
-- ~~~
SELECT string_agg(write_visible(owner), ',' ORDER BY owner) FROM accounts
-- ~~~
SELECT write_all(owner ORDER BY owner, id) FROM accounts
-- ~~~
SELECT write_all(owner) OVER () FROM accounts
-- ~~~
SELECT * FROM writing
-- ~~~
SELECT 1 FROM my_files.writing_twice
-- ~~~
TABLE "writing"
-- ~~~
SELECT 'x'::text >>>> 'y'
-- ~~~
SELECT 'x'::text >>>>-1
-- ~~~
SELECT 'x'::text OPERATOR(public.>>>>) 'y'
-- ~~~
SELECT '(x)'::noted::written
-- ~~~
SELECT CAST('(x)'::noted AS public.written)
-- ~~~
SELECT 'x'::checked
-- ~~~
SELECT checked 'x'
-- ~~~
SELECT hidden_read('/etc/hostname')
-- ~~~
WITH a AS (SELECT write_visible('x') AS b) SELECT b FROM a
-- ~~~
EXPLAIN SELECT write_visible('x')
-- ~~~
EXPLAIN ANALYZE SELECT write_visible('x')
-- ~~~
EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM writing
-- ~~~
SELECT write_visible(very) FROM (SELECT 'x' AS very) s
-- ~~~
SELECT write_visible_whose_name_is_as_long_as_names_may_be_and_then_some_more('x')
-- ~~~
SELECT '{x}'::_checked
-- ~~~
SELECT '{x}'::checked[]
-- ~~~
SELECT a IN (b) FROM notes
-- ~~~
SELECT CASE a WHEN b THEN 1 END FROM notes
-- ~~~
SELECT table_to_xml('writing', true, true, '')
-- ~~~
SELECT schema_to_xml('my_files', true, true, '')
-- ~~~
SELECT database_to_xml_and_xmlschema(true, true, '')
-- ~~~
SELECT pg_catalog.table_to_xml(('wri' || 'ting')::regclass, true, true, '')
-- ~~~
SELECT table_to_xml('"writing"', true, true, '')
-- ~~~
SELECT table_to_xml('my_files.WRITING_twice', true, true, '')
-- ~~~
SELECT table_to_xml('writ'
'ing', true, true, '')
-- ~~~
SELECT table_to_xml(E'writ\x69ng', true, true, '')
-- ~~~
SELECT table_to_xml(U&'writ\0069ng', true, true, '')
-- ~~~
SELECT table_to_xml(tableforest => true, nulls => true, targetns => '', tbl => 'writing')
-- ~~~
SELECT schema_to_xml('my_files', true, true, ''), writing_twice FROM (SELECT 1 AS writing_twice) s
